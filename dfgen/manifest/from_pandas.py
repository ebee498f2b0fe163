"""From pandas to Arrow, with errors that say which column is at fault."""

from typing import Any

import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.manifest.schema import check_names
from dfgen.samples.stores.embedded import FILE, are_files, large_bytes
from dfgen.table.arrow_types import is_binary

_BYTES = (bytes, bytearray, memoryview)


def embedded_bytes(values: "pd.Series[Any]") -> Any:
    """Return a column of bytes, or of structs of `bytes` and `path`, as Arrow, in large types.

    None: it is another column. Of Python objects, the first that is there tells.

    Raises:
        pa.ArrowTypeError: the column mixes types.
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
        raise pa.ArrowTypeError("bytes and something else")  # of text Arrow would make bytes
    return pa.array(values, pa.large_binary(), from_pandas=True)


def beyond_arrow(column: str, error: Exception) -> str:
    """Return what of a column Arrow cannot hold, and what to do: numbers and text beyond it."""
    what, advice = "a number beyond 64 bits", f"df[{column!r}] = df[{column!r}].astype(str)"
    if isinstance(error, UnicodeEncodeError):
        what = "text that is not Unicode, such as a file name in another encoding"
        advice = "rename such files, or mend the text"
    return f"column {column!r}, which holds {what}, expected what UTF-8 or 64 bits hold: {advice}"


def _fits(values: "pd.Series[Any]") -> bool:
    try:
        pa.array(values, from_pandas=True)
    except (OverflowError, UnicodeEncodeError):
        return False
    except (pa.ArrowException, TypeError, ValueError):
        pass
    return True


def to_table(frame: pd.DataFrame, where: str = "the frame") -> pa.Table:
    """Return the columns of a frame as an Arrow table; its index and attrs are left behind."""
    check_names(list(frame.columns), where)
    imaginary = [name for name in frame.columns if frame[name].dtype.kind == "c"]
    if imaginary:
        name = imaginary[0]
        raise ManifestError(
            f'column "{name}" of {where} holds complex numbers, which Parquet lacks. Make two '
            f'columns of it: df["{name}_real"] = df["{name}"].to_numpy().real, and .imag'
        )
    sparse = [name for name in frame.columns if isinstance(frame[name].dtype, pd.SparseDtype)]
    if sparse:
        name = sparse[0]
        raise ManifestError(
            f"column {name!r} of {where} is of dtype {frame[name].dtype}, expected a dense one, "
            f"which Parquet holds: df[{name!r}] = df[{name!r}].sparse.to_dense()"
        )
    bare = frame.copy(deep=False)
    bare.attrs = {}  # newer pyarrow would store them, and with them the absolute root
    try:
        held = {name: embedded_bytes(frame[name]) for name in frame.columns}
        held = {name: values for name, values in held.items() if values is not None}
        table = pa.Table.from_pandas(bare.drop(columns=[*held]), preserve_index=False)
        mixed = [field.name for field in table.schema if is_binary(field.type)]
        if mixed:
            raise pa.ArrowTypeError(f"text and bytes in column {mixed[0]}")
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = "; ".join(str(part) for part in error.args)
        beyond = [name for name in frame.columns if not _fits(frame[name])]
        if isinstance(error, OverflowError | UnicodeEncodeError) and beyond:
            raise ManifestError(f"{where} has {beyond_arrow(beyond[0], error)}") from error
        raise ManifestError(
            f"{where} has a column that mixes types, or of a type that Parquet lacks: {reason}. "
            'Convert it, for example Path objects with df["path"] = df["path"].astype(str)'
        ) from error
    # apart from the others: pandas cannot read what it would note of structs in Arrow
    for name, values in held.items():
        table = table.add_column(list(frame.columns).index(name), name, values)
    return table


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a frame; columns that hold files stay in Arrow memory."""

    def kept(kind: pa.DataType) -> pd.ArrowDtype | None:
        return pd.ArrowDtype(kind) if are_files(kind) else None

    frame: pd.DataFrame
    try:
        frame = table.to_pandas(types_mapper=kept)
    except TypeError:  # pandas cannot read the names of its own dtypes of lists in Arrow
        frame = table.to_pandas(types_mapper=kept, ignore_metadata=True)
    unsigned = [field.name for field in table.schema if field.type == pa.uint64()]
    for name in unsigned:  # of which floats would lose the last digits
        if unsigned.count(name) == 1 and table[name].null_count:
            whole = table[name].to_pandas(types_mapper=lambda kind: pd.UInt64Dtype())
            frame[name] = whole.set_axis(frame.index)
    return frame
