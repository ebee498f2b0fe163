"""Rows drawn by class, by share or by weight."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from dfgen.loading.order.shuffle import ROUNDS, domain, permutation, round_keys, walk
from dfgen.spec import IntArray

_PART = 32  # bits of a place


@dataclass(frozen=True, eq=False)
class Drawn:
    """As many draws as rows, in which each group of rows has its share.

    Groups lie end to end, each as long as its share, and are cut into as many equal parts as an
    epoch has places. Place p draws from the group at a random point of part p. A group returns its
    rows in laps, each a permutation. So the draws of a group differ from its share by less than
    two, or not at all if its bounds are whole places, and its rows occur equally often, plus or
    minus one. The places are shuffled; nothing is stored for an epoch.

    Source: stratified resampling (Kitagawa, "Monte Carlo Filter and Smoother for Non-Gaussian
    Nonlinear State Space Models", 1996).
    """

    rows: IntArray  # the rows of the first group, then those of the next one
    starts: IntArray  # the index in `rows` at which each group starts, and their number
    bounds: IntArray  # where each group ends, in 1 / 2**32 of a place
    weights: npt.NDArray[np.float64]  # of every row
    name: str
    seed: int = 0
    batch_size: None = None

    @property
    def places(self) -> int:
        """See `Order`."""
        return len(self.weights)

    @property
    def digest(self) -> str:
        """See `Order`."""
        hashed = blake2b(digest_size=8)
        for array in (self.rows, self.starts, self.bounds):
            hashed.update(np.ascontiguousarray(array, "<i8").data)
        return f"{self.name} {hashed.hexdigest()}"

    def at(self, epoch: int, positions: IntArray) -> IntArray:
        """See `Order`."""
        places = permutation(positions, self.places, seed=self.seed, epoch=epoch)
        groups = np.searchsorted(self.bounds, self._points(places, epoch), side="right")
        begins = np.where(groups > 0, self.bounds[groups - 1], 0)
        first = begins >> _PART  # the part in which a group begins; later parts are all its own
        draws, later = np.zeros_like(places), np.flatnonzero(first < places)
        missed = self._points(first[later], epoch) < begins[later]
        draws[later] = places[later] - first[later] - missed
        sizes = np.diff(self.starts)[groups]
        laps, within = np.divmod(draws, sizes)
        several = np.flatnonzero(sizes > 1)
        within[several] = self._permuted(
            within[several], sizes[several], groups[several], laps[several], epoch
        )
        return np.stack([self.rows[self.starts[groups] + within], laps])

    def reseeded(self, seed: int) -> "Drawn":
        """See `Order`."""
        return replace(self, seed=seed)

    def _points(self, places: IntArray, epoch: int) -> IntArray:
        """Return the random point of each part."""
        drawn = permutation(places, 2**62 - 1, seed=self.seed, epoch=epoch, tag="draw")
        points: IntArray = (places << _PART) + (drawn >> (62 - _PART))
        return points

    def _permuted(
        self, within: IntArray, sizes: IntArray, groups: IntArray, laps: IntArray, epoch: int
    ) -> IntArray:
        """Return `permutation(within, sizes, tag="class/{group}/{lap}")` of all places at once.

        One group at a time, 1,000 classes would cost a call of 0.15 ms for every eight rows.
        """
        keyed = laps * len(self.bounds) + groups
        keys, first, which = np.unique(keyed, return_index=True, return_inverse=True)
        domains = np.array([domain(size) for size in sizes[first].tolist()], np.uint64)
        pairs = (divmod(key, len(self.bounds)) for key in keys.tolist())
        tags = (f"class/{group}/{lap}" for lap, group in pairs)
        rounds = np.array([round_keys(tag, self.seed, epoch) for tag in tags], np.uint64)
        rounds = rounds.reshape(-1, ROUNDS)
        return walk(within.astype(np.uint64), domains.reshape(-1, 3)[which].T, rounds[which].T)


def drawn_by_shares(numbers: npt.NDArray[np.int64], shares: Iterable[float], name: str) -> Drawn:
    """Return the draws of groups that have their shares of an epoch, in whole places.

    Args:
        numbers: int64 of shape (rows,), the number of the group of each row.
        shares: the share of each group; only their proportions count.
        name: of the column.

    Example:
        >>> drawn = drawn_by_shares(np.array([0, 0, 1, 0]), [1, 1], "balanced by kind")
        >>> sorted(drawn.at(0, np.arange(4))[0].tolist())[2:]
        [2, 2]
    """
    wanted = np.array([*shares], np.float64)
    ends = np.rint(np.cumsum(wanted / wanted.sum()) * len(numbers))
    sizes = np.bincount(numbers, minlength=len(wanted))
    return _drawn(numbers, sizes, ends, (wanted / np.maximum(sizes, 1))[numbers], name)


def drawn_by_weights(weights: npt.NDArray[np.float64], name: str) -> Drawn:
    """Return the draws of rows in proportion to their weights: finite, 0 or more, not all 0.

    Example:
        >>> drawn = drawn_by_weights(np.array([0.0, 2.0, 2.0]), "drawn by weight")
        >>> sorted(drawn.at(0, np.arange(3))[0].tolist()) in ([1, 1, 2], [1, 2, 2])
        True
    """
    values, numbers = np.unique(weights, return_inverse=True)
    sizes = np.bincount(numbers)
    ends = np.cumsum(values / values[-1] * sizes)
    return _drawn(numbers, sizes, ends * (len(weights) / ends[-1]), weights, name)


def _drawn(
    numbers: IntArray,
    sizes: IntArray,
    ends: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    name: str,
) -> Drawn:
    """Return the draws of groups, which end at so many places."""
    bounds = np.rint(ends * 2.0**_PART).astype(np.int64)
    bounds[-1] = len(numbers) << _PART
    rows = np.argsort(numbers, kind="stable").astype(np.int64, copy=False)
    starts = np.append(0, np.cumsum(sizes, dtype=np.int64))
    return Drawn(rows, starts, bounds, weights, name)
