"""StoredRows: the rows of array files as pixels, or numbers, that are decoded already."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError
from dfgen.samples.features.casting import fill
from dfgen.samples.features.spec import Indices, Present, Spec, Values
from dfgen.samples.pixels.geometry import Geometry
from dfgen.samples.stores.known_files import KnownFiles
from dfgen.samples.stores.store import Store


class StoredPixels(Protocol):
    """The decoded pixels of every row of a manifest, or of some of them.

    It travels to worker processes, so it can be pickled; what it opens it opens there.
    """

    @property
    def spec(self) -> Spec:
        """The shape of each row: (height, width, channels), None for a length that differs."""

    def at(self, row: int) -> Values | None:
        """Return the pixels of one row, (height, width, channels), a view; None: none are there.

        Raises:
            DecodeError: what is stored of this row is broken.
        """

    def take(self, rows: Indices, out: Values) -> Present | None:
        """Fill `out`, (rows, height, width, channels), all at once and with Python's lock released.

        It is asked only where no length of its Spec is None. Return which of the rows are there,
        None: all.
        """

    def placed(self, row: int) -> Geometry | None:
        """Return how the upright image of a row became what is read of it, None: that is all."""


@runtime_checkable
class ReadsAhead(Protocol):
    """StoredPixels that can have the system read rows before they are asked for.

    Those that are `far` are read into the memory of this process.
    """

    far: bool

    def ahead(self, rows: Indices) -> None:
        """Have some rows read into the system's cache; it may take a while."""


_BETWEEN = 1 << 16  # bytes that are read sooner than left out


@dataclass(frozen=True)
class StoredRows:
    """Takes all rows of a chunk at once where they lie in their files as the batch wants them.

    Whatever it cannot take is read row by row, which tells why.

    Args:
        spec: of a row.
        shape: that a row has in its file: gray pixels may lack their axis.
        paths: of the files, by their number.
        files: number of the file of each row of the manifest.
        indices: of the rows in their files.
        dataset: the name of the array in HDF5 files that hold several.
        store: where the files are.
        known: what the manifest knows of them.
    """

    spec: Spec
    shape: tuple[int, ...]
    paths: pa.Array
    files: Indices
    indices: Indices
    dataset: str | None
    store: Store
    known: KnownFiles | None = None
    far = False

    def at(self, row: int) -> None:
        """Return nothing: one row by itself is read from its file."""

    def placed(self, row: int) -> Geometry | None:
        """Return nothing: rows are whole images."""

    def take(self, rows: Indices, out: Values) -> Present | None:
        """Fill `out` with the rows that are there."""
        taken = np.zeros(len(rows), np.bool_)
        out = out.reshape(len(out), *self.shape)
        for path, here in self._by_file(rows):
            check = None if self.known is None else partial(self.known.check, rows[here])
            take = partial(self.store.take, path, self.indices[rows[here]])
            if len(here) == len(rows) and out.dtype == self.spec.dtype:
                taken[here] = take(out, self.dataset, check)
                continue
            found = np.empty((len(here), *self.shape), self.spec.dtype)
            taken[here] = take(found, self.dataset, check) and _cast(found, out, here)
        return None if taken.all() else taken

    def ahead(self, rows: Indices) -> None:
        """Have the files read where some rows lie; a few between them too."""
        between = _BETWEEN // max(1, math.prod(self.shape) * self.spec.dtype.itemsize)
        for path, here in self._by_file(rows):
            indices = np.unique(self.indices[rows[here]])
            for part in np.split(indices, np.flatnonzero(np.diff(indices) > between + 1) + 1):
                self.store.ahead(path, int(part[0]), int(part[-1]) + 1, self.dataset)

    def _by_file(self, rows: Indices) -> Iterator[tuple[str, Indices]]:
        """Yield the path of each file that rows lie in, and their places."""
        files = self.files[rows]
        for file in np.unique(files).tolist():
            yield self.paths[file].as_py(), np.flatnonzero(files == file)


def _cast(found: Values, out: Values, here: Indices) -> bool:
    """Fill a part of `out` with numbers of another dtype, if it can hold them."""
    cast = np.empty(found.shape, out.dtype)
    try:
        fill("the array", found, cast)
    except DecodeError:  # reading them one by one tells which row
        return False
    out[here] = cast
    return True
