"""ColumnFiles: the rows of a manifest in parts, each column mapped from an Arrow file of its own.

A column is made when it is first asked for, part by part, in `.columns/KEY/` beside the parts, or
in the cache folder of the user where nothing can be written there. KEY stands for the manifest as
it is and for the condition on its rows, so that a manifest that changed has other files; those of
the last eight keys, and of all that were opened within a week, are kept, as a training may go on.
`0003-1b2c3d4e-8000290.arrow` is the column 3, with the CRC-32 and the length of the file: one that
is damaged is made again, and of one above 128 MB the length alone is compared.
"""

import contextlib
import os
import pickle
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import WriteError
from dfgen.limits import DEFAULT, Limits
from dfgen.locks import LOCK_SUFFIX, lock
from dfgen.manifest.parts import PartsIndex, read_part
from dfgen.manifest.path_roots import ends_of, joined
from dfgen.manifest.paths import check_stored_paths
from dfgen.manifest.row_filter import Selection
from dfgen.packs.pack_index import is_remote
from dfgen.samples.stores.remote.ranges import checksum_of
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_at
from dfgen.system import threads, usable_cpus, write_whole
from dfgen.table.arrow_types import in_one, is_text, joined_text
from dfgen.table.mapped_column import MappedColumn
from dfgen.table.parquet import Summed

_FORMAT = 1
_FOLDER = ".columns"
_KEYS = 8
_UNUSED = 7 * 86_400  # seconds
_AT_ONCE = 2  # parts that are read
_SUMMED = 1 << 27  # bytes of a file whose checksum is compared each time
_NAME = re.compile(r"(\d{4,})-([0-9a-f]{8})-(\d+)\.arrow")


