"""Parquet files: none that is read unfolds to more than it may; those written have a checksum.

Parquet has checksums of pages alone: none of their headers, of statistics, and of the footer with
the schema and its metadata. So 16 bytes stand between the last page and the footer, where no reader
looks: `dfgenCRC32: ` and, as a little-endian integer, the CRC-32 of all other bytes of the file.
A program that rewrites the file leaves them out. manifests/README.md specifies them for others.
"""

import io
import os
from collections.abc import Iterator, Sequence
from operator import mul
from typing import Any
from zlib import crc32

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
    file: pq.ParquetFile,
    path: str,
    limits: Limits = DEFAULT,
    there: int | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Read a Parquet file; one that holds files by its row groups, as Arrow wants of structs.

    `there` are its bytes; None: those of the file at `path`. `columns` are read alone, in order.

    Raises:
        ManifestError: a small one says that it unfolds to more than `limits.decoded_bytes`.
    """
    there = os.path.getsize(path) if there is None else there
    _refuse_unfolding(file, path, limits, there)
    if not any(map(are_files, file.schema_arrow.types)):
        return file.read(columns)
    groups = (file.read_row_group(group, columns) for group in range(file.num_row_groups))
    return with_large_bytes(pa.concat_tables(groups))


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


_MARK = b"dfgenCRC32: "
_SEAL = len(_MARK) + 4
_END = 8  # bytes: the length of the footer, and PAR1
_BLOCK = 1 << 20


def write_parquet(table: pa.Table, file: Any, row_group_size: int | None = None) -> None:
    """Write a table into an open file as Parquet with the checksum of it, and those of pages."""
    sink = Summed(file)
    with pq.ParquetWriter(sink, table.schema, write_page_checksum=True) as writer:
        writer.write_table(table, row_group_size)
        sink.hold()
    sink.finish()


class Summed(io.RawIOBase):
    """A file that sums up what is written, by CRC-32, and holds back its end, the footer."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._sum = 0
        self._held: bytearray | None = None

    @property
    def checksum(self) -> str:
        """The CRC-32 of what was written, 8 hexadecimal digits."""
        return f"{self._sum:08x}"

    def writable(self) -> bool:
        """Return True, as PyArrow asks."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes, or hold them."""
        if self._held is None:
            self._sum = crc32(data, self._sum)
            self._file.write(data)
        else:
            self._held += data
        return len(data)

    def hold(self) -> None:
        """Hold from now on what is written."""
        self._held = bytearray()

    def finish(self) -> None:
        """Write what was held, and the checksum before the footer in it."""
        held = bytes(self._held or b"")
        footer = len(held) - _END - _length_of_footer(held[-_END:])
        value = crc32(held, self._sum).to_bytes(4, "little")
        self._file.write(held[:footer] + _MARK + value + held[footer:])


def has_checksum(file: pa.NativeFile, path: str) -> bool:
    """Check the checksum of an open file, which messages call `path`; False where it has none."""
    size = file.size()
    end = _read(file, max(0, size - _END), _END)
    seal = size - _END - _length_of_footer(end) - _SEAL
    if seal < 0 or not (found := _read(file, seal, _SEAL)).startswith(_MARK):
        return False
    value, place = 0, 0
    file.seek(0)
    for stop in (seal, size):
        while place < stop and (block := file.read_buffer(min(_BLOCK, stop - place))):
            value, place = crc32(block, value), place + len(block)
        place = file.seek(seal + _SEAL)
    if value != int.from_bytes(found[len(_MARK) :], "little"):
        raise ManifestError(
            f"{path} is damaged: its bytes are not those that were written, by their checksum. "
            "Take another copy of it, or build it again"
        )
    return True


def _length_of_footer(end: bytes) -> int:
    return int.from_bytes(end[:4], "little")


def _read(file: pa.NativeFile, place: int, size: int) -> bytes:
    file.seek(place, os.SEEK_SET)
    return bytes(file.read(size))
