"""Windows: rows shuffled within a few blocks at a time, for files that are read in large pieces."""

from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from dfgen.loading.order.shuffle import permutation
from dfgen.spec import IntArray


class _Epoch(NamedTuple):
    """How the blocks of one epoch follow each other."""

    blocks: IntArray  # in their order
    ends: IntArray  # the position at which each of them ends
    windows: IntArray  # the position at which each window begins, and the number of rows


@dataclass(frozen=True, eq=False)
class Windows:
    """Which row stands at each position of an epoch that goes through one window after another.

    A block is what is read at once: a shard of a pack, or consecutive rows of an array file. The
    blocks come in another order each epoch; so many of them that follow each other are a window,
    whose rows are shuffled together. A last block that would be alone belongs to the window before
    it. Any position can be asked for alone: it costs a search among the blocks. Nothing is stored
    for an epoch but the order of blocks. Made by `windows_of`, or of the starts of shards.

    Args:
        starts: the row at which each block begins, none empty, and the number of rows.
        blocks: of a window. Of 1, the same rows meet in every epoch: `fitting` gives 2 or more.
        rows: the rows of the first block, then those of the next one; None: they lie like that.
    """

    starts: IntArray
    blocks: int
    rows: IntArray | None = None
    _epoch: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        epoch = lru_cache(maxsize=4)(partial(_epoch_of, self.starts, self.blocks))
        object.__setattr__(self, "_epoch", epoch)  # no circle through self

    def __reduce__(self) -> tuple[Any, ...]:
        return Windows, (self.starts, self.blocks, self.rows)

    @property
    def digest(self) -> str:
        """The name that tells its order from that of others."""
        digest = blake2b(repr(self.blocks).encode(), digest_size=8)
        for array in (self.starts, self.rows):
            if array is not None:
                digest.update(np.ascontiguousarray(array, "<i8").data)
        return digest.hexdigest()

    def at(self, positions: IntArray, *, seed: int, epoch: int) -> IntArray:
        """Return the row at each position."""
        known: _Epoch = self._epoch(seed, epoch)
        windows = np.searchsorted(known.windows, positions, side="right") - 1
        found = np.empty_like(positions)
        for window in np.unique(windows).tolist():
            here = windows == window
            start, stop = known.windows[window : window + 2].tolist()
            tag = f"window/{window}"
            places = positions[here] - start
            found[here] = permutation(places, stop - start, seed=seed, epoch=epoch, tag=tag)
            found[here] += start
        places = np.searchsorted(known.ends, found, side="right")
        blocks = known.blocks[places]
        found += self.starts[blocks + 1] - known.ends[places]
        return found if self.rows is None else self.rows[found]

    def window(self, position: int, *, seed: int, epoch: int) -> int:
        """Return the number of the window in which a position of an epoch lies."""
        windows = self._epoch(seed, epoch).windows
        return int(np.searchsorted(windows, position, side="right")) - 1

    def block_rows(self, block: int) -> IntArray:
        """Return the rows of a block, in their order."""
        rows = np.arange(self.starts[block], self.starts[block + 1])
        return rows if self.rows is None else self.rows[rows]

    def blocks_of(self, window: int, *, seed: int, epoch: int) -> IntArray:
        """Return the blocks of a window; none of one that the epoch does not have."""
        known: _Epoch = self._epoch(seed, epoch)
        if not 0 <= window < len(known.windows) - 1:
            return np.empty(0, np.int64)
        last = len(known.blocks) if window == len(known.windows) - 2 else (window + 1) * self.blocks
        return known.blocks[window * self.blocks : last]


def fitting(window: int, block: int) -> int:
    """Return how many blocks of so many bytes make a window: at least 2.

    Example:
        >>> fitting(10**9, 256 * 10**6), fitting(10**9, 10**9)
        (3, 2)
    """
    return max(2, window // max(1, block))


def windows_of(blocks: IntArray, per_window: int) -> Windows:
    """Return the Windows of rows, by the number of the block that each lies in.

    Example:
        >>> windows_of(np.array([1, 0, 1, 0, 2]), 2).at(np.arange(5), seed=0, epoch=0).tolist()
        [3, 4, 2, 1, 0]
    """
    sizes = np.unique(blocks, return_counts=True)[1]
    rows = None if (blocks[1:] >= blocks[:-1]).all() else np.argsort(blocks, kind="stable")
    return Windows(np.append(0, np.cumsum(sizes, dtype=np.int64)), per_window, rows)


def _epoch_of(starts: IntArray, per_window: int, seed: int, epoch: int) -> _Epoch:
    count = len(starts) - 1
    blocks = permutation(np.arange(count), count, seed=seed, epoch=epoch, tag="shard")
    ends = np.cumsum(np.diff(starts)[blocks])
    begins = np.arange(0, count, per_window)
    begins = begins[: max(1, len(begins) - (count % per_window == 1))]
    windows = np.append(np.append(0, ends)[begins], starts[-1])
    return _Epoch(blocks, ends, windows)
