"""Copies among the files of a manifest, and those that stand in several splits.

Exact copies have the same `digest`; near ones, saved anew, resized or cropped a little, have a
`phash` that differs in a few bits. Both are facts of `build_manifest(facts="full")`.
"""

import os
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, column_list
from dfgen.manifest.io import Path, read_manifest
from dfgen.manifest.near_hashes import Hashes, RowNumbers, bits_between, near_pairs
from dfgen.manifest.schema import PARTS
from dfgen.manifest.tables import Table, arrow_table, data_frame

WITHIN = 8
"""Bits that near copies differ in, at most: see `samples/pixels/perceptual_hash.py`."""

_MOST_WITHIN = 16
_ALIKE = 12  # bits: pairs that differ in no more may be copies
_MANY = 1000  # pictures of which no half can be copies of one
_RARE = 4.7  # standard deviations below the mean: of a million such pairs, one
_SAMPLED = 1_000_000
_MOST_PAIRS = 20_000_000


def duplicates(manifest: Path | Table, *, within: int | None = None) -> pd.DataFrame:
    """Return the rows whose files are copies of each other, in groups.

    Use it to look at what a data set holds twice, before `dfgen.split(group_duplicates=True)` or
    dropping rows: `df.drop(found.index[found.duplicated("group")])` leaves one of each group.

    Args:
        manifest: a file, or a frame or another table, with the columns `digest` and `phash`.
        within: bits in which the hashes of near copies differ, 0 to 16. None: 8, or fewer where
            the pictures look alike without being copies, as digits and X-rays do: few enough that
            hardly a pair is found by chance.

    Returns:
        A row for each row that has a copy, with its index; those of a group stand together.
        `group`: from 0, in the order of their first rows. `kind`: "exact" where all files of the
        group have the same bytes, else "near". `distance`: bits between its hash and that of the
        first row. `id`, `path`, and `split` or `fold` where the manifest has them. Rows of one path
        are one file; a group has two at least, each near another of them, not all near all.

    Raises:
        ManifestError: the manifest has no digests and hashes.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a", "b"], "digest": "0f", "phash": 7})
        >>> duplicates(df)[["group", "kind", "id"]].values.tolist()
        [[0, 'exact', 1], [0, 'exact', 2]]
    """
    frame = _frame(manifest)
    files = _files(frame)
    groups = files.groups(within)
    others = np.bincount(groups[files.paths != files.paths[groups]], minlength=len(frame))
    rows = np.flatnonzero(others[groups])
    rows = rows[np.lexsort((rows, groups[rows]))]
    first = groups[rows]
    found = _columns(frame, rows)
    found.insert(0, "group", np.unique(first, return_inverse=True)[1].astype(np.int64))
    same = files.digests[rows] == files.digests[first]
    same &= files.digests[rows] >= 0
    exact = pd.Series(same).groupby(first).transform("all").to_numpy()
    found.insert(1, "kind", np.where(exact, "exact", "near"))
    found.insert(2, "distance", files.distance(rows, first))
    return found


def leaks(manifest: Path | Table, *, within: int | None = None) -> pd.DataFrame:
    """Return the rows whose picture stands in an earlier split too, such as of "val" in "train".

    What a model is measured on then is what it was trained on. Use it before training; then
    `df.drop(found.index)` leaves them out of the later split, and
    `dfgen.split(df, ..., group_duplicates=True)` makes splits without.

    Args:
        manifest: as of `duplicates`, with a column `split`, or `fold`.
        within: as of `duplicates`.

    Returns:
        A row for each row and each earlier split that has its picture, with its index: `id`,
        `path` and `split` (or `fold`), the nearest row there, `other_id`, `other_path` and
        `other_split`, `kind` ("same file" of the same path, "exact" or "near"), and the bits
        between the hashes, `distance`. "train" is the earliest split, the others come in the order
        of their categories.

    Raises:
        ManifestError: the manifest has no digests and hashes, or neither split nor fold.
    """
    frame = _frame(manifest)
    part = next((name for name in PARTS if name in frame), None)
    if part is None:
        raise ManifestError(
            'the manifest has neither "split" nor "fold", between which copies could leak. Make '
            f"one: dfgen.split. Columns: {column_list(frame.columns)}"
        )
    files, (parts, names) = _files(frame), _codes(frame[part])
    ranks = np.argsort(np.argsort([name != "train" for name in names], kind="stable"))
    parts = np.append(ranks, -1)[parts].astype(np.int64)
    pairs = files.pairs(within)
    found = [_leaks_into(files, parts, each, pairs) for each in range(parts.max(initial=-1))]
    rows, others, kinds = (
        np.concatenate([pair[number] for pair in found] or [np.empty(0, np.int64)])
        for number in range(3)
    )
    order = np.lexsort((parts[others], rows))
    rows, others, kinds = rows[order], others[order], kinds[order]
    return _columns(frame, rows).assign(
        **_columns(frame, others).add_prefix("other_").set_axis(frame.index[rows]),
        kind=np.array(["same file", "exact", "near"], object)[kinds],
        distance=files.distance(rows, others),
    )


