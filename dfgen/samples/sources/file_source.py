"""RowSource: where the arrays of a feature come from, one row or a whole chunk at a time.

`StoredRows` are rows of array files: pixels, or numbers, that are decoded already.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.casting import fill
from dfgen.samples.stores.known_files import KnownFiles
from dfgen.samples.stores.store import Store
from dfgen.spec import IntArray, Present, Spec, Values, Watch


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

    `known` are sizes and times that the manifest has (None: nothing is compared), `packed` tells
    which rows lie in packs.
    """

    feature: Feature
    values: Any
    known: KnownFiles | None = None
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
        """Read the file of one row, if it is the one that the manifest knows."""
        if self.known is not None:
            store = self.known.of(row, store)
        return self.feature.read(self.feature.at(self.values, row), out, store, watch, given)


_BETWEEN = 1 << 16  # bytes that are read sooner than left out


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
        store: where the array files are.
    """

    files: FileSource
    spec: Spec
    shape: tuple[int, ...]
    chunk: int
    paths: pa.Array
    numbers: IntArray
    indices: IntArray
    dataset: str | None
    store: Store

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
            known = self.files.known
            check = None if known is None else partial(known.check, rows[here])
            take = partial(self.store.take, path, self.indices[rows[here]])
            if len(here) == len(rows) and out.dtype == self.spec.dtype:
                taken[here] = take(out, self.dataset, check)
                continue
            found = np.empty((len(here), *self.shape), self.spec.dtype)
            taken[here] = take(found, self.dataset, check) and _cast(found, out, here)
        return None if taken.all() else taken

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have the files read where some rows lie; a few between them too."""
        between = _BETWEEN // self.row_bytes
        for path, here in self._by_file(rows):
            indices = np.unique(self.indices[rows[here]])
            for part in np.split(indices, np.flatnonzero(np.diff(indices) > between + 1) + 1):
                self.store.ahead(path, int(part[0]), int(part[-1]) + 1, self.dataset)
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
