"""Draws in proportion to weights: some rows come often in an epoch, others hardly ever."""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError
from dfgen.loading.order.shuffle import permutation
from dfgen.spec import IntArray

MOST_PLACES = 2**30
_PART = 32  # bits of a place


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
    since: int = 0  # the first epoch in which they hold
    before: "Proportions | None" = None  # those of the epoch before that
    times: tuple[tuple[int, int], ...] = ()  # other ones each epoch

    def of(self, epoch: int) -> "Proportions":
        """Return those that hold in an epoch."""
        if epoch >= self.since:
            return self
        if self.before is None:
            raise ArgumentError(
                f"epoch {epoch} is over, and the weights that it drew by were replaced: "
                f"known are those since epoch {self.since}"
            )
        return self.before.of(epoch)

    @property
    def at_once(self) -> "Proportions":
        """The same for all epochs."""
        return replace(self, since=0, before=None)

    def followed_by(self, later: "Proportions", since: int) -> "Proportions":
        """Return others that hold from an epoch on, with those of the epoch before it."""
        before = replace(self.of(since - 1), before=None) if since else None
        return replace(later, since=since, before=before)

    def drawn_by(self, epoch: int) -> str:
        """Return what tells the draws of an epoch from those by other weights."""
        return self.of(epoch).digest

    def draw(self, places: IntArray, *, seed: int, epoch: int) -> tuple[IntArray, IntArray]:
        """Return the row of each place, and how often it came before in this epoch."""
        bounds = self.of(epoch).bounds
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
