"""One shard of a pack: a task for one worker, which reads files and writes an Arrow file.

Arrow files are written whole or not at all, and out of the memory of the system.
"""

import io
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import IO, Any, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import DecodeError, DfgenError, ManifestError, MissingFileError, WriteError
from dfgen.limits import Limits
from dfgen.loading.workers.retries import read_again
from dfgen.manifest.metadata import KEY
from dfgen.manifest.schema import with_column
from dfgen.packs.pack_index import PackFile, open_arrow
from dfgen.packs.pack_shards import SHARD_NAME, exchanged
from dfgen.packs.ranges import checksum_of, remote_file
from dfgen.packs.writing.pack_arguments import Packer
from dfgen.platform_calls import forget_written
from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.decoders import prepare_worker
from dfgen.samples.pixels.geometry import Pixels
from dfgen.samples.reader import SampleReader
from dfgen.spec import IntArray, unwatched
from dfgen.stores.local_files import Files
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import OfSize, is_remote, store_at, store_of
from dfgen.system import write_whole

COLUMN = "path"
"""The column that is packed."""
_PIECE = 1 << 25  # bytes that are written at once


class PackedShard(NamedTuple):
    """A shard that is written."""

    file: PackFile
    problems: pa.Array  # of each row, null where there is none


def problems_remote(path: str, options: StorageOptions) -> pa.Array:
    """Return what is wrong with each row of a remote shard, and read little more."""
    store = store_at(path, options=options)
    source = pa.PythonFile(remote_file(store.head(path).size, partial(store.range, path)), "r")
    with pa.ipc.open_file(source) as reader:
        problem = [reader.schema.get_field_index("problem")]
    with pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=problem)) as reader:
        return reader.get_batch(0).column(0)


def read_shard(path: str, identity: Mapping[str, Any], rows: int) -> PackedShard:
    """Return a shard that was written before, or raise a ManifestError: damaged, another pack."""
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
    checksum = checksum_of(Files(), path, size)
    return PackedShard(PackFile(os.path.basename(path), rows, size, checksum), problems)


