"""What does a cache of decoded pixels cost in the first epoch, and give in all later ones?"""

import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from corpus import photographs
from measure import THREADS, Findings, Verdict, alternate, finish

import dfgen
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
            epochs(loader)
        [pixels] = Path(cache).glob("*/pixels")
        stored = np.memmap(pixels, np.uint8, "r").reshape(-1, *SIZE, 3)[: len(paths)]
        rates = alternate(
            {
                "no cache": partial(epochs, opened(frame)),
                "first epoch, into a folder": partial(first_epoch, frame, folder, is_new=True),
                "first epoch, into memory": partial(first_epoch, frame, "memory"),
                "first epoch of a later run": partial(first_epoch, frame, cache),
                "later epochs, folder": partial(epochs, full, EPOCHS),
                "later epochs, memory": partial(epochs, memory, EPOCHS),
                "packed pixels": partial(epochs, packed(frame, f"{folder}/pack"), EPOCHS),
                "bare gather": partial(bare_gather, stored, EPOCHS),
            }
        )
        cost, written = first_cost(frame, folder)
    print(f"\n{len(paths)} JPEG of 500x375 to {SIZE}, {THREADS} threads", end="")
    rates.show("images", "no cache")
    pixels_packed = partial(rates.ratio, baseline="packed pixels")
    return finish(
        [
            Verdict(
                "first epoch with a cache",
                cost,
                1.1,
                "x CPU time without",
                at_most=True,
                limit=f"the same bytes written by hand: {1 + written:.2f} x",
            ),
            Verdict(
                "later epochs, folder",
                pixels_packed("later epochs, folder"),
                0.8,
                "x packed",
            ),
            Verdict(
                "later epochs, memory",
                pixels_packed("later epochs, memory"),
                0.8,
                "x packed",
            ),
        ],
        {"Epochs with a cache": rates},
    )


def opened(frame: pd.DataFrame, cache: str | None = None) -> Loader:
    bound = bind(frame, Image("path", size=SIZE), "label", cache=cache)
    return Loader(bound.reader, batch_size=BATCH, workers=THREADS)


def epochs(loader: Loader, count: int = 1) -> int:
    """Drain some epochs, and let nothing be made ahead of what is timed next."""
    stream = loader.stream(epoch=0)
    images = sum(len(next(stream).rows) for _ in range(count * len(loader)))
    stream.close()
    return images


def first_epoch(frame: pd.DataFrame, cache: str | None, is_new: bool = False) -> int:
    """Drain one epoch of a Loader made anew, its opening included; into a new folder in `cache`."""
    loader = opened(frame, tempfile.mkdtemp(dir=cache) if is_new else cache)
    images = epochs(loader)
    loader.close()
    return images


def first_cost(frame: pd.DataFrame, folder: str, rounds: int = 7) -> tuple[float, float]:
    """Return the CPU time of a first epoch, and of writing its pixels, by that without a cache."""
    ratios = []
    for _ in range(rounds):
        moments = [time.process_time()]
        first_epoch(frame, folder, is_new=True)
        moments.append(time.process_time())
        first_epoch(frame, None)
        moments.append(time.process_time())
        write_pixels(len(frame), folder)
        moments.append(time.process_time())
        first, without, written = np.diff(moments)
        ratios.append((first / without, written / without))
    cost, share = np.median(ratios, axis=0).tolist()
    return cost, share


def write_pixels(rows: int, folder: str) -> None:
    """Write as many pixels as those of all rows into a new file."""
    pixels = np.zeros((*SIZE, 3), np.uint8)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(rows):
            file.write(pixels.data)


def packed(frame: pd.DataFrame, folder: str) -> Loader:
    dfgen.pack(frame, folder, image_size=SIZE)
    bound = bind(folder, Image("path", size=SIZE), "label")
    return Loader(bound.reader, batch_size=BATCH, workers=THREADS, order=bound.order)


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
