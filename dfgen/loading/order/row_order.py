"""Which row stands at each position of an epoch: shuffled, wholly or not, balanced, by shape."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from dfgen.errors import ArgumentError
from dfgen.loading.order.balance import Balance
from dfgen.loading.order.buckets import Buckets
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.proportions import Proportions
from dfgen.loading.order.shuffle import permutation
from dfgen.loading.order.windows import Windows
from dfgen.spec import IntArray

Draws = Balance | Proportions
"""Which row stands at each place of an epoch where some come more often than others."""

_COUNTED = 65_536  # positions at once
_ASKED = 8192  # positions of the batches asked for at once


class Drawing(NamedTuple):
    """How an epoch takes rows beside a plain shuffle: a balance, buckets or both; or windows."""

    balance: Draws | None = None
    buckets: Buckets | None = None
    windows: Windows | None = None


@dataclass(frozen=True, eq=False)
class RowOrder:
    """The rows of every epoch: a pure function of the epoch and the positions."""

    rows: int
    seed: int | None  # None where rows come in their own order
    balance: Draws | None = None  # needs a seed
    buckets: Buckets | None = None  # likewise
    windows: Windows | None = None  # neither of these beside it; without a seed it has no part
    other: "tuple[int, RowOrder] | None" = None  # an epoch that was begun with another batch size
    _window: Callable[[int, int], IntArray] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for argument, given in (("balance", self.balance), ("bucket_by", self.buckets)):
            if given is not None and self.seed is None:
                raise ArgumentError(
                    f"{argument} takes rows by chance, which shuffle=False does not allow: leave "
                    "out one of them"
                )
            if given is not None and self.windows is not None:
                raise ArgumentError(
                    f"window= shuffles the rows of a few blocks at a time, {argument}= takes them "
                    "from all: leave out one of them"
                )
        window = partial(_arranged, self.places, self.seed, self.balance, self.buckets)
        object.__setattr__(self, "_window", lru_cache(maxsize=2)(window))  # no circle through self

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.rows, self.seed, self.balance, self.buckets, self.windows, self.other
        return RowOrder, parts

    @property
    def batch(self) -> int | None:
        """Rows of the global batch that the order depends on; None where it depends on none."""
        if self.buckets is not None:
            return self.buckets.batch_size
        return None if self.windows is None or self.seed is None else self.windows.batch

    def of(self, epoch: int) -> "RowOrder":
        """Return the order of one epoch."""
        return self if self.other is None or self.other[0] != epoch else self.other[1]

    def going_on(self, epoch: int, batch: int) -> "RowOrder":
        """Return the order where one epoch stays as it was begun, by another batch size."""
        plain = replace(self, other=None)
        if self.batch in (None, batch):
            return plain
        buckets, windows = self.buckets, self.windows
        begun = replace(
            plain,
            buckets=None if buckets is None else replace(buckets, batch_size=batch),
            windows=None if windows is None else replace(windows, batch=batch),
        )
        return replace(plain, other=(epoch, begun))

    @property
    def places(self) -> int:
        """The number of positions of an epoch."""
        return self.rows if self.balance is None else self.balance.places

    @property
    def proportions(self) -> Proportions | None:
        """The weights that rows are drawn by, None where they are not."""
        return self.balance if isinstance(self.balance, Proportions) else None

    @property
    def weights(self) -> str | None:
        """A digest of these weights."""
        return None if self.proportions is None else self.proportions.digest

    def drawn_by(self, epoch: int) -> str:
        """Return what tells the order of an epoch from that by other weights."""
        return "" if self.balance is None else self.balance.drawn_by(epoch)

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """Return int64 of shape (2, positions): the rows, and how often each came before."""
        if (order := self.of(epoch)) is not self:
            return order.at(epoch, positions)
        if self.windows is not None and self.seed is not None:
            found = self.windows.at(positions, seed=self.seed, epoch=epoch)
            return np.stack([found, np.zeros_like(found)])
        if self.buckets is None:
            return _drawn(self.places, self.seed, self.balance, epoch, positions)
        windows, places = np.divmod(positions, self.buckets.rows)
        found = np.empty((2, len(positions)), np.int64)
        for window in np.unique(windows).tolist():
            here = windows == window
            found[:, here] = self._window(epoch, window)[:, places[here]]
        return found

    def counts(self, epoch: int, positions: int) -> IntArray:
        """Return how often each row stands at the first so many positions of an epoch."""
        counts = np.zeros(self.rows, np.int64)
        for start in range(0, positions, _COUNTED):
            block = np.arange(start, min(start + _COUNTED, positions))
            np.add.at(counts, self.at(epoch, block)[0], 1)
        return counts


def _drawn(
    places: int, seed: int | None, balance: Draws | None, epoch: int, positions: IntArray
) -> IntArray:
    if seed is None:
        return np.stack([positions, np.zeros_like(positions)])
    shuffled = permutation(positions, places, seed=seed, epoch=epoch)
    if balance is None:
        return np.stack([shuffled, np.zeros_like(shuffled)])
    return np.stack(balance.draw(shuffled, seed=seed, epoch=epoch))


def _arranged(
    places: int, seed: Any, balance: Draws | None, buckets: Any, epoch: int, window: int
) -> IntArray:
    start = window * buckets.rows
    positions = np.arange(start, min(start + buckets.rows, places))
    drawn = _drawn(places, seed, balance, epoch, positions)
    arranged: IntArray = buckets.arranged(drawn, window, seed=seed, epoch=epoch)
    return arranged


class BatchRows:
    """The rows of batches, asked of the order in blocks: one by one they cost ten times as much."""

    def __init__(self, order: RowOrder, plan: Plan) -> None:
        self._order, self._plan = order, plan
        self._batches = batches = max(1, _ASKED // plan.size)
        self._block = lru_cache(maxsize=4)(
            lambda epoch, block, first: order.at(
                epoch, replace(plan, first=first).block(block * batches, batches)
            )
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchRows, (self._order, self._plan)

    def batch(self, epoch: int, step: int, plan: Plan) -> IntArray:
        """Return what `RowOrder.at` does for one batch; plans may differ in tail and `first`."""
        if not 0 <= step < len(plan):
            raise IndexError(f"batch {step} does not exist: an epoch has {len(plan)} batches")
        block, place = divmod(step, self._batches)
        drawn = self._block(epoch, block, plan.first)[
            :, place * plan.size : (place + 1) * plan.size
        ]
        if plan.tail != "pad" or drawn.shape[1] == plan.size:
            return drawn
        rest = self._order.at(epoch, plan.positions(step)[drawn.shape[1] :])
        return np.concatenate([drawn, rest], axis=1)
