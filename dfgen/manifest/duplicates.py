"""Copies among the files of a manifest, and files and pictures that are in several splits.

Exact copies have the same `digest`. Near copies, such as a picture that was saved again or resized,
have a `phash` that differs in a few bits. Hashes that differ in at most 4 of 64 bits are equal in
one of five bands, so only hashes that are equal in a band are compared.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, column_list, count, listed, quote, warn, whole
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import OF_WHOLE_FILES, part_column
from dfgen.progress_bars import progress
from dfgen.spec import IntArray
from dfgen.table.any_table import Table, arrow_table
from dfgen.table.arrow_types import TEXT, in_one, value_type


def duplicates(manifest: Path | Table, *, within: int | None = None) -> pd.DataFrame:
    """Return the rows whose files are copies of each other, in groups.

    Look at them before `dfgen.split(group_duplicates=True)`, or drop rows:
    `df.drop(copies.index[copies.duplicated("group")])` leaves one row of each group.

    Args:
        manifest: a file, or a frame or another table, with the columns `digest` and `phash`.
        within: bits in which the hashes of near copies differ, 0 to 4. None: 4, or fewer if the
            pictures look alike without being copies, as digits and X-rays do.

    Returns:
        A row for each row that has a copy, with its index, sorted by group. `group`: from 0, in the
        order of their first rows. `kind`: "exact" if all files of the group have the same bytes,
        else "near". `distance`: bits between its hash and the first row's. `id`, `path`, and
        `split` or `fold` if the manifest has them. Rows of one path are one file.

    Raises:
        ManifestError: the manifest has no digests and hashes.
        ArgumentError: `within` is not in 0 to 4.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a", "b"], "digest": "0f", "phash": 7})
        >>> duplicates(df)[["group", "kind", "id"]].values.tolist()
        [[0, 'exact', 1], [0, 'exact', 2]]
    """
    frame = frame_of_manifest(manifest)
    files = file_copies(frame)
    groups = files.groups(within)
    others = np.bincount(groups[files.paths != files.paths[groups]], minlength=len(frame))
    rows = np.flatnonzero(others[groups])
    rows = rows[np.lexsort((rows, groups[rows]))]
    first = groups[rows]
    same = (files.digests[rows] == files.digests[first]) & (files.digests[rows] >= 0)
    exact = pd.Series(same).groupby(first).transform("all").to_numpy()
    copies = _columns(frame, rows)
    copies.insert(0, "group", np.unique(first, return_inverse=True)[1].astype(np.int64))
    copies.insert(1, "kind", np.where(exact, "exact", "near"))
    copies.insert(2, "distance", files.distance(rows, first))
    return copies


def leaks(manifest: Path | Table, *, within: int | None = None) -> pd.DataFrame:
    """Return the rows whose picture is also in an earlier split, such as "val" rows in "train".

    A model is then measured on its training data. `df.drop(leaks(df).index)` removes them from the
    later split, and `dfgen.split(df, ..., group_duplicates=True)` makes splits without leaks.

    Args:
        manifest: as in `duplicates`, with a column `split` or `fold`.
        within: as in `duplicates`.

    Returns:
        A row for each row and each earlier split that has its picture, with its index: `id`,
        `path` and `split` (or `fold`), the nearest row there, `other_id`, `other_path` and
        `other_split`, `kind` ("same file" of the same path, "exact" or "near"), and the bits
        between the hashes, `distance`. "train" is the earliest split, the others follow in the
        order of their categories.

    Raises:
        ManifestError: the manifest has no digests and hashes, or neither split nor fold.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a", "b"], "split": ["train", "val"]})
        >>> leaks(df.assign(digest="0f", phash=7))[["id", "other_id", "kind"]].values.tolist()
        [[2, 1, 'exact']]
    """
    frame = frame_of_manifest(manifest)
    part = part_column(frame)
    if part is None:
        raise ManifestError(
            'the manifest has neither "split" nor "fold". Make one: dfgen.split. Columns: '
            f"{column_list(frame.columns)}"
        )
    pairs = leaking_rows(frame, part, within)
    rows, copies = (_columns(frame, pairs[name].to_numpy()) for name in ("row", "copy"))
    return rows.assign(
        **copies.add_prefix("other_").set_axis(rows.index),
        kind=np.array(["same file", "exact", "near"], object)[pairs["kind"]],
        distance=pairs["distance"].to_numpy(),
    )


def _columns(frame: pd.DataFrame, rows: IntArray) -> pd.DataFrame:
    """Return id, path, and split or fold of rows."""
    names = [name for name in ("id", "path", part_column(frame)) if name in frame]
    columns = frame[names].iloc[rows].copy()
    columns.attrs = {}
    return columns


def shared_paths(paths: pa.Array, parts: npt.NDArray[np.int64]) -> str | None:
    """Return the warning about paths that are in several splits (`parts`), if any."""
    if value_type(paths.type) not in TEXT:
        return None
    codes = in_one(paths).cast(pa.large_string()).dictionary_encode()
    if len(codes.dictionary) == len(codes):
        return None
    frame = pd.DataFrame({"path": codes.indices.to_pandas(), "part": parts})
    spread = frame.dropna().drop_duplicates()["path"].value_counts(sort=False)
    shared = spread.index[spread > 1].astype(int)
    if not len(shared):
        return None
    shown = listed(codes.dictionary.take(pa.array(shared[:3])).to_pylist())
    return (
        f"{count(len(shared), 'path')} in rows of several splits, as {shown}: they are "
        'trained on and measured on. Keep the rows of a file in one split: group="path" '
        "(--group path)"
    )


def warn_of_leaks(frame: pd.DataFrame, copies: bool = True) -> None:
    """Warn of copies in several splits, if there are hashes, else of files in several splits.

    Rows of array files share them by their `index`.
    """
    part = part_column(frame)
    if part is None:
        return
    hashed = copies and all(name in frame for name in OF_WHOLE_FILES)
    if hashed and pd.api.types.is_integer_dtype(frame["phash"]):  # else a column of the user's own
        pairs = leaking_rows(frame, part)
        if len(pairs):
            one, other = (frame[["id", part]].iloc[pairs[name][0]] for name in ("row", "copy"))
            warn(
                leak_message(pairs["row"].nunique(), one["id"], one[part], other["id"], other[part])
            )
            return
    if "path" in frame and "index" not in frame:
        paths = arrow_table(frame[["path"]])["path"]
        if shared := shared_paths(paths, codes_of(frame[part])[0]):
            warn(shared)


def leak_message(rows: int, row: object, part: object, other: object, place: object) -> str:
    """Return the warning about rows that leak, with one row and its copy."""
    return (
        f"{count(rows, 'row')} with a picture of an earlier split too, as id {quote(row)} of "
        f"{quote(part)} that of id {quote(other)} of {quote(place)}: they are trained on and "
        "measured on. Keep copies in one split, group_duplicates=True (--group-duplicates), or "
        "drop them: df.drop(dfgen.leaks(df).index)"
    )


Hashes = npt.NDArray[np.uint64]

WITHIN = 4
"""The most bits in which near copies differ."""
_BANDS = (0, 13, 26, 39, 52)  # first bits; of 13 bits, the last of 12
_CROWD = 2000  # hashes with the same band that each is compared with
_SAMPLED = 1_000_000
_ALIKE = 12  # bits: pairs that differ in more are no copies
_MANY = 1000  # so many pictures are not all copies of one
_RARE = 4.7  # standard deviations below the mean: one pair of a million


def near_pairs(hashes: Hashes, within: int = WITHIN) -> tuple[IntArray, IntArray]:
    """Return the places of pairs of different hashes that differ in at most `within` bits.

    In a band that more than 2,000 hashes share, each is compared with the 2,000 after it.
    """
    pairs = [np.empty((2, 0), np.int64)]
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
                pairs.append(np.sort([left[near], right[near]], axis=0))
            bar.update()
    one, other = np.unique(np.concatenate(pairs, axis=1), axis=1)
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
    """The file of each row: numbers of paths, digests and hashes; -1: unknown."""

    paths: IntArray
    digests: IntArray
    hashes: IntArray  # places in `distinct`
    distinct: Hashes

    def pairs(self, within: int | None) -> tuple[IntArray, IntArray]:
        """Return the places of hashes that are near each other."""
        usual = usual_within(self.distinct) if within is None else within
        return near_pairs(self.distinct, whole("within", usual, least=0, most=WITHIN))

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
        bits = np.zeros(len(rows), np.int64)
        one, other = (self.distinct[self.hashes[each[both]]] for each in (rows, others))
        bits[both] = bits_between(one, other)
        return bits


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
            f'the manifest has no column "{missing[0]}", which identifies copies. Build it with '
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
    leaking = []
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
        leaking.append(pairs[pairs["earlier"] < pairs["part"]])
    pairs = pd.concat(leaking)
    pairs["distance"] = files.distance(pairs["row"].to_numpy(), pairs["copy"].to_numpy())
    pairs = pairs.sort_values(["row", "earlier", "kind", "distance", "copy"], ignore_index=True)
    pairs = pairs.drop_duplicates(["row", "earlier"], ignore_index=True)
    return pairs[["row", "copy", "kind", "distance"]]
