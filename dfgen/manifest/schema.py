"""The columns of a manifest: their types, their labels, and their checks.

docs/reference/manifests.md specifies the format for other programs.
"""

import contextlib
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any, Literal, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, column_list, did_you_mean, first, quote
from dfgen.table.arrow_types import (
    DROP_EMPTY,
    LISTS,
    TEXT,
    are_files,
    are_fractions,
    are_numbers,
    check_names,
    empty_keys,
)

SCHEMA = pa.schema(
    {
        "bytes": pa.int64(),
        "mtime_ns": pa.int64(),
        "format": pa.string(),
        "width": pa.int32(),
        "height": pa.int32(),
        "channels": pa.int16(),
        "orientation": pa.int8(),
        "bits": pa.int16(),
        "frames": pa.int64(),
        "sample_rate": pa.int32(),
        "digest": pa.string(),
        "phash": pa.uint64(),
        "problem": pa.string(),
    }
)
"""The facts of files, in the order of a manifest."""

FACTS = dict.fromkeys(SCHEMA.names).keys()

OF_WHOLE_FILES = ("digest", "phash")
"""Facts that need the whole file decoded."""
PARTS = ("split", "fold")
"""Columns that assign rows to parts."""


class Label(TypedDict, total=False):
    """The metadata of one label column; `kind` is always stored."""

    kind: Literal["category", "text", "boolean", "number", "list", "other"]
    class_names: list[str | int]  # of a category or lists of classes, in the order of their indices
    ordered: bool  # whether the order of the classes has a meaning
    box_format: Literal["xyxy", "rel_xyxy"]  # of boxes; stored: pixels of the upright image
    corrected: bool  # whether `update_labels` changed labels since they were built


def has_whole_facts(schema: pa.Schema) -> bool:
    """Whether a table has the facts of whole files; a `digest` alone belongs to the user."""
    return all(name in schema.names for name in OF_WHOLE_FILES)


def label_columns(names: list[str]) -> list[str]:
    """Return the columns that are neither id, path, index, split, fold nor a fact."""
    return [name for name in names if name not in ("id", "path", "index", *PARTS, *FACTS)]


def part_column(names: Container[str]) -> str | None:
    """Return the column that assigns rows to parts, `split` before `fold`."""
    return next((name for name in PARTS if name in names), None)


def describe_labels(table: pa.Table, known: Mapping[str, Label] | None = None) -> dict[str, Label]:
    """Return the metadata of the label columns of a table.

    Class names and box format of lists, and the mark of corrected labels, come from `known`.
    """
    labels, known = {}, known or {}
    for name in label_columns(table.column_names):
        labels[name] = _describe(name, table[name])
        if labels[name]["kind"] == "list" and name in known:
            _check_classes(table, name, known[name].get("class_names"))
            labels[name] = {**known[name], **labels[name]}
        if known.get(name, {}).get("corrected"):
            labels[name]["corrected"] = True
    return labels


def _check_classes(table: pa.Table, name: str, class_names: list[str | int] | None) -> None:
    """Raise if a list has a value that is not among its class names."""
    values = pc.list_flatten(table[name])
    if class_names is None or pa.types.is_null(values.type):
        return
    known = pa.array(class_names, None if class_names else values.type)
    unknown = rows_where(pc.invert(pc.is_in(values, value_set=known)))
    if len(unknown):
        raise ManifestError(
            f'column "{name}" has lists with {quote(values[unknown[0].as_py()].as_py())}, which is '
            f"not among its class names {class_names}. Change the value, or the names in "
            f'df.attrs["dfgen"]["labels"]["{name}"]["class_names"]'
        )


def _describe(name: str, column: pa.ChunkedArray) -> Label:
    kind = column.type
    if pa.types.is_dictionary(kind):
        class_names = column.chunk(0).dictionary.to_pylist() if column.num_chunks else []
        if not all(type(value) in (str, int) for value in class_names):
            raise ManifestError(
                f'column "{name}" has categories of type {kind.value_type}. Class names are text '
                f'or whole numbers: df["{name}"] = df["{name}"].cat.rename_categories(str)'
            )
        label: Label = {"kind": "category", "class_names": class_names}
        return {**label, "ordered": True} if kind.ordered else label
    if are_numbers(kind):
        return {"kind": "number"}
    if kind in TEXT or pa.types.is_boolean(kind):
        return {"kind": "text" if kind in TEXT else "boolean"}
    return {"kind": "list" if isinstance(kind, LISTS) else "other"}


