"""A batch, batches in the making and ahead, their memory, and the weights of rows in the loss.

Memory is aligned so that TensorFlow and JAX read it in place, and reused.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.loading.order.epochs import Plan
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.workers.chunks import Blanks, Chunk
from dfgen.loading.workers.pool import CLOSED, Pool, Worker
from dfgen.spec import IntArray, Present, Spec

ALIGNMENT = 64
"""Bytes. TensorFlow and JAX copy an array whose address is not a multiple of this."""

_WORTH_KEEPING = 1 << 16  # bytes; less is cheaper to allocate again
_SPARE = 4  # free buffers of each array

BatchArrays = dict[str, npt.NDArray[Any]]
"""Name -> array of shape (batch, ...)."""

Raw = npt.NDArray[np.uint8]

Position = tuple[int, int]
"""(epoch, step)"""

Weights = npt.NDArray[np.float32]

OwnWeights = Mapping[str, Weights | Present]
"""Name of an array -> factor of each row of the manifest in its loss; 0 if the row lacks it."""


class Buffers:
    """Allocates the arrays of batches, and reuses their memory when no part of it is in use.

    Fresh memory costs a page fault every few kB: filling 9.6 MB of it takes twice as long.
    """

    def __init__(self, specs: dict[str, Spec]) -> None:
        self._specs = specs
        self._free: dict[str, deque[Raw]] = {name: deque(maxlen=_SPARE) for name in specs}

    def batch(self, size: int, specs: Mapping[str, Spec] | None = None) -> BatchArrays:
        """Return an uninitialised array of shape (size, ...) for each spec.

        Arrays do not share memory: labels that are kept would keep the images. `specs`: of this
        batch, if shapes differ between batches.
        """
        specs = specs or self._specs
        return {name: self._array(name, (size, *spec.shape), spec) for name, spec in specs.items()}

    def _array(self, name: str, shape: tuple[Any, ...], spec: Spec) -> npt.NDArray[Any]:
        if spec.dtype.hasobject:
            return np.empty(shape, spec.dtype)
        nbytes = prod(shape) * spec.dtype.itemsize
        free = self._free[name]
        try:
            raw = free.pop()
            if len(raw) < nbytes + ALIGNMENT:
                raise IndexError
        except IndexError:
            raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        offset = -raw.ctypes.data % ALIGNMENT
        # The base of a NumPy view is the array that owns the memory, but never beyond a memoryview:
        # so each view of `lease` keeps it alive.
        lease = np.frombuffer(raw.data[offset : offset + nbytes], spec.dtype)
        if nbytes >= _WORTH_KEEPING:
            # a deque needs no lock; this may run in the middle of anything
            weakref.finalize(lease, free.append, raw).atexit = False
        return lease.reshape(shape)


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
    weights: Weights  # of each row in losses that have no weights of their own
    own: OwnWeights
    skipped: tuple[int, ...] = ()  # places of samples that could not be read, and are blank

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
    make: Callable[[], BatchArrays]
    transform: Callable[[BatchArrays], BatchArrays] | None = None
    prefetch: Prefetch | None = None
    cancelled: bool = False
    late: set[int | None] = field(default_factory=set)  # rows that took too long; None: any
    blanks: Blanks = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)
    _pool: Callable[[], Pool | None] = lambda: None
    _arrays: BatchArrays | None = None
    _errors: dict[int, BaseException] = field(default_factory=dict)
    _ended: int = 0  # chunks
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, pool: Pool) -> None:
        """Have a pool make the batch."""
        self._pool = weakref.ref(pool)  # so that queued batches do not keep it alive
        for chunk, part in self.chunks:
            if self.prefetch is not None:
                self.prefetch.expect(chunk.paths)
            pool.submit(partial(self._run, chunk, part))

    @property
    def pool(self) -> Pool:
        """The pool that makes the batch."""
        if (pool := self._pool()) is None:
            raise ArgumentError(CLOSED)
        return pool

    def give_up(self, row: int | None) -> None:
        """Cancel the batch because a row takes too long; None: its worker was abandoned."""
        self.late.add(row)
        self.cancelled = True

    def result(self) -> BatchArrays:
        """Return the finished arrays, or raise the error of the first chunk that failed."""
        if self._errors:
            try:
                raise self._errors[min(self._errors)]
            finally:
                self._errors.clear()  # a traceback refers to this object
        return self._allocated()

    def _allocated(self) -> BatchArrays:
        """Return the arrays; they are allocated late, when memory that was just freed is cached."""
        with self._lock:
            if self._arrays is None:
                self._arrays = self.make()
            return self._arrays

    def _run(self, chunk: Chunk, part: slice, worker: Worker) -> None:
        worker.thread, worker.batch = threading.get_ident(), self
        try:
            try:
                if not self.cancelled:
                    arrays = {name: array[part] for name, array in self._allocated().items()}
                    cancelled = lambda: self.cancelled or worker.abandoned  # noqa: E731
                    blanks = worker.fill(chunk, arrays, worker.stopwatch, cancelled)
                    self.blanks.update((part.start + place, why) for place, why in blanks.items())
            except BaseException as error:
                self._errors[part.start] = error
            if self.prefetch is not None:
                self.prefetch.drop(chunk.paths)
            if worker.abandoned:
                self.give_up(None)
            with self._lock:
                self._ended += 1
                is_last = self._ended == len(self.chunks)
            if is_last and self.transform is not None and not (self._errors or self.cancelled):
                worker.stopwatch.begin("batch_transform")
                try:
                    self._arrays = self.transform(self._allocated())
                except BaseException as error:
                    self._errors[0] = error
                worker.stopwatch.rest()
            if is_last:
                self.done.set()
        finally:
            worker.batch = None


class LookAhead:
    """Batches from a position on, epoch after epoch, made ahead. Not for several threads.

    `position` is the position of the next batch.

    Args:
        loader: the Loader, which makes the batches.
        position: of the first batch.
        plan: of the epochs.
        depth: batches that are ready or in the making.
    """

    def __init__(self, loader: Any, position: Position, plan: Plan, depth: int) -> None:
        self.loader = loader
        """Missing while the loader keeps this object for the next pass."""
        self.position, self.plan, self.depth = position, plan, depth
        self.repeat_epoch = False
        """Whether the same epoch follows, as in validation."""
        self._ahead: deque[PendingBatch] = deque()

    def __next__(self) -> Batch:
        self._refill()
        try:
            batch: Batch = self.loader.result(self._ahead[0])
        except BaseException:
            self.close()  # the next call starts it again
            raise
        self._ahead.popleft()
        self.position = self._after(self.position)
        if self.loader.workers:
            self._refill()
        return batch

    def close(self) -> None:
        """Cancel the batches in the making."""
        for pending in self._ahead:
            pending.cancelled = True
        self._ahead.clear()

    def _refill(self) -> None:
        ahead = self._ahead
        if ahead and ahead[0].position != self.position:
            self.close()  # the guess was wrong
        position = self._after(ahead[-1].position) if ahead else self.position
        while len(ahead) < self.depth:
            ahead.append(self.loader.start(*position, self.plan, spread=not ahead))
            position = self._after(position)

    def _after(self, position: Position) -> Position:
        epoch, step = position
        if step + 1 < len(self.plan):
            return epoch, step + 1
        return (epoch, 0) if self.repeat_epoch else (epoch + 1, 0)
