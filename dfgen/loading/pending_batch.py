"""A batch, and a batch in the making."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.loading.metrics import IDLE
from dfgen.loading.order.plan import Plan
from dfgen.loading.workers.chunks import Chunk
from dfgen.loading.workers.threads import Worker

Arrays = dict[str, npt.NDArray[Any]]
Position = tuple[int, int]
"""(epoch, step)"""


@dataclass(frozen=True)
class Batch:
    """Arrays of one batch.

    Args:
        arrays: name -> array of shape (batch, ...).
        weights: float32 of shape (batch,), or None where no row has a weight.
        rows: int64 of shape (batch,), which row of the manifest each sample is.
        padding: how many of them, at its end, only fill it up.
        skipped: places of samples that could not be made, and hold zeros.
    """

    arrays: Arrays
    weights: npt.NDArray[np.float32] | None
    rows: npt.NDArray[np.int64]
    padding: int = 0
    skipped: tuple[int, ...] = ()


@dataclass(eq=False)
class Making:
    """A batch in the making: `pending` chunks of it are still to be run.

    `transform`, if there is one, is run by whoever runs the last of them.
    """

    batch: Batch
    position: Position
    plan: Plan
    pending: int
    transform: Callable[[Arrays], Arrays] | None = None
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
            self.pending -= 1
            is_last = not self.pending
        if is_last:
            self._finish(worker)

    def _finish(self, worker: Worker) -> None:
        try:
            if self.transform is not None and not (self._errors or self.cancelled):
                worker.watch("batch_transform")
                self.batch = replace(self.batch, arrays=self.transform(self.batch.arrays))
                worker.watch(IDLE)
        except BaseException as error:
            worker.watch(IDLE)
            self._errors[0] = error
        self._done.set()

    def _run(self, chunk: Chunk, part: slice, worker: Worker) -> None:
        arrays = {name: array[part] for name, array in self.batch.arrays.items()}
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

        Real rows of a batch with blanks weigh batch / real, so that the loss, a mean over the
        batch, is the mean over the real rows.
        """
        if self._errors:
            raise self._errors[min(self._errors)]  # the first in the order, whoever was first
        weights, size = self.batch.weights, len(self.batch.rows) - self.batch.padding
        if weights is not None and self._blanks:
            weights[self._blanks] = 0
            lost = sum(place < size for place in self._blanks)
            weights *= np.float32(size / max(1, size - lost))
            self.batch = replace(self.batch, skipped=tuple(self._blanks))
            self._blanks = []
        return self.batch, self._problems
