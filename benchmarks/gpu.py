"""Does a GPU wait for dfgen, and does every pixel arrive on it?

    python benchmarks/gpu.py [--backend torch] [--minutes 9] [--small]

Trains ResNet-50 and EfficientNet-B0 from JPEGs, a pack and a cache, beside one batch that stays on
the device; then sends batches to the device in which each pixel encodes the number of its row, and
compares them there. Prints tables of Markdown, and exits with 1 if a row arrived wrong. Without
`nvidia-smi`, or with `--small`, all is tiny, which measures nothing.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import keras
import numpy as np
import numpy.typing as npt
import pandas as pd
from keras import ops
from measure import THREADS, machine

import dfgen

CLASSES = 1000
CODE = 4001
"""Row r has pixels of the number r * CODE in 24 bits, so that bytes of two rows make no third."""
Numbers = npt.NDArray[np.integer[Any]]


class Size(NamedTuple):
    """The amount of work; `seconds` and `batches` are those of one measurement."""

    models: tuple[str, ...]
    side: int
    batch: int
    photographs: int
    seconds: float
    rows: int
    workers: tuple[int, ...]
    batches: int


FULL = Size(("ResNet50", "EfficientNetB0"), 224, 256, 4096, 3.0, 4096, (1, 4, 16), 256)
SMALL = Size(("MobileNet",), 32, 8, 96, 0.3, 128, (1, 2), 16)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", choices=("torch", "jax"))
    parser.add_argument("--minutes", type=float, default=9, help="measurements start before this")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if options.backend is None:
        code = 0
        for name in filter(find_spec, ("torch", "jax")):
            os.environ["KERAS_BACKEND"] = name
            code |= subprocess.run([sys.executable, *sys.argv, "--backend", name]).returncode
        return code
    if keras.backend.backend() != options.backend:
        parser.error(f"set KERAS_BACKEND={options.backend}")
    size = SMALL if options.small or shutil.which("nvidia-smi") is None else FULL
    if size is FULL and device() == "CPU":
        parser.error(f"{options.backend} sees no GPU; install it with CUDA, or use --small")
    until = time.monotonic() + options.minutes * 60
    print(f"# {options.backend} on {device()}\n\n{machine()}, Keras {keras.__version__}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, size)
        wrong = correctness(folder, size)
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
        throughput(folder, size, until)
    return int(wrong > 0)


def device() -> str:
    """Return the name of the accelerator, or "CPU"."""
    if keras.backend.backend() == "torch":
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    import jax

    first = jax.devices()[0]
    return "CPU" if first.platform == "cpu" else str(first.device_kind)


def frame(folder: Path, count: int, suffix: str) -> pd.DataFrame:
    rows = np.arange(count)
    paths = [f"{folder}/{row}{suffix}" for row in rows]
    return pd.DataFrame({"id": rows, "path": paths, "row": rows, "label": rows % CLASSES})


def prepare(folder: Path, size: Size) -> None:
    """Write JPEGs as large as photographs, PNGs of row numbers, and packs of both."""

    def photograph(number: int) -> None:
        random = np.random.default_rng(number)
        shapes = cv2.resize(random.integers(0, 256, (12, 16, 3), np.uint8), (500, 375))
        image = np.clip(shapes + random.normal(0, 11, shapes.shape), 0, 255).astype(np.uint8)
        path = str(folder / "photographs" / f"{number}.jpg")
        cv2.imwrite(path, image, [cv2.IMWRITE_JPEG_QUALITY, 90])

    def coded(row: int) -> None:
        digits = [row * CODE >> shift & 255 for shift in (16, 8, 0)]  # OpenCV writes BGR
        cv2.imwrite(str(folder / "coded" / f"{row}.png"), np.full((64, 64, 3), digits, np.uint8))

    for name, write, count, suffix in (
        ("photographs", photograph, size.photographs, ".jpg"),
        ("coded", coded, size.rows, ".png"),
    ):
        (folder / name).mkdir()
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(write, range(count)))
        table = frame(folder / name, count, suffix)
        dfgen.pack(table, folder / f"{name}_pack", image_size=(size.side, size.side))


class Clock(keras.callbacks.Callback):  # type: ignore[misc]
    """Notes when the last step of each epoch has ended on the device.

    It has no method for batches: with one, Keras waits for the device after each step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.ends.append(time.perf_counter())


