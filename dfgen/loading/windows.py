"""The order of packed rows: whole shards in turn, rows mixed within a window of a few shards."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.loading.order.permutation import checked_positions, permutation
from dfgen.system import whole


@dataclass(frozen=True, eq=False)
class WindowOrder:
    """The order of one epoch of packed rows: mixed within windows of a few shards.

    Use it where rows lie in large shards, so that an epoch reads each shard once, from end to end,
    and holds one window in memory. Made by `window_order`.

    Attributes:
        shards: The shards that have rows, in the order of the epoch; int64.
        starts: The position at which each of them starts, and the number of rows; int64.
        window: How many shards form a window.
        seed: The seed of the order.
        epoch: The epoch.
    """

    shards: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    window: int
    seed: int
    epoch: int

    def locate(
        self, positions: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the shard of each position, and the row within that shard.

        Args:
            positions: Integers from 0 to the number of rows - 1, of any shape, in any order.

        Returns:
            Shards and rows, both int64 in the shape of `positions`. A row counts the rows that the
            shard has in this epoch: after a filter, the k-th row that was chosen.

        Raises:
            ArgumentError: If a position is no integer or lies outside the rows.
        """
        places = checked_positions(positions, int(self.starts[-1])).astype(np.int64)
        bounds = np.append(self.starts[: -1 : self.window], self.starts[-1])
        windows = np.searchsorted(bounds, places, side="right") - 1
        for window in np.unique(windows):
            here = windows == window
            first, end = bounds[window : window + 2].tolist()
            places[here] = first + permutation(
                places[here] - first,
                end - first,
                seed=self.seed,
                epoch=self.epoch,
                tag=f"window/{window}",
            )
        slots = np.searchsorted(self.starts, places, side="right") - 1
        return self.shards[slots], places - self.starts[slots]


def window_order(shard_rows: npt.ArrayLike, window: int, *, seed: int, epoch: int) -> WindowOrder:
    """Return the order of one epoch of rows that lie in shards.

    The shards are permuted, those without rows left out, and each `window` shards that follow one
    another form a window, in which rows are permuted.

    Args:
        shard_rows: How many rows of each shard the epoch has; integers, 0 allowed.
        window: How many shards are mixed, and so held in memory; 1 or more.
        seed: As in `permutation`.
        epoch: As in `permutation`.

    Raises:
        ArgumentError: If an argument is not a whole number in its range.

    Example:
        >>> order = window_order([3, 0, 2], window=1, seed=0, epoch=0)
        >>> [rows.tolist() for rows in order.locate(range(5))]
        [[0, 0, 0, 2, 2], [0, 1, 2, 0, 1]]
    """
    window = whole("window", window, least=1)
    seed, epoch = whole("seed", seed), whole("epoch", epoch)
    rows = np.asarray(shard_rows)
    if rows.ndim != 1 or (rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0)):
        raise ArgumentError(
            f"shard_rows={shard_rows!r}: expected a list of whole numbers, one for each shard."
        )
    shards = permutation(np.arange(rows.size), rows.size, seed=seed, epoch=epoch, tag="shard")
    shards = shards[rows[shards] > 0]
    starts = np.append(0, np.cumsum(rows[shards], dtype=np.int64))
    return WindowOrder(shards, starts, window, seed, epoch)
