"""Copies among the files of a manifest, and those that stand in several splits.

Exact copies have the same `digest`; near ones, saved anew, resized or cropped a little, have a
`phash` that differs in a few bits. Both are facts of `build_manifest(facts="full")`.
"""

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError, column_list
from dfgen.manifest.file_copies import FileCopies, file_copies, leaking_rows
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import part_column
from dfgen.spec import IntArray
from dfgen.table.any_table import Table


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
