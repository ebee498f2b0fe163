"""Label columns as a manifest holds them: text, booleans and named integers as categories."""

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.manifest.schema import is_text, label_columns


def to_categories(table: pa.Table, named: Collection[str] = ()) -> pa.Table:
    """Make categories of the text and boolean label columns, and of the integers that are `named`.

    Class names are text: sorted for text, `False` and `True`, in numeric order for integers.
    Columns that are categories already keep their names and order; others stay as they are.

    Raises:
        ManifestError: A named column is neither text, boolean nor integer.

    Example:
        >>> to_categories(pa.table({"kind": ["dog", "cat"]}))["kind"].chunk(0).dictionary.to_pylist()
        ['cat', 'dog']
    """
    for name in [*label_columns(table.column_names), "split"]:
        if name in table.column_names:
            column = _to_category(name, table[name], name in named)
            table = table.set_column(table.column_names.index(name), name, column)
    return table


def _to_category(name: str, column: pa.ChunkedArray, named: bool) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column
    if pa.types.is_boolean(kind):
        column, values = pc.if_else(column, "True", "False"), pa.array(["False", "True"])
    elif is_text(kind):
        column = column.cast(pa.string())
        values = column.unique().drop_null()
        values = values.take(pc.sort_indices(values))
    elif pa.types.is_integer(kind) and named:
        values = column.unique().drop_null()
        values = values.take(pc.sort_indices(values))
    elif named:
        raise ManifestError(
            f'category="{name}": the column has type {kind}. Text and booleans are categories by '
            "themselves, whole numbers on request; others are not class names."
        )
    else:
        return column
    names = values.cast(pa.string())
    codes = pc.index_in(column, value_set=values).cast(pa.int32())
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(part, names) for part in codes.chunks],
        type=pa.dictionary(pa.int32(), pa.string()),
    )
