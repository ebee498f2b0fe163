"""Differences between two manifests."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
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
from dfgen.table.arrow_types import are_numbers, in_one, is_list, value_type
from dfgen.table.file_columns import are_files, content_parts, content_shown

DIFFERENCES = ("columns", "classes", "added", "removed", "changed", "relabelled", "moved")

BoolArray = npt.NDArray[np.bool_]


def diff(a: Path | Table, b: Path | Table) -> pd.DataFrame:
    """List the differences between two manifests; rows are compared by their id.

    Use it to see what an update, a new split or other arguments changed. The order of the rows does
    not matter. Paths are compared below the root of each manifest, so a data set that moved as a
    whole is the same.

    Args:
        a: the older manifest: a file, a frame or another table.
        b: the newer one.

    Returns:
        One row per difference: `change`, `id`, `column`, and the `old` and `new` value as text,
        missing if there is none. `change` is "added" or "removed" (a row), "changed" (a path or a
        fact), "relabelled", "moved" (to another split), "columns" (one manifest lacks the column),
        or "classes" (other class names, or another order). No rows: the manifests agree.

    Raises:
        MissingFileError: there is no such file.
        ManifestError: one of them is not a manifest.

    Example:
        >>> old = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "kind": ["cat", "dog"]})
        >>> diff(old, old.assign(kind="cat"))
               change  id column  old  new
        0  relabelled   2   kind  dog  cat
    """
    (old, old_labels), (new, new_labels) = _stored(a), _stored(b)
    if old["id"].type != new["id"].type:
        old, new = (with_column(table, "id", as_text(table["id"])) for table in (old, new))
    parts, nothing = [], pa.nulls(1, old["id"].type)
    for name in dict.fromkeys([*old.column_names, *new.column_names]):
        kinds = [str(t[name].type) if name in t.column_names else None for t in (old, new)]
        if None in kinds:
            parts.append(_listed("columns", nothing, name, *kinds))
        elif name in label_columns(old.column_names):
            names = [_classes(old, old_labels, name), _classes(new, new_labels, name)]
            if None not in names and names[0] != names[1]:
                parts.append(_listed("classes", nothing, name, *names))
    places = pc.index_in(new["id"], value_set=old["id"])
    gone = pc.invert(pc.is_in(old["id"], value_set=new["id"]))
    parts.append(_listed("added", new["id"].filter(pc.is_null(places))))
    parts.append(_listed("removed", old["id"].filter(gone)))
    new, old = new.filter(pc.is_valid(places)), old.take(places.drop_null())
    for name in old.column_names:
        if name != "id" and name in new.column_names:
            mask = pa.array(differ(old[name], new[name]))
            one, other = (table.filter(mask) for table in (old, new))
            values = as_text(one[name]), as_text(other[name])
            parts.append(_listed(_change(name, one[name].type), one["id"], name, *values))
    return in_order(pa.concat_tables(parts), DIFFERENCES)


def in_order(rows: pa.Table, changes: tuple[str, ...]) -> pd.DataFrame:
    """Return a list of changes as a frame, sorted by kind, without secrets of URLs."""
    for name in rows.column_names:
        if pa.types.is_string(rows[name].type):
            shown = [value and without_secrets(value) for value in rows[name].to_pylist()]
            rows = with_column(rows, name, pa.array(shown, pa.string()))
    frame: pd.DataFrame = rows.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    frame["change"] = pd.Categorical(frame["change"], categories=changes)
    return frame.sort_values("change", kind="stable", ignore_index=True)


def _stored(manifest: Path | Table) -> tuple[pa.Table, Mapping[str, Label]]:
    """Return a manifest with stored paths and int64 or text ids, and its labels."""
    if isinstance(manifest, str | os.PathLike):
        table, metadata = read_table(manifest)
        root, labels = metadata.root, metadata.labels
    else:
        table, known = arrow_table(manifest), getattr(manifest, "attrs", {}).get("dfgen", {})
        validate(table, "the frame")
        root, labels = known.get("root"), known.get("labels", {})
    kind = pa.int64() if pa.types.is_integer(table["id"].type) else pa.string()
    table = with_column(table, "id", table["id"].cast(kind))
    return (stored_paths(table, None, root)[0] if len(table) else table), labels


def _classes(table: pa.Table, labels: Mapping[str, Label], name: str) -> str | None:
    """Return the class names of a category or of lists, as text."""
    names = labels.get(name, Label()).get("class_names")
    if pa.types.is_dictionary(table[name].type):
        names = class_names(table[name]).to_pylist()
    return None if names is None else json.dumps(names, ensure_ascii=False, default=str)


def _listed(change: str, ids: Any, column: str | None = None, *values: Any) -> pa.Table:
    """Return rows of the result; `values` are the old and the new ones."""
    old, new = (
        pa.array([value] * len(ids), pa.string()) if isinstance(value, str | None) else value
        for value in values or (None, None)
    )
    changes, columns = [change] * len(ids), pa.array([column] * len(ids), pa.string())
    return pa.table(
        {"change": pa.array(changes, pa.string()), "id": ids, "column": columns, "old": old,
         "new": new}
    )  # fmt: skip


def _change(name: str, kind: pa.DataType) -> str:
    if are_files(kind) or name in ("path", "index", *FACTS):
        return "changed"
    return "moved" if name in PARTS else "relabelled"


def differ(one: Any, other: Any) -> BoolArray:
    """Return for each row whether two columns differ; missing equals missing alone."""
    one, other = plain(one), plain(other)
    if one.type != other.type:
        numbers = are_numbers(one.type) and are_numbers(other.type)
        whole = pa.types.is_integer(one.type) and pa.types.is_integer(other.type)
        kind = pa.int64() if whole else pa.float64() if numbers else one.type
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
            one, other = one.cast(kind, safe=not numbers), other.cast(kind, safe=not numbers)
    if one.type != other.type or pa.types.is_nested(one.type):
        one, other = as_text(one), as_text(other)
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    mask = pc.or_(unequal, pc.xor(pc.is_null(one), pc.is_null(other)))
    return np.asarray(mask.to_numpy(zero_copy_only=False))


def plain(column: Any) -> pa.Array:
    """Return one array without dictionary and NaN; lists are large, and files are text."""
    if are_files(column.type):
        return pa.array(map(_file_shown, column), pa.string())
    kind = value_type(column.type)
    if isinstance(kind, pa.BaseExtensionType):  # periods, intervals
        values = (None if value is None else str(value) for value in column.to_pylist())
        return pa.array(values, pa.string())
    array = in_one(column).cast(pa.string() if pa.types.is_null(kind) else kind)
    if is_list(kind):
        return array.cast(pa.large_list(kind.value_type))
    if pa.types.is_floating(kind):
        array = array.cast(pa.float64())
        return pc.if_else(pc.is_nan(array), None, array)
    return array


def _file_shown(content: pa.Scalar) -> str | None:
    """Return path, size and digest of a file in a table."""
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
