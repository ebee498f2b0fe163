"""What does a cache of decoded pixels cost in the first epoch, and give in all later ones?"""

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from corpus import photographs
from measure import THREADS, Findings, Verdict, alternate, finish

from dfgen.binding.bind import bind
from dfgen.loading.loader import Loader
from dfgen.samples.features.image import Image

SIZE, BATCH = (224, 224), 64
EPOCHS = 8  # in a row, where they are fast


def main() -> Findings:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        paths = list(map(str, photographs()))
        frame = pd.DataFrame({"id": range(len(paths)), "path": paths, "label": 0})
        cache = f"{folder}/cache"
        full, memory = opened(frame, cache), opened(frame, "memory")
        for loader in (full, memory):
            epoch(loader)
        [pixels] = Path(cache).glob("*/pixels")
        stored = np.memmap(pixels, np.uint8, "r").reshape(-1, *SIZE, 3)[: len(paths)]
        rates = alternate(
            {
                "no cache": partial(epochs, opened(frame)),
                "first epoch, into a folder": partial(first_epoch, frame, folder),
                "first epoch, into memory": partial(first_epoch, frame, "memory"),
                "first epoch of a later run": partial(first_epoch, frame, cache),
                "later epochs, folder": partial(epochs, full, EPOCHS),
                "later epochs, memory": partial(epochs, memory, EPOCHS),
                "bare gather": partial(bare_gather, stored, EPOCHS),
            }
        )
        full.close(), memory.close()
    print(f"\n{len(paths)} JPEG of 500x375 to {SIZE}, {THREADS} threads", end="")
    rates.show("images", "no cache")
    kept = 1 / rates.ratio("first epoch, into a folder", "no cache")
    gather = partial(rates.ratio, baseline="bare gather")
    return finish(
        [
            Verdict("first epoch with a cache", kept, 1.1, "x the time without", at_most=True),
            Verdict(
                "later epochs from a folder", gather("later epochs, folder"), 0.8, "x a bare gather"
            ),
            Verdict(
                "later epochs from memory", gather("later epochs, memory"), 0.8, "x a bare gather"
            ),
        ],
        {"Epochs with a cache": rates},
    )


def opened(frame: pd.DataFrame, cache: str | None = None) -> Loader:
    bound = bind(frame, Image("path", size=SIZE), "label", cache=cache)
    return Loader(bound.reader, batch_size=BATCH, workers=THREADS)


def epoch(loader: Loader, number: int = 0) -> int:
    """Drain one epoch, and let nothing be made ahead of the next."""
    return sum(len(batch.rows) for batch in loader.batches(number))


def epochs(loader: Loader, count: int = 1) -> int:
    stream = loader.stream(epoch=0)
    images = sum(len(next(stream).rows) for _ in range(count * len(loader)))
    stream.close()
    return images


def first_epoch(frame: pd.DataFrame, cache: str) -> int:
    """Drain one epoch of a Sequence made anew, its opening included; of a folder: one in it."""
    is_new = os.path.basename(cache) != "cache" and cache != "memory"
    folder = tempfile.mkdtemp(dir=cache) if is_new else cache
    loader = opened(frame, folder)
    images = epochs(loader)
    loader.close()
    if is_new:
        shutil.rmtree(folder)
    return images


def bare_gather(stored: npt.NDArray[np.uint8], count: int) -> int:
    """Take rows in random order, a batch a task, into batches made once."""
    rng, rows = np.random.default_rng(0), len(stored)
    outs = [np.empty((BATCH, *stored.shape[1:]), np.uint8) for _ in range(2 * THREADS)]

    def take(task: tuple[int, npt.NDArray[np.int64]]) -> int:
        number, chosen = task
        np.take(stored, chosen, axis=0, out=outs[number % len(outs)][: len(chosen)], mode="clip")
        return len(chosen)

    orders = [
        rng.permutation(rows)[start : start + BATCH]
        for _ in range(count)
        for start in range(0, rows, BATCH)
    ]
    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(take, enumerate(orders)))


if __name__ == "__main__":
    main()
