"""Tables of any make, as Arrow tables and as frames: whatever has the Arrow PyCapsule interface.

Source: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html. Here is the one
door from pandas to Arrow, with errors that say which column is at fault, and back.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError, brief
from dfgen.table.arrow_types import check_names, is_binary, is_list, is_text, storable
from dfgen.table.file_columns import FILE, are_files, large_bytes, with_large_bytes

# Whole numbers and booleans that may be missing: a float is no count of bytes, and holds 53 bits.
PANDAS_TYPES = {
    pa.int64(): pd.Int64Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}

_LISTS = 'make a frame of it, df = pd.DataFrame({"path": paths, "label": labels})'
_ARRAYS = f"{_LISTS}; fit takes arrays of pixels as they are"
_SAMPLES = 'make a frame of it, df = pd.DataFrame(given.samples, columns=["path", "label"])'
_FIT = f"fit takes it as it is; of its files {_LISTS.replace(' of it', '')}"
_MAKE = "give a frame, not what makes one"
_KINDS = {
    "NoneType": "give a frame first, of pd.read_csv(...) or dfgen.build_manifest(...)",
    "DataFrame": "it is a frame already, give it to dfgen.Sequence as it is",
    "DataFrameGroupBy": "give the frame itself",
    "Series": 'it is one column: give the whole frame, or several, df[["id", "path"]]; the rows of '
    "a mask are df[mask]",
    "dict": "make a frame of it, df = pd.DataFrame(given), or give one of the frames in it",
    **dict.fromkeys(("list", "tuple"), f"{_LISTS}; of frames pd.concat(given)"),
    **dict.fromkeys(("set", "Index", "generator"), _LISTS),
    **dict.fromkeys(("ndarray", "Tensor"), _ARRAYS),
    "DatasetFolder": _SAMPLES,  # and ImageFolder, of torchvision
    **dict.fromkeys(("DatasetV2", "PyDataset", "DataLoader", "Dataset", "IterableDataset"), _FIT),
    **dict.fromkeys(("type", "function", "method"), _MAKE),
}
"""Name of a class, or of one that it is made of -> what to do with an object of it."""
_BYTES = (bytes, bytearray, memoryview)
_NONE = (type(None), float, type(pd.NA), type(pd.NaT))  # of a value that is missing
_FAILS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, ValueError)


def frame_of(given: Any) -> str:
    """Return what an object is, and how a frame is made of it.

    Example:
        >>> frame_of(None)
        'None: give a frame first, of pd.read_csv(...) or dfgen.build_manifest(...)'
    """
    name = "None" if given is None else f"a {type(given).__name__}"
    if hasattr(type(given), "collect"):
        return f"{name}: call .collect() first"
    if hasattr(type(given), "to_pandas") and type(given).__name__ != "Series":
        return f"{name}: make a frame of it, df = given.to_pandas()"
    known = [_KINDS[kind.__name__] for kind in type(given).__mro__ if kind.__name__ in _KINDS]
    return f"{name}: {known[0]}" if known else name


TAKEN = (
    "a pandas or Polars DataFrame, an Arrow table, a DuckDB relation or whatever else has "
    "__arrow_c_stream__"
)

_READ_WHOLE = 1 << 26  # bytes of a table whose offsets and indices are all looked at

Table = Any
"""A pandas DataFrame, or whatever `is_table` says is one."""


def is_table(given: object) -> bool:
    """Whether `arrow_table` takes it."""
    streams = ("__arrow_c_stream__", "__arrow_c_array__")
    if isinstance(given, type) or type(given).__name__ == "Series":  # a column has such, too
        return False
    return any(hasattr(given, name) for name in streams)


def arrow_table(given: Table, where: str = "the frame") -> pa.Table:
    """Return the columns of any table in types that every Arrow since 15 computes with.

    Nothing is copied that Arrow can share: of Polars and DuckDB, numbers and text stay where they
    are. A stream is read to its end.

    Args:
        given: a table, as `is_table` knows them.
        where: how messages call it.

    Example:
        >>> arrow_table(pa.record_batch({"id": [1, 2]})).column_names
        ['id']
    """
    if isinstance(given, pd.DataFrame):
        return to_table(given, where)
    if not is_table(given):
        raise ManifestError(f"{where} must be {TAKEN}, got {frame_of(given)}")
    of_polars = type(given).__module__.partition(".")[0] == "polars"
    try:
        try:
            return _stored(pa.table(given), of_polars)
        except (pa.ArrowException, KeyError):  # of text as Polars has it, older Arrow knows nothing
            if not of_polars:
                raise
            return _stored(given.to_arrow(), of_polars)
    except Exception as error:
        raise ManifestError(
            f"{where} cannot be read as an Arrow table: {type(error).__name__}: {error}"
        ) from error


def _stored(table: pa.Table, of_polars: bool) -> pa.Table:
    # else numbers of classes may be any, and text that of other memory
    table.validate(full=table.nbytes <= _READ_WHOLE)
    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        column = _cast(column, storable(field.type))
        if _has_no_order(field, of_polars):
            column = column.cast(column.type.value_type)
        columns.append(column)
    return with_large_bytes(pa.table(columns, table.column_names, metadata=table.schema.metadata))


def _has_no_order(field: pa.Field, of_polars: bool) -> bool:
    """Whether categories are those of these rows alone, numbered as they come.

    A filter then changes their numbers. Polars's Categorical is such, its Enum is not.
    """
    marks = b" ".join(field.metadata or {})
    is_category = pa.types.is_dictionary(field.type)
    return is_category and (b"_PL_CATEGORICAL" in marks or (of_polars and b"_PL_ENUM" not in marks))


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    if not pa.types.is_dictionary(kind):
        return column.cast(kind)
    parts = [
        pa.DictionaryArray.from_arrays(
            chunk.indices.cast(kind.index_type),
            chunk.dictionary.cast(kind.value_type),
            ordered=kind.ordered,
        )
        for chunk in column.chunks
    ]  # Arrow casts no categories to others
    return pa.chunked_array(parts, kind)


def data_frame(given: Table) -> pd.DataFrame:
    """Return any table as a DataFrame, one that is one as it is."""
    if isinstance(given, pd.DataFrame):
        return given
    return to_frame(arrow_table(given))


def arrow_column(values: "pd.Series[Any]", of: str = "") -> Any:
    """Return a column as Arrow has it, paths as text; one of files in large types.

    Args:
        values: the column; None and NaN become null.
        of: whose it is, for messages: `" of the frame"`.

    Example:
        >>> arrow_column(pd.Series([1.5, None])).to_pylist()
        [1.5, None]
    """
    try:
        files = _files(values)
        if files is not None:
            return files
        array = pa.array(values, from_pandas=True)
        if is_binary(array.type):
            raise TypeError("text and bytes")  # which Arrow makes bytes of
        return _valid(array)
    except (OverflowError, UnicodeEncodeError) as error:
        raise ManifestError(_beyond(values.name, of, error)) from None
    except _FAILS:
        if values.dtype.kind != "O":
            raise ManifestError(_unknown_dtype(values, of)) from None
    given = values.dropna()
    if all(isinstance(value, str | os.PathLike) for value in given):
        return pa.array(values.map(os.fspath, na_action="ignore"), pa.large_string())
    if all(map(_is_list, given)):
        try:  # arrays of boxes, lists of paths
            return _valid(pa.array(values.map(_plain_list, na_action="ignore"), from_pandas=True))
        except _FAILS:
            kinds = sorted({type(entry).__name__ for entry in _entries(given)})
            fault, advice = f"has lists that mix {', '.join(kinds)}", "give all entries one type"
    else:
        kinds = sorted({type(value).__name__ for value in given})
        alike = "map(lambda one: one if isinstance(one, list) else [one])"
        one_type = alike if "list" in kinds else "astype(str)"
        fault = f"mixes {', '.join(kinds)}" if kinds[1:] else f"holds {kinds[0]}, which Arrow lacks"
        advice = f"give it one type, as with df[{values.name!r}] = df[{values.name!r}].{one_type}"
    pixels = _holds_pixels(next(iter(given), None))
    raise ManifestError(f"column {values.name!r}{of} {pixels or f'{fault}: {advice}'}")


def _files(values: "pd.Series[Any]") -> Any:
    """Return a column of bytes, or of structs of `bytes` and `path`; None: it is another one.

    Of Python objects, the first that is there tells.
    """
    if isinstance(values.dtype, pd.ArrowDtype):
        kind = values.dtype.pyarrow_dtype
        return large_bytes(pa.array(values)) if are_files(kind) else None
    if values.dtype != object:
        return None
    first = next((one for one in values if not isinstance(one, _NONE)), None)
    if isinstance(first, dict) and first.keys() == {"bytes", "path"}:
        return pa.array(values, FILE, from_pandas=True)
    if not isinstance(first, _BYTES):
        return None
    kinds = set(map(type, values[values.notna()]))
    if not all(issubclass(kind, _BYTES) for kind in kinds):
        raise TypeError("bytes and something else")  # of text Arrow would make bytes
    return pa.array(values, pa.large_binary(), from_pandas=True)


def _is_apart(dtype: Any) -> bool:
    """Whether a column is one of Python objects, or of files."""
    if isinstance(dtype, pd.ArrowDtype):
        return are_files(dtype.pyarrow_dtype)
    return isinstance(dtype, np.dtype) and dtype.kind == "O"


def _beyond(column: object, of: str, error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        what = "text that is not Unicode, such as a file name in another encoding"
        advice = "rename such files, or mend the text"
    else:
        what, advice = "a number beyond 64 bits", f"df[{column!r}] = df[{column!r}].astype(str)"
    return f"column {column!r}{of} holds {what}, expected what UTF-8 or 64 bits hold: {advice}"


def _unknown_dtype(values: "pd.Series[Any]", of: str) -> str:
    name, advice = values.name, "which Arrow lacks: make it another, such as float64"
    if isinstance(values.dtype, pd.SparseDtype):
        advice = f"expected a dense one: df[{name!r}] = df[{name!r}].sparse.to_dense()"
    elif values.dtype.kind == "c":
        real = f'df["{name}_real"] = df["{name}"].to_numpy().real'
        advice = f"which Arrow lacks: make two columns of it: {real}, and .imag"
    return f"column {name!r}{of} is of dtype {values.dtype}, {advice}"


def _holds_pixels(example: Any) -> str | None:
    """Return what to do with pixels in a column, None where it holds none."""
    image = hasattr(example, "getbands")  # of Pillow
    if not image and getattr(example, "ndim", 0) < 2:
        return None
    bytes_of = "bytes of a PNG file: cv2.imencode('.png', image)[1].tobytes()"
    if image:
        bytes_of = "bytes: image.save(buffer := io.BytesIO(), 'PNG'), then buffer.getvalue()"
    return (
        f"holds {brief(example)}, expected a number, a text or a list in each row: name files, "
        f"whose paths are short, or hold {bytes_of}"
    )


def _valid(array: pa.Array) -> pa.Array:
    """Return an array, unless Arrow has made text of bytes that stand in lists beside text."""
    if is_list(array.type) and is_text(array.type.value_type):
        array.validate(full=True)
    return array


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _plain_list(entries: Iterable[Any]) -> list[Any]:
    return [os.fspath(one) if isinstance(one, os.PathLike) else one for one in entries]


def _entries(lists: Iterable[Any]) -> Iterator[Any]:
    """Yield what is in lists of lists."""
    for entry in lists:
        if _is_list(entry):
            yield from _entries(entry)
        else:
            yield entry


def to_table(frame: pd.DataFrame, where: str = "the frame") -> pa.Table:
    """Return the columns of a frame as an Arrow table; its index and attrs are left behind."""
    check_names(list(frame.columns), where)
    of, bare = f" of {where}", frame.copy(deep=False)
    bare.attrs = {}  # newer pyarrow would store them, and with them the absolute root
    # Apart from the others: pandas cannot read what it would note of structs in Arrow.
    apart = [name for name in frame.columns if _is_apart(frame[name].dtype)]
    held = {name: arrow_column(frame[name], of) for name in apart}
    try:
        plain = pa.Table.from_pandas(bare.drop(columns=apart), preserve_index=False)
    except (*_FAILS, pa.ArrowException) as error:
        for name in bare.columns.difference(apart):
            arrow_column(frame[name], of)
        raise ManifestError(f"{where} has a column that Arrow cannot hold: {error}") from error
    columns = {name: held[name] if name in held else plain[name] for name in frame.columns}
    return pa.table(columns, metadata=plain.schema.metadata)


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a frame; columns that hold files stay in Arrow memory."""

    def kept(kind: pa.DataType) -> pd.ArrowDtype | None:
        return pd.ArrowDtype(kind) if are_files(kind) else None

    frame: pd.DataFrame
    try:
        frame = table.to_pandas(types_mapper=kept)
    except TypeError:  # pandas cannot read the names of its own dtypes of lists in Arrow
        frame = table.to_pandas(types_mapper=kept, ignore_metadata=True)
    for name in frame.columns[[isinstance(kind, pd.CategoricalDtype) for kind in frame.dtypes]]:
        frame[name] = frame[name].copy()  # as Arrow gives them they cannot be written to
    names = table.column_names
    for name, kind in zip(names, table.schema.types, strict=True):
        if kind in PANDAS_TYPES and names.count(name) == 1 and table[name].null_count:
            frame[name] = table[name].to_pandas(types_mapper=PANDAS_TYPES.get).set_axis(frame.index)
    return frame
