"""Copies among the files of a manifest, and files and pictures that are in several splits.

Exact copies have the same `digest`. Near copies, such as a picture that was saved again or resized,
have a `phash` that differs in a few bits. Both are facts of `build_manifest(facts="full")`.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError, column_list, count, listed, quote
from dfgen.manifest.file_copies import codes_of, file_copies, leaking_rows
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import OF_WHOLE_FILES, part_column
from dfgen.spec import IntArray
from dfgen.table.any_table import Table, arrow_table
from dfgen.table.arrow_types import in_one, is_text, value_type

_SHOWN = 3


def duplicates(manifest: Path | Table, *, within: int | None = None) -> pd.DataFrame:
    """Return the rows whose files are copies of each other, in groups.

    Look at them before `dfgen.split(group_duplicates=True)`, or drop rows:
    `df.drop(found.index[found.duplicated("group")])` leaves one row of each group.

    Args:
        manifest: a file, or a frame or another table, with the columns `digest` and `phash`.
        within: bits in which the hashes of near copies differ, 0 to 4. None: 4, or fewer if the
            pictures look alike without being copies, as digits and X-rays do.

    Returns:
        A row for each row that has a copy, with its index, sorted by group. `group`: from 0, in the
        order of their first rows. `kind`: "exact" if all files of the group have the same bytes,
        else "near". `distance`: bits between its hash and that of the first row. `id`, `path`, and
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
    found = _columns(frame, rows)
    found.insert(0, "group", np.unique(first, return_inverse=True)[1].astype(np.int64))
    found.insert(1, "kind", np.where(exact, "exact", "near"))
    found.insert(2, "distance", files.distance(rows, first))
    return found


def leaks(manifest: Path | Table, *, within: int | None = None) -> pd.DataFrame:
    """Return the rows whose picture is in an earlier split too, such as of "val" in "train".

    A model is then measured on what it was trained on. `df.drop(found.index)` removes them from the
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
    """
    frame = frame_of_manifest(manifest)
    part = part_column(frame)
    if part is None:
        raise ManifestError(
            'the manifest has neither "split" nor "fold". Make one: dfgen.split. Columns: '
            f"{column_list(frame.columns)}"
        )
    found = leaking_rows(frame, part, within)
    rows, copies = (_columns(frame, found[name].to_numpy()) for name in ("row", "copy"))
    return rows.assign(
        **copies.add_prefix("other_").set_axis(rows.index),
        kind=np.array(["same file", "exact", "near"], object)[found["kind"]],
        distance=found["distance"].to_numpy(),
    )


def _columns(frame: pd.DataFrame, rows: IntArray) -> pd.DataFrame:
    """Return id, path, and split or fold of rows."""
    names = [name for name in ("id", "path", part_column(frame)) if name in frame]
    found = frame[names].iloc[rows].copy()
    found.attrs = {}
    return found


def shared_paths(paths: pa.Array, parts: npt.NDArray[np.int64]) -> str | None:
    """Return the warning about paths that are in several splits, if any.

    Args:
        paths: of the rows; missing ones are no files.
        parts: the number of the split of each row.
    """
    if not is_text(value_type(paths.type)):
        return None
    codes = in_one(paths).cast(pa.large_string()).dictionary_encode()
    if len(codes.dictionary) == len(codes):
        return None
    frame = pd.DataFrame({"path": codes.indices.to_pandas(), "part": parts})
    spread = frame.dropna().drop_duplicates()["path"].value_counts(sort=False)
    shared = spread.index[spread > 1].astype(int)
    if not len(shared):
        return None
    shown = listed(codes.dictionary.take(pa.array(shared[:_SHOWN])).to_pylist())
    lie = "lies" if len(shared) == 1 else "lie"
    return (
        f"{count(len(shared), 'path')} {lie} in rows of several splits, as {shown}: they are "
        'trained on and measured on. Keep the rows of a file in one split: group="path" '
        "(--group path)"
    )


def leaks_between_splits(frame: pd.DataFrame) -> str | None:
    """Return the warning about copies in several splits; None if there are none, or no hashes."""
    part = part_column(frame)
    if part is None or not all(name in frame for name in OF_WHOLE_FILES):
        return None
    if not pd.api.types.is_integer_dtype(frame["phash"]):  # a column of the user's own
        return None
    found = leaking_rows(frame, part)
    if not len(found):
        return None
    one, other = (frame[["id", part]].iloc[found[name][0]] for name in ("row", "copy"))
    return told(found["row"].nunique(), one["id"], one[part], other["id"], other[part])


def told(rows: int, row: object, part: object, other: object, place: object) -> str:
    """Return the warning about rows that leak, with one row and its copy."""
    have = "row has a copy of its" if rows == 1 else "rows have a copy of their"
    return (
        f"{rows:,} {have} picture in an earlier split, as id {quote(row)} of "
        f"{quote(part)} that of id {quote(other)} of {quote(place)}: they are trained on and "
        "measured on. Keep copies in one split, group_duplicates=True (--group-duplicates), or "
        "drop them: df.drop(leaks(df).index), with dfgen.manifest.duplicates.leaks"
    )


def notes_of(leak: str | None, frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the warning about leaks, else the one about files in several splits, if any.

    Rows of array files share them by their `index`.
    """
    part = part_column(frame)
    if leak is None and part is not None and "path" in frame and "index" not in frame:
        paths = arrow_table(frame[["path"]])["path"]
        leak = shared_paths(paths, codes_of(frame[part])[0])
    return () if leak is None else (leak,)
