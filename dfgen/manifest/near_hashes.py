"""Pairs of 64-bit hashes that differ in a few bits, found without comparing all with all.

Source: M. Norouzi, A. Punjani, D. J. Fleet, "Fast Search in Hamming Space with Multi-Index
Hashing", CVPR 2012. Hashes are cut into three bands. Two that differ in 8 bits at most differ in 2
at most in one of the bands; so for each band, each mask of at most 2 of its bits leads to those
that may be near.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import combinations
from operator import or_

import numpy as np
import numpy.typing as npt

from dfgen.spec import IntArray

Hashes = npt.NDArray[np.uint64]

_BANDS = ((42, 22), (21, 21), (0, 21))  # where each begins, and its bits
_FEW = 1000  # hashes of which all are compared with all: as quick
_CROWD = 1 << 12  # pairs of two sets that agree in a band of which all are compared
_BLOCK = 1 << 22  # pairs that are compared at once


def near_pairs(hashes: Hashes, within: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return pairs of different hashes, the places of both, that differ in at most `within` bits.

    Time grows with the number of hashes, not with its square. Where very many agree in a band, as
    those of a camera that stands still do, each is compared with some of them, not with all: enough
    to find that they belong together. Beside the pairs stand the bits between them.

    Example:
        >>> [part.tolist() for part in near_pairs(np.array([0, 7, 2**63 - 1], np.uint64), 3)]
        [[0], [1], [3]]
    """
    if len(hashes) <= _FEW:
        one, other = np.triu_indices(len(hashes), 1)
        bits = bits_between(hashes[one], hashes[other])
        near = bits <= within
        return one[near], other[near], bits[near]
    found = [np.empty((2, 0), np.int64)]
    spare = max(0, within - len(_BANDS) + 1)  # bits that the bands may differ in, together
    for number, (start, width) in enumerate(_BANDS):
        keys = (hashes >> np.uint64(start) & np.uint64((1 << width) - 1)).astype(np.int64)
        radius = spare // 3 + (number < spare % 3)
        for one, other in _candidates(keys, width, radius):
            near = bits_between(hashes[one], hashes[other]) <= within
            found.append(np.sort([one[near], other[near]], axis=0))
    one, other = np.unique(np.concatenate(found, axis=1), axis=1)
    return one, other, bits_between(hashes[one], hashes[other])


def bits_between(one: Hashes, other: Hashes) -> IntArray:
    """Return in how many bits each hash differs from that beside it."""
    bits = one ^ other
    for shift, mask in ((1, 0x55), (2, 0x33), (4, 0x0F)):  # NumPy 1 cannot count them
        every = np.uint64(mask * 0x0101010101010101)
        bits = (bits & every) + (bits >> np.uint64(shift) & every)
    return (bits * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.int64)


def _candidates(keys: IntArray, width: int, radius: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the places of pairs whose keys differ in at most `radius` bits, some at a time."""
    order = np.argsort(keys, kind="stable")
    distinct, starts, sizes = np.unique(keys[order], return_index=True, return_counts=True)
    place = np.full(1 << width, -1, np.int32)
    place[distinct] = np.arange(len(distinct))
    for mask in _masks(width, radius):
        other = place[distinct ^ mask]
        mine = np.flatnonzero(other >= np.arange(len(other)) + (sizes == 1) * (mask == 0))
        theirs = other[mine]
        few = np.clip(_CROWD // sizes[mine], 1, sizes[theirs])
        ends = np.cumsum(sizes[mine] * few)
        for block in np.split(np.arange(len(mine)), _cuts(ends)):
            left, right = mine[block], few[block]
            which = np.repeat(np.arange(len(block)), sizes[left] * right)
            within = np.arange(len(which)) - np.repeat(
                np.cumsum(sizes[left] * right) - sizes[left] * right, sizes[left] * right
            )
            one = order[starts[left][which] + within // right[which]]
            two = order[starts[theirs[block]][which] + within % right[which]]
            different = one != two
            yield one[different], two[different]


def _cuts(ends: IntArray) -> IntArray:
    """Return where to cut a list of so many pairs in all up to each, into blocks."""
    if not len(ends) or ends[-1] <= _BLOCK:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.diff(ends // _BLOCK)) + 1


def _masks(width: int, radius: int) -> list[int]:
    """Return all numbers of so many bits of which at most `radius` are set."""
    bits = [1 << place for place in range(width)]
    return [reduce(or_, some, 0) for size in range(radius + 1) for some in combinations(bits, size)]
