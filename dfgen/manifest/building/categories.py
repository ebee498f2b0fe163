"""Label columns as a manifest holds them: text, booleans and named integers as categories."""

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import EXAMPLES, ManifestError, quote
from dfgen.manifest.schema import Label, label_columns, with_column
from dfgen.table.arrow_types import is_text


def to_categories(
    table: pa.Table, named: Collection[str] = (), known: Mapping[str, Label] | None = None
) -> pa.Table:
    """Make categories of the text and boolean label columns, and of the integers that are `named`.

    Class names are text: those that are `known`, else sorted for text, `False` and `True`, in
    numeric order for integers. Columns that are categories already stay as they are.
    """
    for name in [*label_columns(table.column_names), "split"]:
        if name in table.column_names:
            column = table[name]
            plain = is_text(column.type) or pa.types.is_boolean(column.type)
            if plain or (pa.types.is_integer(column.type) and name in named):
                column = to_category(column, (known or {}).get(name, {}).get("class_names"))
            elif name in named and not pa.types.is_dictionary(column.type):
                raise ManifestError(
                    f'category="{name}": the column has type {column.type}. Text and booleans are '
                    "categories by themselves, whole numbers on request; others are not classes"
                )
            elif name == "split" and not pa.types.is_dictionary(column.type):
                raise ManifestError(
                    f'the column "split" has type {column.type}, expected the name of the split of '
                    'each row, such as "train": make text of it, or rename it'
                )
            table = with_column(table, name, column)
    return table


def to_category(
    column: pa.ChunkedArray, class_names: Sequence[str | int] | None = None
) -> pa.ChunkedArray:
    """Return text, booleans or whole numbers as a category with text names, sorted as values.

    `class_names` of text are all its values, in another order or with more.
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


def with_classes(column: pa.ChunkedArray, names: pa.Array, ordered: bool) -> pa.ChunkedArray:
    """Return a column as a category of these names; values that are not among them are missing."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return as_category(pc.index_in(column.cast(names.type), value_set=names), names, ordered)


def numbered_after(name: str, old: int, new: Sequence[object]) -> tuple[str, ...]:
    """Return what to say of new classes of a column, if there are any."""
    if not new:
        return ()
    shown = ", ".join(map(quote, new[:EXAMPLES]))
    return (f"{name} has new classes, numbered after the {old} old ones: {shown}.",)


def as_category(codes: pa.ChunkedArray, names: pa.Array, ordered: bool = False) -> pa.ChunkedArray:
    """Return the category of class numbers."""
    parts = [pa.DictionaryArray.from_arrays(part, names, ordered=ordered) for part in codes.chunks]
    return pa.chunked_array(parts, type=pa.dictionary(codes.type, names.type, ordered))
