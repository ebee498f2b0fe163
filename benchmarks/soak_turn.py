"""One rank of a turn of the soak: a training under faults.

python benchmarks/soak_turn.py FOLDER SECONDS SEED RANK [processes]

Prints a line of JSON for each fault and each epoch. `SOAK_PLANT=leak` or `doubled` shows that the
soak can fail.
"""

import contextlib
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import keras
import numpy as np
import pandas as pd
import psutil

import dfgen

ROWS, BATCH, RANKS = 600, 8, 2
EPOCHS = 2  # of a Sequence
TIMEOUT = 5  # seconds of a read, more than a whole file takes on a busy machine
PLANT = os.environ.get("SOAK_PLANT", "")
LEAKED: list[bytearray] = []
STARTING = 5  # seconds until a worker process works
ABORTS = keras.backend.backend() == "tensorflow"
"""Whether the backend ends the process when it cannot open a file."""


def tell(**what: Any) -> None:
    """Print a line of JSON, whole."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Seen(keras.metrics.Metric):
    """Counts how often each row came, by the numbers in the pixels as the model gets them."""

    def __init__(self) -> None:
        super().__init__(name="seen")
        self.counts = self.add_variable((ROWS,), "zeros", dtype="float32", name="counts")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        rows = keras.ops.one_hot(keras.ops.cast(keras.ops.round(y_pred[:, 0]), "int32"), ROWS)
        counted = keras.ops.cast(keras.ops.reshape(sample_weight, (-1, 1)) > 0, "float32")
        self.counts.assign_add(keras.ops.sum(rows * counted, axis=0))

    def result(self) -> Any:
        return keras.ops.sum(self.counts)

    def reset_state(self) -> None:
        self.counts.assign(np.zeros(ROWS, np.float32))


def make_model() -> tuple[keras.Model, Seen]:
    """Return a model whose first output is the number in the pixels, and the metric of it."""
    seen = Seen()
    pixels = keras.Input((8, 8, 3), dtype="uint8")
    corner = keras.layers.Rescaling(1.0)(pixels)[:, 0, 0, :]
    number = keras.layers.Dense(1, use_bias=False, trainable=False, name="number")(corner)
    score = keras.layers.Dense(1)(keras.layers.Flatten()(keras.layers.Rescaling(1 / 255)(pixels)))
    model = keras.Model(pixels, keras.layers.Concatenate()([number, score]))
    model.get_layer("number").set_weights([np.array([[1.0], [256.0], [0.0]], np.float32)])

    def loss(y_true: Any, y_pred: Any) -> Any:
        label = keras.ops.cast(keras.ops.reshape(y_true, (-1,)), "float32")
        return keras.ops.square(y_pred[:, 1] - label)

    model.compile("sgd", loss, weighted_metrics=[seen])
    return model, seen


class Faults(threading.Thread):
    """Injects faults into files, workers and limits."""

    def __init__(self, folder: Path, seed: int, processes: bool) -> None:
        super().__init__(name="faults", daemon=True)
        self.folder, self.chance = folder, random.Random(seed)
        self.broken: set[int] = set()
        """Rows that may be skipped."""
        self.ended, self.lock = threading.Event(), threading.Lock()
        self.pipes: dict[Path, threading.Event] = {}
        self.kinds: list[Callable[[], None]] = [
            self.slow_read, self.hung_read, self.replaced_file, self.full_disk,
        ]  # fmt: skip
        if processes:
            self.kinds += [self.killed_worker, self.killed_worker, self.no_memory]
        if processes or not ABORTS:
            self.kinds += [self.no_descriptors]

    def run(self) -> None:
        while not self.ended.wait(self.chance.uniform(0.2, 1.5)):
            kind = self.chance.choice(self.kinds)
            with self.lock:
                tell(fault=kind.__name__.replace("_", " "))
                kind()

    def restore(self) -> None:
        """Repair all files, for a new Sequence."""
        for path, wanted in self.pipes.items():
            wanted.set()
            with contextlib.suppress(OSError):  # wake a reader that waits
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        self.pipes.clear()
        for entry in (self.folder / "disk").iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        for row in self.broken:
            write_image(self.folder / "imgs" / f"{row}.png", row)
        self.broken.clear()

    def pause(self) -> None:
        self.ended.wait(self.chance.uniform(0.05, 0.5))

    def _break(self) -> Path:
        """Choose a whole file that may be skipped from now on."""
        row = self.chance.choice([row for row in range(ROWS) if row not in self.broken])
        self.broken.add(row)
        return self.folder / "imgs" / f"{row}.png"

    def slow_read(self) -> None:
        """Replace a file by a pipe that gives its bytes late, but within the limit."""
        path = self._break()  # a busy machine may take longer
        data, ended = path.read_bytes(), threading.Event()
        replace_by(path, os.mkfifo)
        self.pipes[path] = ended
        delay = self.chance.uniform(0.1, TIMEOUT / 4)
        threading.Thread(target=feed, args=(path, data, delay, ended), daemon=True).start()

    def hung_read(self) -> None:
        """Replace a file by a pipe that nobody writes to."""
        path = self._break()
        replace_by(path, os.mkfifo)
        self.pipes[path] = threading.Event()

    def replaced_file(self) -> None:
        """Damage a file."""
        path = self._break()
        data = path.read_bytes()
        damaged = self.chance.choice([data[: len(data) // 2], b"", b"not an image", data[10:]])
        replace_by(path, lambda beside: Path(beside).write_bytes(damaged))

    def killed_worker(self) -> None:
        if found := workers():
            os.kill(self.chance.choice(found).pid, signal.SIGKILL)

    def no_memory(self) -> None:
        """Allow worker processes no more memory for a moment."""
        for child in workers():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                size = child.memory_info().vms
                resource.prlimit(child.pid, resource.RLIMIT_AS, (size + 4096, -1))
                self.ended.wait(0.3)
                resource.prlimit(child.pid, resource.RLIMIT_AS, (-1, -1))

    def no_descriptors(self) -> None:
        """Let this process and its workers open no file for a moment."""
        old = resource.getrlimit(resource.RLIMIT_NOFILE)
        pids = [*([] if ABORTS else [os.getpid()]), *(worker.pid for worker in workers())]
        for limit in ((3, old[1]), old):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    resource.prlimit(pid, resource.RLIMIT_NOFILE, limit)
            if limit is not old:
                self.pause()

    def full_disk(self) -> None:
        """Fill the disk of the cache for a moment."""
        ballast = self.folder / "disk" / "ballast"
        with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
            while os.path.ismount(ballast.parent):  # a small one
                file.write(bytes(4096))
        self.pause()
        ballast.unlink(missing_ok=True)


def workers() -> list[psutil.Process]:
    """Return the worker processes that have started."""
    children = psutil.Process().children()
    return [child for child in children if time.time() - child.create_time() > STARTING]


def replace_by(path: Path, make: Callable[[str], object]) -> None:
    """Replace a file atomically."""
    beside = f"{path}.new"
    make(beside)
    os.replace(beside, path)


def feed(path: Path, data: bytes, delay: float, ended: threading.Event) -> None:
    """Write the bytes late to each reader of a pipe."""
    while not ended.wait(0.05):
        # an error means: no reader, or no descriptor
        with (
            contextlib.suppress(OSError),
            open(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0) as file,
        ):
            if not ended.wait(delay):
                file.write(data)


def write_image(path: Path, row: int) -> None:
    """Write an image whose pixels are the number of its row."""
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[..., 2], pixels[..., 1] = row % 256, row // 256  # OpenCV writes BGR
    data = cv2.imencode(".png", pixels)[1].tobytes()
    replace_by(path, lambda beside: Path(beside).write_bytes(data))


class Watch(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports the rows of each epoch, over all Sequences that trained it."""

    def __init__(self, seen: Seen, faults: Faults) -> None:
        super().__init__()
        self.seen, self.faults = seen, faults
        self.seq: Any = None
        self.counts, self.skipped = np.zeros(ROWS), set[int]()
        self.leave_at: int | None = None
        """Number of batches after which this `fit` ends, to resume from its state."""
        self.state: Any = None

    def begin(self, seq: Any, leave_at: int | None) -> None:
        self.seq, self.leave_at, self.state = seq, leave_at, None

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.leave_at is not None:
            self.leave_at -= 1
            if self.leave_at == 0:
                self.state, self.model.stop_training = self.seq.state_dict(), True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Report an epoch that is complete, or keep the counts of its first part."""
        gc.collect()  # a Sequence that was left in mid-epoch keeps its cache files open until then
        self.counts += np.asarray(keras.ops.convert_to_numpy(self.seen.counts))
        self.skipped |= {*self.seq.problems["id"].tolist()}
        if PLANT == "leak":
            LEAKED.append(bytearray(os.urandom(2**18)))
        if self.state is not None and self.state["step"] < self.seq.num_batches:
            return
        receipt, wrong = self.seq.receipt, []
        if PLANT == "doubled" and self.seq.epoch % 3 == 0:
            self.counts[np.flatnonzero(self.counts)[0]] += 1
        if (receipt.missing, receipt.repeated) != (0, 0):
            wrong.append(str(receipt))
        if receipt.rows + receipt.skipped != ROWS // RANKS:
            wrong.append(f"{receipt.rows} rows and {receipt.skipped} skipped of {ROWS // RANKS}")
        if (came := int(self.counts.sum())) != receipt.rows:
            wrong.append(f"the model got {came} rows, the receipt says {receipt.rows}")
        if innocent := self.skipped - self.faults.broken:
            reasons = self.seq.problems.set_index("id")["reason"].to_dict()
            wrong.append(f"whole files skipped: { {row: reasons.get(row) for row in innocent} }")
        tell(
            epoch=receipt.epoch,
            rows=receipt.rows,
            skipped=receipt.skipped,
            seen=np.repeat(np.arange(ROWS), self.counts.astype(int)).tolist(),
            broken=sorted(self.faults.broken),
            wrong=wrong,
        )
        self.counts[:], self.state = 0, None


def main() -> None:
    folder, seconds, seed, rank = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    processes = sys.argv[5:] == ["processes"]
    end = time.monotonic() + seconds
    warnings.filterwarnings("ignore", "shard=.*nothing averages the gradients")  # on purpose
    (folder / "imgs").mkdir(parents=True)
    (folder / "disk").mkdir(exist_ok=True)
    for row in range(ROWS):
        write_image(folder / "imgs" / f"{row}.png", row)
    paths = [f"{folder}/imgs/{row}.png" for row in range(ROWS)]
    frame = pd.DataFrame({"id": range(ROWS), "path": paths, "label": [0.0, 1.0] * (ROWS // 2)})
    options = {"y": "label", "image_size": (8, 8), "batch_size": BATCH, "on_error": "skip"}
    model, seen = make_model()
    with dfgen.Sequence(frame[:BATCH], **options) as seq:  # imports all that a training imports
        model.fit(seq, verbose=0, callbacks=[dfgen.InputMonitor()])
    own = RANKS * seed + rank
    faults, chance, number = Faults(folder, own, processes), random.Random(own), 0
    watch, state = Watch(seen, faults), None
    faults.start()
    while time.monotonic() < end:
        number += 1
        with faults.lock:
            if watch.state is None:  # within an epoch the files stay as they are
                faults.restore()
                watch.skipped.clear()
            seq = dfgen.Sequence(
                frame,
                **options,
                seed=seed,
                shard=(rank, RANKS),
                workers=2,
                use_multiprocessing=processes,
                limits=dfgen.Limits(read_timeout=TIMEOUT, problems=0.5),
                cache=folder / "disk" if number % 3 == 0 else None,
            )
            if state is not None:
                seq.load_state_dict(state)
                tell(fault="resume")
        watch.begin(seq, chance.randrange(1, ROWS // BATCH * EPOCHS) if number % 2 else None)
        with seq:
            model.fit(seq, epochs=EPOCHS, verbose=0, callbacks=[dfgen.InputMonitor(), watch])
            state = watch.state or seq.state_dict()
    faults.ended.set()
    faults.join()
    tell(over=True)
    faults.restore()


if __name__ == "__main__":
    main()
