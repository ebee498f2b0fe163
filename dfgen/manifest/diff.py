"""Differences between two manifests."""

import json
import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import without_secrets
from dfgen.manifest.io import Path
from dfgen.manifest.paths import stored_paths
from dfgen.manifest.schema import (
    FACTS,
    PARTS,
    Label,
    class_names,
    label_columns,
    validate,
    with_column,
)
from dfgen.manifest.table_reading import read_table
from dfgen.table.any_table import Table, arrow_table
from dfgen.table.arrow_types import are_numbers, is_list, value_type
from dfgen.table.file_columns import are_files, content_parts, content_shown

DIFFERENCES = ("columns", "classes", "added", "removed", "changed", "relabelled", "moved")

BoolArray = npt.NDArray[np.bool_]
LabelledTable = tuple[pa.Table, Mapping[str, Label]]
"""The rows of a manifest, and what its metadata says of the labels."""


def diff(a: Path | Table, b: Path | Table) -> pd.DataFrame:
    """List what differs between two manifests, rows being compared by their id.

    Use it to see what an update, a new split or another recipe did. The order of the rows does not
    matter. Paths are compared below the root of each, so a data set that moved as a whole is the
    same.

    Args:
        a: the older manifest: a file, or a frame or another table.
        b: the newer one.

    Returns:
        One row a difference: `change`, `id`, `column`, and the `old` and `new` value as text,
        missing where there is none. `change` is "added" or "removed" (a row), "changed" (its path
        or a fact of its file), "relabelled", "moved" (to another split), "columns" (a column that
        one of them lacks), or "classes" (other class names or another order of them). No rows: the
        manifests agree.

    Raises:
        MissingFileError: there is no such file.
        ManifestError: one of them is not a manifest.

    Example:
        >>> old = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "kind": ["cat", "dog"]})
        >>> diff(old, old.assign(kind="cat"))
               change  id column  old  new
        0  relabelled   2   kind  dog  cat
    """
    return _diff(_stored(a), _stored(b))


def _diff(*sides: LabelledTable) -> pd.DataFrame:
    old, new = (table for table, _ in sides)
    if old["id"].type != new["id"].type:
        old, new = (with_column(table, "id", as_text(table["id"])) for table in (old, new))
    parts = [*_columns(old, new), *_classes(*sides)]
    places = pc.index_in(new["id"], value_set=old["id"])
    gone = pc.invert(pc.is_in(old["id"], value_set=new["id"]))
    parts.append(_listed("added", new["id"].filter(pc.is_null(places))))
    parts.append(_listed("removed", old["id"].filter(gone)))
    new = new.filter(pc.is_valid(places))
    old = old.take(places.drop_null())
    for name in old.column_names:
        if name != "id" and name in new.column_names:
            mask = pa.array(differ(old[name], new[name]))
            one, other = (table.filter(mask) for table in (old, new))
            values = as_text(one[name]), as_text(other[name])
            parts.append(_listed(_change(name, one[name].type), one["id"], name, *values))
    return in_order(pa.concat_tables(parts), DIFFERENCES)


def in_order(found: pa.Table, changes: tuple[str, ...]) -> pd.DataFrame:
    """Return a list of changes as a frame, sorted by kind."""
    for name in found.column_names:
        if pa.types.is_string(found[name].type):
            shown = [value and without_secrets(value) for value in found[name].to_pylist()]
            found = with_column(found, name, pa.array(shown, pa.string()))
    frame: pd.DataFrame = found.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    frame["change"] = pd.Categorical(frame["change"], categories=changes)
    return frame.sort_values("change", kind="stable", ignore_index=True)


def _stored(manifest: Path | Table) -> LabelledTable:
    """Return a manifest with paths as stored and whole ids as int64."""
    if isinstance(manifest, str | os.PathLike):
        table, metadata = read_table(manifest, reads_files=False)
        return _relative(table, metadata["root"]), metadata["labels"]
    table, known = arrow_table(manifest), getattr(manifest, "attrs", {}).get("dfgen", {})
    validate(table, "the frame")
    return _relative(table, known.get("root")), known.get("labels", {})


def _relative(table: pa.Table, root: str | None) -> pa.Table:
    kind = pa.int64() if pa.types.is_integer(table["id"].type) else pa.string()
    table = with_column(table, "id", table["id"].cast(kind))
    return stored_paths(table, None, root)[0] if len(table) else table


def _columns(old: pa.Table, new: pa.Table) -> Iterator[pa.Table]:
    for name in dict.fromkeys([*old.column_names, *new.column_names]):
        kinds = [str(t[name].type) if name in t.column_names else None for t in (old, new)]
        if None in kinds:
            yield _whole("columns", old["id"].type, name, *kinds)


