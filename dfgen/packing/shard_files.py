"""One shard of a pack: a task for one worker, which reads files and writes an Arrow file."""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import DecodeError, DfgenError, ManifestError, MissingFileError, WriteError
from dfgen.limits import Limits
from dfgen.loading.workers.retries import read_again
from dfgen.manifest.checksum import Summed, checksum_of
from dfgen.manifest.pack_index import PackFile, is_far, open_arrow
from dfgen.manifest.schema import KEY, with_column
from dfgen.packing.packers import Packer
from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.samples.features.image import Image
from dfgen.samples.features.spec import Present, unwatched
from dfgen.samples.pixels.upright import prepare_worker
from dfgen.samples.reader import SampleReader
from dfgen.samples.storage.far.ranges import far_file
from dfgen.samples.storage.far.store_options import StorageOptions
from dfgen.samples.storage.known_files import KnownFiles
from dfgen.samples.storage.mapped_shards.pack_shards import SHARD_NAME, exchanged
from dfgen.samples.storage.stores import store_at, store_of
from dfgen.system import write_whole

_PIECE = 1 << 25  # bytes that are written at once
_CHUNK = 32  # rows that a thread reads in one go

RunChunks = Callable[[Callable[[range], int], Iterable[range]], Iterable[int]]


class PackedShard(NamedTuple):
    """A shard that is on the disk."""

    file: PackFile
    problems: pa.Array  # of each row, null where there is none


@dataclass(frozen=True)
class ShardTask:
    """All that a worker needs to make one shard; it knows the rows of that shard alone.

    Args:
        path: of the file.
        rows: the columns of the manifest as they are stored, `problem` among them.
        column: the one that is packed.
        contents: what its rows are read from: absolute paths.
        known: what the manifest knows of the files; None: nothing.
        sizes: of the upright images, where the packer needs them.
        packer: what the files become.
        limits: what one file may ask for.
        options: open the files, and the path, where they are far away.
        identity: of the pack, which its files carry.
    """

    path: str
    rows: pa.Table
    column: str
    contents: Any
    known: KnownFiles | None
    sizes: Sizes | None
    packer: Packer
    limits: Limits
    options: StorageOptions
    identity: dict[str, Any]

    def reader(self) -> SampleReader:
        """Return what knows the rows by their ids and paths, for messages."""
        bound = BoundFeature(self.column, Image(self.column), self.contents)
        store = store_of([self.contents], self.limits, self.options)
        return SampleReader(self.rows["id"], (bound,), None, store)


def pack_shard(
    task: ShardTask,
    run: RunChunks = map,
    done: Callable[[int], object] = bool,
    spare: list[Any] | None = None,
) -> PackedShard:
    """Read the files of a shard, and write it.

    Args:
        task: of the shard.
        run: calls a function for each chunk of rows, as `map` does, perhaps in threads.
        done: is told how many rows more are read.
        spare: keeps memory for the next shard; None: it is given back.

    Raises:
        WriteError: it cannot be written; what was there stays.
        ReadError: a read failed for no fault of its file.
    """
    prepare_worker()
    count = len(task.rows)
    into = task.packer.begin(count, [] if spare is None else spare)
    problems = {row: why for row, why in enumerate(task.rows["problem"].to_pylist()) if why}
    reader = task.reader()
    chunks = [range(s, min(s + _CHUNK, count)) for s in range(0, count, _CHUNK)]
    for rows in run(partial(_read, task, reader, into, problems), chunks):
        done(rows)
    found = pa.array([problems.get(place) for place in range(count)], pa.string())
    good = np.asarray(found.is_null())
    file = _write(task, into, good, found)
    if spare is not None and isinstance(into, np.ndarray):
        spare.append(into.base)
    return PackedShard(file, found)


def _read(
    task: ShardTask, reader: SampleReader, into: Any, problems: dict[int, Any], chunk: range
) -> int:
    """Read the files of some rows; note what is wrong with them."""
    for place in chunk:
        if place in problems:
            continue
        pack = partial(_pack, task, reader, into, place)
        try:
            try:
                pack()
            except Exception as error:
                read_again(pack, error, reader, place, unwatched, lambda: False)
        except (DecodeError, MissingFileError) as error:
            problems[place] = str(error)
        except Exception as error:
            error.add_note(f"while packing {reader.where(place)}")
            raise
    return len(chunk)


def _pack(task: ShardTask, reader: SampleReader, into: Any, place: int) -> None:
    store = reader.store if task.known is None else task.known.of(place, reader.store)
    size = None if task.sizes is None else tuple(task.sizes[place].tolist())
    task.packer.pack(task.contents[place].as_py(), store, into, place, size)


def _write(task: ShardTask, into: Any, good: Present, problems: pa.Array) -> PackFile:
    packed = task.packer.columns(task.column, into, good)
    rows = with_column(task.rows, "problem", problems)
    for name, array in packed.items():
        rows = rows.append_column(name, array)
    told = json.dumps({**task.identity, "kind": "shard"}, ensure_ascii=False)
    name = os.path.basename(task.path)
    rows = rows.replace_schema_metadata({KEY: told.encode(), SHARD_NAME: name.encode()})
    batches = rows.combine_chunks().to_batches()
    return write_arrow(task.path, rows.schema, batches, task.options, forget=True)


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
        sink, rows = Summed(_Forgotten(file) if forget and not is_far(path) else file), 0
        with pa.ipc.new_file(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += len(batch)
        told.update(rows=rows, bytes=file.tell(), checksum=sink.checksum)

    if is_far(path):
        try:
            with tempfile.TemporaryFile() as file:
                write(file)
                file.seek(0)
                put_whole(path, file, options)
        except WriteError:
            raise
        except OSError as error:
            raise WriteError(
                f"{path} cannot be written: its temporary file in {tempfile.gettempdir()}: {error}"
            ) from error
    else:
        write_whole(path, write)
    return PackFile(os.path.basename(path), **told)


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


class _Forgotten:
    """A file whose pages the system gets back, piece by piece, as soon as they are on the disk.

    So a pack pushes nothing else out of memory, and its next pieces are written into pages that
    were used before.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, data: Any) -> None:
        whole = memoryview(data)
        for start in range(0, len(whole), _PIECE):
            self._file.write(whole[start : start + _PIECE])
            if len(whole) >= _PIECE and hasattr(os, "posix_fadvise"):
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
