"""Copies among the files of a manifest, and files and pictures that stand in several splits.

Exact copies have the same `digest`; near ones, saved anew, resized or cropped a little, have a
`phash` that differs in a few bits. Both are facts of `build_manifest(facts="full")`. Rows of one
file lie in several splits without `group="path"`.
"""

from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, column_list, count, listed, quote
from dfgen.manifest.file_copies import FileCopies, codes_of, file_copies, leaking_rows
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import OF_WHOLE_FILES, part_column
from dfgen.spec import IntArray
from dfgen.table.any_table import Table
from dfgen.table.arrow_types import in_one, is_text, value_type

_SHOWN = 3
_EXAMPLES = 10


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
        ArgumentError: `within` is not of 0 to 16.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a", "b"], "digest": "0f", "phash": 7})
        >>> duplicates(df)[["group", "kind", "id"]].values.tolist()
        [[0, 'exact', 1], [0, 'exact', 2]]
    """
    frame = frame_of_manifest(manifest)
    return copies_in_groups(frame, file_copies(frame), within)


def copies_in_groups(
    frame: pd.DataFrame, files: FileCopies, within: int | None = None
) -> pd.DataFrame:
    """Return what `duplicates` does, of a frame whose files are known."""
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

    A model is then measured on what it was trained on. Use it before training; then
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
    return copies_across(frame_of_manifest(manifest), None, within)


def copies_across(
    frame: pd.DataFrame, files: FileCopies | None, within: int | None = None
) -> pd.DataFrame:
    """Return what `leaks` does, of a frame whose files may be known."""
    part = part_column(frame)
    if part is None:
        raise ManifestError(
            'the manifest has neither "split" nor "fold", between which copies could leak. Make '
            f"one: dfgen.split. Columns: {column_list(frame.columns)}"
        )
    rows, others, kinds, bits = leaking_rows(frame, part, within, files)
    return _columns(frame, rows).assign(
        **_columns(frame, others).add_prefix("other_").set_axis(frame.index[rows]),
        kind=np.array(["same file", "exact", "near"], object)[kinds],
        distance=bits,
    )


def _columns(frame: pd.DataFrame, rows: IntArray) -> pd.DataFrame:
    """Return what tells rows: id, path, and split or fold."""
    names = [name for name in ("id", "path", part_column(frame)) if name in frame]
    found = frame[names].iloc[rows].copy()
    found.attrs = {}
    return found


def notes_of_shared_paths(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return what to say of files in several splits, or folds, of a frame.

    Rows of array files share them by their `index`.
    """
    part = part_column(frame)
    if part is None or "path" not in frame or "index" in frame:
        return ()
    try:
        paths = pa.array(frame["path"], from_pandas=True)
    except (pa.ArrowException, TypeError):  # no text: a Sequence tells
        return ()
    told = shared_paths(paths, codes_of(frame[part])[0])
    return () if told is None else (told,)


def shared_paths(paths: pa.Array, parts: npt.NDArray[np.int64]) -> str | None:
    """Return what to say of paths in several splits (the number of that of each row), or None.

    Missing paths are no file.
    """
    paths = in_one(paths)
    kind = value_type(paths.type)
    if not is_text(kind):
        return None
    paths = paths.cast(kind)
    if len(pc.unique(paths)) == len(paths):  # in half the time of a dictionary
        return None
    named = paths.is_valid().to_numpy(zero_copy_only=False)
    known, parts = paths.drop_null().dictionary_encode(), parts[named]
    codes = known.indices.to_numpy()
    one = np.empty(len(known.dictionary), np.int64)
    one[codes] = parts  # that of one of its rows
    shared = np.unique(codes[parts != one[codes]])
    if not len(shared):
        return None
    shown = listed(known.dictionary.take(pa.array(shared[:_SHOWN])).to_pylist())
    lie = "lies" if len(shared) == 1 else "lie"
    return (
        f"{count(len(shared), 'path')} {lie} in rows of several splits, as {shown}: they "
        'are trained on and measured on. Keep the rows of a file in one split: group="path" '
        "(--group path)"
    )


class Leaks(TypedDict):
    """The entry `leaks` of the key: rows with a copy in an earlier split; id and split of both."""

    rows: int
    examples: list[list[Any]]


def leaks_between_splits(frame: pd.DataFrame) -> Leaks | None:
    """Return what leaks between the splits of a frame, None where nothing does, or is known."""
    part = part_column(frame)
    if part is None or not all(name in frame for name in OF_WHOLE_FILES):
        return None
    if not pd.api.types.is_integer_dtype(frame["phash"]):  # a column of its owner's
        return None
    rows, others, *_ = leaking_rows(frame, part)
    if not len(rows):
        return None
    ids, parts = frame["id"].iloc, frame[part].iloc
    sides = (ids[rows], parts[rows], ids[others], parts[others])
    shown = [side[:_EXAMPLES].tolist() for side in sides]
    examples = [list(one) for one in zip(*shown, strict=True)]
    return {"rows": len({*rows.tolist()}), "examples": examples}


def told(rows: int, row: object, part: object, other: object, place: object) -> str:
    """Return what to say of so many rows that leak, with one and its copy, and what to do."""
    have = "row has a copy of its" if rows == 1 else "rows have a copy of their"
    return (
        f"{rows:,} {have} picture in an earlier split, as id {quote(row)} of "
        f"{quote(part)} that of id {quote(other)} of {quote(place)}: they are trained on and "
        "measured on. Keep copies in one split, group_duplicates=True (--group-duplicates), or "
        "leave them out: df.drop(leaks(df).index), with dfgen.manifest.duplicates.leaks"
    )


def notes_of(leaks: Leaks | None, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return what to say of leaks, else of files in several splits, if there are any."""
    if leaks is None:
        return notes_of_shared_paths(frame)
    return (told(leaks["rows"], *leaks["examples"][0]),)
