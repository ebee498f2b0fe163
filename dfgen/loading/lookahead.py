"""Batches from a position on, made ahead of time."""

import threading
from collections import deque
from typing import Any, Protocol

from dfgen.errors import ArgumentError
from dfgen.loading.order.plan import Plan
from dfgen.loading.pending_batch import Batch, PendingBatch, Position

_CLOSED = "these batches were closed: make a new pass, iter(seq)"


class BatchSource(Protocol):
    """Makes batches of any position: the Loader."""

    workers: int

    def depth_for(self, at_once: int) -> int:
        """Return how many batches are made ahead where so many are taken at once."""

    def start(self, epoch: int, step: int, plan: Plan, spread: bool) -> PendingBatch:
        """Begin to make a batch, shared by all workers if `spread`."""

    def result(self, pending: PendingBatch) -> Batch:
        """Wait for a batch."""


class LookAhead:
    """Batches from a position on, epoch after epoch or of one, made ahead. Not for several threads.

    The position is that of the next batch. Any thread may close it.

    Args:
        source: makes them.
        position: of the first.
        plan: of an epoch.
        one_epoch: whether none is made ahead of the next epoch.
        at_once: batches that are taken together.
    """

    def __init__(
        self,
        source: BatchSource,
        position: Position,
        plan: Plan,
        one_epoch: bool = False,
        at_once: int = 1,
    ) -> None:
        self.position = position
        self.at_once = at_once
        self.plan = plan
        self.repeat_epoch = False
        """True where the same epoch will be asked for again, as by validation."""
        self.end: Position | None = (position[0] + 1, 0) if one_epoch else None
        """The position that none is made ahead of from; None: there is no end."""
        self.source = source
        """Missing while it is parked."""
        self._ahead: deque[PendingBatch] = deque()
        self._closed = False

    def __next__(self) -> Batch:
        self._check_open()
        ahead = self._refill()
        try:
            batch = self.source.result(ahead[0])
        except Exception:
            self._give_up(ahead)  # whoever asks again has it made again
            self._check_open()
            raise
        self._check_open()
        ahead.popleft()
        self.position = self._after(self.position)
        if self.source.workers:
            self._refill()
        return batch

    def close(self) -> None:
        """Give up what is being made ahead."""
        self._closed = True
        ahead, self._ahead = self._ahead, deque()
        for pending in tuple(ahead):
            pending.cancelled = True

    def _check_open(self) -> None:
        if self._closed:
            raise ArgumentError(_CLOSED)

    def _refill(self) -> deque[PendingBatch]:
        ahead = self._ahead  # `close`, of another thread, takes it away
        if ahead and ahead[0].position != self.position:
            self._give_up(ahead)  # a wrong guess
        position = self._after(ahead[-1].position) if ahead else self.position
        depth = self.source.depth_for(self.at_once)
        while len(ahead) < depth:
            if self.end is not None and position >= self.end:
                break
            ahead.append(self.source.start(*position, self.plan, spread=not ahead))
            position = self._after(position)
        return ahead

    def _give_up(self, ahead: deque[PendingBatch]) -> None:
        for pending in ahead:
            pending.cancelled = True
        ahead.clear()

    def _after(self, position: Position) -> Position:
        epoch, step = position
        if step + 1 < len(self.plan):
            return epoch, step + 1
        return (epoch, 0) if self.repeat_epoch else (epoch + 1, 0)


class Parked:
    """Keeps one LookAhead, with what it has made, for whoever goes on where it is."""

    def __init__(self) -> None:
        self._ahead: LookAhead | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Parked, ()

    def take(self, source: BatchSource, position: Position, plan: Plan, at_once: int) -> LookAhead:
        """Return the one that is kept if it goes on just there, else a new one."""
        parked, wanted = self._swap(None), (position, plan, at_once)
        if parked and (parked.position, parked.plan, parked.at_once) == wanted:
            parked.source = source
            return parked
        if parked is not None:
            parked.close()
        return LookAhead(source, position, plan, False, at_once)

    def keep(self, ahead: LookAhead | None) -> None:
        """Keep one instead of what was kept, or none."""
        if ahead is not None:
            del ahead.source  # which holds this: a circle, otherwise
        parked = self._swap(ahead)
        if parked is not None:
            parked.close()

    def _swap(self, ahead: LookAhead | None) -> LookAhead | None:
        with self._lock:
            parked, self._ahead = self._ahead, ahead
        return parked
