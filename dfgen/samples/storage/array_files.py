"""Rows of large array files: .npy by memory mapping, HDF5 by h5py. Nothing is read as a whole."""

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError, unreadable
from dfgen.samples.storage.npy import whole_array

HDF5 = b"\x89HDF\r\n\x1a\n"

Rows = Any
"""What has a shape and a dtype and gives a row for an index: a memory map, a data set of HDF5."""


@dataclass(frozen=True)
class Arrays:
    """Keeps the array files open that rows are read from.

    A file that was replaced or changed is opened anew. Copies, in worker processes too, open their
    own.
    """

    _opened: dict[tuple[str, str | None], tuple[tuple[int, ...], Rows]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def row(self, path: str, index: int, dataset: str | None = None) -> npt.NDArray[Any]:
        """Return one row of an array file.

        Args:
            path: A .npy or HDF5 file.
            index: Which row along the first axis.
            dataset: The name of the array in an HDF5 file; None: its only one.

        Raises:
            MissingFileError: there is no such file.
            DecodeError: it is no such file, has no such array, or not so many rows.
        """
        try:
            status = os.stat(path)
            key = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._opened.get((path, dataset))
            if known is None or known[0] != key:
                known = self._opened[path, dataset] = (key, open_rows(path, dataset))
            rows = known[1]
            if not 0 <= index < len(rows):
                raise DecodeError(f"the array has {len(rows):,} rows, there is no row {index}")
            return np.asarray(rows[index])
        except DecodeError:
            raise
        except (OSError, ValueError) as error:
            raise unreadable(error) from error

    def __reduce__(self) -> tuple[type["Arrays"], tuple[()]]:
        return Arrays, ()


def open_rows(path: str, dataset: str | None = None) -> Rows:
    """Open an array file, which reads its header alone.

    Raises:
        DecodeError: it is neither .npy nor HDF5, has no such array, or no rows.
    """
    with open(path, "rb") as file:
        head = file.read(8)
        if head == HDF5:
            arrays = open_hdf5(path)
            if dataset is None and len(arrays) == 1:
                return next(iter(arrays.values()))
            if dataset not in arrays:
                asked = "several arrays" if dataset is None else f"no array {dataset!r}"
                raise DecodeError(
                    f"the HDF5 file has {asked}: write dataset= of {', '.join(arrays) or 'none'}"
                )
            return arrays[dataset]
        if not head.startswith(b"\x93NUMPY"):
            raise DecodeError(f"neither .npy nor HDF5: the file begins with {head!r}")
        if dataset is not None:
            raise DecodeError(f"dataset={dataset!r} is for HDF5 files, this is a .npy file")
        file.seek(0)
        shape, fortran, dtype = whole_array(file)  # refuses what is not all there
        if not shape:
            raise DecodeError("the array is a single number: it has no rows")
        order = "F" if fortran else "C"
        return np.memmap(path, dtype, "r", file.tell(), shape, order)  # type: ignore[call-overload]


def open_hdf5(path: str) -> dict[str, Rows]:
    """Return the arrays of an HDF5 file by name, `group/name` in groups; the file stays open."""
    import h5py  # late: 60 ms that most programs need not spend

    found: dict[str, Rows] = {}

    def keep(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim > 0:
            found[name] = item

    h5py.File(path, "r").visititems(keep)
    return found
