"""Orders: the row at each position of an epoch; and the positions and rows of each batch."""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from math import isqrt
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.loading.order.draws import permutation
from dfgen.spec import IntArray

_BLOCK = 8192  # positions at once; one batch at a time costs ten times as much


@dataclass(frozen=True)
class Plan:
    """The positions of an epoch's order in each batch of this host.

    Global batch g of G rows has positions g*G to (g+1)*G - 1; host r of R takes the r-th of R equal
    parts. `tail` decides about the last rows if they do not fill a batch: `"short"`, a batch with
    fewer rows; `"drop"`, they are left out; `"pad"`, a full batch with rows from the start of the
    order, of weight 0.

    Example:
        >>> [Plan(10, 4, (host, 2), "drop").positions(1).tolist() for host in (0, 1)]
        [[4, 5], [6, 7]]
    """

    rows: int
    batch_size: int  # rows of a global batch
    shard: tuple[int, int] = (0, 1)  # (index, count) of this host
    tail: str = "short"

    def __post_init__(self) -> None:
        if self.batch_size % self.shard[1]:
            raise ArgumentError(
                f"batch_size={self.batch_size} cannot be divided over {self.shard[1]} hosts: "
                f"expected a multiple of {self.shard[1]}"
            )

    def __len__(self) -> int:
        full, rest = divmod(self.rows, self.batch_size)
        return full + (rest > 0 and self.tail != "drop")

    @property
    def size(self) -> int:
        """Rows of a full batch of this host."""
        return self.batch_size // self.shard[1]

    @property
    def left_out(self) -> int:
        """Rows of all hosts that an epoch leaves out."""
        return self.rows - min(self.rows, len(self) * self.batch_size)

    @property
    def taken(self) -> int:
        """Rows of this host in an epoch, without padding."""
        full = max(0, len(self) - 1)
        return full * self.size + self.real(full)

    def positions(self, first: int, steps: int = 1) -> IntArray:
        """Return the positions of a batch, or of several, one after another, padding included."""
        starts = np.arange(first, min(first + steps, len(self)), dtype=np.int64) * self.batch_size
        starts += self.shard[0] * self.size
        positions = (starts[:, None] + np.arange(self.size, dtype=np.int64)).ravel()
        return positions % self.rows if self.tail == "pad" else positions[positions < self.rows]

    def real(self, step: int) -> int:
        """Return the number of rows of a batch without padding."""
        start = step * self.batch_size + self.shard[0] * self.size
        return min(self.size, max(0, self.rows - start))


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


@dataclass(frozen=True, eq=False)
class Bucketed:
    """Rows of similar sizes in each batch, within windows of another order.

    The rows of a window are sorted into batches by size, and the batches are shuffled. A short last
    batch stays as it is, so that only chance decides which rows an epoch leaves out.
    """

    order: Order
    sizes: npt.NDArray[np.int32]  # (height, width) of every row, shape (rows, 2); or (rows, 1)
    batch_size: int  # rows of a global batch
    name: str  # "shape" or "length"
    seed: int = 0
    window: int = 64  # batches of a window; with more, batches are more alike and less mixed

    @cached_property
    def _arranged(self) -> Any:
        parts = self.order, self.sizes, self.batch_size, self.seed, self.window
        return lru_cache(maxsize=2)(partial(_arranged, *parts))

    def __reduce__(self) -> tuple[Any, ...]:  # without the cache
        parts = self.order, self.sizes, self.batch_size, self.name, self.seed, self.window
        return Bucketed, parts

    @property
    def places(self) -> int:
        """See `Order`."""
        return self.order.places

    @property
    def weights(self) -> npt.NDArray[np.float64] | None:
        """See `Order`."""
        return self.order.weights

    @property
    def digest(self) -> str:
        """See `Order`."""
        sizes = blake2b(self.sizes.tobytes(), digest_size=8).hexdigest()
        return f"{self.order.digest}, buckets by {self.name} {self.window} {sizes}"

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """See `Order`."""
        windows, places = np.divmod(positions, self.window * self.batch_size)
        drawn = np.empty((2, len(positions)), np.int64)
        for number in np.unique(windows).tolist():
            here = windows == number
            drawn[:, here] = self._arranged(epoch, number)[:, places[here]]
        return drawn

    def reseeded(self, seed: int) -> "Bucketed":
        """See `Order`."""
        return replace(self, order=self.order.reseeded(seed), seed=seed)


def _arranged(
    order: Order, sizes: Any, batch_size: int, seed: int, window: int, epoch: int, number: int
) -> IntArray:
    """Return the rows of a window, batch by batch."""
    start = number * window * batch_size
    drawn = order.at(epoch, np.arange(start, min(start + window * batch_size, order.places)))
    count = drawn.shape[1] // batch_size
    whole = count * batch_size
    batches = like_with_like(sizes[drawn[0, :whole]], batch_size)
    places = permutation(range(count), count, seed=seed, epoch=epoch, tag=f"bucket/{number}")
    return np.concatenate([drawn[:, batches[places].ravel()], drawn[:, whole:]], axis=1)


def like_with_like(sizes: npt.NDArray[Any], batch_size: int) -> IntArray:
    """Return the places of the sizes in each batch, in ascending order.

    Sizes are cut by height into as many strips as a strip has batches, and each strip by width. For
    ImageNet that needs half of the padding of sorting by height and then width.

    Example:
        >>> like_with_like(np.array([[9, 9], [2, 5], [9, 8], [2, 5]]), 2).tolist()
        [[1, 3], [0, 2]]

    Source: Sort-Tile-Recursive (Leutenegger, Lopez and Edgington, "STR: A Simple and Efficient
    Algorithm for R-Tree Packing", 1997).
    """
    heights, widths = sizes[:, 0], sizes[:, -1]  # the same for lengths, which are sorted
    batches = len(sizes) // batch_size
    strip = -(-batches // (isqrt(max(batches, 1) - 1) + 1)) * batch_size
    by_height = np.argsort(heights, kind="stable")
    strips = np.arange(len(sizes)) // max(strip, 1)
    order = by_height[np.lexsort((widths[by_height], strips))]
    return np.sort(order.reshape(batches, batch_size), axis=1)


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
        size, steps = self.plan.size, max(1, _BLOCK // self.plan.size)
        place = step % steps
        block = self._block(epoch, step - place, steps)
        return BatchRows(*block[:, place * size : (place + 1) * size])

    def counts(self, epoch: int, rows: int) -> IntArray:
        """Return how often each of so many rows occurs in an epoch, on all hosts."""
        counts = np.zeros(rows, np.int64)
        stop = self.plan.rows - self.plan.left_out
        for start in range(0, stop, _BLOCK):
            block = np.arange(start, min(start + _BLOCK, stop))
            np.add.at(counts, self.order.at(epoch, block)[0], 1)
        return counts


def _block(order: Order, plan: Plan, epoch: int, first: int, steps: int) -> IntArray:
    positions = plan.positions(first, steps)
    return np.stack([positions, *order.at(epoch, positions)])
