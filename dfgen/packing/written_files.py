"""Files of a pack: written whole or not at all, here or in a store, and known again."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import DfgenError, ManifestError, WriteError
from dfgen.manifest.checksum import Summed, checksum_of
from dfgen.manifest.pack_index import PackFile, is_far, open_arrow
from dfgen.manifest.schema import KEY
from dfgen.samples.storage.far.ranges import far_file
from dfgen.samples.storage.far.store_options import StorageOptions
from dfgen.samples.storage.mapped_shards.pack_shards import exchanged
from dfgen.samples.storage.stores import store_at
from dfgen.system import write_whole

_PIECE = 1 << 25  # bytes that are written at once


class PackedShard(NamedTuple):
    """A shard that is on the disk."""

    file: PackFile
    problems: pa.Array  # of each row, null where there is none


def write_arrow(
    path: str,
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    options: StorageOptions,
    forget: bool = False,
) -> PackFile:
    """Write an Arrow IPC file, whole or not at all, and return what it is.

    One that goes far away is a temporary file first, which nobody else sees.

    Args:
        path: of the file.
        schema: of the batches.
        batches: its rows.
        options: open the path where it is far away.
        forget: whether the system need not keep it in memory.

    Raises:
        WriteError: it cannot be written; what was there stays.
    """
    told: dict[str, Any] = {}

    def write(file: Any) -> None:
        sink, rows = Summed(Forgotten(file) if forget else file), 0
        with pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += len(batch)
        told.update(rows=rows, bytes=file.tell(), checksum=sink.checksum)

    put_arrow(path, write, options)
    return PackFile(os.path.basename(path), **told)


def put_arrow(path: str, write: Callable[[Any], object], options: StorageOptions) -> None:
    """Have a file written, whole or not at all; far away one without a name is uploaded."""
    if not is_far(path):
        write_whole(path, write)
        return
    try:
        with tempfile.TemporaryFile() as file:
            write(file)
            file.seek(0)
            put_whole(path, file, options)
    except WriteError:
        raise
    except OSError as error:
        if isinstance(error, DfgenError):
            raise
        raise WriteError(
            f"{path} cannot be written: its temporary file in {tempfile.gettempdir()}: {error}"
        ) from error


def put_whole(path: str, data: bytes | IO[bytes], options: StorageOptions) -> None:
    """Make an object of a store far away, whole or not at all.

    Raises:
        WriteError: it cannot be written.
    """
    try:
        store_at(path, options=options).write(path, data)
    except DfgenError as error:
        why = str(error).removeprefix("the file cannot be read: ")
        raise WriteError(
            f"{path} cannot be written: {why}. What is whole stays: the same command goes on there"
        ) from None


class Forgotten:
    """A file whose pages the system gets back, piece by piece, as soon as they are on the disk.

    So a pack pushes nothing else out of memory, and its next pieces are written into pages that
    were used before.
    """

    def __init__(self, file: Any) -> None:
        self._file, self._written = file, 0

    def write(self, data: Any) -> None:
        """Write bytes, and give back the pages of those before."""
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


def problems_far(path: str, options: StorageOptions) -> pa.Array:
    """Return what is wrong with each row of a shard that is far away, and read little more."""
    store = store_at(path, options=options)
    source = pa.PythonFile(far_file(store.head(path).size, partial(store.range, path)), "r")
    with pa.ipc.open_file(source) as reader:
        problem = [reader.schema.get_field_index("problem")]
    with pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=problem)) as reader:
        return reader.get_batch(0).column(0)


def read_shard(path: str, identity: Mapping[str, Any], rows: int) -> PackedShard:
    """Return a shard that was written before, of the same pack.

    Raises:
        ManifestError: it is damaged, or of another pack.
    """
    with open_arrow(path) as file:
        found = json.loads((file.schema.metadata or {}).get(KEY, b"{}"))
        check_same(os.path.dirname(path), found, identity)
        batch = file.get_batch(0) if file.num_record_batches == 1 else None
        if batch is None or len(batch) != rows or exchanged(path, file.schema.metadata):
            raise ManifestError(
                f"{path} does not hold the {rows:,} rows that it should: delete it, and pack again"
            )
        column = batch.column(batch.schema.get_field_index("problem"))
        problems = pa.array(column.to_pylist(), pa.string())  # not of the map
    size = os.path.getsize(path)
    return PackedShard(PackFile(os.path.basename(path), rows, size, checksum_of(path)), problems)


def check_same(folder: str, found: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Refuse a folder in which another pack was begun, by what its files carry."""
    differing = [name for name, value in identity.items() if found.get(name) != value]
    if differing:
        said = "; ".join(
            f"{name} was {json.dumps(found.get(name))}, and is {json.dumps(identity[name])}"
            for name in differing
            if name not in ("manifest", "starts")
        )
        said = said or "its manifest has other rows, labels or facts of files"
        raise ManifestError(
            f"{folder} holds another pack, whole or in part: {said}. Pack into another folder, or "
            "delete this one"
        )
