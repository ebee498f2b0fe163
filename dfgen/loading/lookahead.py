"""A stream of batches with look-ahead."""

from collections import deque
from typing import Protocol

from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch, Making, Position


class Source(Protocol):
    """Makes batches of any position: the Loader."""

    depth: int
    workers: int

    def start(self, epoch: int, step: int, plan: Plan, spread: bool) -> Making:
        """Begin to make a batch, shared by all workers if `spread`."""

    def result(self, making: Making) -> Batch:
        """Wait for a batch."""


class Stream:
    """Batches from a position on, epoch after epoch, made ahead. Not for several threads.

    Args:
        source: makes the batches.
        position: (epoch, step) of the next batch.
        plan: of an epoch.
    """

    def __init__(self, source: Source, position: Position, plan: Plan) -> None:
        self.position = position
        self.plan = plan
        self.repeat_epoch = False
        """True where the same epoch will be asked for again, as by validation."""
        self._source = source
        self._ahead: deque[Making] = deque()

    def __next__(self) -> Batch:
        self._refill()
        batch = self._source.result(self._ahead[0])
        self._ahead.popleft()
        self.position = self._after(self.position)
        if self._source.workers:
            self._refill()
        return batch

    def close(self) -> None:
        """Give up what is being made ahead."""
        for making in self._ahead:
            making.cancelled = True
        self._ahead.clear()

    def _refill(self) -> None:
        if self._ahead and self._ahead[0].position != self.position:
            self.close()  # a wrong guess
        position = self._after(self._ahead[-1].position) if self._ahead else self.position
        while len(self._ahead) < self._source.depth:
            self._ahead.append(self._source.start(*position, self.plan, spread=not self._ahead))
            position = self._after(position)

    def _after(self, position: Position) -> Position:
        epoch, step = position
        if step + 1 < len(self.plan):
            return epoch, step + 1
        return (epoch, 0) if self.repeat_epoch else (epoch + 1, 0)
