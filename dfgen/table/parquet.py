"""Parquet files of any writer, read as Arrow tables: none unfolds to more than it may."""

import os
from collections.abc import Iterator
from operator import mul

import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.table.file_columns import are_files, with_large_bytes


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
