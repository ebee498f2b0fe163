"""Sources of a feature's arrays, for one row or many rows at a time: files, array files, a cache.

An image whose pixels are cached is made in two steps. The result of the first, which is not random,
is cached. All rows go through both steps, so a batch does not depend on the state of the cache.
"""

import math
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from dfgen.errors import DecodeError, DfgenError
from dfgen.samples.features.arrays import Array
from dfgen.samples.features.base import Feature, Reading, fill, value_of
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.geometry import Geometry
from dfgen.spec import IntArray, Present, Spec, Values
from dfgen.stores.archives import Member, member_of
from dfgen.stores.array_files import BROKEN_ROWS, ArrayFiles
from dfgen.stores.slots import Keys, Segment
from dfgen.stores.store import Store
from dfgen.stores.stores import OfSize, is_remote

CACHE_FAILED = "cache_failed_"
"""Prefix of a count before an errno: why nothing more is cached."""


class RowSource:
    """Fills the arrays of one feature for any row of a manifest; sent to worker processes."""

    files: "FileSource"
    """Reads the rows from their files."""

    packed = False
    """Whether its files are in a pack."""

    cache: Any = None
    """The cache that counts hits and misses, or None."""

    @property
    def is_as_wanted(self) -> bool:
        """Whether `take` copies pixels into the batch unchanged."""
        return False

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Fill `out` for one row; see `Feature.read`."""
        return self.files.read(row, out, reading)

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the pixels of many rows; return which are available, None for all."""
        raise NotImplementedError

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Prefetch rows, file by file."""
        return iter(())

    def has(self, row: int) -> bool:
        """Whether a row is read without opening its own file."""
        return self.packed


@dataclass(frozen=True, eq=False)
class FileSource(RowSource):
    """Reads and decodes the file of each row, or runs the user's function on its columns.

    `sizes` are the file sizes in the manifest, -1 if unknown (None: sizes are not compared).
    """

    feature: Feature
    values: Any
    sizes: IntArray | None = None

    @property
    def files(self) -> "FileSource":  # type: ignore[override]
        """The source itself."""
        return self

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Read the file of one row; raises if its size differs from the manifest."""
        if (size := self.size(row)) is not None:
            reading = reading._replace(store=OfSize(reading.store, size))  # type: ignore[arg-type]
        return self.feature.read(value_of(self.values, row), out, reading)

    def size(self, row: int) -> int | None:
        """Return the size of a row's file in the manifest, None if unknown."""
        size = -1 if self.sizes is None else self.sizes.item(row)
        return None if size < 0 else size


@dataclass(frozen=True, eq=False)
class StoredRows(RowSource):
    """Reads many rows of array files at once, if casting alone turns them into the batch."""

    files: FileSource  # reads rows one by one
    spec: Spec  # of a row
    shape: tuple[int, ...]  # of a row in its file; grey pixels may have no channel axis
    chunk: int  # rows per compressed chunk
    paths: pa.Array  # of the files
    numbers: IntArray  # for each row of the manifest, the index in `paths`
    indices: IntArray  # for each row of the manifest, its row in the file
    dataset: str | None  # name of the array in HDF5 files with several
    arrays: ArrayFiles

    @property
    def is_as_wanted(self) -> bool:
        """Whether casting alone turns rows into the batch."""
        feature = self.files.feature
        return isinstance(feature, Array | Image) and feature.takes(self.spec)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return max(1, math.prod(self.shape) * int(self.spec.dtype.itemsize))

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with rows; return which rows were read, None for all."""
        taken = np.zeros(len(rows), np.bool_)
        out = out.reshape(len(out), *self.shape)
        for path, here in self._by_file(rows):
            size = None if self.files.sizes is None else self.files.sizes[rows[here]]
            if size is not None and size.min() != size.max():
                continue  # reading row by row names the wrong row
            size_of_file = None if size is None or size[0] < 0 else int(size[0])
            indices = self.indices[rows[here]]
            if len(here) == len(rows) and out.dtype == self.spec.dtype:
                taken[here] = self.arrays.take(path, indices, out, self.dataset, size_of_file)
                continue
            numbers = np.empty((len(here), *self.shape), self.spec.dtype)
            cast = np.empty(numbers.shape, out.dtype)
            with suppress(DecodeError):  # reading row by row names the wrong row
                if self.arrays.take(path, indices, numbers, self.dataset, size_of_file):
                    fill("the array", numbers, cast)
                    out[here], taken[here] = cast, True
        return None if taken.all() else taken

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have the operating system prefetch rows."""
        for path, here in self._by_file(rows):
            with suppress(DfgenError, *BROKEN_ROWS):  # reading row by row names the wrong row
                self.arrays.ahead(path, self.indices[rows[here]], self.dataset)
            yield

    def _by_file(self, rows: IntArray) -> Iterator[tuple[str, IntArray]]:
        files = self.numbers[rows]
        for file in np.unique(files).tolist():
            yield self.paths[file].as_py(), np.flatnonzero(files == file)


def _absolute(path: str, folder: str) -> str:
    member = member_of(path)
    if member is not None:
        return str(Member(member.kind, member.name, _absolute(member.archive, folder)))
    return path if "://" in path else os.path.normpath(os.path.join(folder, path))


