"""Which rows of a frame have the same file, or pictures that look the same, by their facts.

Hashes that differ in at most 4 of 64 bits are equal in one of five bands, so only hashes that are
equal in a band are compared.
"""

from dataclasses import dataclass

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

WITHIN = 4
"""The most bits in which near copies differ."""
_BANDS = (0, 13, 26, 39, 52)  # first bits; of 13 bits, the last of 12
_CROWD = 2000  # hashes with the same band that each is compared with
_SAMPLED = 1_000_000
_ALIKE = 12  # bits: pairs that differ in more are no copies
_MANY = 1000  # pictures of which no half can be copies of one
_RARE = 4.7  # standard deviations below the mean: one pair of a million


def near_pairs(hashes: Hashes, within: int = WITHIN) -> tuple[IntArray, IntArray]:
    """Return the places of pairs of different hashes that differ in at most `within` bits.

    In a band that more than 2,000 hashes share, each is compared with the 2,000 after it.

    Example:
        >>> [part.tolist() for part in near_pairs(np.array([0, 7, 2**63 - 1], np.uint64), 3)]
        [[0], [1]]
    """
    found = [np.empty((2, 0), np.int64)]
    with progress(len(_BANDS), "Comparing pictures", " passes") as bar:
        for start in _BANDS:
            keys = hashes >> np.uint64(start) & np.uint64(0x1FFF)
            order = np.lexsort((hashes, keys))
            here = np.arange(len(order))
            ends = np.searchsorted(keys[order], keys[order], side="right")
            for step in range(1, min(_CROWD, int((ends - here).max(initial=1)))):
                here = here[here + step < ends[here]]
                left, right = order[here], order[here + step]
                near = bits_between(hashes[left], hashes[right]) <= within
                found.append(np.sort([left[near], right[near]], axis=0))
            bar.update()
    one, other = np.unique(np.concatenate(found, axis=1), axis=1)
    return one, other


def bits_between(one: Hashes, other: Hashes) -> IntArray:
    """Return in how many bits each hash differs from the other."""
    bits = one ^ other
    for shift, mask in ((1, 0x55), (2, 0x33), (4, 0x0F)):  # NumPy 1 has no bitwise_count
        every = np.uint64(mask * 0x0101010101010101)
        bits = (bits & every) + (bits >> np.uint64(shift) & every)
    return (bits * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.int64)


def usual_within(hashes: Hashes) -> int:
    """Return in how many bits copies differ: 4, or fewer if other pictures look alike, as digits.

    Distances of pictures that are no copies are about normal; the bound is where hardly one of a
    million pairs is near by chance.
    """
    count = len(hashes)
    one, other = np.random.default_rng(0).integers(0, max(1, count), (2, min(_SAMPLED, count**2)))
    bits = bits_between(hashes[one], hashes[other])
    alike = min(_ALIKE, np.median(bits) / 2) if count >= _MANY else _ALIKE
    unlike = bits[bits > alike]
    if not len(unlike):
        return WITHIN
    return min(WITHIN, max(0, int(unlike.mean() - _RARE * unlike.std())))


@dataclass(frozen=True)
class FileCopies:
    """The file of each row.

    Args:
        paths: the number of its path.
        digests: the number of its digest; -1: unknown.
        hashes: the place of its perceptual hash in `distinct`; -1: unknown.
        distinct: the hashes, each once.
    """

    paths: IntArray
    digests: IntArray
    hashes: IntArray
    distinct: Hashes

    def pairs(self, within: int | None) -> tuple[IntArray, IntArray]:
        """Return the places of hashes that are near each other."""
        if within is None:
            return near_pairs(self.distinct, usual_within(self.distinct))
        return near_pairs(self.distinct, whole("within", within, least=0, most=WITHIN))

    def groups(self, within: int | None) -> IntArray:
        """Return the first row of the group of each row."""
        one, other = self.pairs(within)
        first = first_rows(self.hashes, len(self.distinct))
        links = [(first[one], first[other])]
        for codes in (self.paths, self.digests, self.hashes):
            known = np.flatnonzero(codes >= 0)
            links.append((known, first_rows(codes, codes.max(initial=-1) + 1)[codes[known]]))
        return joined_rows(len(self.paths), *map(np.concatenate, zip(*links, strict=True)))

    def distance(self, rows: IntArray, others: IntArray) -> IntArray:
        """Return the bits between the hashes of rows; 0 if one has none."""
        both = (self.hashes[rows] >= 0) & (self.hashes[others] >= 0)
        found = np.zeros(len(rows), np.int64)
        one, other = (self.distinct[self.hashes[each[both]]] for each in (rows, others))
        found[both] = bits_between(one, other)
        return found


