"""Receipts of a training as a Parquet file, one row an epoch."""

import os
from collections.abc import Iterable
from dataclasses import asdict, fields

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError
from dfgen.loading.receipts import Receipt
from dfgen.system import check_writable, write_whole

_TYPES = {"digest": pa.string(), "counted": pa.string(), "draws": pa.map_(pa.int64(), pa.int64())}
_COLUMNS = pa.schema(
    pa.field(each.name, _TYPES.get(each.name, pa.int64()), nullable=False)
    for each in fields(Receipt)
)


def read_receipts(path: str | os.PathLike[str]) -> pa.Table:
    """Return the table of receipts in a file, without rows where one could be written."""
    path = os.path.abspath(path)
    if not os.path.exists(path):
        check_writable(path)
        return _COLUMNS.empty_table()
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        raise ArgumentError(
            f"{path} is no Parquet file of receipts: {str(error).rstrip('.')}. InputMonitor "
            "adds to such a file: name a new file, or one that it wrote"
        ) from error
    if table.column_names != _COLUMNS.names:
        raise ArgumentError(
            f"{path} has the columns {', '.join(table.column_names)}; receipts have "
            f"{', '.join(_COLUMNS.names)}. Name another file"
        )
    return table.cast(_COLUMNS)


def add_receipts(path: str | os.PathLike[str], receipts: Iterable[Receipt]) -> None:
    """Add receipts to a file, which stays whole; an epoch that is there already is replaced.

    So are later ones: they are of a training that went on from before them.
    """
    table = read_receipts(path)
    for receipt in receipts:
        row = pa.Table.from_pylist([asdict(receipt)], _COLUMNS)
        table = pa.concat_tables([table.filter(pc.less(table["epoch"], receipt.epoch)), row])
    write_whole(os.path.abspath(path), lambda file: pq.write_table(table, file))
