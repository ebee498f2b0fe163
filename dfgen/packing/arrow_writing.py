"""Writes Arrow IPC files: whole or not at all, and out of the memory of the system."""

import io
import os
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from dfgen.manifest.checksum import Summed
from dfgen.manifest.pack_index import PackFile
from dfgen.samples.pixels.geometry import Pixels
from dfgen.system import write_whole

_PIECE = 1 << 25  # bytes that are written at once


def parts_around(whole: Pixels, rows: pa.Table) -> tuple[bytes, bytes]:
    """Return what of an Arrow IPC file stands before the pixels of all rows, and after them."""
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


def write_arrow(
    path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch], forget: bool = False
) -> PackFile:
    """Write an Arrow IPC file, whole or not at all, and return what it is.

    Args:
        path: of the file.
        schema: of the batches.
        batches: its rows.
        forget: whether the system need not keep it in memory.

    Raises:
        WriteError: it cannot be written; what was there stays.
    """
    told: dict[str, Any] = {}

    def write(file: Any) -> None:
        sink, rows = Summed(WrittenThrough(file) if forget else file), 0
        with pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += len(batch)
        told.update(rows=rows, bytes=file.tell(), checksum=sink.checksum)

    write_whole(path, write)
    return PackFile(os.path.basename(path), **told)


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
            if self._written >= _PIECE and hasattr(os, "posix_fadvise"):
                self._written = 0
                self._file.flush()
                os.fdatasync(self._file.fileno())
                os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
