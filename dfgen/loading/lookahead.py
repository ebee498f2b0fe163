"""Batches from a position on, made ahead of time."""

from collections import deque
from typing import Protocol

from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch, PendingBatch, Position


class BatchSource(Protocol):
    """Makes batches of any position: the Loader."""

    depth: int
    workers: int

    def start(self, epoch: int, step: int, plan: Plan, spread: bool) -> PendingBatch:
        """Begin to make a batch, shared by all workers if `spread`."""

    def result(self, pending: PendingBatch) -> Batch:
        """Wait for a batch."""


class LookAhead:
    """Batches from a position on, epoch after epoch, made ahead. Not for several threads.

    Args:
        source: makes the batches.
        position: (epoch, step) of the next batch.
        plan: of an epoch.
        one_epoch: whether nothing is made beyond the epoch.
    """

    def __init__(
        self, source: BatchSource, position: Position, plan: Plan, one_epoch: bool = False
    ) -> None:
        self.position = position
        self.plan = plan
        self.repeat_epoch = False
        """True where the same epoch will be asked for again, as by validation."""
        self._one_epoch = one_epoch
        self._source = source
        self._ahead: deque[PendingBatch] = deque()

    def __next__(self) -> Batch:
        self._refill()
        try:
            batch = self._source.result(self._ahead[0])
        except Exception:
            self.close()  # whoever asks again has it made again
            raise
        self._ahead.popleft()
        self.position = self._after(self.position)
        if self._source.workers:
            self._refill()
        return batch

    def close(self) -> None:
        """Give up what is being made ahead."""
        for pending in self._ahead:
            pending.cancelled = True
        self._ahead.clear()

    def detach(self) -> None:
        """Let go of the source, which may then keep what was made ahead: no circle holds either."""
        del self._source

    def attach(self, source: BatchSource) -> None:
        """Go on with the source that was let go of."""
        self._source = source

    def _refill(self) -> None:
        if self._ahead and self._ahead[0].position != self.position:
            self.close()  # a wrong guess
        position = self._after(self._ahead[-1].position) if self._ahead else self.position
        while len(self._ahead) < self._source.depth:
            if self._one_epoch and position[0] != self.position[0]:
                break
            self._ahead.append(self._source.start(*position, self.plan, spread=not self._ahead))
            position = self._after(position)

    def _after(self, position: Position) -> Position:
        epoch, step = position
        if step + 1 < len(self.plan):
            return epoch, step + 1
        return (epoch, 0) if self.repeat_epoch else (epoch + 1, 0)
