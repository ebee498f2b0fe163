"""A batch, one in the making, and the weights of its rows in the loss."""

import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.loading.buffers import BatchArrays
from dfgen.loading.order.plan import Plan
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.problems import Failure
from dfgen.loading.workers.chunks import Chunk
from dfgen.loading.workers.pool import CLOSED, Pool, Worker
from dfgen.samples.reader import SampleReader
from dfgen.spec import IntArray, Present

Position = tuple[int, int]
"""(epoch, step)"""

Weights = npt.NDArray[np.float32]

OwnWeights = Mapping[str, Weights | Present]
"""Name of an array -> factor of each row of the manifest in its loss; 0 if the row lacks it."""

_current = threading.local()  # the reader whose rows this thread makes


def is_making(reader: SampleReader) -> bool:
    """Return whether this thread is making rows of a reader."""
    return getattr(_current, "reader", None) is reader


def batch_weights(
    plan: Plan, step: int, row_weights: Weights | None = None, lost: Collection[int] = ()
) -> Weights:
    """Return the weight of each row of a batch in the loss, of which Keras takes the mean.

    If batches are padded, real rows all weigh batches * G / rows and the padding 0, so that the
    mean over all places of all batches is the mean over the rows. With G / real in the last batch
    alone, rows of a small last batch would count more than others. Rows at the places `lost`, which
    could not be read, weigh 0, and the other real rows of this host's batch real / left.

    Example:
        >>> batch_weights(Plan(4, 3, tail="pad"), 1).tolist()
        [1.5, 0.0, 0.0]
        >>> batch_weights(Plan(4, 4), 0, lost=[2]).round(2).tolist()
        [1.3300000429153442, 1.3300000429153442, 0.0, 1.3300000429153442]
    """
    real = plan.real(step)
    if plan.tail == "pad":
        weights = np.zeros(plan.size, np.float32)
        weights[:real] = len(plan) * plan.batch_size / plan.rows
    else:
        weights = np.ones(real, np.float32)
    if row_weights is not None:
        weights *= row_weights
    if lost:
        weights[list(lost)] = 0
        weights *= np.float32(real / max(1, real - sum(place < real for place in lost)))
    return weights


@dataclass(frozen=True)
class Batch:
    """Arrays of one batch."""

    arrays: BatchArrays
    rows: IntArray  # the row of the manifest of each sample
    weigh: Callable[[], Weights]
    own: OwnWeights
    skipped: tuple[int, ...] = ()  # places of samples that could not be read, and are blank

    @cached_property
    def weights(self) -> Weights:
        """The weight of each row in losses that have no weights of their own."""
        return self.weigh()

    def weights_of(self, name: str) -> Weights:
        """Return the weight of each row in the loss of one array: 0 if the row lacks it."""
        if name not in self.own:
            return self.weights
        return self.weights * self.own[name][self.rows]


@dataclass(eq=False)
class PendingBatch:
    """A batch in the making. The worker of its last chunk runs the transform."""

    position: Position
    plan: Plan
    rows: IntArray
    chunks: Sequence[tuple[Chunk, slice]]
    reader: SampleReader
    make: Callable[[], BatchArrays]
    transform: Callable[[BatchArrays], BatchArrays] | None = None
    row_weights: Weights | None = None
    own: OwnWeights = field(default_factory=dict)
    prefetch: Prefetch | None = None
    cancelled: bool = False
    late: set[int | None] = field(default_factory=set)  # rows that took too long; None: any
    _pool: Callable[[], Pool | None] = lambda: None
    _arrays: BatchArrays | None = None
    _problems: dict[int, Failure] = field(default_factory=dict)
    _blanks: list[int] = field(default_factory=list)
    _errors: dict[int, BaseException] = field(default_factory=dict)
    _ended: int = 0  # chunks
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: threading.Event = field(default_factory=threading.Event)

    def start(self, pool: Pool) -> None:
        """Have a pool make the batch."""
        self._pool = weakref.ref(pool)  # so that queued batches do not keep it alive
        for chunk, part in self.chunks:
            try:
                if self.prefetch is not None:
                    self.prefetch.expect(chunk.paths)
                pool.submit(partial(self._run, chunk, part))
            except BaseException:
                self.cancelled = True
                self._drop(chunk)
                raise

    @property
    def pool(self) -> Pool:
        """The pool that makes the batch."""
        if (pool := self._pool()) is None:
            raise ArgumentError(CLOSED)
        return pool

    def wait(self, timeout: float | None) -> bool:
        """Wait until all chunks have run; return False after a timeout in seconds."""
        return self._done.wait(timeout)

    @property
    def done(self) -> bool:
        """Whether all chunks have run."""
        return self._done.is_set()

    def give_up(self, row: int | None) -> None:
        """Cancel the batch because a row takes too long; None: its worker was abandoned."""
        self.late.add(row)
        self.cancelled = True

    def result(self) -> tuple[Batch, dict[int, Failure]]:
        """Return the finished batch and its bad rows, or raise the error of its first chunk."""
        if self._errors:
            try:
                raise self._errors[min(self._errors)]
            finally:
                self._errors.clear()  # a traceback refers to this object
        weigh = partial(batch_weights, self.plan, self.position[1], self.row_weights, self._blanks)
        blanks = tuple(self._blanks)
        return Batch(self._allocated(), self.rows, weigh, self.own, blanks), self._problems

    def _allocated(self) -> BatchArrays:
        """Return the arrays; they are allocated late, when memory that was just freed is cached."""
        with self._lock:
            if self._arrays is None:
                self._arrays = self.make()
            return self._arrays

    def _run(self, chunk: Chunk, part: slice, worker: Worker) -> None:
        outer, worker.batch = getattr(_current, "reader", None), self
        try:
            _current.reader = self.reader
            try:
                if not self.cancelled:
                    arrays = {name: array[part] for name, array in self._allocated().items()}
                    cancelled = lambda: self.cancelled or worker.abandoned  # noqa: E731
                    blanks = worker.fill(chunk, arrays, worker.stopwatch, cancelled)
                    with self._lock:
                        self._blanks += [part.start + place for place in blanks]
                        bad = {place: why for place, why in blanks.items() if why is not None}
                        self._problems |= {int(chunk.rows[place]): bad[place] for place in bad}
            except BaseException as error:
                self._errors[part.start] = error
            self._drop(chunk)
            if worker.abandoned:
                self.give_up(None)
            worker.batch = None
            with self._lock:
                self._ended += 1
                is_last = self._ended == len(self.chunks)
            if is_last:
                self._finish(worker)
        finally:
            _current.reader = outer

    def _drop(self, chunk: Chunk) -> None:
        if self.prefetch is not None:
            self.prefetch.drop(chunk.paths)

    def _finish(self, worker: Worker) -> None:
        try:
            if self.transform is not None and not (self._errors or self.cancelled):
                worker.stopwatch.begin("batch_transform")
                self._arrays = self.transform(self._allocated())
        except BaseException as error:
            self._errors[0] = error
        worker.stopwatch.rest()
        self._done.set()
