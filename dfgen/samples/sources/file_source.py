"""Where the arrays of a feature come from, one row or a whole chunk at a time."""

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
    """Fills the arrays of one feature for any row of a manifest; travels to worker processes.

    One that holds decoded pixels leaves the rows it lacks to its `FileSource`.
    """

    files: "FileSource"
    """Reads the rows from their files."""

    cache: Any = None
    """Counts the hits and misses of what it keeps; None: it keeps nothing."""

    @property
    def is_as_wanted(self) -> bool:
        """Whether it holds pixels that go into the batch as they are, by `take`."""
        return False

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Fill `out` for one row; see `Feature.read`."""
        return self.files.read(row, out, reading)

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the pixels of many rows; return which of them it holds, None: all."""
        raise NotImplementedError

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have some rows read before they are asked for, file by file."""
        return iter(())

    def has(self, row: int) -> bool:
        """Whether it reads one row without opening a file of its own."""
        return self.files.packed


@dataclass(frozen=True, eq=False)
class FileSource(RowSource):
    """Reads and decodes the file of each row, or runs the user's function on its columns.

    `sizes` of files are those of the manifest, -1 if unknown (None: nothing is compared); `packed`:
    whether a pack has the files.
    """

    feature: Feature
    values: Any
    sizes: IntArray | None = None
    packed: bool = False

    @property
    def files(self) -> "FileSource":  # type: ignore[override]
        """Itself."""
        return self

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Read the file of one row, if it has the size of the manifest."""
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
    """Takes all rows of a chunk at once where they lie in their files as the batch wants them."""

    files: FileSource  # reads rows one by one
    spec: Spec  # of a row
    shape: tuple[int, ...]  # in its file, where gray pixels may lack their axis
    chunk: int  # rows that are unpacked together
    paths: pa.Array  # of the files, by their number
    numbers: IntArray  # of the file of each row of the manifest
    indices: IntArray  # of the rows in their files
    dataset: str | None  # the name of the array in HDF5 files that hold several
    arrays: ArrayFiles

    @property
    def is_as_wanted(self) -> bool:
        """Whether casting alone makes the batch of the rows."""
        feature = self.files.feature
        return isinstance(feature, Array | Image) and feature.takes(self.spec)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return max(1, math.prod(self.shape) * int(self.spec.dtype.itemsize))

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the rows that are there."""
        taken = np.zeros(len(rows), np.bool_)
        out = out.reshape(len(out), *self.shape)
        for path, here in self._by_file(rows):
            size = None if self.files.sizes is None else self.files.sizes[rows[here]]
            if size is not None and size.min() != size.max():
                continue  # reading them one by one says which row is wrong
            known = None if size is None or size[0] < 0 else int(size[0])
            indices = self.indices[rows[here]]
            if len(here) == len(rows) and out.dtype == self.spec.dtype:
                taken[here] = self.arrays.take(path, indices, out, self.dataset, known)
                continue
            found = np.empty((len(here), *self.shape), self.spec.dtype)
            cast = np.empty(found.shape, out.dtype)
            with suppress(DecodeError):  # reading the rows one by one names the one at fault
                if self.arrays.take(path, indices, found, self.dataset, known):
                    fill("the array", found, cast)
                    out[here], taken[here] = cast, True
        return None if taken.all() else taken

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have the system read rows from their files."""
        for path, here in self._by_file(rows):
            with suppress(DfgenError, *BROKEN_ROWS):  # reading them says what is wrong
                self.arrays.ahead(path, self.indices[rows[here]], self.dataset)
            yield

    def _by_file(self, rows: IntArray) -> Iterator[tuple[str, IntArray]]:
        files = self.numbers[rows]
        for file in np.unique(files).tolist():
            yield self.paths[file].as_py(), np.flatnonzero(files == file)
