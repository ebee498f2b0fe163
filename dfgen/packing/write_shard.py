"""One shard of a pack: a task for one worker, which reads files and writes an Arrow file."""

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import DecodeError, ManifestError, MissingFileError
from dfgen.files import write_whole
from dfgen.limits import Limits
from dfgen.loading.workers.chunks import retry
from dfgen.manifest.schema import with_column
from dfgen.packing.packers import Packer
from dfgen.packs.format import PACK_KEY, PATH, PackFile, checksum_of
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.decoders import prepare_worker
from dfgen.samples.reader import BoundFeature, SampleReader
from dfgen.spec import IntArray, unwatched
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import OfSize, Stores, store_of

_CHUNK = 32  # rows that a thread reads at a time

RunChunks = Callable[[Callable[[range], Any], Iterable[range]], Iterable[Any]]


@dataclass(frozen=True)
class ShardTask:
    """All that a worker needs to write a shard.

    Args:
        path: of its file.
        rows: the columns of the manifest as they are stored, `problem` among them.
        contents: the absolute path of each row.
        sizes: of the files in the manifest, -1 if unknown; None: all are.
        packer: converts the files.
        limits: of one file.
        options: open remote files.
        identity: of the pack: `id` and `plan`.
    """

    path: str
    rows: pa.Table
    contents: Any
    sizes: IntArray | None
    packer: Packer
    limits: Limits
    options: StorageOptions
    identity: dict[str, Any]

    def reader(self) -> SampleReader:
        """Return the reader of the files."""
        bound = BoundFeature(PATH, Image(PATH), self.contents)
        store = store_of([self.contents], self.limits, self.options)
        return SampleReader(self.rows["id"], (bound,), None, store)


class WrittenShard(NamedTuple):
    """A written shard, and the problem of each row, or null."""

    file: PackFile
    problems: pa.Array


def write_shard(
    task: ShardTask, run: RunChunks = map, done: Callable[[int], object] = bool
) -> WrittenShard:
    """Read the files of a shard, and write it.

    Args:
        task: of the shard.
        run: calls a function for each chunk of rows, as `map` does.
        done: is called with the number of rows that were read.

    Raises:
        WriteError: it cannot be written.
        ReadError: a read failed, and its file is not at fault.
    """
    prepare_worker()
    count = len(task.rows)
    into, reader = task.packer.begin(count), task.reader()
    problems = {row: why for row, why in enumerate(task.rows["problem"].to_pylist()) if why}
    chunks = [range(at, min(at + _CHUNK, count)) for at in range(0, count, _CHUNK)]
    for number in run(partial(_read, task, reader, into, problems), chunks):
        done(number)
    noted = pa.array([problems.get(row) for row in range(count)], pa.string())
    column = task.packer.column(into, np.asarray(noted.is_null()))
    rows = with_column(task.rows, "problem", noted)
    rows = rows.append_column(PATH + task.packer.suffix, column)
    rows = rows.replace_schema_metadata({PACK_KEY: json.dumps(task.identity)})
    return WrittenShard(write_arrow(task.path, rows), noted)


def _read(
    task: ShardTask, reader: SampleReader, into: Any, problems: dict[int, Any], chunk: range
) -> int:
    for row in chunk:
        if row in problems:
            continue
        pack = partial(_pack, task, reader.store, into, row)
        try:
            try:
                pack()
            except Exception as error:
                retry(pack, error, partial(reader.where, row), unwatched, lambda: False)
        except (DecodeError, MissingFileError) as error:
            problems[row] = str(error)
        except Exception as error:
            error.add_note(f"while packing {reader.where(row)}")
            raise
    return len(chunk)


def _pack(task: ShardTask, store: Stores, into: Any, row: int) -> None:
    size = -1 if task.sizes is None else int(task.sizes[row])
    reads = store if size < 0 else OfSize(store, size)
    task.packer.pack(task.contents[row].as_py(), reads, into, row)


def write_arrow(path: str, rows: pa.Table) -> PackFile:
    """Write a table as an Arrow file of one batch, and return it."""
    rows = rows.combine_chunks().unify_dictionaries()

    def write(file: Any) -> None:
        with pa.ipc.new_file(file, rows.schema) as writer:
            for batch in rows.to_batches():
                writer.write_batch(batch)

    write_whole(path, write)
    return written_file(path, len(rows))


def written_file(path: str, rows: int) -> PackFile:
    """Return a whole Arrow file, with the offsets of its packed column."""
    size = os.path.getsize(path)
    with pa.memory_map(path) as mapped:
        start = mapped.read_buffer(size).address
        batch = pa.ipc.open_file(mapped).get_batch(0)
        offsets: tuple[int, ...] = ()
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in (f"{PATH}_pixels", f"{PATH}_bytes"):
                buffers = getattr(column, "storage", column).buffers()
                kept = buffers[-1:] if name.endswith("_pixels") else buffers[1:]
                offsets = tuple(0 if one is None else one.address - start for one in kept)
    checksum = checksum_of(Stores(), path, size)
    return PackFile(os.path.basename(path), rows, size, checksum, offsets)


def read_shard(path: str, plan: dict[str, Any], rows: int) -> tuple[str, WrittenShard]:
    """Return the id of the pack, and a shard that an earlier run has written.

    Raises:
        ManifestError: it is damaged, or of another pack.
    """
    try:
        with pa.memory_map(path) as mapped:
            file = pa.ipc.open_file(mapped)
            identity = json.loads((file.schema.metadata or {}).get(PACK_KEY, b"{}"))
            check_same(os.path.dirname(path), identity.get("plan"), plan)
            batch = file.get_batch(0)
            if len(batch) != rows or identity["file"] != os.path.basename(path):
                raise ValueError(f"it has {len(batch):,} rows, expected {rows:,}")
            problems = batch.column(batch.schema.get_field_index("problem")).to_pylist()
    except ManifestError:
        raise
    except (OSError, ValueError, KeyError) as error:
        raise ManifestError(f"{path} is damaged: {error}. Delete it, and pack again") from None
    shard = WrittenShard(written_file(path, rows), pa.array(problems, pa.string()))
    return identity["id"], shard


def check_same(folder: str, theirs: Any, plan: dict[str, Any]) -> None:
    """Raise a ManifestError if a folder has another pack, whole or in part."""
    plan, theirs = (
        {**(one.get("packed") or {}), **one, "packed": None} for one in (plan, theirs or {})
    )
    differences = [name for name in plan if theirs.get(name) != plan[name]]
    if differences:
        first = next((n for n in differences if n not in ("manifest", "starts")), "manifest")
        raise ManifestError(
            f"{folder} has another pack, whole or in part: {first} is {theirs.get(first)!r}, and "
            f"not {plan[first]!r}. Pack into another folder, or delete this one"
        )
