"""Is resident size flat over epochs, and bounded by the batches in flight?"""

import gc

import numpy as np
import pandas as pd
import psutil
from corpus import manifest, photographs
from measure import Findings, Verdict, finish, in_new_process

import dfgen

EPOCHS = 200
SETTLED = 20  # epochs
ROWS = 192  # 3 batches: the look-ahead is three epochs long
BATCH, SIZE, QUEUE = 64, 224, 10
BATCH_MB = BATCH * SIZE * SIZE * 3 / 1e6
IN_FLIGHT = QUEUE + 2  # ready or in the making, the one in use, and the one that replaces it
CONSTANT_MB = 40  # threads, and what they load and hold to decode one image each
BOUND_MB = IN_FLIGHT * BATCH_MB + CONSTANT_MB
FEW, MANY = 1_000, 1_000_000


def main() -> Findings:
    photographs()
    sizes = in_new_process(sizes_of_epochs)
    print(f"\nresident MB after each of {EPOCHS} epochs of {ROWS} JPEG, each tenth:")
    print(" ".join(f"{size:.0f}" for size in sizes[9::10]))
    peaks = {}
    print(f"\nMB to open a manifest, and on top the peak over 45 batches of {BATCH_MB:.1f} MB")
    for rows in (FEW, MANY):
        opened, peaks[rows] = in_new_process(opened_and_peak, str(manifest(rows)))
        print(f"{rows:>9,} rows{opened:>8.0f}{peaks[rows]:>8.0f}")
    growth = max(sizes[SETTLED:]) - sizes[SETTLED - 1]
    more = peaks[MANY] - peaks[FEW]
    return finish(
        [
            Verdict(
                f"memory, growth from epoch {SETTLED} to {EPOCHS}",
                growth,
                BATCH_MB,
                "MB",
                at_most=True,
            ),
            Verdict("memory, peak with 10^6 rows", peaks[MANY], BOUND_MB, "MB", at_most=True),
            Verdict(
                "memory, peak with 10^6 rows less with 10^3", more, BATCH_MB, "MB", at_most=True
            ),
        ]
    )


def resident() -> float:
    """Return the resident size of this process in MB."""
    return psutil.Process().memory_info().rss / 1e6


def open_sequence(manifest: pd.DataFrame | str) -> dfgen.Sequence:
    size = (SIZE, SIZE)
    return dfgen.Sequence(manifest, image_size=size, batch_size=BATCH, max_queue_size=QUEUE)


def sizes_of_epochs() -> list[float]:
    paths = [str(path) for path in photographs()[:ROWS]]
    sizes = []
    with open_sequence(pd.DataFrame({"id": np.arange(len(paths)), "path": paths})) as sequence:
        for _ in range(EPOCHS):
            for _batch in sequence:
                pass
            sizes.append(resident())
    return sizes


def opened_and_peak(path: str) -> tuple[float, float]:
    """Return how many MB it takes to open a manifest, and by how many more batches grow it."""
    dfgen.Sequence  # noqa: B018 - loads Keras
    start = resident()
    with open_sequence(path) as sequence:
        gc.collect()
        opened = resident()
        sizes = [resident() for _ in zip(range(45), sequence.repeat(), strict=False)]
    return opened - start, max(sizes) - opened


if __name__ == "__main__":
    main()
