"""StoredRows: the rows of array files as pixels, or numbers, that are decoded already."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError
from dfgen.samples.features.casting import fill
from dfgen.samples.sources.file_source import FileSource, RowSource
from dfgen.samples.stores.store import Store
from dfgen.spec import IntArray, Present, Spec, Values, Watch

_BETWEEN = 1 << 16  # bytes that are read sooner than left out


@dataclass(frozen=True, eq=False)
class StoredRows(RowSource):
    """Takes all rows of a chunk at once where they lie in their files as the batch wants them.

    Other rows are read one by one, which tells why.

    Args:
        files: reads rows one by one.
        spec: of a row; in its file it has `shape`, as gray pixels may lack their axis.
        paths: of the files, by their number.
        numbers: of the file of each row of the manifest.
        indices: of the rows in their files.
        dataset: the name of the array in HDF5 files that hold several.
        store: where the array files are.
    """

    files: FileSource
    spec: Spec
    shape: tuple[int, ...]
    paths: pa.Array
    numbers: IntArray
    indices: IntArray
    dataset: str | None
    store: Store

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

    def ahead(self, rows: IntArray) -> None:
        """Have the files read where some rows lie; a few between them too."""
        between = _BETWEEN // max(1, math.prod(self.shape) * self.spec.dtype.itemsize)
        for path, here in self._by_file(rows):
            indices = np.unique(self.indices[rows[here]])
            for part in np.split(indices, np.flatnonzero(np.diff(indices) > between + 1) + 1):
                self.store.ahead(path, int(part[0]), int(part[-1]) + 1, self.dataset)

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
