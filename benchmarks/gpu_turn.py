"""One turn of gpu.py, on one backend, in a process of its own.

python benchmarks/gpu_turn.py PART FOLDER SECONDS [small]

Prints a line of JSON for each thing that it found. What would begin after SECONDS is left out.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import cv2
import keras
import numpy as np
import numpy.typing as npt
import pandas as pd
import psutil
from keras import ops
from measure import THREADS
from results import machine

import dfgen

CLASSES = 1000
CODE = 4001
"""Row r has pixels of the number r * CODE in 24 bits, so that bytes of two rows make no third."""
KILLED_AT = (1, 3)  # epoch and step

Numbers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Size:
    """How much of everything; `batches` and `seconds` are those of one measurement."""

    models: tuple[str, ...]
    side: int
    batch: int
    photographs: int
    seconds: float
    rows: int
    workers: tuple[int, ...]
    batches: int


FULL = Size(
    ("ResNet50", "EfficientNetB0"), side=224, batch=256, photographs=4096, seconds=3.0,
    rows=4096, workers=(1, 2, 4, 8, 16), batches=512,
)  # fmt: skip
SMALL = Size(
    ("MobileNet",), side=32, batch=8, photographs=96, seconds=0.3,
    rows=128, workers=(1, 2), batches=16,
)  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """What a part is given."""

    folder: Path
    size: Size
    until: float

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self.until

    def photographs(self) -> pd.DataFrame:
        return _frame(self.folder / "photographs", self.size.photographs, ".jpg")

    def coded(self) -> pd.DataFrame:
        return _frame(self.folder / "coded", self.size.rows, ".png")


def _frame(folder: Path, count: int, suffix: str) -> pd.DataFrame:
    rows = np.arange(count)
    paths = [f"{folder}/{row}{suffix}" for row in rows]
    return pd.DataFrame({"id": rows, "path": paths, "row": rows, "label": rows % CLASSES})


def device() -> str:
    """Return the name of the accelerator that models run on, or "CPU"."""
    if keras.backend.backend() == "torch":
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    import jax

    first = jax.devices()[0]
    return "CPU" if first.platform == "cpu" else str(first.device_kind)


def tell(part: str, **found: Any) -> None:
    """Print what was found as a line of JSON."""
    about = {"part": part, "backend": keras.backend.backend(), "device": device()}
    print(json.dumps(about | found), flush=True)


def prepare(turn: Turn) -> None:
    """Write the files that all other parts read."""
    size, folder = turn.size, turn.folder
    for name in ("photographs", "coded"):
        (folder / name).mkdir()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(partial(_write_photograph, folder), range(size.photographs)))
        list(pool.map(partial(_write_coded, folder), range(size.rows)))
    for frame, name in ((turn.photographs(), "pack"), (turn.coded(), "coded_pack")):
        dfgen.pack(frame, folder / name, image_size=(size.side, size.side))
    imported = f"Keras {keras.__version__}, as it was imported"  # a nightly is another package
    print(json.dumps({"part": "prepare", "machine": [*machine().split("\n"), imported]}))


def _write_photograph(folder: Path, number: int) -> None:
    """Write a JPEG of 500x375 with as many bytes as a photograph has."""
    random = np.random.default_rng(number)
    shapes = cv2.resize(random.integers(0, 256, (12, 16, 3), np.uint8), (500, 375))
    image = np.clip(shapes + random.normal(0, 11, shapes.shape), 0, 255).astype(np.uint8)
    path = str(folder / "photographs" / f"{number}.jpg")
    cv2.imwrite(path, image, [cv2.IMWRITE_JPEG_QUALITY, 90])


def _write_coded(folder: Path, row: int) -> None:
    """Write a PNG whose pixels are the number of its row."""
    bytes_of_row = [row * CODE >> shift & 255 for shift in (16, 8, 0)]  # OpenCV writes BGR
    pixels = np.full((64, 64, 3), bytes_of_row, np.uint8)
    cv2.imwrite(str(folder / "coded" / f"{row}.png"), pixels)


class Busy:
    """How busy nvidia-smi says that the first GPU is, sampled while models train on a GPU."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float]] = []
        if device() != "CPU" and shutil.which("nvidia-smi"):
            threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        query = ["nvidia-smi", "-i", "0", "--query-gpu=utilization.gpu"]
        command = [*query, "--format=csv,noheader,nounits", "-lms", "200"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout or ():
                if line.strip().isdigit():
                    self._samples.append((time.perf_counter(), float(line)))

    def between(self, begin: float, end: float) -> float | None:
        """Return the mean of the samples in per cent, None without any."""
        found = [share for when, share in self._samples if begin < when < end]
        return mean(found) if found else None


class Clock(keras.callbacks.Callback):  # type: ignore[misc]
    """Takes the time of each epoch's end, when its last step has ended on the device too.

    It has no method for batches: with one, Keras waits for the device after each step.
    """

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[float] = []
        self.cpus = 0.0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.ended.append(time.perf_counter())
        self.cpus = psutil.cpu_percent() / 100 * (psutil.cpu_count() or 1)


def throughput(turn: Turn) -> None:
    """Train each model, fed from files, a pack, a cache and a batch that is on the device."""
    size, busy = turn.size, Busy()
    shape = (size.side, size.side)
    options: dict[str, Any] = {"y": "label", "image_size": shape, "batch_size": size.batch}
    cached = partial(dfgen.Sequence, turn.photographs(), cache=turn.folder / "cache", **options)
    feeds = {
        "loose JPEG": partial(dfgen.Sequence, turn.photographs(), **options),
        "pack": partial(dfgen.Sequence, turn.folder / "pack", **options),
        "cache": cached,
    }
    with cached() as sequence:
        for _ in sequence:  # fills the cache
            pass
        batch = sequence[0]
    for name in size.models:
        if turn.is_over:
            tell("throughput", left_out=name)
            continue
        model = getattr(keras.applications, name)(weights=None, input_shape=(*shape, 3))
        model.compile("sgd", "sparse_categorical_crossentropy")
        model.fit(resident(batch), steps_per_epoch=2, verbose=0)  # compiles
        rate = fit(model, resident(batch), 5, size.batch, busy)["images_per_second"]
        steps = max(4, round(size.seconds * rate / size.batch))
        found = partial(tell, "throughput", model=name, batch=size.batch, steps=steps)
        found(source="synthetic", **fit(model, resident(batch), steps, size.batch, busy))
        for source, opened in feeds.items():
            if turn.is_over:
                found(left_out=f"{name} from {source}")
                continue
            with opened() as sequence:
                rates = fit(model, sequence.repeat(), steps, size.batch, busy)
                found(source=source, **rates, **waits(model, sequence, steps // 2, size.batch))
        found(source="synthetic", **fit(model, resident(batch), steps, size.batch, busy))


def resident(batch: Any) -> Iterator[Any]:
    """Yield one batch for ever, which lies on the device."""
    kept = keras.tree.map_structure(ops.convert_to_tensor, batch)
    while True:
        yield kept


def fit(model: Any, data: Any, steps: int, batch: int, busy: Busy) -> dict[str, Any]:
    """Return what is seen of the second of two epochs."""
    clock = Clock()
    model.fit(data, steps_per_epoch=steps, epochs=2, verbose=0, callbacks=[clock])
    begin, end = clock.ended
    rate = steps * batch / (end - begin)
    return {"images_per_second": rate, "gpu": busy.between(begin, end), "cpus": clock.cpus}


def waits(model: Any, sequence: dfgen.Sequence, steps: int, batch: int) -> dict[str, float]:
    """Return what InputMonitor sees of the second of two epochs; it ends each step by itself."""
    history = model.fit(
        sequence.repeat(), steps_per_epoch=steps, epochs=2, verbose=0,
        callbacks=[dfgen.InputMonitor()],
    ).history  # fmt: skip
    wait, rate = history["input_wait"][1], history["images_per_second"][1]
    milliseconds = 1000 * wait * batch / rate
    return {"input_wait": wait, "wait_ms": milliseconds, "monitored_per_second": rate}


def correctness(turn: Turn) -> None:
    """Take batches to the device without ever waiting for it, and look there whose pixels came."""
    size = turn.size
    sources = {"PNG": (turn.coded(), (64, 64)), "pack": (turn.folder / "coded_pack", None)}
    for source, (manifest, shape) in sources.items():
        for processes in (False, True):
            for workers in size.workers:
                about = {"source": source, "processes": processes, "workers": workers}
                if turn.is_over:
                    tell("correctness", left_out=about)
                    continue
                with dfgen.Sequence(
                    manifest, y="row", image_size=shape or (size.side, size.side), batch_size=64,
                    workers=workers, use_multiprocessing=processes,
                ) as sequence:  # fmt: skip
                    low, high, rows = arrived(sequence, size.batches)
                wrong, lost = len(wrong_rows(low, high, rows)), not_once(rows, size.rows)
                tell("correctness", **about, batches=size.batches, wrong=wrong, not_once=lost)


def arrived(sequence: dfgen.Sequence, batches: int) -> tuple[Numbers, Numbers, Numbers]:
    """Return the least and the greatest number in the pixels of each row, and the row's own.

    The device gets work of its own between batches, so that copies to it end late.
    """
    work = ops.ones((2048, 2048), "bfloat16") if device() != "CPU" else ops.ones((8, 8))
    found = []
    for _, (pixels, rows) in zip(range(batches), on_device(sequence.repeat()), strict=False):
        work = ops.matmul(work, work) / len(work)
        codes = ops.sum(ops.cast(pixels, "int32") * np.array([1, 256, 65536], "int32"), axis=-1)
        found.append((ops.min(codes, (1, 2)), ops.max(codes, (1, 2)), rows))
    low, high, own = (
        np.concatenate([ops.convert_to_numpy(part) for part in parts])
        for parts in zip(*found, strict=True)
    )
    return low, high, own.ravel()


def on_device(endless: Any) -> Iterator[Any]:
    """Yield batches as `fit` takes them: by `jax.device_put`, or pinned and `non_blocking`."""
    if keras.backend.backend() == "torch":
        yield from endless.get_torch_dataloader()
        return
    import jax

    for batch in endless.get_jax_iterator():
        yield keras.tree.map_structure(jax.device_put, batch)


def wrong_rows(low: Numbers, high: Numbers, rows: Numbers) -> Numbers:
    """Return the rows that have a pixel which is not their own."""
    return rows[(low != rows * CODE) | (high != rows * CODE)]


def not_once(rows: Numbers, count: int) -> int:
    """Return how many of `count` rows each whole epoch lacks or repeats, all epochs together."""
    epochs = rows[: len(rows) // count * count].reshape(-1, count)
    return sum(int((np.bincount(epoch, minlength=count) != 1).sum()) for epoch in epochs)


def resume(turn: Turn) -> None:
    """Kill a training in a process of its own, go on with it here, and compare the weights."""
    child = [sys.executable, __file__, "killed", *sys.argv[2:]]
    code = subprocess.run(child, check=False).returncode
    if code != -signal.SIGKILL:
        raise RuntimeError(f"the training that was to be killed ended with exit code {code}")
    resumed, whole = train(turn, "killed"), train(turn, "whole")
    pairs = list(zip(resumed, whole, strict=True))
    differ = sum(not np.array_equal(one, other) for one, other in pairs)
    tell("resume", killed_at=KILLED_AT, arrays=len(pairs), differ=differ)


def killed(turn: Turn) -> None:
    """Train until the kill."""
    train(turn, "killed", kill=True)


def train(turn: Turn, name: str, kill: bool = False) -> list[npt.NDArray[np.float32]]:
    """Return the weights after a training with deterministic kernels, which goes on where it was.

    gpu.py sets what must be set before a backend is loaded.
    """
    if keras.backend.backend() == "torch":
        import torch

        torch.use_deterministic_algorithms(True, warn_only=True)
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Rescaling(1 / 255),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(64, activation="relu"),
            layers.BatchNormalization(),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    image = dfgen.Image(size=(24, 24), load_size=(32, 32), crop="random", flip="horizontal")
    sequence = dfgen.Sequence(turn.photographs().head(96), x=image, y="label", batch_size=8)

    def end(batch: int, logs: Any) -> None:
        if kill and (sequence.epoch, batch) == KILLED_AT:
            os.kill(os.getpid(), signal.SIGKILL)

    ends = keras.callbacks.LambdaCallback(on_train_batch_end=end)
    backup = dfgen.BackupAndRestore(turn.folder / f"{name}_{keras.backend.backend()}", sequence, 2)
    with sequence:
        model.fit(sequence, epochs=3, verbose=0, callbacks=[backup, ends])
    return model.get_weights()  # type: ignore[no-any-return]


PARTS = {
    "prepare": prepare, "throughput": throughput, "correctness": correctness, "resume": resume,
    "killed": killed,
}  # fmt: skip


def main() -> None:
    part, folder, seconds, *small = sys.argv[1:]
    if not small and device() == "CPU":
        raise SystemExit(
            f"{keras.backend.backend()} sees no GPU: install it with CUDA, or give --small"
        )
    if part == "throughput":
        keras.mixed_precision.set_global_policy("mixed_bfloat16")
    turn = Turn(Path(folder), SMALL if small else FULL, time.monotonic() + float(seconds))
    PARTS[part](turn)


if __name__ == "__main__":
    main()
