"""The one door from pandas to Arrow, with errors that say which column is at fault, and back."""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError, brief
from dfgen.table.arrow_types import check_names, is_binary, is_list, is_text
from dfgen.table.file_columns import FILE, are_files, large_bytes

_BYTES = (bytes, bytearray, memoryview)
_FAILS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, ValueError)


def arrow_column(values: "pd.Series[Any]", of: str = "") -> Any:
    """Return a column as Arrow has it, paths as text; one of files in large types.

    Args:
        values: the column; None and NaN become null.
        of: whose it is, for messages: `" of the frame"`.

    Raises:
        ManifestError: Arrow cannot hold it: mixed types, numbers beyond 64 bits, no UTF-8.

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
        return large_bytes(pa.array(values, from_pandas=True)) if are_files(kind) else None
    if values.dtype != object:
        return None
    first = next((one for one in values if not (one is None or isinstance(one, float))), None)
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
    """Return the columns of a frame as an Arrow table; its index and attrs are left behind.

    Raises:
        ManifestError: two columns of one name, or as `arrow_column` says.
    """
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
    unsigned = [field.name for field in table.schema if field.type == pa.uint64()]
    for name in unsigned:  # of which floats would lose the last digits
        if unsigned.count(name) == 1 and table[name].null_count:
            whole = table[name].to_pandas(types_mapper=lambda kind: pd.UInt64Dtype())
            frame[name] = whole.set_axis(frame.index)
    return frame
