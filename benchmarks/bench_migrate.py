"""How fast is `dfgen.migrate` beside Keras's own `ImageDataGenerator`, with its workers at best?"""

import contextlib
import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
from corpus import photographs, shrunk_photographs, small_images, tree
from keras.src.legacy.preprocessing.image import ImageDataGenerator as Legacy
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from measure import THREADS, Findings, Rates, Verdict, alternate, finish

from dfgen.limits import DEFAULT
from dfgen.migrate import ImageDataGenerator
from dfgen.migrate.keras_pixels import load_pixels

ROWS = 270_000
ROUNDS = 5
OURS, THEIRS = "dfgen.migrate", "Keras"
CEILING = "decoder and filter alone"
ONE, THREADED, MORE, PROCESSES = (
    f"{THEIRS}, 1 worker",
    f"{THEIRS}, {THREADS} threads",
    f"{THEIRS}, {2 * THREADS} threads",
    f"{THEIRS}, {THREADS} processes",
)
POOLS = {
    ONE: (1, False),
    THREADED: (THREADS, False),
    MORE: (2 * THREADS, False),
    PROCESSES: (THREADS, True),
}
MOVING = {"rotation_range": 20, "width_shift_range": 0.1, "height_shift_range": 0.1}


def main() -> Findings:
    photos, small = photographs()[:480], small_images()[:4800]
    questions: dict[str, tuple[list[Path], dict[str, Any], dict[str, Any], float]] = {
        "PNG 32x32": (small, {}, {"target_size": (32, 32)}, 3),
        "JPEG 500x375 to 224, nearest": (photos, {}, {"target_size": (224, 224)}, 3),
        "JPEG 500x375 to 224, bilinear": (
            photos,
            {},
            {"target_size": (224, 224), "interpolation": "bilinear"},
            3,
        ),
        "JPEG 500x375 to 224, rotated and shifted": (
            photos,
            MOVING,
            {"target_size": (224, 224)},
            5,
        ),
        "JPEG 256x256 to 224, rotated and shifted": (
            shrunk_photographs(),
            MOVING,
            {"target_size": (224, 224)},
            5,
        ),
    }
    verdicts, charts = [], {}
    for what, (files, of, flow, target) in questions.items():
        rates = charts[what] = measured(files, of, flow)
        print(f"\n{what}, epochs of {len(files):,} images", end="")
        best = rates.best(THEIRS)
        rates.show("images", best)
        limit = f"nothing but decoder and filter makes {rates.ratio(CEILING, best):.2f} x {best}"
        ratio = rates.ratio(OURS, best)
        verdicts.append(Verdict(what, ratio, target, "x Keras's best", limit=limit))
    return finish([*verdicts, *opening()], charts)


def measured(files: list[Path], of: dict[str, Any], flow: dict[str, Any]) -> Rates:
    """Make the same epochs of batches, as `fit` takes them."""
    frame = pd.DataFrame({"filename": map(str, files), "class": [f.stem[-1] for f in files]})
    candidates = {
        OURS: epoch_of_dfgen(ImageDataGenerator(rescale=1 / 255, **of), frame, flow),
        CEILING: decoded(files, flow),
    }
    for name, (workers, processes) in POOLS.items():
        legacy = quietly(Legacy(rescale=1 / 255, **of), frame, flow)
        legacy.workers, legacy.use_multiprocessing = workers, processes
        candidates[name] = epoch_of_keras(PyDatasetAdapter(legacy))
    return alternate(candidates, ROUNDS)


def decoded(files: list[Path], flow: dict[str, Any]) -> Callable[[], int]:
    """Do no more than what gives the pixels of Keras: what no loader can leave out."""
    size, interpolation = flow["target_size"], flow.get("interpolation", "nearest")

    def load(file: Path) -> None:
        load_pixels(file.read_bytes(), "rgb", size, interpolation, False, DEFAULT, print)

    def epoch() -> int:
        with ThreadPoolExecutor(THREADS) as pool:
            return sum(1 for _ in pool.map(load, files, chunksize=32))

    return epoch


def quietly(generator: Any, frame: pd.DataFrame, flow: dict[str, Any]) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return generator.flow_from_dataframe(frame, validate_filenames=False, **flow)


def epoch_of_dfgen(
    generator: ImageDataGenerator, frame: pd.DataFrame, flow: dict[str, Any]
) -> Callable[[], int]:
    """Make a flow for each epoch: one that stays would work ahead while others are timed."""

    def epoch() -> int:
        with contextlib.closing(quietly(generator, frame, flow)) as made:
            return sum(len(x) for x, _ in made.get_numpy_iterator())

    return epoch


def epoch_of_keras(adapter: PyDatasetAdapter) -> Callable[[], int]:
    """Take batches as an EpochIterator does on JAX, which gives the arrays to the model."""

    def epoch() -> int:
        adapter.on_epoch_begin()
        batches = iter(adapter.get_numpy_iterator())
        rows = sum(len(next(batches)[0]) for _ in range(adapter.num_batches))
        adapter.on_epoch_end()
        return rows

    return epoch


def opening() -> list[Verdict]:
    """Open a frame of many rows, and look for all of its files or none."""
    folder = tree()
    names = [str(file.relative_to(folder)) for file in sorted(folder.glob("*/*/*.jpg"))]
    names = (names * 3)[:ROWS]
    frame = pd.DataFrame({"filename": names, "class": [f"c{row % 100}" for row in range(ROWS)]})
    verdicts = []
    for validate, target in ((False, 1), (True, 5)):
        seconds = {}
        for name, generator in ((OURS, ImageDataGenerator()), (THEIRS, Legacy())):
            taken = []
            for _ in range(3):
                start = time.perf_counter()
                with contextlib.redirect_stdout(io.StringIO()):
                    generator.flow_from_dataframe(frame, folder, validate_filenames=validate)
                taken.append(time.perf_counter() - start)
            seconds[name] = min(taken)
        what = f"{ROWS:,} rows opened, {'files looked for' if validate else 'not validated'}"
        print(f"\n{what}: {seconds[OURS]:.2f} s, Keras {seconds[THEIRS]:.2f} s")
        verdicts.append(Verdict(what, seconds[OURS], target, "s", True))
    return verdicts


if __name__ == "__main__":
    main()
