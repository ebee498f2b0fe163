"""Windows: rows shuffled within a few blocks at a time, for files that are read in large pieces."""

from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from dfgen.loading.order.plan import Plan
from dfgen.loading.order.shuffle import Uints, domain, permutation, round_keys, walk
from dfgen.spec import IntArray

_LANES = 64  # the most: 2, 3 or 4 hosts share few of them or none


class _Epoch(NamedTuple):
    """How the blocks of one epoch follow each other."""

    blocks: IntArray  # in their order
    ends: IntArray  # the position at which each of them ends
    windows: IntArray  # the position at which each window begins, and the number of rows


class _Lanes(NamedTuple):
    """How the rows of one window lie in lanes, by the order of its blocks: see `Windows`."""

    batch: int  # rows of a global batch
    slots: int  # of it that are of one lane
    firsts: IntArray  # how many rows of the lane come before the window, of each lane
    starts: IntArray  # the first place of each lane, when all rows lie lane by lane
    ends: IntArray  # there, the end of the stretch that each lane has of each block
    cuts: IntArray  # the place in its block at which each stretch begins
    begins: IntArray  # the position at which each block begins
    domains: Uints  # what permutes the rows of each lane
    keys: Uints

    def at(self, positions: IntArray) -> IntArray:
        """Return where the rows at some positions stand, among the blocks after one another."""
        lanes = positions % self.batch // self.slots
        before = positions // self.batch * self.slots + positions % self.slots
        within = (before - self.firsts[lanes]).astype(np.uint64)
        rows = walk(within, self.domains[:, lanes], self.keys[:, lanes]) + self.starts[lanes]
        stretches = np.searchsorted(self.ends, rows, side="right")
        blocks = stretches % len(self.begins)
        places: IntArray = rows - np.append(0, self.ends)[stretches] + self.cuts[stretches]
        return places + self.begins[blocks]


@dataclass(frozen=True, eq=False)
class Windows:
    """Which row stands at each position of an epoch that goes through one window after another.

    A block is what is read at once: a shard of a pack, or consecutive rows of an array file. The
    blocks come in another order each epoch; so many of them that follow each other are a window,
    whose rows are shuffled together. A last block that would be alone belongs to the window before
    it. Any position can be asked for alone: it costs a search among the blocks. Nothing is stored
    for an epoch but the order of blocks. Made by `windows_of`, or of the starts of shards.

    If rows stand mixed within their blocks, a host need not fetch those of others: the rows of a
    window are dealt to up to 64 lanes, each of which has one stretch of every block, and fills the
    same slots of all batches. A host fills slots that follow each other, so it needs one part of
    every block, about the same in each epoch; the order is the same for any number of hosts.

    Args:
        starts: the row at which each block begins, none empty, and the number of rows.
        blocks: of a window. Of 1, the same rows meet in every epoch: `fitting` gives 2 or more.
        rows: the rows of the first block, then those of the next one; None: they lie like that.
        batch: rows of a global batch, whose slots are dealt to lanes; None: there are none.
    """

    starts: IntArray
    blocks: int
    rows: IntArray | None = None
    batch: int | None = None
    _epoch: Any = field(init=False, repr=False)
    _lanes: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        epoch = lru_cache(maxsize=4)(partial(_epoch_of, self.starts, self.blocks))
        lanes = lru_cache(maxsize=4)(partial(_lanes_of, self.starts, epoch, self.batch))
        object.__setattr__(self, "_epoch", epoch)  # no circle through self
        object.__setattr__(self, "_lanes", lanes)

    def __reduce__(self) -> tuple[Any, ...]:
        return Windows, (self.starts, self.blocks, self.rows, self.batch)

    @property
    def digest(self) -> str:
        """The name that tells its order from that of others."""
        named = repr(self.blocks) if self.batch is None else f"{self.blocks} in lanes/1"
        digest = blake2b(named.encode(), digest_size=8)
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
            if (lanes := self._lanes(window, seed, epoch)) is not None:
                found[here] = lanes.at(positions[here])
                continue
            tag = f"window/{window}"
            places = positions[here] - start
            found[here] = permutation(places, stop - start, seed=seed, epoch=epoch, tag=tag)
            found[here] += start
        places = np.searchsorted(known.ends, found, side="right")
        blocks = known.blocks[places]
        found += self.starts[blocks + 1] - known.ends[places]
        return found if self.rows is None else self.rows[found]

    def rows_of(self, window: int, plan: Plan, *, seed: int, epoch: int) -> IntArray:
        """Return the rows of a window that a host makes batches of; of one host in their order."""
        known: _Epoch = self._epoch(seed, epoch)
        if plan.shard[1] == 1:
            blocks = self.blocks_of(window, seed=seed, epoch=epoch).tolist()
            return np.concatenate([np.empty(0, np.int64), *map(self.block_rows, blocks)])
        start, stop = known.windows[window : window + 2].tolist()
        first, last = start // plan.batch_size, -(-stop // plan.batch_size)
        positions = plan.block(first, max(0, min(last, len(plan)) - first))
        positions = positions[(positions >= start) & (positions < stop)]
        return np.sort(self.at(positions, seed=seed, epoch=epoch))

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


