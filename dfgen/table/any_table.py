"""Tables of any make, as Arrow tables and as frames: whatever has the Arrow PyCapsule interface.

Source: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html.
"""

from typing import Any

import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.table.arrow_types import storable
from dfgen.table.file_columns import with_large_bytes
from dfgen.table.from_pandas import to_frame, to_table

_LISTS = 'make a frame of it, df = pd.DataFrame({"path": paths, "label": labels})'
_ARRAYS = f'{_LISTS}; of pixels dfgen.build_manifest(arrays="x.npy") makes one, or fit takes them'
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

    Raises:
        ManifestError: it is no table, or one that Arrow cannot hold.

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