def key_of(path: str, folder: str) -> int:
    """Return a 64-bit hash of the absolute path of a file or archive member, or of a URL."""
    return xxh3_64_intdigest(_absolute(path, folder).encode(errors="surrogatepass"))


@dataclass(eq=False)
class CachedPixels(RowSource):
    """The cached pixels of a feature.

    The size and time of a file are read when its row is first needed; the next Sequence notices a
    later change. For remote files the size and time are from the manifest.
    """

    files: FileSource  # decodes the files
    steps: tuple[Image, Image]  # makes the cached pixels; makes the batch from them
    store: Store
    segments: list[Segment]  # the slots
    keys: Keys  # hash of the path of each row
    facts: tuple[Any, ...] = (None, None)  # sizes and times in the manifest, for remote files

    def __post_init__(self) -> None:
        self.spec = self.segments[0].slots.spec
        self.fixed, self.rest = self.steps
        self._fixed_files = replace(self.files, feature=self.fixed)
        self.slots = [segment.slots for segment in self.segments]
        self._segments = np.zeros(len(self.keys), np.uint16)
        self._places = np.zeros(len(self.keys), np.int64)
        for number, segment in enumerate(self.segments):
            places = np.minimum(np.searchsorted(segment.keys, self.keys), len(segment.keys) - 1)
            present = segment.keys[places] == self.keys
            self._segments[present], self._places[present] = number, places[present]
        self._versions = np.zeros(len(self.keys), np.uint64)  # 0: not read yet, or unknown
        self._is_all = replace(self.rest, scale=None).takes(self.spec)
        self._counts, self._lock = Counter[str](), threading.Lock()
        self._error: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return CachedPixels, tuple(getattr(self, one.name) for one in fields(self))

    @property
    def is_as_wanted(self) -> bool:
        """Whether the cached pixels are copied into the batch unchanged."""
        return self.rest.takes(self.spec)

    @property
    def cache(self) -> Any:
        """The source itself."""
        return self

    @property
    def nbytes(self) -> int:
        """The size of the cached pixels."""
        return sum(slots.nbytes for slots in self.slots)

    def counted(self) -> Mapping[str, int]:
        """Return hits and misses since the last call, and once the errno that ended writing."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            error = next((slots.error for slots in self.slots if slots.error is not None), None)
            if error is not None and error != self._error:
                self._error = error
                counts[f"{CACHE_FAILED}{error}"] = 1
        return counts

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out`, (rows, height, width, channels); return which rows are cached."""
        for row in rows[self._versions[rows] == 0].tolist():
            self._versions[row] = self._version(row)
        numbers, places, versions = self._segments[rows], self._places[rows], self._versions[rows]
        if len(self.slots) == 1:
            present = self.slots[0].take(places, versions, out)
        else:
            present = np.zeros(len(rows), np.bool_)
            for number in np.unique(numbers).tolist():
                here = np.flatnonzero(numbers == number)
                part = np.empty((len(here), *out.shape[1:]), out.dtype)
                present[here] = self.slots[number].take(places[here], versions[here], part)
                out[here] = part
        self._count("cache_hits", int(present.sum()))
        return None if present.all() else present

    def has(self, row: int) -> bool:
        """Return whether the pixels of a row are cached."""
        if not self._versions.item(row):
            self._versions[row] = self._version(row)
        slots = self.slots[self._segments.item(row)]
        return slots.holds(self._places.item(row), self._versions.item(row))

    def read(self, row: int, out: Any, reading: Reading) -> Geometry:
        """Fill `out` with the image of one row, as `Image.read` does."""
        reading.watch("read")
        slots, place = self.slots[self._segments.item(row)], self._places.item(row)
        if self.has(row):
            placed = self.fixed.place(slots.size(place), self.spec.shape[:2])
            geometry = self.rest.fill(slots.arrays[place], out, reading, placed)
            if slots.same(place):
                self._count("cache_hits", 1)
                return geometry
        pixels = out if self._is_all else np.empty(self.spec.shape, self.spec.dtype)
        version = self._versions.item(row)
        placed = self._fixed_files.read(row, pixels, reading._replace(drawn=None))
        self._count("cache_misses", 1)
        if version and version == self._version(row):  # the file did not change meanwhile
            slots.put(place, pixels, version, placed.image)
        return placed if self._is_all else self.rest.fill(pixels, out, reading, placed)

    def _version(self, row: int) -> int:
        """Return a hash of the path, size and time of a row's file; 0 if they are unknown."""
        path, version = self.files.values[row].as_py(), None
        if is_remote(path):
            size, mtime = (-1 if fact is None else fact.item(row) for fact in self.facts)
            if size < 0 or mtime < 0:
                return 0
        else:
            try:
                head = self.store.head(path)
            except (DfgenError, OSError, ValueError):
                return 0  # reading it raises the right error
            if head.problem or self.files.size(row) not in (None, head.size):
                return 0
            size, mtime = head.size, head.mtime_ns
            version = head.version if "://" in path else None  # inode numbers change with copies
        text = f"{self.keys[row]} {size} {mtime} {version}"
        return xxh3_64_intdigest(text.encode()) or 1

    def _count(self, what: str, number: int) -> None:
        with self._lock:
            self._counts[what] += number