def check_same(folder: str, theirs: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Refuse a folder in which another pack was begun, by what its files carry."""
    if any(theirs.get(name) != value for name, value in identity.items()):
        shown = {name: identity[name] for name in identity.keys() - {"manifest", "starts"}}
        differences = "; ".join(sorted(_differences("", theirs, shown)))
        differences = differences or "its manifest has other rows, labels or facts of files"
        raise ManifestError(
            f"{folder} holds another pack, whole or in part: {differences}. Pack into another "
            "folder, or delete this one"
        )


def _differences(name: str, was: Any, now: Any) -> Iterator[str]:
    """Describe each value that differs, by the innermost name that it has."""
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in now:
            yield from _differences(key, was.get(key), now[key])
    elif was != now:
        yield f"{name} was {json.dumps(was)}, and is {json.dumps(now)}"


_CHUNK = 32  # rows that a thread reads in one go

RunChunks = Callable[[Callable[[range], Any], Iterable[range]], Iterable[Any]]


@dataclass(frozen=True)
class ShardTask:
    """All that a worker needs to make one shard; it knows the rows of that shard alone.

    Args:
        path: of the file.
        rows: the columns of the manifest as they are stored, `problem` among them.
        contents: the absolute path of each row.
        known: sizes of the files in the manifest, -1 if unknown; None: of no file.
        sizes: of the upright images, where the packer needs them.
        packer: what the files become.
        limits: what one file may ask for.
        options: open the files, and the path, where they are remote.
        identity: of the pack, which its files carry.
    """

    path: str
    rows: pa.Table
    contents: Any
    known: IntArray | None
    sizes: Sizes | None
    packer: Packer
    limits: Limits
    options: StorageOptions
    identity: dict[str, Any]

    def reader(self) -> SampleReader:
        """Return a reader, which names the rows by their ids and paths in messages."""
        bound = BoundFeature(COLUMN, Image(COLUMN), self.contents)
        store = store_of([self.contents], self.limits, self.options)
        return SampleReader(self.rows["id"], (bound,), None, store)

    def part(self, path: str, rows: IntArray) -> "ShardTask":
        """Return the task of a shard of some of its rows."""
        known, places = self.known, pa.array(rows)
        return replace(
            self,
            path=path,
            rows=self.rows.take(places),
            contents=self.contents.take(places),
            known=None if known is None else known[rows],
            sizes=None if self.sizes is None else self.sizes[rows],
        )


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
        done: is called with the number of rows that were read.
        spare: keeps memory for the next shard; None: it is given back.

    Raises:
        WriteError: it cannot be written; what was there stays.
        ReadError: a read failed for no fault of its file.
    """
    prepare_worker()
    count, spare = len(task.rows), [] if spare is None else spare
    problems = {row: why for row, why in enumerate(task.rows["problem"].to_pylist()) if why}
    chunks = [range(s, min(s + _CHUNK, count)) for s in range(0, count, _CHUNK)]

    def blocks() -> Iterator[Any]:
        """Yield what chunk after chunk becomes, and use its memory again."""
        for block in run(partial(_read, task, task.reader(), spare, problems), chunks):
            yield block
            done(len(block))
            if isinstance(block, np.ndarray):
                spare.append(block)

    whole = task.packer.stand_in(count)
    if whole is None:
        rows = _table(task, list(chain.from_iterable(blocks())), problems)
        file = write_arrow(task.path, rows, task.options)
    else:
        file = _write_along(task, whole, blocks(), problems)
    return PackedShard(file, problems_column(problems, count))


def _read(
    task: ShardTask, reader: SampleReader, spare: list[Any], problems: dict[int, Any], chunk: range
) -> Any:
    into = task.packer.begin(len(chunk), spare)
    for place, row in enumerate(chunk):
        if row not in problems:
            _read_row(partial(_pack, task, reader, into, place, row), reader, row, problems)
        if row in problems and isinstance(into, np.ndarray):
            into[place] = 0
    return into


def _read_row(
    pack: Callable[[], None], reader: SampleReader, row: int, problems: dict[int, Any]
) -> None:
    try:
        try:
            pack()
        except Exception as error:
            read_again(pack, error, reader, row, unwatched, lambda: False)
    except (DecodeError, MissingFileError) as error:
        problems[row] = str(error)
    except Exception as error:
        error.add_note(f"while packing {reader.where(row)}")
        raise


def _pack(task: ShardTask, reader: SampleReader, into: Any, place: int, row: int) -> None:
    store: Any = reader.store
    if task.known is not None and task.known[row] >= 0:
        store = OfSize(store, int(task.known[row]))
    size = None if task.sizes is None else tuple(task.sizes[row].tolist())
    task.packer.pack(task.contents[row].as_py(), store, into, place, size)


def problems_column(problems: Mapping[int, str], count: int) -> pa.Array:
    """Return the problem of each row, null where there is none."""
    return pa.array([problems.get(row) for row in range(count)], pa.string())


def _table(task: ShardTask, into: Any, problems: dict[int, Any]) -> pa.Table:
    noted = problems_column(problems, len(task.rows))
    rows = with_column(task.rows, "problem", noted)
    for name, array in task.packer.columns(COLUMN, into, np.asarray(noted.is_null())).items():
        rows = rows.append_column(name, array)
    key = json.dumps({**task.identity, "kind": "shard"}, ensure_ascii=False)
    name = os.path.basename(task.path)
    rows = rows.replace_schema_metadata({KEY: key.encode(), SHARD_NAME: name.encode()})
    return rows.combine_chunks()


def _write_along(
    task: ShardTask, whole: Pixels, blocks: Iterator[Any], problems: dict[int, Any]
) -> PackFile:
    """Write a shard while its rows are read.

    All that stands before them is known, but for problems: where one is found, it is put together
    anew from what was written.
    """

    def write(file: Any) -> Summed:
        head, _ = parts_around(whole, _table(task, whole, problems))
        sink = Summed(WrittenThrough(file))
        sink.write(head)
        for block in blocks:
            sink.write(block.data.cast("B"))
        changed, tail = parts_around(whole, _table(task, whole, problems))
        if changed != head:
            file.seek(0)
            source = file.name if isinstance(file.name, str) else file  # one without a name is read
            pixels = np.fromfile(source, np.uint8, whole.nbytes, offset=len(head))
            file.seek(0)
            file.truncate()
            sink = Summed(WrittenThrough(file))
            sink.write(changed)
            sink.write(pixels)
        sink.write(tail)
        return sink

    return put_arrow(task.path, len(whole), write, task.options)


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


class Summed(io.RawIOBase):
    """A file that computes the CRC-32 of the bytes written."""

    def __init__(self, file: Any) -> None:
        self._file, self._sum = file, 0

    @property
    def checksum(self) -> str:
        """The CRC-32, 8 hexadecimal digits."""
        return f"{self._sum:08x}"

    def writable(self) -> bool:
        """Return True, as PyArrow asks."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes."""
        self._sum = crc32(data, self._sum)
        self._file.write(data)
        return len(data)


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
    """Have a file of so many rows written, whole or not at all; for a store a temporary one."""
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
        store_at(path, options=options).write(
            path, data if isinstance(data, bytes) else data.read()
        )
    except DfgenError as error:
        why = str(error).removeprefix("the file cannot be read: ")
        raise WriteError(
            f"{path} cannot be written: {why}. Whole files stay: the same command "
            "goes on after them"
        ) from None
