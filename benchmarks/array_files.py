"""Job D: 89,820 images of 128x128 in one .npy file, drained in batches of 32."""

import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
from measure import Verdict

import dfgen
from dfgen.binding.bind import bind
from dfgen.binding.default_features import Options
from dfgen.loading.loader import Loader

ROWS, SIDE = 89_820, 128
TRAINING = 71_856
_WRITTEN = 998  # rows at once


def big_array() -> Verdict:
    """Return how long an epoch takes: training and validation, each with its own producer."""
    with tempfile.TemporaryDirectory() as folder:
        frame = written(Path(folder) / "x.npy")
        seconds, processor = zip(*(epoch(frame, number) for number in range(4)), strict=True)
    return Verdict(
        f"job D: {ROWS:,} x {SIDE}x{SIDE}x3 of a .npy file in batches of 32, drained",
        median(seconds[1:]),  # the first one has pages to map that were never in memory
        3,
        "s an epoch",
        at_most=True,
        limit=f"{median(processor[1:]):.1f} s of processor time, of all threads together",
    )


def written(path: Path) -> pd.DataFrame:
    array = np.lib.format.open_memmap(str(path), "w+", "u1", (ROWS, SIDE, SIDE, 3))
    pixels = np.random.default_rng(0).integers(0, 256, (_WRITTEN, SIDE, SIDE, 3), np.uint8)
    for start in range(0, ROWS, _WRITTEN):
        array[start : start + _WRITTEN] = pixels
    array.flush()
    rows = np.arange(ROWS)
    return pd.DataFrame({"id": rows, "path": str(path), "index": rows})


def epoch(frame: pd.DataFrame, number: int) -> tuple[float, float]:
    """Drain both; return the seconds that it took, and those of the processors."""
    image = dfgen.Image("path", (SIDE, SIDE), index="index")
    parts = ((frame[:TRAINING], True), (frame[TRAINING:], False))
    bound = [(bind(part, image, options=Options(label_mode=None)), s) for part, s in parts]
    loaders = [
        Loader(one.reader, drawing=one.drawing, batch_size=32, shuffle=shuffle)
        for one, shuffle in bound
    ]
    began, used = time.perf_counter(), time.process_time()
    rows = sum(len(batch.rows) for loader in loaders for batch in loader.batches(number))
    seconds = time.perf_counter() - began, time.process_time() - used
    for loader in loaders:
        loader.close()
    if rows != ROWS:
        raise ValueError(f"{rows:,} rows came of {ROWS:,}")
    return seconds


if __name__ == "__main__":
    print(big_array())
