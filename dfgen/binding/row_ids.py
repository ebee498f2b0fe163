"""Ids of rows."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ManifestError, column_list
from dfgen.manifest.schema import validate
from dfgen.samples.bound_feature import BoundFeature
from dfgen.table.arrow_types import in_one, is_text
from dfgen.table.file_columns import paths_of


def ids_of(columns: Columns, id: str | None, files: BoundFeature | None) -> Any:
    """Return the ids of the rows, NumPy integers or Arrow text, checked beside the paths.

    Without a column named they are those of `id`, else the paths, where rows are read from `files`.
    Those of a pack that was given by its folder were checked when it was written.
    """
    own = id is None or (isinstance(id, str) and id == "id")
    mapped = columns.mapped_ids() if own else None
    if mapped is not None:
        return mapped
    path = None if files is None else files.feature.columns[0]
    paths = None if files is None else columns.known_paths(files)
    if id is None and "id" not in columns.names:
        if path is None or paths is None or pc.count_distinct(paths).as_py() < len(paths):
            of_text = path is not None and paths is not None and is_text(columns[path].type)
            repeated = _why_repeated(columns, str(path), paths) if of_text else ""
            raise ManifestError(
                f"the manifest has no column 'id' (columns: {column_list(columns.names)}). "
                f'Name the column that tells the rows apart: id="object_id"'
                + (repeated or ', or number them, df["id"] = range(len(df))')
            )
        name, ids = path, in_one(paths_of(columns[path]))  # as they stand there, without a root
    else:
        name = columns.check("id", "id" if id is None else id)
        ids = columns[name]
    if paths is not None and not paths.null_count:
        beside = paths
    else:  # a cast of 10^6 ids takes 13 ms
        beside = ids.cast(pa.large_string()) if _can_be_ids(ids) else pa.repeat("", len(ids))
    where = "the manifest" if name == "id" else f'the manifest (id="{name}")'
    try:
        validate(pa.table({"id": ids, "path": beside}), where)
    except ManifestError as error:
        again = _why_repeated(columns, name, ids) if _can_be_ids(ids) else ""
        said = str(error).replace('df["id"]', f'df["{name}"]')
        raise ManifestError(f"{said}{again}") from None
    return ids.to_numpy() if pa.types.is_integer(ids.type) else ids


def _can_be_ids(ids: pa.Array) -> bool:
    return pa.types.is_integer(ids.type) or is_text(ids.type)


def _why_repeated(columns: Columns, name: str, ids: pa.Array) -> str:
    """Return where rows of one id may come from, by what differs in them; nothing without such."""
    if ids.null_count or pc.count_distinct(ids).as_py() == len(ids):
        return ""
    first = next(value for value, count in Counter(ids.to_pylist()).items() if count > 1)
    rows = pc.indices_nonzero(pc.equal(ids, pa.scalar(first, ids.type)))[:2].to_numpy()
    chosen = np.isin(np.arange(len(columns)), rows)
    pair = Columns(columns.part(chosen))
    differing = [one for one in pair.names if len({*map(repr, pair[one].to_pylist())}) > 1]
    if differing:
        return (
            f". Rows {rows[0]} and {rows[1]} of {name}={first!r} differ in {', '.join(differing)}:"
            " was a table merged that has several rows of an id? Drop those first: "
            f"table.drop_duplicates({name!r}), or gather its rows: groupby({name!r}).agg(list)"
        )
    return (
        f". Rows {rows[0]} and {rows[1]} of {name}={first!r} are the same: to have rows several "
        "times in an epoch, leave them once and give balance=, a column of classes or of weights; "
        "else df = df.drop_duplicates()"
    )


def note_id(error: ManifestError, columns: Columns, id: str | None) -> None:
    """Add to an error that knows its row the id of that row, where there is a column of ids."""
    name = "id" if id is None else id
    if error.row is not None and name in columns.names:
        error.add_note(f"row {error.row} is the one with {name}={columns[name][error.row]}")