def joined_rows(count: int, one: IntArray, other: IntArray) -> IntArray:
    """Return for each of `count` rows the lowest row that it is joined with, directly or not."""
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
    """Return the files of a frame with `digest` and `phash`."""
    missing = [name for name in ("digest", "phash") if name not in frame]
    if missing:
        raise ManifestError(
            f'the manifest has no column "{missing[0]}", which copies are found by. Build it with '
            f'facts="full" (--facts full). Columns: {column_list(frame.columns)}'
        )
    hashes = arrow_table(frame[["phash"]])["phash"]
    if not (pa.types.is_integer(hashes.type) or pa.types.is_null(hashes.type)):
        raise ManifestError(
            f'the column "phash" has type {hashes.type}, expected whole numbers of 64 bits, as in '
            "the Parquet file"
        )
    hashes = hashes.cast(pa.uint64(), safe=False)
    distinct = np.unique(hashes.drop_null().to_numpy())
    places = np.searchsorted(distinct, pc.fill_null(hashes, 0).to_numpy())
    paths, digests = np.arange(len(frame)), codes_of(frame["digest"])[0]
    if "index" in frame:  # rows of one array file
        digests[frame["index"].notna()] = -1
    elif "path" in frame:
        paths = codes_of(frame["path"])[0]
    return FileCopies(paths, digests, np.where(pc.is_valid(hashes), places, -1), distinct)


def codes_of(values: pd.Series) -> tuple[IntArray, list[object]]:
    """Return a number for each value, -1 if it is missing, and the values by their numbers."""
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


def leaking_rows(frame: pd.DataFrame, part: str, within: int | None = None) -> pd.DataFrame:
    """Return each row that has a copy in an earlier split, per split; "train" is the first split.

    The columns are `row`, `copy` (a row of the earlier split), `kind` (0: the same path, 1: the
    same bytes, 2: a near hash) and `distance` in bits; the nearest copy is taken.
    """
    files, (parts, names) = file_copies(frame), codes_of(frame[part])
    ranks = np.argsort(np.argsort([name != "train" for name in names], kind="stable"))
    parts = np.append(ranks, -1)[parts].astype(np.int64)
    one, other = files.pairs(within)
    same = np.arange(len(files.distinct))
    near = pd.DataFrame({"code": np.r_[one, other, same], "near": np.r_[other, one, same]})
    found = []
    for kind, codes in enumerate((files.paths, files.digests, files.hashes)):
        rows = pd.DataFrame(
            {"code": codes, "row": np.arange(len(frame)), "part": parts, "kind": kind}
        )
        rows = rows[(codes >= 0) & (parts >= 0)]
        copies = rows.drop_duplicates(["code", "part"]).drop(columns="kind")
        copies = copies.rename(columns={"row": "copy", "part": "earlier"})
        if kind == 2:
            rows = rows.merge(near, on="code").assign(code=lambda rows: rows["near"])
        pairs = rows.merge(copies, on="code")
        found.append(pairs[pairs["earlier"] < pairs["part"]])
    pairs = pd.concat(found)
    pairs["distance"] = files.distance(pairs["row"].to_numpy(), pairs["copy"].to_numpy())
    pairs = pairs.sort_values(["row", "earlier", "kind", "distance", "copy"], ignore_index=True)
    pairs = pairs.drop_duplicates(["row", "earlier"], ignore_index=True)
    return pairs[["row", "copy", "kind", "distance"]]
