"""RowSource: where the arrays of a feature come from, one row or a whole chunk at a time.

`StoredRows` are rows of array files: pixels, or numbers, that are decoded already.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError, DfgenError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.casting import fill
from dfgen.spec import IntArray, Present, Spec, Values, Watch
from dfgen.stores.array_files import BROKEN_ROWS, ArrayFiles
from dfgen.stores.store import Store
from dfgen.stores.stores import OfSize


class HeldRows(Protocol):
    """Which rows lie in packs."""

    @property
    def all_packed(self) -> bool:
        """Whether every row does."""

    def holds(self, row: int) -> bool:
        """Whether one row does."""


class RowSource:
    """Fills the arrays of one feature for any row of a manifest; travels to worker processes.

    One that holds decoded pixels passes the rows it lacks on, to the `FileSource` in the end.
    """

    files: "FileSource"
    """The end of the chain."""

    spec: Any
    """The shape and dtype of the pixels it holds, None for a length that differs; None: it holds
    none, and `take` is never called."""

    @property
    def far_packs(self) -> tuple[tuple[Any, Any], ...]:
        """The `PackRows` and `RemoteShards` that tell what it reads of packs in a store."""
        return ()

    @property
    def pixels_for(self) -> Feature:
        """The feature that makes the arrays of a batch of these pixels."""
        return self.files.feature

    def read(self, row: int, out: Any, store: Store, watch: Watch, given: Any) -> Any:
        """Fill `out` for one row; see `Feature.read`."""
        raise NotImplementedError

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the pixels of many rows; return which of them it holds, None: all."""
        raise NotImplementedError

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have some rows read before they are asked for, file by file."""
        return iter(())

    def has(self, row: int) -> bool:
        """Whether it reads one row without opening a file of its own."""
        return self.files.packed is not None and self.files.packed.holds(row)


@dataclass(frozen=True, eq=False)
class FileSource(RowSource):
    """Reads and decodes the file of each row, or runs the user's function on its columns.

    `sizes` of files are those of the manifest, -1 if unknown (None: nothing is compared); `packed`
    tells which rows lie in packs.
    """

    feature: Feature
    values: Any
    sizes: IntArray | None = None
    packed: HeldRows | None = None
    spec = None

    @property
    def files(self) -> "FileSource":  # type: ignore[override]
        """Itself."""
        return self

    @property
    def far_packs(self) -> tuple[tuple[Any, Any], ...]:
        """Those that hold the files."""
        return getattr(self.values, "far_packs", ())

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have the packs of files read where some rows lie."""
        if hasattr(self.values, "ahead"):
            yield from self.values.ahead(rows)

    def read(self, row: int, out: Any, store: Store, watch: Watch, given: Any) -> Any:
        """Read the file of one row, if it has the size of the manifest."""
        return self.read_by(self.feature, row, out, store, watch, given)

    def read_by(
        self, feature: Any, row: int, out: Any, store: Any, watch: Watch, given: Any = None
    ) -> Any:
        """Read the file of one row by another feature of the same values."""
        size = self.size(row)
        store = store if size is None else OfSize(store, size)
        return feature.read(self.feature.at(self.values, row), out, store, watch, given)

    def size(self, row: int) -> int | None:
        """Return the size of a row's file in the manifest, None if unknown."""
        size = -1 if self.sizes is None else self.sizes.item(row)
        return None if size < 0 else size


@dataclass(frozen=True, eq=False)
class StoredRows(RowSource):
    """Takes all rows of a chunk at once where they lie in their files as the batch wants them.

    Other rows are read one by one, which tells why.

    Args:
        files: reads rows one by one.
        spec: of a row; in its file it has `shape`, as gray pixels may lack their axis.
        chunk: rows that are unpacked together.
        paths: of the files, by their number.
        numbers: of the file of each row of the manifest.
        indices: of the rows in their files.
        dataset: the name of the array in HDF5 files that hold several.
        arrays: the array files.
    """

    files: FileSource
    spec: Spec
    shape: tuple[int, ...]
    chunk: int
    paths: pa.Array
    numbers: IntArray
    indices: IntArray
    dataset: str | None
    arrays: ArrayFiles

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return max(1, math.prod(self.shape) * int(self.spec.dtype.itemsize))

    def read(self, row: int, out: Any, store: Store, watch: Watch, given: Any) -> Any:
        """Read one row by itself."""
        return self.files.read(row, out, store, watch, given)

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
            is_taken = self.arrays.take(path, indices, found, self.dataset, known)
            taken[here] = is_taken and _cast(found, out, here)
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


def _cast(found: Values, out: Values, here: IntArray) -> bool:
    """Fill a part of `out` with numbers of another dtype, if it can hold them."""
    cast = np.empty(found.shape, out.dtype)
    try:
        fill("the array", found, cast)
    except DecodeError:  # reading them one by one tells which row
        return False
    out[here] = cast
    return True
