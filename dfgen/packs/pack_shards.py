"""The shards of packs: Arrow files of one record batch, mapped into memory when first read."""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import ManifestError, MissingFileError, ReadError, is_outside, reason
from dfgen.packs.pack_index import FileVersion, version_of
from dfgen.packs.ranges import checksum_of
from dfgen.platform_calls import read_ahead
from dfgen.spec import IntArray, Present, Values
from dfgen.stores.stores import store_at

_plan_of = lru_cache(64)(json.loads)  # all shards of a pack carry the same
_MOST_MAPPED = 16_384  # shards: Linux gives a process 65,530 maps
_PAUSE = 500  # times as long as it took, before files are looked at again: else gathers are slower
NOTHING = -1
"""Instead of the number of a shard, of a row that lies in none."""
AGAIN = "take another copy of it, or pack again"
SHARD_NAME = b"file"
"""The key of the metadata of a shard that has the name of its file."""


class ShardFile(NamedTuple):
    """A shard, as `_manifest.json` of its pack has it."""

    path: str
    start: int  # its first row, of all rows of the pack
    rows: int
    nbytes: int
    plan: Mapping[str, Any]  # what tells its pack from another, as of `PackIndex`
    written: tuple[str, FileVersion] | tuple[()] = ()  # `_manifest.json`, and its version
    checksum: str = ""

    def __str__(self) -> str:
        return f"{self.path}, which has the rows {self.start:,} to {self.start + self.rows - 1:,}"

    def of_length(self, nbytes: int) -> str:
        """Return the message that it has another length."""
        return f"{self}, has {nbytes:,} bytes, and {self.nbytes:,} were written: {AGAIN}"


class PixelsOfOneSize(NamedTuple):
    """Pixels of one size: they follow each other."""

    good: Present | None  # which rows have any; None: all
    pixels: Values  # (rows, height, width, channels)

    def at(self, place: int) -> Values:
        """Return the pixels of one row."""
        found: Values = self.pixels[place]
        return found


class RowsOfOwnSizes(NamedTuple):
    """Pixels of images that kept their sizes, or the bytes of files."""

    good: Present | None
    data: Values
    ends: IntArray
    shapes: npt.NDArray[np.int32] | None = None  # of pixels

    def at(self, place: int) -> Values:
        """Return the pixels, or the bytes of the file, of one row."""
        start, stop = self.ends[place : place + 2].tolist()
        data = self.data[start:stop]
        return data if self.shapes is None else data.reshape(self.shapes[place])


Opened = PixelsOfOneSize | RowsOfOwnSizes
"""The part of one packed column in a shard."""


class PackShards:
    """One column of the shards of packs.

    It travels to worker processes without what is mapped; a mapped file is not kept open. To read
    one that was cut short since would end the process: at times, before rows are read, files that
    were written to are compared with their checksums, and opened anew.
    """

    far = False

    def __init__(self, files: Iterable[ShardFile], column: str) -> None:
        self.files, self.column = tuple(files), column
        self._opened: dict[int, Opened] = {}
        self._versions: dict[int, FileVersion] = {}
        self._look_at = 0.0
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return PackShards, (self.files, self.column)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, shard: int) -> Any:
        """Return what a shard holds, mapped when it is first asked for; see `opened_shard`."""
        opened = self._opened.get(shard)
        if opened is None:
            file = self.files[shard]
            with telling(file):
                version = version_of(os.stat(file.path))
                if self._versions.get(shard, version) != version:
                    _refuse_others(file, version[0])
            opened = opened_shard(file, self.column)
            with self._lock:
                while len(self._opened) >= _MOST_MAPPED:
                    del self._opened[next(iter(self._opened))]
                self._opened[shard], self._versions[shard] = opened, version
        return opened

    def _drop_changed(self, shards: Iterable[int]) -> None:
        """Give up the maps of files that are others now."""
        begin = time.monotonic()
        for shard in shards:
            try:
                now = version_of(os.stat(self.files[shard].path))
            except OSError:  # of one that was removed all is still mapped
                continue
            if self._versions.get(shard, now) != now:
                self._opened.pop(shard, None)
        end = time.monotonic()
        self._look_at = end + _PAUSE * (end - begin)

    def of(self, shard: int, place: int) -> Any:
        """Return what a shard holds, among it one row."""
        if time.monotonic() >= self._look_at:
            self._drop_changed((shard,))
        return self[shard]

    def holding(self, wanted: Iterable[int], shards: IntArray, places: IntArray) -> dict[int, Any]:
        """Return what the `wanted` shards hold, among it the rows at some places of `shards`."""
        if time.monotonic() >= self._look_at:
            self._drop_changed(wanted)
        return {shard: self[shard] for shard in wanted}

    def ahead(self, shards: IntArray, places: IntArray) -> Iterator[None]:
        """Have the system read whole shards into its cache, where it can, without waiting."""
        for shard in np.unique(shards).tolist():
            if shard != NOTHING:
                file = self.files[shard]
                read_ahead(file.path, [(0, file.nbytes)])
            yield


def opened_shard(file: ShardFile, column: str) -> Opened:
    """Map a shard into memory, and look at its structure; no pixel is read.

    Raises:
        MissingFileError: there is no such file.
        ManifestError: it is no such shard, or damaged.
    """
    with telling(file):
        with pa.memory_map(file.path) as mapped:
            whole = mapped.read_buffer()  # of which Arrow needs no thread of its own to read
        return held(file, column, whole)


