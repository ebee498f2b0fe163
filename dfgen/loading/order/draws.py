"""Draws of rows: every class equally often, or each row in proportion to its weight."""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from dfgen.loading.order.shuffle import ROUNDS, domain, permutation, round_keys, walk
from dfgen.spec import IntArray

MOST_PLACES = 2**30
_PART = 32  # bits of a place


@dataclass(frozen=True, eq=False)
class Balance:
    """Which row stands at each place of an epoch of n places in which C classes come in turn.

    Place q is draw j = q // C of class q mod C. A class gives its rows in laps: each lap is another
    permutation of them. So each class is drawn n / C times, rounded down or up, and each of its
    rows equally often, give or take one. The places themselves are shuffled beforehand, by
    `RowOrder`. Nothing is stored that depends on the epoch. Made by `balance_of`.
    """

    rows: IntArray  # the rows of the first class, then those of the next one, and so on
    starts: IntArray  # where each class starts there, and the number of rows
    places: int  # of an epoch

    def draw(self, places: IntArray, *, seed: int, epoch: int) -> tuple[IntArray, IntArray]:
        """Return the row of each place, and how often it came before in this epoch."""
        classes = len(self.starts) - 1
        draws, numbers = np.divmod(places, classes)
        sizes = np.diff(self.starts)[numbers]
        laps, within = np.divmod(draws, sizes)
        found = _permuted(within, sizes, laps * classes + numbers, classes, seed, epoch)
        return self.rows[self.starts[numbers] + found], laps

    @property
    def times(self) -> tuple[tuple[int, int], ...]:
        """(times, rows): how many rows any epoch draws so many times."""
        sizes = np.diff(self.starts)
        share, rest = divmod(self.places, len(sizes))
        laps, more = np.divmod(share + (np.arange(len(sizes)) < rest), sizes)
        times, which = np.unique([laps, laps + 1], return_inverse=True)
        rows = np.bincount(which.ravel(), np.ravel([sizes - more, more])).astype(int)
        pairs = zip(times.tolist(), rows.tolist(), strict=True)
        return tuple((times, rows) for times, rows in pairs if rows)


def balance_of(classes: npt.ArrayLike, places: int | None = None) -> Balance:
    """Return the Balance of rows with these class numbers; those without a row do not count.

    An epoch has as many places as rows, or as many as are given.

    Example:
        >>> balance_of([0, 0, 2, 0]).draw(np.arange(4), seed=0, epoch=0)[0].tolist()
        [0, 2, 1, 2]
    """
    _, numbers, counts = np.unique(np.asarray(classes), return_inverse=True, return_counts=True)
    rows = np.argsort(numbers, kind="stable").astype(np.int64, copy=False)
    starts = np.append(0, np.cumsum(counts, dtype=np.int64))
    return Balance(rows, starts, len(rows) if places is None else places)


def _permuted(
    within: IntArray, sizes: IntArray, keyed: IntArray, classes: int, seed: int, epoch: int
) -> IntArray:
    """Return `permutation(within, sizes, tag="class/{class}/{lap}")` of every element at once.

    One by one, 1,000 classes would cost a call of 0.15 ms for every eight rows.
    """
    groups, first, which = np.unique(keyed, return_index=True, return_inverse=True)
    domains = np.array([domain(size) for size in sizes[first].tolist()], np.uint64)
    tags = (f"class/{key % classes}/{key // classes}" for key in groups.tolist())
    keys = np.array([round_keys(tag, seed, epoch) for tag in tags], np.uint64)
    domains, keys = domains.reshape(-1, 3)[which].T, keys.reshape(-1, ROUNDS)[which].T
    return walk(within.astype(np.uint64), domains, keys)


@dataclass(frozen=True, eq=False)
class Proportions:
    """Which row stands at each place of an epoch in which rows come in proportion to weights.

    Laid end to end, the weights are cut into as many equal parts as an epoch has places. Place p
    takes the row at a point of part p, each epoch another. So how often a row comes differs from
    its share by less than two; equal weights and as many places as rows give each row once. A place
    costs a search among the rows, and nothing is stored for an epoch. The places themselves are
    shuffled beforehand, by `RowOrder`. Made by `proportions_of`.

    Source: stratified resampling (Kitagawa, "Monte Carlo Filter and Smoother for Non-Gaussian
    Nonlinear State Space Models", 1996). With one point for all parts, systematic resampling, a
    manifest whose classes alternate could draw one of them alone.
    """

    weights: npt.NDArray[np.float64]  # of every row
    bounds: IntArray  # where each row ends, in 1 / 2**32 of a place
    places: int  # of an epoch
    digest: str  # of the weights
    times: tuple[tuple[int, int], ...] = ()  # other ones each epoch

    def draw(self, places: IntArray, *, seed: int, epoch: int) -> tuple[IntArray, IntArray]:
        """Return the row of each place, and how often it came before in this epoch."""
        bounds = self.bounds
        rows = np.searchsorted(bounds, _points(places, seed, epoch), side="right")
        starts = np.where(rows > 0, bounds[rows - 1], 0)
        first = starts >> _PART  # the part in which the row begins; it has all of the later ones
        laps, later = np.zeros_like(places), np.flatnonzero(first < places)
        missed = _points(first[later], seed, epoch) < starts[later]
        laps[later] = places[later] - first[later] - missed
        return rows, laps


def _points(places: IntArray, seed: int, epoch: int) -> IntArray:
    drawn = permutation(places, 2**62 - 1, seed=seed, epoch=epoch, tag="draw")
    points: IntArray = (places << _PART) + (drawn >> (62 - _PART))
    return points


def proportions_of(weights: npt.ArrayLike, places: int) -> Proportions:
    """Return the Proportions of rows with these weights: finite, 0 or more, and not all 0.

    Args:
        weights: of every row; only what they are to each other counts.
        places: rows drawn in an epoch, at most 2**30.

    Example:
        >>> rows, laps = proportions_of([1, 0, 2], 6).draw(np.arange(6), seed=0, epoch=0)
        >>> rows.tolist(), laps.tolist()
        ([0, 0, 2, 2, 2, 2], [0, 1, 0, 1, 2, 3])
    """
    given = np.asarray(weights, "<f8")
    ends = np.cumsum(given / given.max())
    total = places << _PART
    bounds = np.rint(ends * (total / ends[-1])).clip(max=total).astype(np.int64)
    bounds[ends == ends[-1]] = total
    digest = blake2b(given.tobytes(), digest_size=8).hexdigest()
    return Proportions(given, bounds, places, digest)
