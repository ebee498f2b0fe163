"""Random orders: the permutation of an epoch, and rows drawn by class, share or weight.

A permutation is a pure function of positions. Nothing is stored, so any batch of any epoch can be
requested at any time, by any number of hosts. It uses integer arithmetic alone, because NumPy
promises its random streams for one build only.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from math import isqrt

import numpy as np
import numpy.typing as npt

from dfgen.spec import IntArray

ORDER = "dfgen/perm/1"


Uints = npt.NDArray[np.uint64]
Half = np.uint64 | Uints

ROUNDS = 16  # 4 fail ascents and successions at n = 50; 8 and 12 the count of all n!, n = 5, 6
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_27, _30, _31, _32 = (np.uint64(bits) for bits in (27, 30, 31, 32))

_PART = 32  # bits of a place


def permutation(
    positions: npt.ArrayLike, n: int, *, seed: int, epoch: int, tag: str = "rows"
) -> IntArray:
    """Return which of `n` rows are at these positions of an epoch.

    Over the positions 0 to n - 1 each row occurs exactly once. Time and memory depend on the number
    of positions and not on `n`, which may be up to 2**62 - 1. Request thousands at a time: a call
    costs at least 0.15 ms. The order depends on seed, epoch and tag, and orders of two tags are
    independent.

    Example:
        >>> permutation(range(5), 5, seed=0, epoch=0).tolist()
        [0, 2, 1, 4, 3]

    Source: a Feistel cipher on Z_a x Z_b with cycle walking (Black and Rogaway, "Ciphers with
    Arbitrary Finite Domains", 2002), the finaliser of splitmix64 as its round function, and
    Lemire's range reduction ("Fast Random Integer Generation in an Interval", 2019).
    """
    places = np.asarray(positions).astype(np.uint64)
    if n <= 1:
        return places.astype(np.int64)
    sizes, keys = np.array(domain(n), np.uint64), round_keys(tag, seed, epoch)
    return walk(places.reshape(-1), sizes, keys).reshape(places.shape)


@lru_cache(maxsize=1024)
def domain(n: int) -> tuple[int, int, int]:
    """Return n, and the a and b of `encipher` that reach it: a * b >= n."""
    a = isqrt(n - 1) + 1
    return n, a, -(-n // a)


@lru_cache(maxsize=1024)
def round_keys(tag: str, seed: int, epoch: int) -> npt.NDArray[np.uint64]:
    """Return the little-endian words of two BLAKE2b-512 digests: one key a round."""
    texts = (f"{ORDER}|{tag}|{seed}|{epoch}|{j}" for j in range(ROUNDS // 8))
    words = np.frombuffer(b"".join(blake2b(text.encode()).digest() for text in texts), "<u8")
    return words.astype(np.uint64, copy=False)


def walk(x: Uints, sizes: Uints, keys: Uints) -> IntArray:
    """Encipher each x until it is below n; sizes are (n, a, b), perhaps of every x."""
    n, a, b = sizes
    rows = encipher(x, a, b, keys)
    outside = np.flatnonzero(rows >= n)
    while outside.size:  # a * b - n < a: about one position in sqrt(n) walks on
        own = np.s_[:, outside] if sizes.ndim == 2 else ()
        n, a, b = sizes[own]
        rows[outside] = encipher(rows[outside], a, b, keys[own])
        outside = outside[rows[outside] >= n]
    return rows.view(np.int64)


def encipher(x: Uints, a: Half, b: Half, keys: Uints) -> Uints:
    """Map 0..a*b-1 onto itself; `a`, `b` and each key may differ for each x."""
    left, right = np.divmod(x, b)
    mixed, spare = np.empty_like(x), np.empty_like(x)
    for even in range(0, ROUNDS, 2):
        _round(left, right, a, keys[even], mixed, spare)
        _round(right, left, b, keys[even + 1], mixed, spare)
    left *= b
    left += right
    return left


def _round(half: Uints, other: Uints, size: Half, key: Half, mixed: Uints, spare: Uints) -> None:
    """Set half to (half + ((mix(other + key) >> 32) * size >> 32)) mod size, in place.

    8,192 positions take 0.42 ms; with a new array at each step 0.92 ms.
    """
    np.add(other, key, out=mixed)
    for shift, multiplier in zip((_30, _27), _MULTIPLIERS, strict=True):
        mixed ^= np.right_shift(mixed, shift, out=spare)
        mixed *= multiplier
    mixed ^= np.right_shift(mixed, _31, out=spare)
    mixed >>= _32
    mixed *= size
    mixed >>= _32
    half += mixed
    # Below size, half - size wraps round to a huge number: the minimum is half modulo size.
    np.minimum(half, np.subtract(half, size, out=spare), out=half)


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
        return np.asarray((places << _PART) + (drawn >> (62 - _PART)))

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
