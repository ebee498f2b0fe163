"""Sources of a feature's arrays, for one row or many rows at a time."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError, DfgenError
from dfgen.samples.features.array import Array
from dfgen.samples.features.base import Feature, Reading, value_of
from dfgen.samples.features.feature_checks import fill
from dfgen.samples.features.image import Image
from dfgen.spec import IntArray, Present, Spec, Values
from dfgen.stores.array_files import BROKEN_ROWS, ArrayFiles
from dfgen.stores.stores import OfSize


class RowSource:
    """Fills the arrays of one feature for any row of a manifest; sent to worker processes."""

    files: "FileSource"
    """Reads the rows from their files."""

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
        return self.files.packed


@dataclass(frozen=True, eq=False)
class FileSource(RowSource):
    """Reads and decodes the file of each row, or runs the user's function on its columns.

    `sizes` are the file sizes in the manifest, -1 if unknown (None: sizes are not compared).
    `packed`: whether the files are in a pack.
    """

    feature: Feature
    values: Any
    sizes: IntArray | None = None
    packed: bool = False

    @property
    def files(self) -> "FileSource":  # type: ignore[override]
        """The source itself."""
        return self

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Read the file of one row; raises if its size differs from the manifest."""
        size = self.size(row)
        if size is not None:
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
