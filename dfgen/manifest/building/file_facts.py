"""Reads the facts of files in threads of this process: size, time, header, and the whole file.

A build in progress keeps them beside its manifest, in the folder `<manifest>.building`, in files
that are written whole or not at all. So a build that was killed continues.
"""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import xxhash
from pyarrow.feather import write_feather

from dfgen import __version__
from dfgen.errors import ArgumentError, is_outside, reason, whole
from dfgen.executors import Made, check_executor
from dfgen.files import write_whole
from dfgen.limits import DEFAULT, Limits
from dfgen.machine import threads, usable_cpus
from dfgen.manifest.building.whole_files import Whole, decode_whole
from dfgen.manifest.reading import fault_of
from dfgen.manifest.schema import OF_WHOLE_FILES, SCHEMA
from dfgen.samples.pixels.formats import header_of
from dfgen.samples.pixels.headers import Header
from dfgen.stores.store import Head, StorageOptions, Store
from dfgen.stores.stores import Stores, store_of
from dfgen.table.arrow_types import Content, is_text

KEPT_EVERY = 5.0  # seconds of reading that a killed build can lose


class KeptFacts:
    """A folder of facts with the paths of their files; facts read in another way are not used."""

    def __init__(self, manifest: str, full: bool, limits: Limits) -> None:
        self.folder = f"{os.path.realpath(manifest)}.building"
        self._kind = xxhash.xxh3_64_hexdigest(repr((__version__, full, limits)).encode())
        self._waiting, self._since = list[pa.Table](), time.monotonic()

    def read(self) -> pa.Table | None:
        """Return the facts of an earlier build; None: there are none."""
        tables = []
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.folder)):
                if name.startswith(self._kind) and name.endswith(".arrow"):
                    path = os.path.join(self.folder, name)
                    with suppress(OSError, pa.ArrowInvalid), pa.ipc.open_file(path) as reader:
                        tables.append(reader.read_all())
        return pa.concat_tables(tables) if tables else None

    def add(self, paths: Any, facts: list[pa.RecordBatch]) -> None:
        """Keep the facts of some files, and write them from time to time."""
        table = pa.Table.from_batches(facts)
        self._waiting.append(table.add_column(0, "path", [paths.cast(pa.string())]))
        if time.monotonic() - self._since >= KEPT_EVERY:
            self.write()

    def write(self) -> None:
        """Write the facts that are not yet written."""
        parts, self._waiting, self._since = self._waiting, [], time.monotonic()
        if parts:
            table = pa.concat_tables(parts).combine_chunks()
            digest = xxhash.xxh3_64_hexdigest("\0".join(table["path"].to_pylist()).encode())
            os.makedirs(self.folder, exist_ok=True)
            path = os.path.join(self.folder, f"{self._kind}-{digest}.arrow")
            write_whole(path, lambda file: write_feather(table, file, "uncompressed"))

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


TASK = 256  # files of a thread at a time
DECODED = 32  # if they are decoded
FAR = 8  # if they are remote
FAR_READERS = 64  # threads; with 20 ms a file, 3,200 files a second

UNDECODABLE = "cannot be decoded"
"""The kind of the problem of a file whose header is fine."""

NOT_THERE = "the file does not exist"

SomeFacts = tuple[int, list[pa.RecordBatch]]
_Found = tuple[Head | None, Header | None, Whole | None, str | None]
"""Facts from the store, the header and the whole file, and the problem."""


@dataclass(frozen=True)
class Access:
    """How files are opened."""

    workers: int | None = None  # threads; None: the usual number
    limits: Limits = DEFAULT
    options: StorageOptions | None = None
    executor: Made | None = None  # reads instead of this process
    kept: KeptFacts | None = None  # keeps facts until the manifest is written

    def __post_init__(self) -> None:
        check_executor(self.executor)
        if self.workers is not None:
            whole("workers", self.workers)

    def threads(self, store: Stores) -> int:
        """Return the number of threads: more than CPUs if they wait for a network."""
        return self.workers or (FAR_READERS if store.far else usable_cpus())


USUAL: Access = Access()


def read_here(files: Any, access: Access, decode: bool) -> Iterator[SomeFacts]:
    """Yield the facts of all files in their order, in parts, with the index of the first file."""
    store = store_of([files], access.limits, access.options)
    task = FAR if store.far else DECODED if decode else TASK
    starts = range(0, len(files), task)
    tasks = [files[start : start + task] for start in starts]
    with threads(access.threads(store)) as pool:
        read = partial(_read_many, store=store, decode=decode)
        yield from zip(starts, pool.map(read, tasks), strict=True)


def _read_many(files: Any, store: Store, decode: bool) -> list[pa.RecordBatch]:
    one_by_one = (content.as_py() for content in files)  # bytes take memory
    contents = files.to_pylist() if is_text(files.type) else one_by_one
    return _batches([_read(content, store, decode) for content in contents])


def _batches(results: list[_Found]) -> list[pa.RecordBatch]:
    """Return the facts of files; if those of a file cannot be stored, that is its problem."""
    try:
        return [batch_of(results)]
    except MemoryError:
        raise
    except Exception as error:
        if len(results) > 1:
            return [batch for one in results for batch in _batches([one])]
        problem = f"its facts cannot be stored: {reason(error)}"
        return [batch_of([(results[0][0], None, None, problem)])]


def batch_of(results: list[_Found]) -> pa.RecordBatch:
    """Return the facts of files as a batch."""
    heads, headers, wholes, problems = zip(*results, strict=True)
    sources = {"bytes": heads, "mtime_ns": heads} | dict.fromkeys(OF_WHOLE_FILES, wholes)
    arrays = []
    for name, kind in zip(SCHEMA.names[:-1], SCHEMA.types, strict=False):
        read = attrgetter("size" if name == "bytes" else name)
        values = [None if one is None else read(one) for one in sources.get(name, headers)]
        arrays.append(pa.array(values, kind))
    return pa.record_batch([*arrays, pa.array(problems, pa.string())], SCHEMA)


def _read(path: Content, store: Store, decode: bool) -> _Found:
    """Return the facts of a file, and its problem."""
    head = None
    try:
        if decode:
            head = store.head(path)
            if head.problem:
                return head, None, None, head.problem
            whole = decode_whole(path, store)
            return head, whole.header, whole, whole.fault and f"{UNDECODABLE}: {whole.fault}"
        head, file = store.begin(path)
        with file:
            header = None if head.problem else header_of(file, store.limits)
        return head, header, None, head.problem
    except FileNotFoundError:  # MissingFileError too
        return head, None, None, NOT_THERE
    except (ArgumentError, MemoryError):
        raise
    except Exception as error:  # of a store or a reader
        if is_outside(error):
            raise fault_of(error, str(path)) from error
        return head, None, None, str(error) or type(error).__name__
