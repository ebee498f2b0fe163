"""What does the loader cost over its own decode and resize in a bare loop on as many threads?"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from corpus import large_photographs, photographs, small_images
from in_memory import rest
from measure import THREADS, Findings, Verdict, alternate, finish

import dfgen
from dfgen.samples.pixels.upright import prepare_worker
from dfgen.samples.stores.local_files import Files

BATCH = 64
BARE = "bare decode and resize"


def main() -> Findings:
    ordinary, large, small = photographs(), large_photographs() * 3, small_images()
    verdicts = []
    for what, files, size, antialias in (
        ("JPEG 500x375 -> 224, antialias=True", ordinary, 224, True),
        ("JPEG 500x375 -> 224, antialias=False", ordinary, 224, False),
        ("JPEG 3000x2000 -> 224, antialias=True", large, 224, True),
        ("PNG 32x32", small, 32, True),
    ):
        paths = [str(file) for file in files]
        rates = alternate(
            {
                BARE: bare_loop(paths, size, antialias),
                "dfgen": sequence_pass(paths, size, antialias),
            }
        )
        print(f"\n{what}, batch {BATCH}, {THREADS} threads", end="")
        rates.show("images", BARE)
        if "500x375" in what:
            time = rates.ratio(BARE, "dfgen")
            verdicts.append(
                Verdict(f"whole path, {what}", time, 1.05, "x time of bare loop", at_most=True)
            )
    return finish(verdicts)


def sequence_pass(
    paths: list[str], size: int, antialias: bool, batch: int = BATCH
) -> Callable[[], int]:
    """Make a Sequence for each pass: one that stays would work ahead while others are timed."""
    frame = pd.DataFrame({"id": np.arange(len(paths)), "path": paths})
    image = dfgen.Image("path", size=(size, size), antialias=antialias)

    def drain() -> int:
        with dfgen.Sequence(frame, x=image, batch_size=batch, workers=THREADS) as sequence:
            return sum(len(images) for (images,) in sequence)

    return drain


def process_pass(paths: list[str], size: int, batch: int = BATCH) -> Callable[[], int]:
    """Pass after pass of a Sequence with processes, which take seconds to start."""
    frame = pd.DataFrame({"id": np.arange(len(paths)), "path": paths})
    image = dfgen.Image("path", size=(size, size))
    sequence = dfgen.Sequence(
        frame, x=image, batch_size=batch, workers=THREADS, use_multiprocessing=True
    )

    def drain() -> int:
        rows = sum(len(images) for (images,) in sequence)
        rest(sequence._loader)
        return rows

    return drain


def bare_loop(paths: list[str], size: int, antialias: bool) -> Callable[[], int]:
    """Read, decode and resize in a random order into one buffer, and wait for nothing."""
    image = dfgen.Image("path", size=(size, size), antialias=antialias)
    order, store = np.random.default_rng(0), Files()

    def run(share: list[str]) -> int:
        buffer = np.empty((BATCH, size, size, 3), np.uint8)
        for number, path in enumerate(share):
            image.read(path, buffer[number % BATCH], store)
        return len(share)

    def loop() -> int:
        shuffled = [paths[row] for row in order.permutation(len(paths))]
        with ThreadPoolExecutor(THREADS, initializer=prepare_worker) as pool:
            return sum(pool.map(run, [shuffled[first::THREADS] for first in range(THREADS)]))

    return loop


if __name__ == "__main__":
    main()
