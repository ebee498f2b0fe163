"""Batches from a position on, made ahead of time."""

from collections import deque
from typing import Any

from dfgen.errors import ArgumentError
from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch, PendingBatch, Position

_CLOSED = "these batches were closed: make a new pass, iter(seq)"


class LookAhead:
    """Batches from a position on, epoch after epoch, made ahead. Not for several threads.

    `position` is the position of the next batch. Any thread may close it.

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
        self._closed = False

    def __next__(self) -> Batch:
        self._check_open()
        ahead = self._refill()
        try:
            batch: Batch = self.loader.result(ahead[0])
        except BaseException:
            self._cancel(ahead)  # the next call starts it again
            self._check_open()
            raise
        self._check_open()
        ahead.popleft()
        self.position = self._after(self.position)
        if self.loader.workers:
            self._refill()
        return batch

    def close(self) -> None:
        """Cancel the batches in the making."""
        self._closed = True
        ahead, self._ahead = self._ahead, deque()
        self._cancel(ahead)

    def _check_open(self) -> None:
        if self._closed:
            raise ArgumentError(_CLOSED)

    def _refill(self) -> deque[PendingBatch]:
        ahead = self._ahead  # `close`, in another thread, replaces it
        if ahead and ahead[0].position != self.position:
            self._cancel(ahead)  # the guess was wrong
        position = self._after(ahead[-1].position) if ahead else self.position
        while len(ahead) < self.depth:
            ahead.append(self.loader.start(*position, self.plan, spread=not ahead))
            position = self._after(position)
        return ahead

    def _cancel(self, ahead: deque[PendingBatch]) -> None:
        for pending in tuple(ahead):
            pending.cancelled = True
        ahead.clear()

    def _after(self, position: Position) -> Position:
        epoch, step = position
        if step + 1 < len(self.plan):
            return epoch, step + 1
        return (epoch, 0) if self.repeat_epoch else (epoch + 1, 0)
