"""Converts tables to Arrow and back: pandas, and libraries with the Arrow PyCapsule interface.

Source: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html. Errors name the
column that cannot be converted.
"""

import os
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError, brief
from dfgen.table.arrow_types import (
    BYTES,
    FILE,
    LISTS,
    TEXT,
    are_files,
    check_names,
    large_bytes,
    storable,
    value_type,
    with_large_bytes,
)

# Of whole numbers and booleans with missing values; a float has only 53 bits.
PANDAS_TYPES = {
    pa.int64(): pd.Int64Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}

_BYTES = (bytes, bytearray, memoryview)
_NONE = (type(None), float, type(pd.NA), type(pd.NaT))  # types of missing values
_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
TAKEN = (
    "a pandas or Polars DataFrame, an Arrow table, a DuckDB relation or another object with "
    "__arrow_c_stream__"
)
_VALIDATED = 1 << 26  # bytes of a table up to which all offsets and indices are checked

Table = Any
"""A pandas DataFrame, or an object for which `is_table` is true."""


def is_table(table: object) -> bool:
    """Whether an object other than a pandas DataFrame is a table."""
    if isinstance(table, type) or type(table).__name__ == "Series":  # a column has it too
        return False
    return hasattr(table, "__arrow_c_stream__") or hasattr(table, "__arrow_c_array__")


def arrow_table(table: Table, where: str = "the frame") -> pa.Table:
    """Return any table as an Arrow table, in types that pyarrow computes with.

    Memory is shared if possible: numbers and text of Polars and DuckDB are not copied.

    Args:
        table: a table; a stream is read to its end.
        where: name of the table in messages.

    Example:
        >>> arrow_table(pa.record_batch({"id": [1, 2]})).column_names
        ['id']
    """
    if isinstance(table, pd.DataFrame):
        return to_table(table, where)
    if not is_table(table):
        raise ManifestError(f"{where} must be {TAKEN}, got {brief(table)}")
    try:
        found = pa.table(table)
        # indices may be beyond their dictionary
        found.validate(full=found.get_total_buffer_size() <= _VALIDATED)
        columns = map(_stored, found.schema, found.columns)
        named = pa.table([*columns], found.column_names, metadata=found.schema.metadata)
        return with_large_bytes(named)
    except Exception as error:
        raise ManifestError(
            f"{where} cannot be read as an Arrow table: {type(error).__name__}: {error}"
        ) from error


def _stored(field: pa.Field, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = storable(field.type)
    if pa.types.is_dictionary(kind) and column.type != kind:  # Arrow casts no categories to others
        chunks = [
            pa.DictionaryArray.from_arrays(
                one.indices.cast(kind.index_type),
                one.dictionary.cast(kind.value_type),
                ordered=kind.ordered,
            )
            for one in column.chunks
        ]
        column = pa.chunked_array(chunks, kind)
    if "_PL_CATEGORICAL" in str(field.metadata):  # a filter changes its codes, unlike an Enum's
        kind = value_type(kind)
    return column.cast(kind)


def data_frame(table: Table) -> pd.DataFrame:
    """Return any table as a DataFrame; a DataFrame is returned unchanged."""
    if isinstance(table, pd.DataFrame):
        return table
    return to_frame(arrow_table(table))


def arrow_column(values: "pd.Series[Any]", of: str = "") -> Any:
    """Return a column as an Arrow array: paths become text, files get large types.

    Args:
        values: the column; None and NaN become null.
        of: the table in messages, such as `" of the frame"`.

    Raises:
        ManifestError: Arrow has no type for the values.

    Example:
        >>> arrow_column(pd.Series([1.5, None])).to_pylist()
        [1.5, None]
    """
    is_object = str(values.dtype) == "object"
    for convert in (_array, _array_of_plain)[: 1 + is_object]:
        try:
            return convert(values)
        except UnicodeError:
            message = "text that is not Unicode, such as a file name in another encoding"
        except _ERRORS as error:
            message = str(error)
    types = {type(one).__name__ for one in values.dropna()} if is_object else {str(values.dtype)}
    raise ManifestError(
        f"column {values.name!r}{of} has {', '.join(sorted(types))}, which Arrow "
        f"cannot hold: {message}. Expected one type in all rows: numbers, text, paths or bytes of "
        "files, or lists of these"
    )


def _array(values: "pd.Series[Any]") -> Any:
    if isinstance(values.dtype, pd.ArrowDtype) and are_files(values.dtype.pyarrow_dtype):
        return large_bytes(pa.array(values))
    if values.dtype == object:
        first = next((value for value in values if not isinstance(value, _NONE)), None)
        if isinstance(first, dict) and first.keys() == {"bytes", "path"}:
            return pa.array(values, FILE, from_pandas=True)
        if isinstance(first, _BYTES):
            if not all(issubclass(one, _BYTES) for one in set(map(type, values[values.notna()]))):
                raise TypeError("bytes and other values are mixed")
            return pa.array(values, pa.large_binary(), from_pandas=True)
    array = pa.array(values, from_pandas=True)
    if array.type in BYTES:
        raise TypeError("text and bytes are mixed")  # Arrow would make bytes of both
    if isinstance(array.type, LISTS) and array.type.value_type in TEXT:
        array.validate(full=True)  # Arrow makes text of bytes in lists with text
    return array


def _array_of_plain(values: "pd.Series[Any]") -> Any:
    return _array(pd.Series(map(_plain, values), dtype=object))


def _plain(value: Any) -> Any:
    """Return a path as text, and an array or a tuple as a list."""
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0):
        return [os.fspath(one) if isinstance(one, os.PathLike) else one for one in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def to_table(frame: pd.DataFrame, where: str = "the frame") -> pa.Table:
    """Return the columns of a frame as an Arrow table, without its index and attrs."""
    check_names(list(frame.columns), where)
    bare = frame.copy(deep=False)
    bare.attrs = {}  # pyarrow would store them, the absolute root included
    # pandas cannot read the metadata that it would write about structs
    objects = {
        name: arrow_column(frame[name], f" of {where}")
        for name, dtype in frame.dtypes.items()
        if str(dtype) == "object"
        or (isinstance(dtype, pd.ArrowDtype) and are_files(dtype.pyarrow_dtype))
    }
    try:
        plain = pa.Table.from_pandas(bare.drop(columns=[*objects]), preserve_index=False)
    except _ERRORS as error:
        what = ": ".join(map(str, error.args))  # the last names the column
        raise ManifestError(f"{where} has a column that Arrow cannot hold: {what}") from error
    columns = {name: objects[name] if name in objects else plain[name] for name in frame.columns}
    return pa.table(columns, metadata=plain.schema.metadata)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a frame; columns of files stay in Arrow memory."""
    files = {kind: pd.ArrowDtype(kind) for kind in table.schema.types if are_files(kind)}
    frame: pd.DataFrame
    try:
        frame = table.to_pandas(types_mapper=files.get)
    except TypeError:  # pandas cannot read the names of its own dtypes of lists in Arrow
        frame = table.to_pandas(types_mapper=files.get, ignore_metadata=True)
    for name in frame.columns[[isinstance(kind, pd.CategoricalDtype) for kind in frame.dtypes]]:
        frame[name] = frame[name].copy()  # those of Arrow are read-only
    names = table.column_names
    for name, kind in zip(names, table.schema.types, strict=True):
        if kind in PANDAS_TYPES and names.count(name) == 1 and table[name].null_count:
            frame[name] = table[name].to_pandas(types_mapper=PANDAS_TYPES.get).set_axis(frame.index)
    return frame
