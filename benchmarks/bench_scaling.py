"""What do scaling and casting cost beside the decoding of a photograph that is not resized?"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle, islice

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
from corpus import photographs
from measure import THREADS, Findings, Verdict, alternate, finish

import dfgen
from dfgen.loading.metrics import Stopwatch
from dfgen.loading.workers.chunks import Chunk, ChunkMaker
from dfgen.samples.pixels.scaling import rescale
from dfgen.samples.pixels.upright import prepare_worker

Array = npt.NDArray[np.generic]

SIZE, FILES, BATCH, ROUNDS = (482, 415), 192, 8, 40  # short rounds: a few per cent are looked for
MOST = 1.15

SCALES: dict[str, dict[str, object]] = {
    '"0..1"': {"scale": "0..1"},
    "float16 alone": {"dtype": "float16"},
    '"standardize"': {"scale": "standardize"},
    '"standardize", float16': {"scale": "standardize", "dtype": "float16"},
    '"-1..1"': {"scale": "-1..1"},
    '"torch"': {"scale": "torch"},
    '"torch", float16': {"scale": "torch", "dtype": "float16"},
}
ASKED = tuple(SCALES)[:4]
LIMIT = "a look-up, or planes taken apart: bit for bit, and by channel, OpenCV has nothing quicker"


def main() -> Findings:
    prepare_worker()
    with ThreadPoolExecutor(THREADS) as pool:
        candidates = {"uint8": filled(pool)}
        candidates |= {name: filled(pool, **options) for name, options in SCALES.items()}
        rates = alternate(candidates, ROUNDS)
    print(f"\nJPEG 500x375 -> {SIZE[0]}x{SIZE[1]}, crop_or_pad, {THREADS} threads", end="")
    rates.show("images", "uint8")
    scaling_alone()
    return finish(
        [
            Verdict(
                name, rates.ratio("uint8", name), MOST, "x time of uint8", at_most=True,
                limit="" if name in ASKED else LIMIT,
            )
            for name in SCALES
        ],
        {"scaling": rates},
    )  # fmt: skip


def filled(pool: ThreadPoolExecutor, **options: object) -> Callable[[], int]:
    """Make a batch a thread, into arrays that are used again as those of a Sequence are."""
    files = [str(file) for file in photographs()[:FILES]]
    image = dfgen.Image(size=SIZE, resize="crop_or_pad", **options)  # type: ignore[arg-type]
    frame = pd.DataFrame({"id": range(FILES), "path": files})
    reader = dfgen.Sequence(frame, image, label_mode=None, workers=0)._loader.reader
    maker = ChunkMaker(reader, seed=0, skip=False)
    rings = [
        cycle([{name: np.empty((BATCH, *spec.shape), spec.dtype)} for _ in range(3)])
        for name, spec in list(reader.specs.items()) * THREADS
    ]
    chunks = cycle(np.arange(FILES).reshape(-1, BATCH))

    def fill(rows: npt.NDArray[np.int64], ring: Iterator[dict[str, Array]]) -> None:
        maker.fill(Chunk(0, rows, np.zeros_like(rows)), next(ring), Stopwatch(), lambda: False)

    def run() -> int:
        list(pool.map(fill, islice(chunks, THREADS), rings))
        return THREADS * BATCH

    return run


def scaling_alone() -> None:
    """Print dfgen beside what was not chosen, of one image on one thread."""
    pixels = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)
    floats = cycle([np.empty(pixels.shape, np.float32) for _ in range(16)])
    halves = cycle([np.empty(pixels.shape, np.float16) for _ in range(16)])
    factor, table = np.float32(1 / 255), np.arange(256, dtype=np.float32) / 255
    small = table.astype(np.float16)
    candidates: dict[str, Callable[[], object]] = {
        "NumPy multiply": lambda: np.multiply(pixels, factor, out=next(floats)),
        "NumPy take": lambda: np.take(table, pixels, out=next(floats), mode="clip"),
        "cv2.LUT": lambda: cv2.LUT(pixels, table, next(floats)),
        "cv2.addWeighted": lambda: cv2.addWeighted(
            pixels, 1 / 255, pixels, 0, 0, next(floats), cv2.CV_32F
        ),
        "cv2.multiply": lambda: cv2.multiply(pixels, 1, next(floats), 1 / 255, cv2.CV_32F),
        'dfgen "0..1"': lambda: rescale(pixels, "0..1", next(floats)),
        'dfgen "-1..1"': lambda: rescale(pixels, "-1..1", next(floats)),
        'dfgen "standardize"': lambda: rescale(pixels, "standardize", next(floats)),
        'dfgen "torch"': lambda: rescale(pixels, "torch", next(floats)),
        "NumPy to float16": lambda: np.copyto(next(halves), pixels),
        "cv2.LUT to float16": lambda: cv2.LUT(
            pixels, small.view(np.int16), next(halves).view(np.int16)
        ),
        "dfgen to float16": lambda: rescale(pixels, None, next(halves)),
        'dfgen "torch" to float16': lambda: rescale(pixels, "torch", next(halves)),
    }

    def times(work: Callable[[], object]) -> int:
        for _ in range(10):
            work()
        return 10

    rates = alternate({name: partial(times, work) for name, work in candidates.items()}, 15)
    print(f"\nscaling alone, {SIZE[0]}x{SIZE[1]}x3, one thread", end="")
    rates.show("images", 'dfgen "0..1"')


if __name__ == "__main__":
    main()
