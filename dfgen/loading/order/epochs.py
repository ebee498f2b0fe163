"""Which row stands at each position of an epoch, and in each batch."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from dfgen.loading.order.plan import Plan
from dfgen.loading.order.shuffle import permutation
from dfgen.spec import IntArray

_BLOCK = 8192  # positions of a block: asked for one by one, they cost ten times as much
_COUNTED = 65_536  # positions at once


class Order(Protocol):
    """The rows of every epoch, as a pure function of epoch and positions."""

    @property
    def places(self) -> int:
        """Positions of an epoch."""

    @property
    def digest(self) -> str:
        """The text that tells this order from others; without seed and batch size."""

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """The weights by which rows are drawn; None if each row comes once."""

    @property
    def batch_size(self) -> int | None:
        """Rows of the global batch on which the order depends; None if it depends on none."""

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """Return int64 of shape (2, positions): the rows, and how often each came before."""

    def reseeded(self, seed: int) -> Self:
        """Return the same order by another seed."""


@dataclass(frozen=True)
class InOrder:
    """Each row once, in the order of the manifest."""

    places: int
    digest: str = "in order"
    weights: None = None
    batch_size: None = None

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """See `Order`."""
        return np.stack([positions, np.zeros_like(positions)])

    def reseeded(self, seed: int) -> "InOrder":
        """See `Order`."""
        return self


@dataclass(frozen=True)
class Shuffled:
    """Each row once, in another random order each epoch."""

    places: int
    seed: int = 0
    digest: str = "shuffled"
    weights: None = None
    batch_size: None = None

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """See `Order`."""
        rows = permutation(positions, self.places, seed=self.seed, epoch=epoch)
        return np.stack([rows, np.zeros_like(rows)])

    def reseeded(self, seed: int) -> "Shuffled":
        """See `Order`."""
        return replace(self, seed=seed)


class BatchRows(NamedTuple):
    """The rows of one batch on this host."""

    positions: IntArray
    rows: IntArray
    earlier: IntArray  # how often each row came before in this epoch


@dataclass(frozen=True, eq=False)
class Epochs:
    """The rows of every batch: an order, divided by a plan."""

    order: Order
    plan: Plan
    _block: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        order, plan, batches = self.order, self.plan, self._batches

        def block(epoch: int, number: int) -> tuple[IntArray, IntArray]:
            positions = plan.block(number * batches, batches)
            return positions, order.at(epoch, positions)

        object.__setattr__(self, "_block", lru_cache(maxsize=4)(block))  # no cycle through self

    def __reduce__(self) -> tuple[Any, ...]:
        return Epochs, (self.order, self.plan)

    @property
    def _batches(self) -> int:
        """Batches of a block."""
        return max(1, _BLOCK // self.plan.size)

    def batch(self, epoch: int, step: int) -> BatchRows:
        """Return the rows of a batch, padding included."""
        plan = self.plan
        if not 0 <= step < len(plan):
            raise IndexError(f"batch {step} does not exist: an epoch has {len(plan)} batches")
        number, place = divmod(step, self._batches)
        part = slice(place * plan.size, (place + 1) * plan.size)
        positions, drawn = self._block(epoch, number)
        positions, drawn = positions[part], drawn[:, part]
        if plan.tail == "pad" and len(positions) < plan.size:
            positions = plan.positions(step)
            drawn = self.order.at(epoch, positions)
        return BatchRows(positions, *drawn)

    def counts(self, epoch: int, rows: int) -> IntArray:
        """Return how often each of so many rows comes in an epoch, on all hosts."""
        counts = np.zeros(rows, np.int64)
        stop = self.plan.rows - self.plan.left_out
        for start in range(0, stop, _COUNTED):
            block = np.arange(start, min(start + _COUNTED, stop))
            np.add.at(counts, self.order.at(epoch, block)[0], 1)
        return counts