def _refuse_others(file: ShardFile, nbytes: int) -> None:
    """Raise ManifestError where a shard that was written to has other bytes than were packed."""
    if nbytes != file.nbytes:
        raise ManifestError(file.of_length(nbytes))
    if checksum_of(store_at(file.path), file.path, nbytes) != file.checksum:
        raise ManifestError(
            f"{file}, was written over while it was in use, and has other bytes than were packed, "
            f"by their checksum: {AGAIN}"
        )


@contextlib.contextmanager
def telling(file: ShardFile) -> Iterator[None]:
    """Name a shard and its rows in the errors of reading it."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise _fault(file, error) from None


def held(
    file: ShardFile,
    column: str,
    whole: pa.Buffer,
    fetch: Callable[[Iterable[Any]], object] | None = None,
) -> Opened:
    """Return what a shard holds of a column, by the bytes of its file.

    `fetch` makes sure that some buffers of it are there; None: all are. A file that is no such
    shard raises ManifestError or ValueError.
    """
    with pa.ipc.open_file(whole) as reader:
        if reader.num_record_batches != 1:
            raise ValueError(f"it has {reader.num_record_batches} record batches, expected 1")
        _check_same(file, reader.schema.metadata)
        batch = reader.get_batch(0)
    if fetch is None:
        batch.validate()
    else:
        fetch(_small_buffers(batch, column))
    if len(batch) != file.rows:
        raise ValueError(f"it has {len(batch):,} rows, expected {file.rows:,}")
    return _held(batch, column)


def _small_buffers(batch: pa.RecordBatch, column: str) -> Iterator[Any]:
    """Yield all buffers of a packed column but those of the data itself."""
    for name in (f"{column}_pixels", f"{column}_bytes", f"{column}_shape"):
        if name in batch.schema.names:
            values = batch.column(batch.schema.names.index(name))
            buffers = getattr(values, "storage", values).buffers()
            yield from buffers if name.endswith("_shape") else buffers[:-1]


def _check_same(file: ShardFile, metadata: Mapping[bytes, bytes] | None) -> None:
    """Refuse a shard of another pack: one that was packed after this one was opened."""
    plan = _plan_of((metadata or {}).get(b"dfgen", b"{}"))
    if _is_rewritten(*file.written) or any(
        plan.get(name, value) != value for name, value in file.plan.items()
    ):
        raise ManifestError(
            f"{file}, is now of another pack, which was written in its place since this one was "
            "opened: make the Sequence anew, from the folder or from dfgen.read_manifest("
            f"{os.path.dirname(file.path)!r})"
        )
    name = exchanged(file.path, metadata)
    if name:
        raise ManifestError(f"{file}, holds the rows of {name}: {AGAIN}")


def exchanged(path: str, metadata: Mapping[bytes, bytes] | None) -> str | None:
    """Return the name that a shard was written by, if it now has that of another."""
    name = (metadata or {}).get(SHARD_NAME, b"").decode(errors="replace")
    return name if name != os.path.basename(path) else None


def _is_rewritten(path: str = "", version: FileVersion | None = None) -> bool:
    """Whether its pack was written anew, maybe by the same plan from files that have changed."""
    try:
        return path != "" and version_of(os.stat(path)) != version
    except FileNotFoundError:
        return True


def _fault(file: ShardFile, error: Exception) -> Exception:
    if isinstance(error, ManifestError):
        return error
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingFileError(f"{file}, is missing: {AGAIN}")
    if isinstance(error, ReadError):
        return type(error)(f"{file}: {error}")
    if is_outside(error):
        raise error
    return ManifestError(f"{file}, cannot be read: {reason(error)}. {AGAIN.capitalize()}")


def _held(batch: pa.RecordBatch, column: str) -> Opened:
    """Return what a record batch holds of a packed column."""
    names = batch.schema.names
    packed = [name for name in (f"{column}_pixels", f"{column}_bytes") if name in names]
    if len(packed) != 1:
        raise ValueError(f"it has no column {column}_pixels, and no {column}_bytes")
    values = batch.column(names.index(packed[0]))
    good = None if not values.null_count else np.asarray(values.is_valid())
    if isinstance(values.type, pa.FixedShapeTensorType):
        return PixelsOfOneSize(good, _of_one_size(values))
    if values.type != pa.large_binary():
        raise ValueError(f"its column {packed[0]} holds {values.type}")
    values.validate(full=True)
    _, ends, data = values.buffers()
    ends = np.frombuffer(ends, np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data, np.uint8) if data is not None and data.size else np.empty(0, "u1")
    if packed[0].endswith("_bytes"):
        return RowsOfOwnSizes(good, data, ends)
    shapes = _shapes(batch.column(names.index(f"{column}_shape")))
    differs = np.diff(ends) != shapes.prod(axis=1, dtype=np.int64)
    if (differs if good is None else differs & good).any():
        raise ValueError(f"its {column}_shape tells others than its {packed[0]} hold")
    return RowsOfOwnSizes(good, data, ends, shapes)


def _of_one_size(values: Any) -> Values:
    if values.type.value_type != pa.uint8():
        raise ValueError(f"its pixels are {values.type.value_type}, expected uint8")
    shape = tuple(values.type.shape)
    each = int(np.prod(shape))
    data = np.frombuffer(values.storage.buffers()[-1], np.uint8)
    first = values.storage.offset * each
    if len(data) < first + len(values) * each:
        raise ValueError("it was cut short")
    return data[first : first + len(values) * each].reshape(len(values), *shape)


def _shapes(values: pa.FixedSizeListArray) -> npt.NDArray[np.int32]:
    lengths = np.frombuffer(values.buffers()[-1], np.int32)
    found: npt.NDArray[np.int32] = lengths[3 * values.offset :][: 3 * len(values)].reshape(-1, 3)
    return found
