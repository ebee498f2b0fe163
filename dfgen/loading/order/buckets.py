"""Batches of rows with similar sizes, for little padding."""

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import blake2b
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.loading.order.epochs import Order
from dfgen.loading.order.shuffle import permutation
from dfgen.spec import IntArray


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
    _arranged: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = self.order, self.sizes, self.batch_size, self.seed, self.window
        arranged = lru_cache(maxsize=2)(partial(_arranged, *parts))
        object.__setattr__(self, "_arranged", arranged)  # no reference cycle

    def __reduce__(self) -> tuple[Any, ...]:
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
