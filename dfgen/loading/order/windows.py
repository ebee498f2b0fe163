"""Rows shuffled within windows of a few blocks, for files that are read in large pieces."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from dfgen.loading.order.draws import domain, permutation, round_keys, walk
from dfgen.loading.order.epochs import Plan
from dfgen.spec import IntArray

_LANES = 64  # the most; 2, 3 or 4 hosts share few of them or none


class _Epoch(NamedTuple):
    """The blocks of one epoch."""

    blocks: IntArray  # in their order
    ends: IntArray  # the position at which each block ends
    windows: IntArray  # the position at which each window begins, and the number of rows


@dataclass(frozen=True, eq=False)
class Windowed:
    """Each row once, shuffled within one window after another.

    A block is read at once: a shard of a pack, or consecutive rows of an array file. Blocks are
    shuffled each epoch; a few that follow each other are a window, and its rows are shuffled
    together. A last block that would be alone belongs to the window before it. Any position costs a
    search among the blocks; only the order of blocks is stored.

    If the rows within blocks are in random order, hosts need not read each other's rows: the rows
    of a window are dealt to up to 64 lanes. A lane has one stretch of every block and fills the
    same slots of all batches. A host fills consecutive slots, so it reads one part of every block,
    about the same in each epoch. The order does not depend on the number of hosts.

    Args:
        starts: the row at which each block begins, none empty, and the number of rows.
        blocks: of a window. With 1, the same rows meet in every epoch; `fitting` returns 2 or more.
        rows: the rows of the first block, then those of the next one. Default: all in order.
        batch_size: rows of a global batch, whose slots are dealt to lanes; None for no lanes.
    """

    starts: IntArray
    blocks: int
    rows: IntArray | None = None
    batch_size: int | None = None
    seed: int = 0
    weights: None = field(default=None, init=False)

    @cached_property
    def _epoch(self) -> Any:
        return lru_cache(maxsize=4)(partial(_epoch_of, self.starts, self.blocks, self.seed))

    @cached_property
    def _lanes(self) -> Any:
        parts = self.starts, self._epoch, self.batch_size, self.seed
        return lru_cache(maxsize=4)(partial(_lanes_of, *parts))

    def __reduce__(self) -> tuple[Any, ...]:  # without the caches
        return Windowed, (self.starts, self.blocks, self.rows, self.batch_size, self.seed)

    @property
    def places(self) -> int:
        """See `Order`."""
        return int(self.starts[-1])

    @property
    def digest(self) -> str:
        """See `Order`."""
        name = repr(self.blocks) if self.batch_size is None else f"{self.blocks} in lanes/1"
        digest = blake2b(name.encode(), digest_size=8)
        for array in (self.starts, self.rows):
            if array is not None:
                digest.update(np.ascontiguousarray(array, "<i8").data)
        return f"windows of {self.blocks} {digest.hexdigest()}"

    def reseeded(self, seed: int) -> "Windowed":
        """See `Order`."""
        return replace(self, seed=seed)

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """See `Order`."""
        own: _Epoch = self._epoch(epoch)
        windows = np.searchsorted(own.windows, positions, side="right") - 1
        places = np.empty_like(positions)
        for window in np.unique(windows).tolist():
            here = windows == window
            start, stop = own.windows[window : window + 2].tolist()
            if (lanes := self._lanes(epoch, window)) is not None:
                places[here] = lanes(positions[here])
                continue
            within, tag = positions[here] - start, f"window/{window}"
            places[here] = permutation(within, stop - start, seed=self.seed, epoch=epoch, tag=tag)
            places[here] += start
        which = np.searchsorted(own.ends, places, side="right")
        rows = places + self.starts[own.blocks[which] + 1] - own.ends[which]
        rows = rows if self.rows is None else self.rows[rows]
        return np.stack([rows, np.zeros_like(rows)])

    def window(self, epoch: int, position: int) -> int:
        """Return the number of the window of a position."""
        return bisect_right(self._epoch(epoch).windows, position) - 1  # NumPy waits for the GIL

    def rows_of(self, epoch: int, window: int, plan: Plan) -> IntArray:
        """Return the rows of a window that a host needs, block by block."""
        own: _Epoch = self._epoch(epoch)
        start, stop = own.windows[window : window + 2].tolist()
        if plan.shard[1] == 1:
            first, last = np.searchsorted(own.ends, [start, stop - 1], side="right").tolist()
            blocks = own.blocks[first : last + 1].tolist()
            parts = [np.arange(self.starts[block], self.starts[block + 1]) for block in blocks]
            rows = np.concatenate(parts)
            return rows if self.rows is None else self.rows[rows]
        first, last = start // plan.batch_size, -(-stop // plan.batch_size)
        positions = plan.positions(first, last - first)
        positions = positions[(positions >= start) & (positions < stop)]
        return np.sort(self.at(epoch, positions)[0])


def fitting(window: int, block: int) -> int:
    """Return how many blocks of so many bytes make a window: at least 2.

    Example:
        >>> fitting(10**9, 256 * 10**6), fitting(10**9, 10**9)
        (3, 2)
    """
    return max(2, window // max(1, block))


def windows_of(blocks: IntArray, per_window: int) -> Windowed:
    """Return the order of rows by the number of each row's block.

    Example:
        >>> windows_of(np.array([1, 0, 1, 0, 2]), 2).at(0, np.arange(5))[0].tolist()
        [3, 4, 2, 1, 0]
    """
    sizes = np.unique(blocks, return_counts=True)[1]
    rows = None if (blocks[1:] >= blocks[:-1]).all() else np.argsort(blocks, kind="stable")
    return Windowed(np.append(0, np.cumsum(sizes, dtype=np.int64)), per_window, rows)


def _epoch_of(starts: IntArray, per_window: int, seed: int, epoch: int) -> _Epoch:
    count = len(starts) - 1
    blocks = permutation(np.arange(count), count, seed=seed, epoch=epoch, tag="shard")
    ends = np.cumsum(np.diff(starts)[blocks])
    begins = np.arange(0, count, per_window)
    begins = begins[: max(1, len(begins) - (count % per_window == 1))]
    windows = np.append(np.append(0, ends)[begins], starts[-1])
    return _Epoch(blocks, ends, windows)


def _lanes_of(
    starts: IntArray, epoch_of: Any, batch_size: int | None, seed: int, epoch: int, window: int
) -> Callable[[IntArray], IntArray] | None:
    """Return the places of a window's rows by position; None if it is too small for two lanes.

    Places are counted through the blocks in their order.
    """
    own: _Epoch = epoch_of(epoch)
    start, stop = own.windows[window : window + 2].tolist()
    first, last = np.searchsorted(own.ends, [start, stop - 1], side="right").tolist()
    sizes = np.diff(starts)[own.blocks[first : last + 1]]
    begins = own.ends[first : last + 1] - sizes
    batch = batch_size or 1
    for count in range(max(1, min(batch // 2, _LANES)), 0, -1):  # two rows of a lane may meet
        if batch % count == 0:
            firsts, ends = (_before(np.arange(count), at, batch, count) for at in (start, stop))
            if sizes.min() * (ends - firsts).min() >= stop - start:  # no stretch is then below 0
                break
    if count == 1:
        return None
    slots, rows = batch // count, np.append(0, np.cumsum(ends - firsts))  # lane by lane
    cuts = np.diff(np.append(0, np.cumsum(sizes))[:, None] * rows // (stop - start), axis=0)
    stretches = np.append(0, np.cumsum(np.diff(cuts, axis=1).T))  # of each lane, block by block
    offsets = cuts[:, :-1].T.reshape(-1)  # of the stretches in their blocks
    tags = [f"window/{window}/{lane}" for lane in range(count)]
    keys = np.stack([round_keys(tag, seed, epoch) for tag in tags], 1)
    domains = np.array([domain(n) for n in (ends - firsts).tolist()], np.uint64).T

    def places(positions: IntArray) -> IntArray:
        lanes = positions % batch // slots
        within = positions // batch * slots + positions % slots - firsts[lanes]
        mixed = walk(within.astype(np.uint64), domains[:, lanes], keys[:, lanes]) + rows[lanes]
        which = np.searchsorted(stretches[1:], mixed, side="right")
        places: IntArray = mixed - stretches[which] + offsets[which] + begins[which % len(begins)]
        return places

    return places


def _before(lanes: IntArray, position: int, batch: int, count: int) -> IntArray:
    """Return how many positions before one belong to each lane."""
    whole, rest = divmod(position, batch)
    slots = batch // count
    return whole * slots + np.clip(rest - lanes * slots, 0, slots)