@dataclass(frozen=True, eq=False)
class Windowed:
    """Each row once, shuffled within one window after another."""

    windows: Windows
    seed: int = 0
    weights: None = None

    @property
    def places(self) -> int:
        """See `Order`."""
        return int(self.windows.starts[-1])

    @property
    def digest(self) -> str:
        """See `Order`."""
        return f"windows of {self.windows.blocks} {self.windows.digest}"

    @property
    def batch_size(self) -> int | None:
        """See `Order`."""
        return self.windows.batch

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """See `Order`."""
        rows = self.windows.at(positions, seed=self.seed, epoch=epoch)
        return np.stack([rows, np.zeros_like(rows)])

    def reseeded(self, seed: int) -> "Windowed":
        """See `Order`."""
        return replace(self, seed=seed)


def fitting(window: int, block: int) -> int:
    """Return how many blocks of so many bytes make a window: at least 2.

    Example:
        >>> fitting(10**9, 256 * 10**6), fitting(10**9, 10**9)
        (3, 2)
    """
    return max(2, window // max(1, block))


def windows_of(
    blocks: IntArray, per_window: int, places: IntArray | None = None, batch: int | None = None
) -> Windows:
    """Return the Windows of rows, by the number of the block that each lies in, and its place.

    Without places, rows of a block lie in it in their order.

    Example:
        >>> windows_of(np.array([1, 0, 1, 0, 2]), 2).at(np.arange(5), seed=0, epoch=0).tolist()
        [3, 4, 2, 1, 0]
    """
    sizes = np.unique(blocks, return_counts=True)[1]
    later = blocks[1:] >= blocks[:-1]
    if places is not None:
        later &= (blocks[1:] > blocks[:-1]) | (places[1:] > places[:-1])
    by = [blocks] if places is None else [places, blocks]
    rows = None if later.all() else np.lexsort(by)
    return Windows(np.append(0, np.cumsum(sizes, dtype=np.int64)), per_window, rows, batch)


def _epoch_of(starts: IntArray, per_window: int, seed: int, epoch: int) -> _Epoch:
    count = len(starts) - 1
    blocks = permutation(np.arange(count), count, seed=seed, epoch=epoch, tag="shard")
    ends = np.cumsum(np.diff(starts)[blocks])
    begins = np.arange(0, count, per_window)
    begins = begins[: max(1, len(begins) - (count % per_window == 1))]
    windows = np.append(np.append(0, ends)[begins], starts[-1])
    return _Epoch(blocks, ends, windows)


def _lanes_of(
    starts: IntArray, epoch_of: Any, batch: int | None, window: int, seed: int, epoch: int
) -> _Lanes | None:
    """Return how a window is dealt to lanes; None: it is not, or too small for two of them."""
    known: _Epoch = epoch_of(seed, epoch)
    start, stop = known.windows[window : window + 2].tolist()
    first, last = np.searchsorted(known.ends, [start, stop - 1], side="right").tolist()
    blocks = known.blocks[first : last + 1]
    sizes = np.diff(starts)[blocks]
    batch = batch or 1
    for count in range(max(1, min(batch // 2, _LANES)), 0, -1):  # two rows of a lane may meet
        if batch % count == 0:
            firsts, ends = (_before(np.arange(count), at, batch, count) for at in (start, stop))
            if sizes.min() * (ends - firsts).min() >= stop - start:  # no stretch is then below 0
                break
    if count == 1:
        return None
    rows = np.append(0, np.cumsum(ends - firsts))
    cuts = np.diff(np.append(0, np.cumsum(sizes))[:, None] * rows // (stop - start), axis=0)
    tags = [f"window/{window}/{lane}" for lane in range(count)]
    keys = np.stack([round_keys(tag, seed, epoch) for tag in tags], 1)
    return _Lanes(
        batch, batch // count, firsts, rows[:-1], np.cumsum(np.diff(cuts, axis=1).T),
        cuts[:, :-1].T.reshape(-1), known.ends[first : last + 1] - sizes,
        np.array([domain(n) for n in (ends - firsts).tolist()], np.uint64).T, keys,
    )  # fmt: skip


def _before(lanes: IntArray, position: int, batch: int, count: int) -> IntArray:
    """Return how many positions before one are of each lane."""
    whole, rest = divmod(position, batch)
    slots = batch // count
    return whole * slots + np.clip(rest - lanes * slots, 0, slots)
