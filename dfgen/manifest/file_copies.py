"""Which rows of a frame have the same file, or pictures that look the same, by the facts of it.

Hashes that differ in a few bits are found without comparing all with all. Source: M. Norouzi,
A. Punjani, D. J. Fleet, "Fast Search in Hamming Space with Multi-Index Hashing", CVPR 2012. Hashes
are cut into three bands. Two that differ in 8 bits at most differ in 2 at most in one of the bands;
so for each band, each mask of at most 2 of its bits leads to those that may be near.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import combinations
from operator import or_
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, column_list
from dfgen.progress_bars import progress
from dfgen.spec import IntArray
from dfgen.system import whole
from dfgen.table.any_table import arrow_table

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
    radii = [spare // 3 + (number < spare % 3) for number in range(len(_BANDS))]
    masks = [_masks(width, radius) for (_, width), radius in zip(_BANDS, radii, strict=True)]
    with progress(sum(map(len, masks)), "Comparing pictures", " passes") as bar:
        for (start, width), some in zip(_BANDS, masks, strict=True):
            keys = (hashes >> np.uint64(start) & np.uint64((1 << width) - 1)).astype(np.int64)
            for one, other in _candidates(keys, width, some, bar.update):
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


def _candidates(
    keys: IntArray, width: int, masks: list[int], done: Callable[[], object]
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the places of pairs whose keys differ by one of the masks, some at a time."""
    order = np.argsort(keys, kind="stable")
    distinct, starts, sizes = np.unique(keys[order], return_index=True, return_counts=True)
    place = np.full(1 << width, -1, np.int32)
    place[distinct] = np.arange(len(distinct))
    for mask in masks:
        done()
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


WITHIN = 8
"""Bits that near copies differ in, at most: see `perceptual_hash` in `building/file_facts.py`."""

_MOST_WITHIN = 16
_ALIKE = 12  # bits: pairs that differ in no more may be copies
_MANY = 1000  # pictures of which no half can be copies of one
_RARE = 4.7  # standard deviations below the mean: of a million such pairs, one
_SAMPLED = 1_000_000
_MOST_PAIRS = 20_000_000


@dataclass(frozen=True)
class FileCopies:
    """The file of each row, as far as it is known: numbers of its path and digest, and its hash.

    `digests` are -1 where unknown; `hashes` are places in `distinct`, the hashes, each once.
    """

    paths: IntArray
    digests: IntArray
    hashes: IntArray
    distinct: Hashes

    def pairs(self, within: int | None) -> tuple[IntArray, IntArray, IntArray]:
        """Return the places of hashes that are near each other, and the bits between them."""
        if within is None:
            return self._usual_pairs
        return near_pairs(self.distinct, whole("within", within, least=0, most=_MOST_WITHIN))

    @cached_property
    def _usual_pairs(self) -> tuple[IntArray, IntArray, IntArray]:
        return near_pairs(self.distinct, usual_within(self.distinct))

    def groups(self, within: int | None) -> IntArray:
        """Return the first row of the group of each row."""
        one, other, _ = self.pairs(within)
        first = first_rows(self.hashes, len(self.distinct))
        links = [(first[one], first[other])]
        for codes in (self.paths, self.digests, self.hashes):
            known = np.flatnonzero(codes >= 0)
            links.append((known, first_rows(codes, codes.max(initial=-1) + 1)[codes[known]]))
        return joined_rows(len(self.paths), *map(np.concatenate, zip(*links, strict=True)))

    def distance(self, rows: IntArray, others: IntArray) -> IntArray:
        """Return the bits between the hashes of rows; 0 where one has none."""
        both = (self.hashes[rows] >= 0) & (self.hashes[others] >= 0)
        found = np.zeros(len(rows), np.int64)
        one, other = (self.distinct[self.hashes[each[both]]] for each in (rows, others))
        found[both] = bits_between(one, other)
        return found


def usual_within(hashes: Hashes) -> int:
    """Return in how many bits copies differ: `WITHIN`, or fewer where others look alike.

    By a sample of pairs. Those that differ in few bits may be copies and are left out; the others
    are about normal, and the bound is where hardly a row would have a pair by chance. It is lower,
    too, where so many are near each other that they cannot be listed.
    """
    count = len(hashes)
    if count < 2:
        return WITHIN
    one, other = np.random.default_rng(0).integers(0, count, (2, min(_SAMPLED, count**2)))
    bits = bits_between(hashes[one], hashes[other])[one != other]
    copies = min(_ALIKE, np.median(bits) / 2) if count >= _MANY else _ALIKE
    unlike = bits[bits > copies]
    bound = WITHIN
    if len(unlike):
        rare = min(_RARE, NormalDist().inv_cdf(1 - 0.01 / count))
        bound = min(bound, int(max(0, unlike.mean() - rare * unlike.std())))
    listed = np.cumsum(np.bincount(bits, minlength=65)) / max(1, len(bits)) * count**2 / 2
    return min(bound, int(np.searchsorted(listed, _MOST_PAIRS, side="right")) - 1)


