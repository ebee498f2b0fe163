"""A batch, one that is still being made, and the weights of its rows in the loss."""

import os
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from dfgen.loading.buffers import BatchArrays
from dfgen.loading.order.plan import Plan
from dfgen.loading.problems import Failure
from dfgen.loading.workers.chunks import Chunk
from dfgen.loading.workers.threads import Worker
from dfgen.spec import IntArray, Present

Position = tuple[int, int]
"""(epoch, step)"""

Weights = npt.NDArray[np.float32]

OwnWeights = Mapping[str, Weights | Present]
"""Name of an array -> by what the weight of each row of the manifest is multiplied in its loss: 0
of a row that lacks it.
"""


def batch_weights(
    plan: Plan, step: int, given: Weights | None = None, lost: Collection[int] = ()
) -> Weights:
    """Return what each row of a batch counts in the loss, of which Keras takes the mean.

    If batches are padded, real rows all weigh batches * G / rows and the padding 0, so that the
    mean over all places of all batches is the mean over the rows. With G / real in the last batch
    alone, a row of a last batch of few would count more than others. Likewise rows that could not
    be read, at the places `lost`, weigh 0, and the other real ones of this host's batch real /
    left. `given` is what its rows weigh by themselves; None, each 1.

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
    if given is not None:
        weights *= given
    if lost:
        weights[list(lost)] = 0
        weights *= np.float32(real / max(1, real - sum(place < real for place in lost)))
    return weights


@dataclass(frozen=True)
class Batch:
    """Arrays of one batch."""

    arrays: BatchArrays
    rows: IntArray  # which row of the manifest each sample is
    weigh: Callable[[], Weights]  # makes the weights
    own: OwnWeights
    skipped: tuple[int, ...] = ()  # places of samples that could not be made, and hold zeros
    ids: tuple[object, ...] = ()  # of the rows, where `Loader.batches` yields it; it costs time

    @cached_property
    def weights(self) -> Weights:
        """The weight of each row in the loss of what has none of its own, made for whoever asks."""
        return self.weigh()

    def weights_of(self, name: str) -> Weights:
        """The weight of each row in the loss of one array: 0 where it lacks that."""
        if name not in self.own:
            return self.weights
        return self.weights * self.own[name][self.rows]


@dataclass(eq=False)
class PendingBatch:
    """A batch that is still being made; whoever runs its last chunk runs the transform."""

    make: Callable[[], BatchArrays]
    rows: IntArray
    position: Position
    plan: Plan  # of the epoch
    left: int  # chunks still to be run
    given: Weights | None = None  # what the rows weigh by themselves
    own: OwnWeights = field(default_factory=dict)
    transform: Callable[[BatchArrays], BatchArrays] | None = None
    cancelled: bool = False  # whether nobody wants it any more
    late: set[int | None] = field(default_factory=set)  # rows it was given up for, or its worker
    process: int = field(default_factory=os.getpid)  # whose workers make it
    _arrays: BatchArrays | None = None
    _problems: dict[int, Failure] = field(default_factory=dict)
    _blanks: list[int] = field(default_factory=list)
    _errors: dict[int, BaseException] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: threading.Event = field(default_factory=threading.Event)

    @property
    def arrays(self) -> BatchArrays:
        """Its arrays, made when the first chunk begins: memory just given back is in the caches."""
        with self._lock:
            if self._arrays is None:
                self._arrays = self.make()
            return self._arrays

    def run(self, chunk: Chunk, part: slice, worker: Worker) -> None:
        """Have a worker make one chunk; what it raises is raised by `result`."""
        worker.busy_with = self
        try:
            if not self.cancelled:
                arrays = {name: array[part] for name, array in self.arrays.items()}
                try:
                    blanks = worker.fill(chunk, arrays, lambda: self.cancelled)
                finally:
                    if os.getpid() != self.process:  # forked, and come back from what made rows
                        os._exit(0)
                with self._lock:
                    for place, problem in blanks.items():
                        self._blanks.append(part.start + place)
                        if problem is not None:
                            self._problems[int(chunk.rows[place])] = problem
        except BaseException as error:
            self._errors[part.start] = error
        finally:
            if chunk.ahead is not None:
                chunk.ahead.drop()
        if worker.abandoned:
            self.give_up(None)
        worker.busy_with = None
        with self._lock:
            self.left -= 1
            is_last = not self.left
        if is_last:
            self._finish(worker)

    def _finish(self, worker: Worker) -> None:
        try:
            if self.transform is not None and not (self._errors or self.cancelled):
                worker.stopwatch.begin("batch_transform")
                self._arrays = self.transform(self.arrays)
                worker.stopwatch.rest()
        except BaseException as error:
            worker.stopwatch.rest()
            self._errors[0] = error
        self._done.set()

    def give_up(self, row: int | None) -> None:
        """Let the rest of it be, since the file of a row takes too long; None: a worker is gone."""
        self.late.add(row)
        self.cancelled = True

    def wait(self, timeout: float | None) -> bool:
        """Wait until all chunks have run; False if the time was up before."""
        return self._done.wait(timeout)

    def result(self) -> tuple[Batch, dict[int, Failure]]:
        """Return a batch that is made, and row -> problem; or raise, once, what one raised."""
        if self._errors:
            try:
                raise self._errors[min(self._errors)]  # of the order, whoever was first
            finally:
                self._errors.clear()  # its traceback knows this object: a circle, otherwise
        weigh = partial(batch_weights, self.plan, self.position[1], self.given, self._blanks)
        blanks = tuple(self._blanks)
        batch = Batch(self.arrays, self.rows, weigh, self.own, blanks)
        return batch, self._problems
