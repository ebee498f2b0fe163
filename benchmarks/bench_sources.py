"""How long do a million boxes of COCO, a VOC file, and an update of 100,000 files take?"""

import json
import resource
import time
import xml.etree.ElementTree
from pathlib import Path

from corpus import instances, linked, voc_tree
from measure import Findings, Verdict, alternate, finish, in_new_process

import dfgen
from dfgen.manifest.building.scan import stat_files
from dfgen.manifest.sources.file_tree import read_files
from dfgen.manifest.sources.voc import read_voc

PATTERN = "{kind}/{id}.png"


def main() -> Findings:
    path = str(instances())
    print(
        f"\nCOCO, 10^6 boxes with segmentations, {Path(path).stat().st_size / 1e6:.0f} MB of JSON"
    )
    figures = {}
    for reader in (bare_json, dfgen_coco):
        figures[reader] = in_new_process(measured, reader, path)
        seconds, memory = figures[reader]
        print(f"{reader.__name__:<12}{seconds:>7.1f} s {memory:>7.2f} GB at the peak")
    seconds, memory = figures[dfgen_coco]
    folder = voc_tree()
    rates = alternate(
        {
            "bare ElementTree": lambda: bare_trees(folder),
            "dfgen VOC": lambda: rows_of(folder),
        }
    )
    rates.show("files", "bare ElementTree")
    growing = update_beside_scan()
    return finish(
        [
            growing,
            Verdict("COCO, 10^6 boxes to a manifest on disk", seconds, 20, "s", at_most=True),
            Verdict("COCO, 10^6 boxes, memory at the peak", memory, 1.5, "GB", at_most=True),
            Verdict("COCO, time", seconds / figures[bare_json][0], 1, "x json.load", at_most=True),
            Verdict("VOC, one core", rates.median("dfgen VOC"), 2000, "files/s"),
        ]
    )


def update_beside_scan() -> Verdict:
    """Grow a manifest of which every hundredth file has changed."""
    folder = linked()
    old, new = f"{folder}.old.parquet", f"{folder}.new.parquet"
    frame = dfgen.build_manifest(folder, pattern=PATTERN)
    frame.loc[frame.index[::100], "mtime_ns"] -= 1
    dfgen.write_manifest(frame, old)

    def bare() -> int:
        chunks = read_files(str(folder))
        paths = [f"{folder}/{path}" for c in chunks for path in c.rows["path"].to_pylist()]
        return len(stat_files(paths)[0])

    def scan() -> int:
        dfgen.build_manifest(folder, pattern=PATTERN, facts="none", out=new)
        return len(stat_files(frame["path"].tolist())[0])

    rates = alternate(
        {
            "list, stat": bare,
            "manifest without facts, stat": scan,
            "update, 1 % changed": lambda: len(dfgen.build_manifest(update=old, out=new)),
            "build": lambda: len(dfgen.build_manifest(folder, pattern=PATTERN, out=new)),
        }
    )
    rates.show("files", "update, 1 % changed")
    ratio = 1 / rates.ratio("update, 1 % changed", "manifest without facts, stat")
    limit = "beside the scan it reads the old manifest, opens 1 % of the files and writes the facts"
    return Verdict(
        "update, 1 % changed, time", ratio, 1.3, "x scan to manifest", at_most=True, limit=limit
    )


def measured(reader: object, path: str) -> tuple[float, float]:
    """Return seconds, and the peak of resident memory of this process in GB."""
    start = time.perf_counter()
    reader(path)  # type: ignore[operator]
    seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def bare_json(path: str) -> None:
    """Read the file as most programs do, and make nothing of it."""
    with open(path, encoding="utf-8") as file:
        json.load(file)


def dfgen_coco(path: str) -> None:
    """Build the manifest, without looking for the images."""
    dfgen.build_manifest(coco=path, facts="none", out=f"{path}.parquet")


def bare_trees(folder: Path) -> int:
    files = sorted((folder / "xml").rglob("*.xml"))
    for file in files:
        xml.etree.ElementTree.parse(file)
    return len(files)


def rows_of(folder: Path) -> int:
    chunks = read_voc(f"{folder}/xml", f"{folder}/images")
    return sum(len(chunk.rows) for chunk in chunks)


if __name__ == "__main__":
    main()
