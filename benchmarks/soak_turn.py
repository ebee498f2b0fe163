"""One turn of the soak: a training in which something happens all the time.

python benchmarks/soak_turn.py FOLDER SECONDS SEED [processes]

Prints a line of JSON for each fault and each epoch.
"""

import json
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import keras
import numpy as np
import pandas as pd
import psutil

import dfgen

ROWS, BATCH, EPOCHS = 600, 8, 4
TIMEOUT = 2.0
STARTING = 5  # seconds that a worker process takes at most until it works
ABORTS = keras.backend.backend() == "tensorflow"
"""Whether the backend itself ends the process where it can open no file."""


def tell(**what: Any) -> None:
    """Print a line of JSON, whole."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class SumOfRows(keras.metrics.Metric):
    """Sums the numbers in the pixels of the rows that count, as the model sees them."""

    def __init__(self) -> None:
        super().__init__(name="sum_of_rows")
        self.total = self.add_variable((), "zeros", dtype="float32", name="total")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Add those of a batch."""
        counts = keras.ops.cast(sample_weight > 0, "float32")
        self.total.assign_add(keras.ops.sum(y_pred[:, 0] * counts))

    def result(self) -> Any:
        """Return the sum of the epoch."""
        return self.total + 0.0

    def reset_state(self) -> None:
        """Begin an epoch."""
        self.total.assign(0.0)


def make_model() -> keras.Model:
    """Return a model whose first output is the number in the pixels, for the metric."""
    pixels = keras.Input((8, 8, 3), dtype="uint8")
    corner = keras.layers.Rescaling(1.0)(pixels)[:, 0, 0, :]
    number = keras.layers.Dense(1, use_bias=False, trainable=False, name="number")(corner)
    score = keras.layers.Dense(1)(keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(pixels)))
    model = keras.Model(pixels, keras.layers.Concatenate()([number, score]))
    model.get_layer("number").set_weights([np.array([[1.0], [256.0], [0.0]], np.float32)])
    model.compile("sgd", loss, weighted_metrics=[SumOfRows()])
    return model


def loss(y_true: Any, y_pred: Any) -> Any:
    """Return the squared error of the second output."""
    label = keras.ops.cast(keras.ops.reshape(y_true, (-1,)), "float32")
    return keras.ops.square(y_pred[:, 1] - label)