class ColumnFiles:
    """A table of Arrow whose columns stay on the disk: what random access needs, for any rows.

    Args:
        index: of the manifest.
        chosen: which of its rows.
        root: where its paths begin; None: they are absolute.
        limits: what a part may ask for.
        options: open a remote manifest.
    """

    def __init__(
        self,
        index: PartsIndex,
        chosen: Selection,
        root: str | None,
        limits: Limits = DEFAULT,
        options: StorageOptions | None = None,
    ) -> None:
        self.index, self.chosen, self.root = index, chosen, root
        self._limits, self._options = limits, options
        self._known = set[str]()  # parts that were compared with their checksums

    def only(self, condition: Any, column: str) -> "ColumnFiles":
        """Return those of the rows that meet a condition on one column."""
        known = self.chosen.where
        where = condition if known is None else known & condition
        chosen = replace(self.chosen, where=where, asks=self.chosen.asks | {column})
        return ColumnFiles(self.index, chosen, self.root, self._limits, self._options)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns."""
        return self.index.schema

    @property
    def categories(self) -> dict[str, list[Any]]:
        """Column -> its class names, of categories."""
        names = ((name, self.index.names_of(name)) for name in self.column_names)
        return {name: known.to_pylist() for name, known in names if known is not None}

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def __len__(self) -> int:
        return self.index.rows if self.chosen.where is None else len(self.stored("id"))

    def stored(self, name: str) -> MappedColumn:
        """Return a column as it is stored, mapped; it travels to other processes by its path."""
        return MappedColumn(self.path(name), name)

    def paths(self) -> MappedColumn:
        """Return the absolute paths."""
        ends = None if self.root is None else ends_of(self.root)
        return MappedColumn(self.path("path"), "path", ends)

    def part(self, name: str, start: int, stop: int | None) -> pa.Array:
        """Return some rows of a column, with absolute paths."""
        values = self.stored(name).array[start:stop]
        return joined(self.root, values) if name == "path" and self.root is not None else values

    def __getitem__(self, key: Any) -> Any:
        """Return a column, with absolute paths; of a slice a table of these rows."""
        if isinstance(key, slice):
            start, stop, _ = key.indices(len(self))
            columns = [self.part(name, start, stop) for name in self.column_names]
            return pa.table(columns, self.column_names)
        return pa.chunked_array([self.part(key, 0, None)])

    def to_table(self) -> pa.Table:
        """Return all columns."""
        return self[:]

    def filter(self, mask: Any) -> pa.Table:
        """Return some rows."""
        return self[:].filter(mask)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self[:].__arrow_c_stream__(requested_schema)

    def digest_of_ids(self, make: Callable[[Any], str]) -> str:
        """Return what `make(ids)` returns, 32 hexadecimal digits, and remember it."""
        for name in os.listdir(self._folder):
            if re.fullmatch(r"ids-[0-9a-f]{32}", name):
                return name.removeprefix("ids-")
        digest = make(self.stored("id").array)
        with contextlib.suppress(OSError), open(os.path.join(self._folder, f"ids-{digest}"), "x"):
            pass
        return digest

    @cached_property
    def _folder(self) -> str:
        """The folder of the files, made if it is not there."""
        condition = b"" if self.chosen.where is None else pickle.dumps(self.chosen.where)
        root = self.root if self.chosen.of_paths else None
        told = repr((_FORMAT, self.index.checksum, self.index.rows, condition, root))
        key = blake2b(told.encode(), digest_size=8).hexdigest()
        own = blake2b(self.index.folder.encode(), digest_size=8).hexdigest()
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        places = [os.path.join(cache, "dfgen", "columns", own)]
        if not is_remote(self.index.folder):
            places.insert(0, os.path.join(self.index.folder, _FOLDER))
        for place in places:
            with contextlib.suppress(OSError):
                folder = os.path.join(place, key)
                os.makedirs(folder, exist_ok=True)
                if os.access(folder, os.W_OK):
                    os.utime(folder)
                    _remove_older(place)
                    return folder
        raise WriteError(
            f"the columns of {self.index.folder} have no place on a disk: neither "
            f"{' nor '.join(places)} can be written to. Name a folder in XDG_CACHE_HOME, or give "
            "the frame, dfgen.read_manifest(path)"
        )

    def path(self, name: str) -> str:
        """Return the path of the file of a column, made if it is not there or damaged."""
        number = self.schema.names.index(name)
        found = self._found(number)
        if found is None:
            with open(os.path.join(self._folder, LOCK_SUFFIX), "ab") as alone:
                lock(alone.fileno(), wait=True)  # other processes of this training want it too
                found = self._found(number) or self._made(number, name)
        return found

    def _found(self, number: int) -> str | None:
        for file in os.listdir(self._folder):
            if (told := _NAME.fullmatch(file)) and int(told[1]) == number:
                path, nbytes = os.path.join(self._folder, file), int(told[3])
                is_same = os.path.getsize(path) == nbytes and (
                    nbytes > _SUMMED or checksum_of(store_at(path), path, nbytes) == told[2]
                )
                if is_same:
                    return path
                os.unlink(path)
        return None

    def _made(self, number: int, name: str) -> str:
        path = os.path.join(self._folder, f"{number:04d}.arrow")
        told = dict[str, Any]()

        def write(file: Any) -> None:
            with _in_one_array(
                self._pieces(name), self.schema.field(name).type, self._folder
            ) as array:
                table = pa.table({name: array})
                sink = Summed(file)
                with pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table)
                told.update(checksum=sink.checksum, nbytes=file.tell())

        write_whole(path, write)
        pa.default_memory_pool().release_unused()
        whole = f"{path.removesuffix('.arrow')}-{told['checksum']}-{told['nbytes']}.arrow"
        os.replace(path, whole)
        return whole

    def _pieces(self, name: str) -> Iterator[pa.ChunkedArray]:
        """Yield what each part has of a column, some parts ahead."""
        names = ("id", "path") if name == "path" else (name,)
        chosen = replace(self.chosen, columns=names)
        parts = self.index.parts

        def read(part: Any) -> pa.ChunkedArray:
            is_known = part.file in self._known
            given = self._limits, self._options, chosen, self.root
            table = read_part(self.index, part, *given, is_known)
            self._known.add(part.file)
            check_stored_paths(table, self.root, self.index.folder)
            return table[name]

        with threads(min(_AT_ONCE, usable_cpus())) as pool:
            ahead = deque[Future[pa.ChunkedArray]]()
            for part in parts:
                ahead.append(pool.submit(read, part))
                if len(ahead) > _AT_ONCE:
                    yield ahead.popleft().result()
            yield from (one.result() for one in ahead)


def _remove_older(place: str) -> None:
    """Remove the files of keys that were not used for days, but for the last ones."""
    keys = [(entry.stat().st_mtime, entry.path) for entry in os.scandir(place) if entry.is_dir()]
    for used, path in sorted(keys)[:-_KEYS]:
        if used < time.time() - _UNUSED:  # else a training may be at it
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _in_one_array(
    pieces: Iterator[pa.ChunkedArray], kind: pa.DataType, folder: str
) -> Iterator[pa.Array]:
    """Yield one array of many pieces; text is gathered in a file, and is of large offsets."""
    if not is_text(kind):
        chunks = [chunk for piece in pieces for chunk in piece.chunks]
        whole = in_one(pa.chunked_array(chunks, chunks[0].type if chunks else kind))
        yield pa.nulls(len(whole)) if whole.null_count == len(whole) and len(whole) else whole
        return
    ends, valid, end = [np.zeros(1, np.int64)], list[Any](), 0
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for chunk in (chunk for piece in pieces for chunk in piece.chunks):
            data, own = joined_text(chunk)
            file.write(data)
            ends.append(own + end)
            end = int(ends[-1][-1]) if len(own) else end
            valid.append(np.asarray(chunk.is_valid()))
        file.flush()
        there = np.concatenate(valid) if valid else np.zeros(0, np.bool_)
        if not there.any():
            yield pa.nulls(len(there))
            return
        bits = None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
        buffers = [bits, pa.py_buffer(np.concatenate(ends)), pa.memory_map(file.name).read_buffer()]
        yield pa.Array.from_buffers(pa.large_string(), len(there), buffers)