def files_column(schema: pa.Schema) -> str | None:
    """Return the column of files: `path`, or the first column that holds files themselves."""
    if "path" in schema.names:
        return "path"
    return next((field.name for field in schema if are_files(field.type)), None)


def validate(table: pa.Table, where: str = "the manifest") -> None:
    """Raise unless a table has unique ids and paths of the right types and without nulls."""
    check_table(table, where)
    refuse_repeated(table["id"], where)


def check_table(table: pa.Table, where: str = "the manifest") -> None:
    """Raise unless a table has ids and paths of the right types and without nulls."""
    names = table.column_names
    check_names(names, where)
    for name in ("id", "path"):
        if name not in names and not (name == "path" and files_column(table.schema)):
            advice = 'Give each row an id: df["id"] = range(len(df))' if name == "id" else ""
            raise ManifestError(
                f'{where} has no column "{name}". Columns: {column_list(names)}.'
                f"{did_you_mean(name, names)} {advice}".strip()
            )
    if not len(table):
        return
    if not (pa.types.is_integer(table["id"].type) or table["id"].type in TEXT):
        raise ManifestError(
            f'column "id" of {where} has type {table["id"].type}, expected whole numbers or text: '
            'df["id"] = df["id"].astype("int64"), or .astype(str). Rows without an id must be '
            'dropped before: df = df[df["id"].notna()]'
        )
    if "path" in names and table["path"].type not in TEXT:
        raise ManifestError(
            f'column "path" of {where} has type {table["path"].type}, expected text'
        )
    facts = [name for name in FACTS if name in names and are_files(table[name].type)]
    if facts:
        raise ManifestError(
            f'column "{facts[0]}" of {where} holds files, but in a manifest that is a fact of a '
            f'file. Rename it: df = df.rename(columns={{"{facts[0]}": "image"}})'
        )
    for name in ("path", "id"):  # ids may be made of paths
        empty = empty_keys(table[name]) if name in names else pa.chunked_array([], pa.bool_())
        if rows := ", ".join(map(str, first(rows_where(empty)))):
            raise ManifestError(
                f"{pc.sum(empty).as_py()} of {len(table)} rows of {where} have no {name}: row "
                f"{rows}. Fill them, or drop them: {DROP_EMPTY.format(name)}"
            )


def refuse_repeated(ids: pa.ChunkedArray, where: str) -> None:
    """Raise if an id is on several rows."""
    if len(ids) < 2 or pc.all(pc.less(ids[:-1], ids[1:]), skip_nulls=False).as_py():
        return
    if len(pc.unique(ids)) == len(ids):  # twice as fast as counting them
        return
    twice = repeated(ids.drop_null())
    examples = []
    for value in first(twice.field("values")):
        rows = rows_where(pc.fill_null(pc.equal(ids, pa.scalar(value, ids.type)), False))
        examples.append(f"{quote(value)} (rows {', '.join(map(str, first(rows)))})")
    if examples:  # else only nulls are repeated
        raise ManifestError(
            f"{where} has ids that are on several rows ({len(twice)}): {'; '.join(examples)}. "
            'Each row needs its own id. Find them with df[df["id"].duplicated(keep=False)]'
        )


def rows_where(mask: pa.ChunkedArray) -> pa.Array:
    """Return the row numbers where a mask is true."""
    return pc.indices_nonzero(mask.combine_chunks())


def repeated(values: pa.Array | pa.ChunkedArray) -> pa.StructArray:
    """Return the `values` that occur more than once, with their `counts`."""
    counts = pc.value_counts(values)
    return counts.filter(pc.greater(counts.field("counts"), 1))


def with_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    """Return a table with a column replaced, or added as the last."""
    if name not in table.column_names:
        return table.append_column(name, column)
    return table.set_column(table.column_names.index(name), name, column)


def without(table: pa.Table, names: Collection[str]) -> pa.Table:
    """Return a table without these columns."""
    return table.drop_columns([name for name in table.column_names if name in names])