class Faults(threading.Thread):
    """Has something happen, again and again, to files, workers and limits."""

    def __init__(self, folder: Path, seed: int, processes: bool) -> None:
        super().__init__(name="faults", daemon=True)
        self.folder = folder
        self.chance = random.Random(seed)
        self.broken: set[int] = set()
        """Rows that may be skipped."""
        self.ended, self.lock = threading.Event(), threading.Lock()
        self.pipes: dict[Path, threading.Event] = {}
        self.kinds: list[Callable[[], None]] = [
            self.slow_read, self.hung_read, self.replaced_file, self.renamed_folder,
        ]  # fmt: skip
        if processes:
            self.kinds += [self.killed_worker, self.killed_worker, self.no_memory]
        if processes or not ABORTS:
            self.kinds += [self.no_descriptors]

    def run(self) -> None:
        """Have things happen until `ended`."""
        while not self.ended.wait(self.chance.uniform(0.2, 1.5)):
            kind = self.chance.choice(self.kinds)
            with self.lock:
                tell(fault=kind.__name__.replace("_", " "))
                kind()

    def restore(self) -> None:
        """Make all files whole again, for a new Sequence."""
        for path, wanted in self.pipes.items():
            wanted.set()
            release(path)
        self.pipes.clear()
        for row in range(ROWS):
            path = self.folder / "imgs" / f"{row}.png"
            if row in self.broken:
                write_image(path, row)
        self.broken.clear()

    def _whole(self) -> tuple[int, Path]:
        row = self.chance.choice([row for row in range(ROWS) if row not in self.broken])
        return row, self.folder / "imgs" / f"{row}.png"

    def slow_read(self) -> None:
        """A file becomes a pipe that gives its bytes late, but within the limit."""
        row, path = self._whole()
        self.broken.add(row)  # a busy machine may take longer
        data, ended = path.read_bytes(), threading.Event()
        replace_by(path, os.mkfifo)
        self.pipes[path] = ended
        delay = self.chance.uniform(0.1, TIMEOUT / 4)
        threading.Thread(target=feed, args=(path, data, delay, ended), daemon=True).start()

    def hung_read(self) -> None:
        """A file becomes a pipe that nobody writes to."""
        row, path = self._whole()
        self.broken.add(row)
        replace_by(path, os.mkfifo)
        self.pipes[path] = threading.Event()

    def replaced_file(self) -> None:
        """A file is replaced by what is left of it."""
        row, path = self._whole()
        data = path.read_bytes()
        damaged = self.chance.choice([data[: len(data) // 2], b"", b"not an image", data[10:]])
        self.broken.add(row)
        replace_by(path, lambda beside: Path(beside).write_bytes(damaged))

    def killed_worker(self) -> None:
        """A worker process is killed."""
        if found := workers():
            os.kill(self.chance.choice(found).pid, signal.SIGKILL)

    def no_memory(self) -> None:
        """A worker process gets no more memory, for a moment."""
        for child in workers():
            try:
                size = child.memory_info().vms
                resource.prlimit(child.pid, resource.RLIMIT_AS, (size + 4096, -1))
                self.ended.wait(0.3)
                resource.prlimit(child.pid, resource.RLIMIT_AS, (-1, -1))
            except (psutil.Error, ProcessLookupError):
                continue

    def no_descriptors(self) -> None:
        """This process and its workers can open no file, for a moment."""
        old = resource.getrlimit(resource.RLIMIT_NOFILE)
        pids = [*([] if ABORTS else [os.getpid()]), *(worker.pid for worker in workers())]
        for limit in ((3, old[1]), old):
            for pid in pids:
                try:
                    resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
                except ProcessLookupError:
                    continue
            if limit is not old:
                self.ended.wait(self.chance.uniform(0.05, 0.5))

    def renamed_folder(self) -> None:
        """The folder of the images is gone, for a moment."""
        os.rename(self.folder / "imgs", self.folder / "gone")
        self.ended.wait(self.chance.uniform(0.05, 0.5))
        os.rename(self.folder / "gone", self.folder / "imgs")


def workers() -> list[psutil.Process]:
    """Return the worker processes that have started."""
    children = psutil.Process().children()
    return [child for child in children if time.time() - child.create_time() > STARTING]


def replace_by(path: Path, make: Callable[[str], object]) -> None:
    """Put something else in the place of a file, at once."""
    beside = f"{path}.new"
    make(beside)
    os.replace(beside, path)


def feed(path: Path, data: bytes, delay: float, ended: threading.Event) -> None:
    """Write to whoever reads from a pipe, late, each time."""
    while not ended.wait(0.05):  # until the reader before has seen the end
        try:
            with open(path, "wb", buffering=0) as file:  # waits for a reader
                if not ended.wait(delay):
                    file.write(data)
        except OSError:  # the reader has gone, the folder is renamed, or there is no descriptor
            continue


def release(path: Path) -> None:
    """Let go of whoever waits at either end of a pipe."""
    for flags in (os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK):
        try:
            os.close(os.open(path, flags))
        except OSError:
            continue


def write_image(path: Path, row: int) -> None:
    """Write an image whose pixels are the number of its row."""
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[..., 2], pixels[..., 1] = row % 256, row // 256  # OpenCV writes BGR
    data = cv2.imencode(".png", pixels)[1].tobytes()
    replace_by(path, lambda beside: Path(beside).write_bytes(data))


class Exact(keras.callbacks.Callback):  # type: ignore[misc]
    """Compares each epoch with what it must be."""

    def __init__(self, seq: Any, faults: Faults) -> None:
        super().__init__()
        self.seq, self.faults = seq, faults
        self.seen = set[int]()

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        """Tell what is wrong with an epoch, or that nothing is."""
        receipt, skipped = self.seq.receipt, set(self.seq.problems["id"].tolist())
        innocent = skipped - self.faults.broken
        wrong = []
        if (receipt.epoch, receipt.missing, receipt.repeated) != (self.seq.epoch - 1, 0, 0):
            wrong.append(str(receipt))
        if receipt.rows + receipt.skipped != ROWS:
            wrong.append(f"{receipt.rows} rows and {receipt.skipped} skipped of {ROWS}")
        if innocent:
            reasons = dict(zip(self.seq.problems["id"], self.seq.problems["reason"], strict=True))
            wrong.append(f"{len(innocent)} whole files blamed: {reasons[min(innocent)]}")
        most = sum(range(ROWS)) - sum(self.seen)  # those found in earlier epochs are skipped
        least = sum(range(ROWS)) - sum(skipped)
        if not least <= logs["sum_of_rows"] <= most:
            wrong.append(f"the model saw {logs['sum_of_rows']}, not {least} to {most}")
        if receipt.skipped == len(skipped) and logs["sum_of_rows"] != least:
            wrong.append(f"the model saw {logs['sum_of_rows']}, not {least}")
        self.seen = skipped
        tell(epoch=receipt.epoch, rows=receipt.rows, skipped=receipt.skipped, wrong=wrong)


def main() -> None:
    """Train until the time is up."""
    folder, seconds, seed = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    processes = sys.argv[4:] == ["processes"]
    end = time.monotonic() + seconds
    (folder / "imgs").mkdir(parents=True)
    for row in range(ROWS):
        write_image(folder / "imgs" / f"{row}.png", row)
    paths = [f"{folder}/imgs/{row}.png" for row in range(ROWS)]
    frame = pd.DataFrame({"id": range(ROWS), "path": paths, "label": [0.0, 1.0] * (ROWS // 2)})
    model, faults = make_model(), Faults(folder, seed, processes)
    faults.start()
    while time.monotonic() < end:
        with faults.lock:
            faults.restore()
            seq = dfgen.Sequence(
                frame,
                y="label",
                image_size=(8, 8),
                batch_size=BATCH,
                on_error="skip",
                seed=seed,
                workers=3,
                use_multiprocessing=processes,
                limits=dfgen.Limits(read_timeout=TIMEOUT, problems=0.5),
            )
        with seq:
            model.fit(seq, epochs=EPOCHS, verbose=0, callbacks=[Exact(seq, faults)])
    faults.ended.set()
    faults.join()
    faults.restore()


if __name__ == "__main__":
    main()
