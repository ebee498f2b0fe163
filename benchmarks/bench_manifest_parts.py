"""Manifests in parts: how soon are 10^7 rows written, filtered and opened, and what do they hold?

python benchmarks/bench_manifest_parts.py [ROWS]; targets grow with the rows.
"""

import re
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from corpus import CORPUS, manifest
from measure import Findings, Rates, Verdict, alternate, finish, in_new_process

import dfgen
from dfgen.manifest.table_reading import read_table

ROWS = 10_000_000
BATCH = 1 << 17  # rows that are given at once
TRAINED = 1_500
COLUMNS = "a third of it waits for parts, two fifths write and flush seven columns, 48 bytes a row"


def main(rows: int = ROWS) -> Findings:
    one_file, millions = manifest(1_000_000), rows / 1e6
    with tempfile.TemporaryDirectory(dir=CORPUS) as folder:
        path = f"{folder}/rows.manifest"
        seconds, peak = in_new_process(written, str(one_file), path, rows)
        print(f"\n{rows:,} rows written in {seconds:.1f} s, peak {peak:,.0f} MB")
        firsts = in_new_process(opened, path)
        seconds_of = [in_new_process(opened, path) for _ in range(3)]
        agains = sorted(seconds_of)[1]
        for name, (opening, batch, own) in (("first", firsts), ("again", agains)):
            print(f"{name}: opened in {opening:.2f} s, a batch in {batch:.2f} s, own {own:.0f} MB")
        where, more = in_new_process(filtered, path)
        print(f"where= that keeps 1 %: {where:.2f} s, {more:.0f} MB more")
        small = f"{folder}/small.manifest"
        dfgen.write_manifest(dfgen.read_manifest(one_file), small)
        made = trained(str(one_file), small)
        made.show("rows", "one file")
    own = max(firsts[2], agains[2]) * 1e6 / rows
    name = f"parts, 10^{np.log10(rows):.3g} rows"
    found = [
        Verdict(f"{name}, written", seconds, 2 * millions, "s", True),
        Verdict(f"{name}, peak of writing", peak, 1500, "MB", True),
        Verdict(f"{name}, opened first", rows / firsts[0] / 1e6, 3, "10^6 rows/s", limit=COLUMNS),
        Verdict(f"{name}, opened again", agains[0], max(0.5, millions / 30), "s", True),
        Verdict(f"{name}, first batch", agains[1], 1, "s", True),
        Verdict(f"{name}, own memory a row", own, 20, "bytes", True),
        Verdict(f"{name}, where= keeps 1 %", where, 0.15 * millions, "s", True),
        Verdict(f"{name}, memory of where=", more, 200, "MB", True),
        Verdict("training from parts", made.ratio("parts", "one file"), 0.98, "x one file"),
    ]
    return finish(found)


def written(one_file: str, path: str, rows: int) -> tuple[float, float]:
    """Write as many rows as asked for, of batches that repeat those of a file; return the peak."""
    table = read_table(one_file)[0].drop_columns(["id"]).combine_chunks()

    def batches() -> Iterator[pa.Table]:
        for start in range(0, rows, BATCH):
            ids = np.arange(start, min(start + BATCH, rows))
            begin = start % (len(table) - BATCH)
            yield table.slice(begin, len(ids)).add_column(0, "id", pa.array(ids))

    start = time.perf_counter()
    dfgen.write_manifest(batches(), path, root=str(Path(one_file).parent))
    return time.perf_counter() - start, peak_memory()


def opened(path: str) -> tuple[float, float, float]:
    """Open it; return seconds, those of a batch, and MB of memory that is not mapped."""
    dfgen.Sequence  # noqa: B018 - loads Keras, which is not in question
    before, start = own_memory(), time.perf_counter()
    with dfgen.Sequence(path, y="kind", image_size=(64, 64)) as sequence:
        made = time.perf_counter()
        next(iter(sequence))
        return made - start, time.perf_counter() - made, own_memory() - before


def own_memory() -> float:
    """Return the MB of this process that stand in no file."""
    return _kilobytes("smaps_rollup", "Anonymous") / 1e3


def peak_memory() -> float:
    """Return the most MB that this process has had."""
    return _kilobytes("status", "VmHWM") / 1e3


def _kilobytes(file: str, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self", file).read_text())
    assert found
    return int(found[1])


def filtered(path: str) -> tuple[float, float]:
    """Read the rows of the smallest files, 1 % of all; return seconds and MB of the peak."""
    few = dfgen.read_manifest(path, columns=["bytes"], where="id < 100000")["bytes"]  # loads pandas
    before, largest = peak_memory(), int(few.quantile(0.01))
    start = time.perf_counter()
    frame = dfgen.read_manifest(path, where=f"bytes <= {largest}")
    seconds = time.perf_counter() - start
    assert (frame["bytes"] <= largest).all()
    return seconds, peak_memory() - before


def trained(one_file: str, parts: str) -> Rates:
    """Make the same batches of a manifest in one file and of one in parts, both opened before."""
    options = {"y": "kind", "image_size": (224, 224), "batch_size": 50}

    def made(sequence: dfgen.Sequence) -> int:
        return sum(len(y) for _, (_, y) in zip(range(TRAINED // 50), sequence, strict=False))

    with dfgen.Sequence(one_file, **options) as one, dfgen.Sequence(parts, **options) as other:
        return alternate({"one file": partial(made, one), "parts": partial(made, other)}, 9)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