def joined_rows(count: int, one: IntArray, other: IntArray) -> IntArray:
    """Return for each of `count` rows the lowest that it is joined with, through others too."""
    lowest = np.arange(count)
    while True:
        left, right = lowest[one], lowest[other]
        apart = left != right
        if not apart.any():
            return lowest
        one, other, left, right = one[apart], other[apart], left[apart], right[apart]
        np.minimum.at(lowest, np.maximum(left, right), np.minimum(left, right))
        while (lowest != (lower := lowest[lowest])).any():
            lowest = lower


def file_copies(frame: pd.DataFrame) -> FileCopies:
    """Return what is known of the files of a frame."""
    missing = [name for name in ("digest", "phash") if name not in frame]
    if missing:
        raise ManifestError(
            f'the manifest has no column "{missing[0]}", by which copies are found. Build it, or '
            'let it grow, with facts="full" (--facts full), which decodes every file once. '
            f"Columns: {column_list(frame.columns)}"
        )
    hashes = arrow_table(frame[["phash"]])["phash"]
    if not (pa.types.is_integer(hashes.type) or pa.types.is_null(hashes.type)):
        raise ManifestError(
            f'the column "phash" holds {hashes.type}, expected whole numbers of 64 bits: as it is '
            "read from Parquet"
        )
    hashes = hashes.cast(pa.uint64(), safe=False)
    distinct = np.unique(hashes.drop_null().to_numpy())
    places = np.searchsorted(distinct, pc.fill_null(hashes, 0).to_numpy())
    paths, digests = np.arange(len(frame)), codes_of(frame["digest"])[0]
    if "path" in frame:
        paths = codes_of(frame["path"])[0]
    if "index" in frame:  # rows of one file of arrays
        paths = np.arange(len(frame))
        digests[frame["index"].notna()] = -1
    return FileCopies(paths, digests, np.where(pc.is_valid(hashes), places, -1), distinct)


def codes_of(values: pd.Series) -> tuple[IntArray, list[object]]:
    """Return a number for each value, -1 for a missing one, and the values by their numbers."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy().astype(np.int64), list(values.cat.categories)
    codes, names = pd.factorize(values)
    return codes.astype(np.int64), list(names)


def first_rows(codes: IntArray, count: int) -> IntArray:
    """Return the first row that has each number below `count`, or -1."""
    rows = np.flatnonzero(codes >= 0)[::-1]
    first = np.full(count, -1)
    first[codes[rows]] = rows
    return first


def leaking_rows(
    frame: pd.DataFrame, part: str, within: int | None = None, files: FileCopies | None = None
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return rows that have a copy in an earlier split, the nearest there, its kind and distance.

    They are in the order of the rows, and of the splits for each, of which "train" is the first.
    Kinds: 0 for the same path, 1 for the same bytes, 2 for a near hash; the distance is in bits.
    """
    files, (parts, names) = files or file_copies(frame), codes_of(frame[part])
    ranks = np.argsort(np.argsort([name != "train" for name in names], kind="stable"))
    parts = np.append(ranks, -1)[parts].astype(np.int64)
    pairs = files.pairs(within)
    found = [_leaks_into(files, parts, each, pairs) for each in range(parts.max(initial=-1))]
    empty = np.empty((3, 0), np.int64)
    rows, others, kinds = np.concatenate([empty, *map(np.array, found)], axis=1)
    order = np.lexsort((parts[others], rows))
    rows, others, kinds = rows[order], others[order], kinds[order]
    return rows, others, kinds, files.distance(rows, others)


def _leaks_into(
    files: FileCopies, parts: IntArray, part: int, pairs: tuple[IntArray, IntArray, IntArray]
) -> tuple[IntArray, IntArray, IntArray]:
    """Return the rows of later splits that have a copy in this one, which, and of what kind."""
    rows = np.flatnonzero(parts > part)
    others, kinds = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
    nearest = first_rows(np.where(parts == part, files.hashes, -1), len(files.distinct))
    there = nearest.copy()
    one, other = np.concatenate([pairs[:2], pairs[1::-1]], axis=1)
    bits = np.tile(pairs[2], 2)
    far_first = np.argsort(-bits, kind="stable")
    far_first = far_first[(there[one] < 0)[far_first] & (there[other] >= 0)[far_first]]
    nearest[one[far_first]] = there[other[far_first]]  # the last stays
    for kind, codes in enumerate((files.paths, files.digests, files.hashes)):
        held = np.where(parts == part, codes, -1)
        first = nearest if kind == 2 else first_rows(held, codes.max(initial=-1) + 1)
        new = np.flatnonzero((others < 0) & (codes[rows] >= 0))
        others[new] = first[codes[rows[new]]]
        kinds[new] = kind
    found = others >= 0
    return rows[found], others[found], kinds[found]