def _classes(*sides: LabelledTable) -> Iterator[pa.Table]:
    (old, _), (new, _) = sides
    for name in label_columns(old.column_names):
        if name in new.column_names:
            names = [_class_names(table, labels, name) for table, labels in sides]
            if None not in names and names[0] != names[1]:
                yield _whole("classes", old["id"].type, name, *names)


def _class_names(table: pa.Table, labels: Mapping[str, Label], name: str) -> str | None:
    """Return the classes of a category, or those known of a list, as text."""
    if pa.types.is_dictionary(table[name].type):
        names = class_names(table[name]).to_pylist()
    else:
        names = labels.get(name, {}).get("class_names")
    return None if names is None else json.dumps(names, ensure_ascii=False, default=str)


def _whole(change: str, kind: pa.DataType, name: str, *values: str | None) -> pa.Table:
    """Return a difference that is of no row."""
    old, new = (pa.array([value], pa.string()) for value in values)
    return _listed(change, pa.nulls(1, kind), name, old, new)


def _listed(
    change: str,
    ids: pa.ChunkedArray | pa.Array,
    column: str | None = None,
    old: pa.Array | None = None,
    new: pa.Array | None = None,
) -> pa.Table:
    nothing = pa.nulls(len(ids), pa.string())
    about = nothing if column is None else pa.repeat(column, len(ids))
    old, new = (nothing if values is None else values for values in (old, new))
    return pa.table(
        {"change": pa.repeat(change, len(ids)), "id": ids, "column": about, "old": old, "new": new}
    )


def _change(name: str, kind: pa.DataType) -> str:
    if are_files(kind) or name in ("path", "index", *FACTS):
        return "changed"
    return "moved" if name in PARTS else "relabelled"


def differ(one: Any, other: Any) -> BoolArray:
    """Say for each row whether two columns differ; missing is equal to missing alone."""
    one, other = plain(one), plain(other)
    if is_list(one.type) and is_list(other.type):
        return _lists_differ(one, other)
    if one.type != other.type:
        numbers = are_numbers(one.type) and are_numbers(other.type)
        whole = pa.types.is_integer(one.type) and pa.types.is_integer(other.type)
        kind = pa.int64() if whole else pa.float64()
        one, other = (c.cast(kind, safe=False) if numbers else as_text(c) for c in (one, other))
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.fromiter((a != b for a, b in pairs), bool, len(one))
    missing = pc.is_null(one), pc.is_null(other)
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    mask: BoolArray = pc.or_(unequal, pc.xor(*missing)).to_numpy(zero_copy_only=False)
    return mask


def _lists_differ(one: pa.Array, other: pa.Array) -> BoolArray:
    lengths = [pc.fill_null(pc.list_value_length(c), -1).to_numpy(False) for c in (one, other)]
    mask: BoolArray = lengths[0] != lengths[1]
    rows = np.flatnonzero(~mask & (lengths[0] > 0))
    one, other = one.take(pa.array(rows)), other.take(pa.array(rows))
    inner = differ(one.flatten(), other.flatten())
    mask[rows[pc.list_parent_indices(one).to_numpy()[inner]]] = True
    return mask


def plain(column: Any) -> pa.Array:
    """Return one array without dictionary, NaN, the several kinds of lists, and files."""
    if are_files(column.type):
        return pa.array(map(_file_shown, column), pa.string())
    if isinstance(value_type(column.type), pa.BaseExtensionType):  # periods, intervals
        values = (None if value is None else str(value) for value in column.to_pylist())
        return pa.array(values, pa.string())
    column = column.cast(value_type(column.type))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no rows
        column = pa.array([], column.type)
    kind = column.type
    if pa.types.is_null(kind):  # what older pandas make of text that is missing in all rows
        return column.cast(pa.string())
    if is_list(kind):
        return column.cast(pa.large_list(kind.value_type))
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        return pc.if_else(pc.is_nan(column), None, column)
    return column


def _file_shown(content: pa.Scalar) -> str | None:
    """Return what tells a file that a table holds from others: path, size and digest."""
    if not content.is_valid:
        return None
    value = content.as_py()
    data = content_parts(value)[0]
    digest = "" if data is None else f", {blake2b(data, digest_size=8).hexdigest()}"
    return f"{content_shown(value)}{digest}"


def as_text(column: Any) -> pa.Array:
    """Return the values of a column as messages show them."""
    values = plain(column)
    if pa.types.is_nested(values.type):
        lists = (None if v is None else json.dumps(v, default=str) for v in values.to_pylist())
        return pa.array(lists, pa.string())
    return values.cast(pa.string())
