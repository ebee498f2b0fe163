"""Reads Parquet files; a small file must not decompress to more than the limits allow."""

import os
from collections.abc import Iterator, Sequence
from operator import mul

import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.table.file_columns import are_files, with_large_bytes


def read_foreign_parquet(path: str, limits: Limits = DEFAULT) -> pa.Table:
    """Read a Parquet file of another writer and validate it, because its text may not be UTF-8.

    Raises:
        ManifestError: it would decompress to more than `limits.decoded_bytes`.
        Exception: Arrow cannot read it.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table = read_parquet(file, path, limits)
    table.validate(full=True)
    return table


def read_parquet(
    file: pq.ParquetFile,
    path: str,
    limits: Limits = DEFAULT,
    nbytes: int | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Read columns of a Parquet file.

    Args:
        file: the open file.
        path: its path.
        limits: with `decoded_bytes`.
        nbytes: size of the file; None asks the system.
        columns: to read; None for all.

    Raises:
        ManifestError: it would decompress to more than `limits.decoded_bytes`.
    """
    refuse_unfolding(file, path, limits, os.path.getsize(path) if nbytes is None else nbytes)
    if not any(map(are_files, file.schema_arrow.types)):
        return file.read(columns)
    # Arrow reads structs of more than 2 GB only by row groups.
    groups = (file.read_row_group(group, columns) for group in range(file.num_row_groups))
    return with_large_bytes(pa.concat_tables(groups))


_WIDTHS = {"BOOLEAN": 1 / 8, "INT32": 4, "FLOAT": 4, "INT96": 12, "BYTE_ARRAY": 4}
_RATIO = 100  # no table with ids compresses better


def refuse_unfolding(file: pq.ParquetFile, path: str, limits: Limits, nbytes: int) -> None:
    """Raise if run lengths and dictionaries make a small file very large."""
    unfolded = int(sum(_least(file)))
    if unfolded > _RATIO * nbytes:
        what = f"{path} has {nbytes:,} bytes, and decompresses to {unfolded:,} or more"
        limits.check("decoded_bytes", unfolded, what, ManifestError)


def _least(file: pq.ParquetFile) -> Iterator[float]:
    """Yield the least bytes of memory for each row group.

    Counts of list items are in the metadata of column chunks. If it is damaged, PyArrow
    crashes when it returns it, but raises when it reads a row, so a row is read first.
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
