"""What does the loader cost over its own decode and resize in a bare loop on as many threads?"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
from corpus import large_photographs, photographs, small_images
from measure import THREADS, Rates, Verdict, alternate, finish

import dfgen
from dfgen.samples.decoding import decode
from dfgen.samples.resizing import resize

BATCH = 64
TARGETS = {"JPEG 500x375 -> 224, antialias=True": 0.9, "JPEG 500x375 -> 224, antialias=False": 0.9}


def main() -> list[Verdict]:
    ordinary, large, small = photographs(), large_photographs() * 3, small_images()
    verdicts = []
    for what, files, size, antialias in (
        ("JPEG 500x375 -> 224, antialias=True", ordinary, 224, True),
        ("JPEG 500x375 -> 224, antialias=False", ordinary, 224, False),
        ("JPEG 3000x2000 -> 224, antialias=True", large, 224, True),
        ("PNG 32x32", small, 32, False),
    ):
        rates = compare(files, size, antialias)
        print(f"\n{what}, batch {BATCH}, {THREADS} threads", end="")
        rates.show("images", "bare loop")
        if what in TARGETS:
            ratio = rates.ratio("dfgen", "bare loop")
            verdicts.append(Verdict(f"loader, {what}", ratio, TARGETS[what], "x bare loop"))
    return finish(verdicts)


def compare(files: list[Path], size: int, antialias: bool) -> Rates:
    """Return the rates of one pass over the files, drained as NumPy."""
    paths = [str(file) for file in files]
    return alternate(
        {
            "bare loop": bare_loop(paths, size, antialias),
            "dfgen": sequence_pass(paths, size, antialias),
        }
    )


def sequence_pass(paths: list[str], size: int, antialias: bool) -> Callable[[], int]:
    """Make a Sequence for each pass: one that stays would work ahead while others are timed."""
    frame = pd.DataFrame({"id": np.arange(len(paths)), "path": paths})
    image = dfgen.Image("path", size=(size, size), antialias=antialias)

    def drain() -> int:
        with dfgen.Sequence(frame, x=image, batch_size=BATCH, workers=THREADS) as sequence:
            return sum(len(images) for (images,) in sequence)

    return drain


def bare_loop(paths: list[str], size: int, antialias: bool) -> Callable[[], int]:
    """Read, decode and resize in a random order into one buffer, and wait for nothing."""
    buffer = np.empty((BATCH, size, size, 3), np.uint8)
    order = np.random.default_rng(0)

    def run(share: list[str]) -> int:
        for number, path in enumerate(share):
            with open(path, "rb", buffering=0) as file:
                pixels = decode(file.readall())
            resize(pixels, "stretch", antialias, buffer[number % BATCH])
        return len(share)

    def loop() -> int:
        shuffled = [paths[row] for row in order.permutation(len(paths))]
        with ThreadPoolExecutor(THREADS) as pool:
            return sum(pool.map(run, [shuffled[first::THREADS] for first in range(THREADS)]))

    return loop


if __name__ == "__main__":
    main()
