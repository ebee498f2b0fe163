"""Writes Arrow IPC files: whole or not at all, and out of the memory of the system."""

import io
import os
import tempfile
from collections.abc import Callable
from typing import IO, Any

import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import DfgenError, WriteError
from dfgen.packs.pack_index import PackFile, is_remote
from dfgen.platform_calls import forget_written
from dfgen.samples.pixels.geometry import Pixels
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_at
from dfgen.system import write_whole
from dfgen.table.parquet import Summed

_PIECE = 1 << 25  # bytes that are written at once


def parts_around(whole: Pixels, rows: pa.Table) -> tuple[bytes, bytes]:
    """Return the bytes of an Arrow IPC file before the pixels of all rows, and after them."""
    parts = [bytearray()]

    class Sink(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            if isinstance(data, pa.Buffer) and data.address == whole.ctypes.data:
                parts.append(bytearray())
            else:
                parts[-1].extend(data)
            return len(data)

    with pa.ipc.new_file(Sink(), rows.schema) as writer:
        writer.write_batch(*rows.to_batches())
    head, tail = parts
    return bytes(head), bytes(tail)


def write_arrow(path: str, table: pa.Table, options: StorageOptions) -> PackFile:
    """Write a table as an Arrow IPC file; see `put_arrow`."""

    def write(file: Any) -> Summed:
        sink = Summed(WrittenThrough(file))
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        return sink

    return put_arrow(path, len(table), write, options)


class WrittenThrough:
    """A file whose pages the system gets back, piece by piece, as soon as they are on the disk.

    So a pack pushes nothing else out of memory, and its next pieces are written into pages that
    were used before.
    """

    def __init__(self, file: Any) -> None:
        self._file, self._written = file, 0

    def write(self, data: Any) -> None:
        """Write bytes."""
        whole = memoryview(data)
        for start in range(0, len(whole), _PIECE):
            piece = whole[start : start + _PIECE]
            self._file.write(piece)
            self._written += len(piece)
            if self._written >= _PIECE:
                self._written = 0
                self._file.flush()
                forget_written(self._file.fileno())


def put_arrow(
    path: str, rows: int, write: Callable[[Any], Summed], options: StorageOptions
) -> PackFile:
    """Have a file of so many rows written, whole or not at all; for a store a temporary one.

    Raises:
        WriteError: it cannot be written; what was there stays.
    """
    written: dict[str, Any] = {}

    def noted(file: Any) -> None:
        written.update(checksum=write(file).checksum, bytes=file.tell())

    try:
        if not is_remote(path):
            write_whole(path, noted)
        else:
            with tempfile.TemporaryFile() as file:
                noted(file)
                file.seek(0)
                put_whole(path, file, options)
    except DfgenError:
        raise
    except OSError as error:
        raise WriteError(
            f"{path} cannot be written: its temporary file in {tempfile.gettempdir()}: {error}"
        ) from error
    return PackFile(os.path.basename(path), rows, **written)


def put_whole(path: str, data: bytes | IO[bytes], options: StorageOptions) -> None:
    """Make an object of a store, whole or not at all, or raise a WriteError."""
    try:
        store_at(path, options=options).write(path, data)
    except DfgenError as error:
        why = str(error).removeprefix("the file cannot be read: ")
        raise WriteError(
            f"{path} cannot be written: {why}. Whole files stay: the same command "
            "goes on after them"
        ) from None