def throughput(folder: Path, size: Size, until: float) -> None:
    """Train each model from each source, and from one batch that stays on the device."""
    shape = (size.side, size.side)
    options: dict[str, Any] = {"y": "label", "image_size": shape, "batch_size": size.batch}
    files = frame(folder / "photographs", size.photographs, ".jpg")
    sources = {
        "JPEG files": partial(dfgen.Sequence, files, **options),
        "pack": partial(dfgen.Sequence, folder / "photographs_pack", **options),
        "cache": partial(dfgen.Sequence, files, cache=folder / "cache", **options),
    }
    with sources["cache"]() as sequence:
        for _ in sequence:  # fills the cache
            pass
        batch = sequence[0]
    print("\n| model | source | images/s | ratio | input_wait |\n|---|---|--:|--:|--:|")
    for name in size.models:
        model = getattr(keras.applications, name)(weights=None, input_shape=(*shape, 3))
        model.compile("sgd", "sparse_categorical_crossentropy")
        model.fit(resident(batch), steps_per_epoch=2, verbose=0)  # compiles
        steps = max(4, round(size.seconds * fit(model, resident(batch), 5, size) / size.batch))
        before = fit(model, resident(batch), steps, size)
        measured = {}
        for source, open_ in sources.items():
            if time.monotonic() > until:
                print(f"| {name} | {source} | no time left |")
                continue
            with open_() as sequence:
                settle(sequence, size.seconds)
                rate = fit(model, sequence.repeat(), steps, size)
                history = model.fit(  # on its own: InputMonitor waits for each step
                    sequence.repeat(), steps_per_epoch=steps // 2, epochs=2, verbose=0,
                    callbacks=[dfgen.InputMonitor()],
                ).history  # fmt: skip
                measured[source] = rate, history["input_wait"][1]
        device_rate = (before + fit(model, resident(batch), steps, size)) / 2
        print(f"| {name} | one batch on the device | {device_rate:,.0f} | 1.00 | |")
        for source, (rate, wait) in measured.items():
            figures = f"{rate:,.0f} | {rate / device_rate:.2f} | {wait:.1%}"
            print(f"| {name} | {source} | {figures} |", flush=True)


def settle(sequence: dfgen.Sequence, seconds: float) -> None:
    """Take batches until the number of workers is chosen, which takes a few seconds."""
    until = time.monotonic() + 3 * seconds
    while time.monotonic() < until:
        for _ in sequence:
            pass


def resident(batch: Any) -> Iterator[Any]:
    """Yield one batch that lies on the device, without end."""
    kept = keras.tree.map_structure(ops.convert_to_tensor, batch)
    while True:
        yield kept


def fit(model: Any, data: Any, steps: int, size: Size) -> float:
    """Return the images per second of the second of two epochs."""
    clock = Clock()
    model.fit(data, steps_per_epoch=steps, epochs=2, verbose=0, callbacks=[clock])
    return steps * size.batch / (clock.ends[1] - clock.ends[0])


def correctness(folder: Path, size: Size) -> int:
    """Return the number of rows with wrong pixels, or that did not come once in an epoch."""
    sources = {"PNG": frame(folder / "coded", size.rows, ".png"), "pack": folder / "coded_pack"}
    print("| source | workers | batches | wrong rows | rows not once an epoch |")
    print("|---|---|--:|--:|--:|")
    bad = 0
    for source, manifest in sources.items():
        for processes in (False, True):
            for workers in size.workers:
                shape = (size.side, size.side) if source == "pack" else (64, 64)
                with dfgen.Sequence(
                    manifest, y="row", image_size=shape, batch_size=64, workers=workers,
                    use_multiprocessing=processes,
                ) as sequence:  # fmt: skip
                    low, high, rows = arrived(sequence, size.batches)
                wrong = int(((low != rows * CODE) | (high != rows * CODE)).sum())
                epochs = rows[: len(rows) // size.rows * size.rows].reshape(-1, size.rows)
                counts = [np.bincount(epoch, minlength=size.rows) for epoch in epochs]
                not_once = sum(int((count != 1).sum()) for count in counts)
                kind = "processes" if processes else "threads"
                figures = f"{size.batches} | {wrong} | {not_once}"
                print(f"| {source} | {workers} {kind} | {figures} |", flush=True)
                bad += wrong + not_once
    return bad


def arrived(sequence: dfgen.Sequence, batches: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return the least and the greatest number in the pixels of each row, and the row's own.

    The device gets work of its own between batches, so that copies to it end late, and nothing
    waits for it: an array that is used again during the copy would show.
    """
    work = ops.ones((2048, 2048), "bfloat16") if device() != "CPU" else ops.ones((8, 8))
    found = []

    class Model(keras.Model):  # type: ignore[misc]
        def train_step(self, *given: Any) -> Any:
            nonlocal work
            pixels, rows, *_ = given[-1]
            work = ops.matmul(work, work) / len(work)
            factors = ops.convert_to_tensor([1, 256, 65536], "int32")
            codes = ops.sum(ops.cast(pixels, "int32") * factors, axis=-1)
            found.append((ops.min(codes, (1, 2)), ops.max(codes, (1, 2)), rows))
            return ({"loss": 0.0}, given[0]) if len(given) > 1 else {"loss": 0.0}

    model = Model()
    model.built = True
    model.compile(run_eagerly=True)
    model.fit(sequence.repeat(), steps_per_epoch=batches, verbose=0)
    low, high, own = (
        np.concatenate([ops.convert_to_numpy(part) for part in parts])
        for parts in zip(*found, strict=True)
    )
    return low, high, own.ravel()


if __name__ == "__main__":
    sys.exit(main())
