"""Tables of any make, as Arrow tables and as frames: whatever has the Arrow PyCapsule interface.

Source: https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html.
"""

import os
from collections.abc import Iterator
from operator import mul
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.from_pandas import to_frame, to_table
from dfgen.manifest.not_a_manifest import frame_of
from dfgen.samples.stores.embedded import are_files, large_bytes
from dfgen.table.arrow_types import storable

TAKEN = (
    "a pandas or Polars DataFrame, an Arrow table, a DuckDB relation or whatever else has "
    "__arrow_c_stream__"
)

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


def read_foreign_parquet(path: str, limits: Limits = DEFAULT) -> pa.Table:
    """Read a Parquet file of any writer, and look at all of it: text may be no UTF-8.

    Raises:
        ManifestError: it says that it unfolds to more than `limits.decoded_bytes`.
        Exception: whatever Arrow raises over a damaged one.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table = read_parquet(file, path, limits)
    table.validate(full=True)
    return table


def read_parquet(
    file: pq.ParquetFile, path: str, limits: Limits = DEFAULT, there: int | None = None
) -> pa.Table:
    """Read a Parquet file; one that holds files by its row groups, as Arrow wants of structs.

    `there` are its bytes; None: those of the file at `path`.

    Raises:
        ManifestError: a small one says that it unfolds to more than `limits.decoded_bytes`.
    """
    there = os.path.getsize(path) if there is None else there
    _refuse_unfolding(file, path, limits, there)
    if not any(map(are_files, file.schema_arrow.types)):
        return file.read()
    table = pa.concat_tables(map(file.read_row_group, range(file.num_row_groups)))
    return with_large_bytes(table)


_WIDTHS = {"BOOLEAN": 1 / 8, "INT32": 4, "FLOAT": 4, "INT96": 12, "BYTE_ARRAY": 4}
_PACKED = 100  # times as many bytes as a file has: no table with ids is so well packed


def _refuse_unfolding(file: pq.ParquetFile, path: str, limits: Limits, there: int) -> None:
    """Refuse a table of few bytes that stand, by run lengths and dictionaries, for very many."""
    nbytes = int(sum(_least(file)))
    if nbytes > _PACKED * there and not limits.allows("decoded_bytes", nbytes):
        what = f"{path} has {there:,} bytes, and says that it unfolds to {nbytes:,} or more"
        raise ManifestError(limits.refusal("decoded_bytes", nbytes, what))


def _least(file: pq.ParquetFile) -> Iterator[float]:
    """Yield what the columns of each row group take at least, by what the file says.

    Lists tell of their values in what a group says of a column. Of one that is damaged PyArrow ends
    the process when asked for it, and raises when it reads a row.
    """
    columns = [file.schema.column(place) for place in range(len(file.schema))]
    widths = [_WIDTHS.get(column.physical_type, 8) for column in columns]
    has_lists = any(column.max_repetition_level for column in columns)
    for place in range(file.num_row_groups):
        group = file.metadata.row_group(place)
        if has_lists:
            next(file.iter_batches(1, [place], use_threads=False), None)
            counts = (group.column(column).num_values for column in range(group.num_columns))
            yield from map(mul, counts, widths)
        else:
            yield group.num_rows * sum(widths)


def with_large_bytes(table: pa.Table) -> pa.Table:
    """Return a table whose columns of files are of types that hold more than 2 GB."""
    for place, field in enumerate(table.schema):
        if are_files(field.type):
            table = table.set_column(place, field.name, large_bytes(table[place]))
    return table
