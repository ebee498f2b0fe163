"""Does building a manifest cost more than looking at the folder and the headers?"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import PIL.Image
from corpus import large_photographs, linked, photographs, small_images, tree
from measure import THREADS, Findings, Verdict, alternate, finish

import dfgen
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import read_facts
from dfgen.manifest.sources.file_tree import read_files


def main() -> Findings:
    folder = str(tree())
    scan = alternate(
        {
            "bare os.scandir": lambda: bare_walk(folder),
            "dfgen scan": lambda: sum(len(chunk.rows) for chunk in read_files(folder)),
        },
        rounds=9,
    )
    scan.show("files", "bare os.scandir")
    verdicts = [
        Verdict(
            "time to scan 100,000 files",
            1 / scan.ratio("dfgen scan", "bare os.scandir"),
            2,
            "x os.scandir",
            at_most=True,
        )
    ]
    for kind, files in {
        "JPEG 500x375": photographs() * 4,
        "JPEG 3000x2000": large_photographs() * 100,
        "PNG 32x32": small_images()[:6000],
    }.items():
        verdicts.append(headers(kind, files))
    verdicts.append(faults(str(linked())))
    return finish(verdicts)


def faults(folder: str) -> Verdict:
    files = [path for chunk in read_files(folder) for path in chunk.rows["path"].to_pylist()]
    labels = pd.DataFrame({"file": files, "kind": ["cat", "dog"] * (len(files) // 2)})
    rates = alternate(
        {
            "dfgen.build_manifest": lambda: len(
                dfgen.build_manifest(folder, labels=labels, on="relpath=file")
            ),
            "dfgen.check": lambda: dfgen.check(labels, folder).rows,
        }
    )
    print(f"\nfaults of {len(files):,} files and their labels", end="")
    rates.show("files", "dfgen.build_manifest")
    ratio = rates.ratio("dfgen.build_manifest", "dfgen.check")
    return Verdict("time of a check", ratio, 1.2, "x build_manifest", at_most=True)


def headers(kind: str, files: list[Path]) -> Verdict:
    paths = [str(file) for file in files]
    rates = alternate(
        {
            "bare Pillow open": lambda: bare_headers(paths),
            "dfgen header facts": lambda: len(read_facts(paths, Access(THREADS))),
        }
    )
    print(f"\nheaders of {len(paths):,} {kind}, {THREADS} threads", end="")
    rates.show("files", "bare Pillow open")
    ratio = rates.ratio("dfgen header facts", "bare Pillow open")
    return Verdict(f"header facts, {kind}", ratio, 0.8, "x Pillow open")


def bare_walk(folder: str) -> int:
    files, pending = 0, [folder]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(entry.path)
                else:
                    files += 1
    return files


def bare_headers(paths: list[str]) -> int:
    parts = [paths[start : start + 256] for start in range(0, len(paths), 256)]
    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(_open_all, parts))


def _open_all(paths: list[str]) -> int:
    for path in paths:
        with PIL.Image.open(path) as image:
            image.size  # noqa: B018
    return len(paths)


if __name__ == "__main__":
    main()
