"""Which row stands at each position of an epoch: shuffled, wholly or not, balanced, by shape.

By shape, batches are of like with like: images and arrays of similar sizes, for little padding.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import isqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.loading.order.draws import Balance, Proportions
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.shuffle import permutation
from dfgen.loading.order.windows import Windows
from dfgen.spec import IntArray

Draws = Balance | Proportions
"""Which row stands at each place of an epoch where some come more often than others."""

_COUNTED = 65_536  # positions at once
_ASKED = 8192  # positions of the batches asked for at once


class PaddingShare(NamedTuple):
    """How much of the pixels of an epoch's batches is padding, from 0 to 1."""

    share: float  # as batches are
    unbucketed: float  # as they would be without `bucket_by`


@dataclass(frozen=True, eq=False)
class Buckets:
    """Gathers rows of similar sizes into batches, within windows of the order of an epoch.

    Rows of a window are cut into batches by their sizes, and the batches come in a random order. A
    short last batch of the epoch stays as it is: which rows it holds, or an epoch leaves out, is
    for chance alone to say.
    """

    sizes: npt.NDArray[np.int32]  # (height, width) of every row, shape (rows, 2); or its length
    batch_size: int  # rows of a global batch
    window: int = 64  # batches; those of more are more alike, and less mixed

    @property
    def rows(self) -> int:
        """Rows of a window."""
        return self.window * self.batch_size

    def arranged(self, drawn: IntArray, window: int, *, seed: int, epoch: int) -> IntArray:
        """Return the rows of one window, the last axis of an array, in their batches."""
        count = drawn.shape[-1] // self.batch_size
        whole = count * self.batch_size
        batches = like_with_like(self.sizes[drawn[0, :whole]], self.batch_size)
        order = permutation(range(count), count, seed=seed, epoch=epoch, tag=f"bucket/{window}")
        return np.concatenate([drawn[:, batches[order].ravel()], drawn[:, whole:]], axis=1)


def like_with_like(sizes: npt.NDArray[np.int32], batch_size: int) -> IntArray:
    """Return which of some sizes make up each batch, in rows; in a batch they keep their order.

    They are cut by height into strips of about as many batches as there are strips, and each strip
    by width. Of images as in ImageNet that leaves half of the padding that sorting by height and
    then width does; of those in COCO, where few heights occur, both leave next to nothing.

    Example:
        >>> like_with_like(np.array([[9, 9], [2, 5], [9, 8], [2, 5]]), 2).tolist()
        [[1, 3], [0, 2]]

    Source: Sort-Tile-Recursive (Leutenegger, Lopez and Edgington, "STR: A Simple and Efficient
    Algorithm for R-Tree Packing", 1997).
    """
    heights, widths = sizes[:, 0], sizes[:, -1]  # of lengths the same: they are sorted
    batches = len(sizes) // batch_size
    strip = -(-batches // (isqrt(max(batches, 1) - 1) + 1)) * batch_size
    by_height = np.argsort(heights, kind="stable")
    strips = np.arange(len(sizes)) // max(strip, 1)
    order = by_height[np.lexsort((widths[by_height], strips))]
    return np.sort(order.reshape(batches, batch_size), axis=1)


def padding_share(sizes: npt.NDArray[np.int32], batch_size: int) -> float:
    """Return how much is padding where images of these sizes follow one another in batches."""
    starts = np.arange(0, len(sizes), batch_size)
    largest = np.maximum.reduceat(sizes.astype(np.int64), starts).clip(min=1)
    images = np.diff(np.append(starts, len(sizes)))
    return 1 - float(sizes.prod(axis=1, dtype=np.int64).sum() / (largest.prod(axis=1) @ images))


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
