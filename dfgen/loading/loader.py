"""Loader: any batch of any epoch, and a bounded look-ahead that guesses which come next."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, DfgenError
from dfgen.loading.buffers import Buffers
from dfgen.loading.order import batch_count, permutation, sample_rng, whole
from dfgen.loading.workers import Threads, usable_cpus
from dfgen.samples.reader import SampleReader

Values = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]
Position = tuple[int, int]
"""(epoch, step)"""

_BLOCK = 8192  # positions asked of the order at once: one by one they cost ten times as much
_CHUNKS_PER_WORKER = 2  # of a batch, so that all workers end it at about the same time


@dataclass(frozen=True)
class Batch:
    """Arrays of one batch.

    Args:
        arrays: name -> array of shape (batch, ...).
        weights: float32 of shape (batch,), or None where no row has a weight.
        rows: int64 of shape (batch,), which row of the manifest each sample is.
    """

    arrays: dict[str, Values]
    weights: npt.NDArray[np.float32] | None
    rows: Rows


class Loader:
    """Makes batches of a reader's rows, in order, ahead of time, on several threads.

    It is `Sequence` without Keras. The order of an epoch is a pure function of (rows, seed,
    epoch), so any batch can be asked for at any time, from any thread.

    Args:
        reader: makes samples from rows.
        batch_size: rows of a batch; the last one of an epoch may have fewer.
        shuffle: another order each epoch, by `seed`; False keeps the order of the rows.
        seed: of the order and of the transform's random generators.
        drop_remainder: leave out a short last batch.
        weights: float32 of shape (rows,), what each row counts in the loss, or None.
        on_error: `"raise"`, or `"skip"`: a bad row keeps its place with zeros and weight 0, and
            the real rows of its batch weigh batch / real.
        problems: row -> why it is not to be read at all; needs `on_error="skip"`.
        workers: threads; None = the CPUs this process may use; 0 = in the calling thread.
        max_queue_size: batches ready or in the making.

    Raises:
        ArgumentError: a size that cannot be.
    """

    def __init__(
        self,
        reader: SampleReader,
        *,
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int = 0,
        drop_remainder: bool = False,
        weights: npt.NDArray[np.float32] | None = None,
        on_error: str = "raise",
        problems: Mapping[int, str] | None = None,
        workers: int | None = None,
        max_queue_size: int = 10,
    ) -> None:
        rows = len(reader)
        self.reader = reader
        self.batch_size = whole("batch_size", batch_size, least=1)
        self.seed = seed
        self.workers = usable_cpus() if workers is None else whole("workers", workers)
        self.max_queue_size = whole("max_queue_size", max_queue_size, least=1)
        self.problems: dict[int, str] = dict(problems or {})
        self._known = frozenset(self.problems)
        self._skip = on_error == "skip"
        self._weights = np.ones(rows, np.float32) if weights is None and self._skip else weights
        self.specs = {part.name: part.spec for part in reader.parts}
        self._buffers = Buffers(self.specs)
        self._length = batch_count(rows, batch_size, drop_remainder)
        if not self._length:
            raise ArgumentError(
                f"{rows:,} rows make no batch of batch_size={batch_size} with drop_remainder=True: "
                "make the batches smaller, or keep the remainder"
            )
        self._batches_per_block = max(1, _BLOCK // batch_size)
        block = self._batches_per_block * batch_size
        self._block = lru_cache(maxsize=4)(partial(_rows, rows, seed if shuffle else None, block))
        self._chunk = -(-batch_size // max(1, self.workers * _CHUNKS_PER_WORKER))
        self._threads = Threads(self.workers) if self.workers else None
        self._lock = threading.Lock()
        self._parked: Stream | None = None
        self._closed = False

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return self._length

    def rows(self, epoch: int, step: int) -> Rows:
        """Return the rows of one batch: positions [step * batch_size, ...) of the epoch's order."""
        if not 0 <= step < self._length:
            raise IndexError(f"batch {step} does not exist: an epoch has {self._length} batches")
        block, place = divmod(step, self._batches_per_block)
        start = place * self.batch_size
        return self._block(epoch, block)[start : start + self.batch_size]

    def batch(self, epoch: int, step: int) -> Batch:
        """Return one batch, whatever else is under way."""
        return self.start(epoch, step).result()

    def stream(self, epoch: int, step: int = 0) -> "Stream":
        """Return the batches from (epoch, step) on; what was parked just there is used."""
        parked = self._swap_parked(None)
        if parked is not None and parked.position == (epoch, step):
            return parked
        if parked is not None:
            parked.close()
        return Stream(self, (epoch, step))

    def park(self, stream: "Stream") -> None:
        """Keep a stream with what it has made ahead, for whoever goes on where it is."""
        parked = self._swap_parked(stream)
        if parked is not None:
            parked.close()

    def close(self) -> None:
        """End the threads; no more batches can be made."""
        self._closed = True
        parked = self._swap_parked(None)
        if parked is not None:
            parked.close()
        if self._threads is not None:
            self._threads.close()

    def start(self, epoch: int, step: int) -> "Making":
        """Begin to make a batch; without workers, make it."""
        if self._closed:
            raise ArgumentError("this Sequence was closed: make a new one")
        rows = self.rows(epoch, step)
        arrays = self._buffers.batch(len(rows))
        self.reader.gather(rows, arrays)
        weights = None if self._weights is None else self._weights[rows]
        starts = range(0, len(rows), self._chunk)
        making = Making(Batch(arrays, weights, rows), pending=len(starts))
        for start in starts:
            stop = min(start + self._chunk, len(rows))
            task = partial(making.run, partial(self._fill, making, epoch, start, stop))
            if self._threads is None:
                task()
            else:
                self._threads.submit(task)
        return making

    def _fill(self, making: "Making", epoch: int, start: int, stop: int) -> None:
        """Make the samples of one chunk of a batch."""
        arrays = making.batch.arrays
        for place in range(start, stop):
            if making.cancelled:
                return
            row = int(making.batch.rows[place])
            out = {name: array[place, ...] for name, array in arrays.items()}
            if row in self._known:
                making.blank(place)
                continue
            try:
                self.reader.read(row, out, self._rng(epoch, row))
            except DfgenError as error:
                if not self._skip:
                    raise
                self.problems[row] = str(error)
                making.blank(place)

    def _rng(self, epoch: int, row: int) -> np.random.Generator | None:
        if self.reader.transform is None:
            return None
        return sample_rng(self.seed, epoch, self.reader.id(row))

    def _swap_parked(self, stream: "Stream | None") -> "Stream | None":
        with self._lock:
            parked, self._parked = self._parked, stream
        return parked


