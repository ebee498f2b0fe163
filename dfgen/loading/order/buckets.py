"""Batches of like with like: images and arrays of similar sizes together, for little padding."""

from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dfgen.loading.order.shuffle import permutation
from dfgen.spec import IntArray


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