def groups_of_copies(frame: pd.DataFrame, within: int | None = None) -> RowNumbers:
    """Return for each row the number of the first row that is a copy of it, or its own.

    Rows of one path belong together too.
    """
    return _files(frame).groups(within)


@dataclass(frozen=True)
class _Files:
    """What is known of the file of each row: numbers of its path and digest, and its hash.

    Args:
        paths: the same for the same path.
        digests: the same for the same bytes, -1 where unknown.
        hashes: the place of its hash in `distinct`, -1 where it has none.
        distinct: the hashes, each once.
    """

    paths: RowNumbers
    digests: RowNumbers
    hashes: RowNumbers
    distinct: Hashes

    def pairs(self, within: int | None) -> tuple[RowNumbers, RowNumbers, RowNumbers]:
        """Return the places of hashes that are near each other, and the bits between them."""
        return near_pairs(self.distinct, usual_within(self.distinct) if within is None else within)

    def groups(self, within: int | None) -> RowNumbers:
        """Return the first row of the group of each row."""
        one, other, _ = self.pairs(within)
        first = _first_rows(self.hashes, len(self.distinct))
        links = [(first[one], first[other])]
        for codes in (self.paths, self.digests, self.hashes):
            known = np.flatnonzero(codes >= 0)
            links.append((known, _first_rows(codes, codes.max(initial=-1) + 1)[codes[known]]))
        return joined_rows(len(self.paths), *map(np.concatenate, zip(*links, strict=True)))

    def distance(self, rows: RowNumbers, others: RowNumbers) -> RowNumbers:
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

    Args:
        hashes: each once.
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


def joined_rows(count: int, one: RowNumbers, other: RowNumbers) -> RowNumbers:
    """Return for each of `count` rows the lowest that it is joined with, through others too.

    Example:
        >>> joined_rows(4, np.array([0, 2]), np.array([2, 3])).tolist()
        [0, 1, 0, 0]
    """
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


def _frame(manifest: Path | Table) -> pd.DataFrame:
    if isinstance(manifest, str | os.PathLike):
        return read_manifest(manifest)
    return data_frame(manifest)


def _files(frame: pd.DataFrame) -> _Files:
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
    paths, digests = np.arange(len(frame)), _codes(frame["digest"])[0]
    if "path" in frame:
        paths = _codes(frame["path"])[0]
    if "index" in frame:  # rows of one file of arrays
        paths = np.arange(len(frame))
        digests[frame["index"].notna()] = -1
    return _Files(paths, digests, np.where(pc.is_valid(hashes), places, -1), distinct)


def _codes(values: pd.Series) -> tuple[RowNumbers, list[object]]:
    """Return a number for each value, -1 for a missing one, and the values by their numbers."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return values.cat.codes.to_numpy().astype(np.int64), list(values.cat.categories)
    codes, names = pd.factorize(values)
    return codes.astype(np.int64), list(names)


def _first_rows(codes: RowNumbers, count: int) -> RowNumbers:
    """Return the first row that has each number below `count`, or -1."""
    rows = np.flatnonzero(codes >= 0)[::-1]
    first = np.full(count, -1)
    first[codes[rows]] = rows
    return first


def _leaks_into(
    files: _Files, parts: RowNumbers, part: int, pairs: tuple[RowNumbers, RowNumbers, RowNumbers]
) -> tuple[RowNumbers, RowNumbers, RowNumbers]:
    """Return the rows of later splits that have a copy in this one, which, and of what kind."""
    rows = np.flatnonzero(parts > part)
    others, kinds = np.full(len(rows), -1), np.zeros(len(rows), np.int64)
    nearest = _first_rows(np.where(parts == part, files.hashes, -1), len(files.distinct))
    there = nearest.copy()
    one, other = np.concatenate([pairs[:2], pairs[1::-1]], axis=1)
    bits = np.tile(pairs[2], 2)
    far_first = np.argsort(-bits, kind="stable")
    far_first = far_first[(there[one] < 0)[far_first] & (there[other] >= 0)[far_first]]
    nearest[one[far_first]] = there[other[far_first]]  # the last stays
    for kind, codes in enumerate((files.paths, files.digests, files.hashes)):
        held = np.where(parts == part, codes, -1)
        first = nearest if kind == 2 else _first_rows(held, codes.max(initial=-1) + 1)
        new = np.flatnonzero((others < 0) & (codes[rows] >= 0))
        others[new] = first[codes[rows[new]]]
        kinds[new] = kind
    found = others >= 0
    return rows[found], others[found], kinds[found]


def _columns(frame: pd.DataFrame, rows: RowNumbers) -> pd.DataFrame:
    """Return what tells rows: id, path, and split or fold."""
    part = [name for name in PARTS if name in frame][:1]
    names = [name for name in ("id", "path", *part) if name in frame]
    found = frame[names].iloc[rows].copy()
    found.attrs = {}
    return found