def to_categories(
    table: pa.Table,
    named: Collection[str] = (),
    known: Mapping[str, Label] | None = None,
    always: Collection[str] = (),
) -> pa.Table:
    """Return a table whose class columns are categories.

    These are booleans, text with at most 1,000 distinct values or with fewer than half of the
    rows, whole numbers that are `named`, and the text columns that are `named`, are `always`
    categories, or are `known` as categories. Class names are text: the known ones, else sorted for
    text, `False` and `True`, in numeric order for integers. Columns that are known as `text` stay
    text.
    """
    for name in [*label_columns(table.column_names), "split"]:
        label = (known or {}).get(name)
        if name not in table.column_names or (label and label.get("kind") == "text"):
            continue
        column = table[name]
        if name == "split" and column.type in TEXT:
            column = pc.if_else(empty_keys(column), None, column)
        if pa.types.is_dictionary(column.type):
            continue
        if name in named and are_fractions(column.type):  # whole numbers beside missing ones
            with contextlib.suppress(pa.ArrowInvalid):
                column = column.cast(pa.int64())
        wanted = name in (*named, *always, "split") or label is not None
        is_code = pa.types.is_boolean(column.type) or (
            pa.types.is_integer(column.type) and name in named
        )
        if is_code or (column.type in TEXT and (wanted or _has_few_values(column))):
            names = (label or {}).get("class_names")
            table = with_column(table, name, to_category(column, names))
        elif name in (*named, "split") and column.type not in TEXT:
            raise ManifestError(
                f'the column "{name}" has type {column.type}, expected '
                + ('a split name such as "train" in each row: make it text' if name == "split"
                   else "text, booleans or whole numbers, because it is in category=: read it "
                   "as text, with dtype=str in pandas")
            )  # fmt: skip
    return table


def _has_few_values(column: pa.ChunkedArray) -> bool:
    names = pc.unique(column)
    few = len(names) <= 1000 or 2 * len(names) < len(column)
    return few and names.nbytes < 1 << 23


def to_category(
    column: pa.ChunkedArray, class_names: Sequence[str | int] | None = None
) -> pa.ChunkedArray:
    """Return text, booleans or whole numbers as a category with text names, sorted as values.

    `class_names` are all values of a text column, in another order or with more.
    """
    if class_names is not None:
        values = pa.array(class_names, pa.string())
    elif pa.types.is_boolean(column.type):
        column, values = pc.if_else(column, "True", "False"), pa.array(["False", "True"])
    else:
        values = column.unique().drop_null()
        values = values.take(pc.sort_indices(values))
    return as_category(pc.index_in(column, value_set=values), values.cast(pa.string()))


def class_names(column: pa.ChunkedArray) -> pa.Array:
    """Return the class names of a category in their order, of others the sorted values."""
    if pa.types.is_dictionary(column.type):
        if column.num_chunks:
            return column.chunk(0).dictionary
        return pa.array([], column.type.value_type)
    return column.cast(pa.string()).unique().drop_null().sort()


def known_first(names: pa.Array, known: pa.Array) -> pa.Array:
    """Return the known class names in their order, then those of `names` that are new."""
    new = names.filter(pc.invert(pc.is_in(names, value_set=known)))
    return pa.concat_arrays([known, pc.unique(new).drop_null()])


def with_classes(column: Any, names: pa.Array, ordered: bool = False) -> pa.ChunkedArray:
    """Return a column as a category of these names; values that are not among them are missing."""
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if not pa.types.is_dictionary(column.type):
        return as_category(pc.index_in(column.cast(names.type), value_set=names), names, ordered)
    codes = [
        pc.index_in(chunk.dictionary.cast(names.type), value_set=names).take(chunk.indices)
        for chunk in column.chunks
    ]
    return as_category(pa.chunked_array(codes, pa.int32()), names, ordered)


def as_category(codes: pa.ChunkedArray, names: pa.Array, ordered: bool = False) -> pa.ChunkedArray:
    """Return the category of class indices; an empty one has its names too."""
    chunks = codes.chunks or [pa.array([], codes.type)]
    parts = [pa.DictionaryArray.from_arrays(part, names, ordered=ordered) for part in chunks]
    return pa.chunked_array(parts, type=pa.dictionary(codes.type, names.type, ordered))
