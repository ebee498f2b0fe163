"""The row at each position of an epoch, and the rows of each batch."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from dfgen.loading.order.plan import Plan
from dfgen.loading.order.shuffle import permutation
from dfgen.spec import IntArray

_BLOCK = 8192  # positions at once; one batch at a time costs ten times as much


class Order(Protocol):
    """The rows of every epoch, as a pure function of epoch and positions."""

    @property
    def places(self) -> int:
        """Positions of an epoch."""

    @property
    def digest(self) -> str:
        """A text that identifies the order, without seed and batch size."""

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """The weights by which rows are drawn; None if each row occurs once."""

    @property
    def batch_size(self) -> int | None:
        """Rows of the global batch on which the order depends, if it does."""

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """Return int64 of shape (2, positions): the rows, and how often each occurred before."""

    def reseeded(self, seed: int) -> Self:
        """Return the order of another seed."""


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
    earlier: IntArray  # how often each row occurred before in this epoch


@dataclass(frozen=True, eq=False)
class Epochs:
    """The rows of every batch: an order, divided by a plan."""

    order: Order
    plan: Plan

    @cached_property
    def _block(self) -> Any:
        return lru_cache(maxsize=16)(partial(_block, self.order, self.plan))

    def batch(self, epoch: int, step: int) -> BatchRows:
        """Return the rows of a batch, padding included."""
        plan = self.plan
        if not 0 <= step < len(plan):
            raise IndexError(f"batch {step} does not exist: an epoch has {len(plan)} batches")
        number, place = divmod(step, _batches(plan))
        part = slice(place * plan.size, (place + 1) * plan.size)
        positions, drawn = (array[..., part] for array in self._block(epoch, number))
        if plan.tail == "pad" and len(positions) < plan.size:
            positions = plan.positions(step)
            drawn = self.order.at(epoch, positions)
        return BatchRows(positions, *drawn)

    def counts(self, epoch: int, rows: int) -> IntArray:
        """Return how often each of so many rows occurs in an epoch, on all hosts."""
        counts = np.zeros(rows, np.int64)
        stop = self.plan.rows - self.plan.left_out
        for start in range(0, stop, _BLOCK):
            block = np.arange(start, min(start + _BLOCK, stop))
            np.add.at(counts, self.order.at(epoch, block)[0], 1)
        return counts


def _batches(plan: Plan) -> int:
    """Return the number of batches of a block."""
    return max(1, _BLOCK // plan.size)


def _block(order: Order, plan: Plan, epoch: int, number: int) -> tuple[IntArray, IntArray]:
    batches = _batches(plan)
    positions = plan.block(number * batches, batches)
    return positions, order.at(epoch, positions)
