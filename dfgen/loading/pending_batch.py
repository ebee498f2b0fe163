"""A batch, and a batch that is still being made."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from dfgen.loading.buffers import BatchArrays
from dfgen.loading.metrics import IDLE
from dfgen.loading.order.permutation import Integers
from dfgen.loading.order.plan import Plan, Weights
from dfgen.loading.workers.chunks import Chunk
from dfgen.loading.workers.threads import Worker

Position = tuple[int, int]
"""(epoch, step)"""


@dataclass(frozen=True)
class Batch:
    """Arrays of one batch.

    Args:
        arrays: name -> array of shape (batch, ...).
        weights: float32 of shape (batch,), what each row counts in the loss.
        rows: int64 of shape (batch,), which row of the manifest each sample is.
        skipped: places of samples that could not be made, and hold zeros.
        ids: of the rows, where `Loader.batches` yields it; it costs time.
    """

    arrays: BatchArrays
    weights: Weights
    rows: Integers
    skipped: tuple[int, ...] = ()
    ids: tuple[object, ...] = ()


@dataclass(eq=False)
class PendingBatch:
    """A batch that is still being made: `left` chunks of it are still to be run.

    Args:
        arrays: of the batch, to be filled.
        rows: of the batch.
        position: of the batch.
        plan: of the epoch, which says what each row weighs.
        left: chunks.
        given: what the rows weigh by themselves, or None.
        transform: run on the whole batch by whoever runs the last chunk, or None.
        cancelled: whether nobody wants it any more.
    """

    arrays: BatchArrays
    rows: Integers
    position: Position
    plan: Plan
    left: int
    given: Weights | None = None
    transform: Callable[[BatchArrays], BatchArrays] | None = None
    cancelled: bool = False
    _problems: dict[int, str] = field(default_factory=dict)
    _blanks: list[int] = field(default_factory=list)
    _errors: dict[int, BaseException] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: threading.Event = field(default_factory=threading.Event)

    def run(self, chunk: Chunk, part: slice, worker: Worker) -> None:
        """Have a worker make one chunk; what it raises is raised by `result`."""
        worker.busy_with = self
        try:
            if not self.cancelled:
                self._run(chunk, part, worker)
        except BaseException as error:
            self._errors[part.start] = error
        worker.busy_with = None
        with self._lock:
            self.left -= 1
            is_last = not self.left
        if is_last:
            self._finish(worker)

    def _finish(self, worker: Worker) -> None:
        try:
            if self.transform is not None and not (self._errors or self.cancelled):
                worker.stopwatch("batch_transform")
                self.arrays = self.transform(self.arrays)
                worker.stopwatch(IDLE)
        except BaseException as error:
            worker.stopwatch(IDLE)
            self._errors[0] = error
        self._done.set()

    def _run(self, chunk: Chunk, part: slice, worker: Worker) -> None:
        arrays = {name: array[part] for name, array in self.arrays.items()}
        blanks = worker.fill(chunk, arrays, lambda: self.cancelled)
        with self._lock:
            for place, problem in blanks.items():
                self._blanks.append(part.start + place)
                if problem is not None:
                    self._problems[int(chunk.rows[place])] = problem

    def wait(self, timeout: float | None) -> bool:
        """Wait until all chunks have run; False if the time was up before."""
        return self._done.wait(timeout)

    def result(self) -> tuple[Batch, dict[int, str]]:
        """Return a batch that is made, and row -> problem of those that could not be.

        Raises:
            BaseException: what the making of its first bad row raised; once.
        """
        if self._errors:
            try:
                raise self._errors[min(self._errors)]  # of the order, whoever was first
            finally:
                self._errors.clear()  # its traceback knows this object: a circle, otherwise
        weights = self.plan.weights(self.position[1], self.given, self._blanks)
        return Batch(self.arrays, weights, self.rows, tuple(self._blanks)), self._problems