@dataclass(eq=False)
class Making:
    """A batch in the making: `pending` chunks of it are still to be run."""

    batch: Batch
    pending: int
    cancelled: bool = False
    _blanks: int = 0
    _error: BaseException | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: threading.Event = field(default_factory=threading.Event)

    def run(self, chunk: "partial[None]") -> None:
        """Run one chunk; what it raises is raised by `result`."""
        try:
            if self._error is None:
                chunk()
        except BaseException as error:
            self._error = error
        with self._lock:
            self.pending -= 1
            if not self.pending:
                self._done.set()

    def blank(self, place: int) -> None:
        """Fill one place with zeros of weight 0."""
        for array in self.batch.arrays.values():
            array[place] = 0
        if self.batch.weights is not None:
            self.batch.weights[place] = 0
        with self._lock:
            self._blanks += 1

    def result(self) -> Batch:
        """Wait for the batch, and return it or raise what went wrong."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        size = len(self.batch.rows)
        if self.batch.weights is not None and 0 < self._blanks < size:
            self.batch.weights[...] *= np.float32(size / (size - self._blanks))
            self._blanks = 0
        return self.batch


class Stream:
    """Batches from a position on, epoch after epoch, with look-ahead. Not for several threads.

    Args:
        loader: makes the batches.
        position: (epoch, step) of the next batch.
    """

    def __init__(self, loader: Loader, position: Position) -> None:
        self.position = position
        self.repeat_epoch = False
        """True where the same epoch will be asked for again, as by validation."""
        self._loader = loader
        self._ahead: deque[tuple[Position, Making]] = deque()

    def __next__(self) -> Batch:
        self._refill()
        batch = self._ahead[0][1].result()
        self._ahead.popleft()
        self.position = self._after(self.position)
        if self._loader.workers:
            self._refill()
        return batch

    def close(self) -> None:
        """Give up what is being made ahead."""
        for _, making in self._ahead:
            making.cancelled = True
        self._ahead.clear()

    def _refill(self) -> None:
        if self._ahead and self._ahead[0][0] != self.position:
            self.close()  # a wrong guess
        position = self._after(self._ahead[-1][0]) if self._ahead else self.position
        depth = self._loader.max_queue_size if self._loader.workers else 1
        while len(self._ahead) < depth:
            self._ahead.append((position, self._loader.start(*position)))
            position = self._after(position)

    def _after(self, position: Position) -> Position:
        epoch, step = position
        if step + 1 < len(self._loader):
            return epoch, step + 1
        return (epoch, 0) if self.repeat_epoch else (epoch + 1, 0)


def _rows(n: int, seed: int | None, size: int, epoch: int, block: int) -> Rows:
    """Return one block of an epoch's order."""
    positions = np.arange(block * size, min((block + 1) * size, n), dtype=np.int64)
    return positions if seed is None else permutation(positions, n, seed=seed, epoch=epoch)
