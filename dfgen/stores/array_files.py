"""Rows of large array files: .npy by memory mapping, HDF5 by h5py, which caches its chunks."""

import io
import math
import os
from functools import lru_cache, partial
from itertools import product
from threading import RLock
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError, DfgenError, reason, unreadable
from dfgen.limits import DEFAULT, Limits
from dfgen.spec import IntArray, Values
from dfgen.stores.store import MOST_OPEN, Store, check_size, prefetch

ArrayHeader = tuple[tuple[int, ...], bool, np.dtype[Any]]
"""Shape, Fortran order and dtype."""

ArrayRows = Any
"""An array on a disk that returns a row for an index: a memory map or a data set of HDF5."""

HDF5 = b"\x89HDF\r\n\x1a\n"
CHUNK_CACHE = 1 << 28
"""Bytes of unpacked HDF5 chunks that a file keeps, unless the number of files is known."""

BROKEN_ROWS = (OSError, ValueError, KeyError, RuntimeError, OverflowError)
"""Errors of NumPy and h5py for damaged files."""

_SLOTS = 100_003  # of HDF5's table of cached chunks, a prime


def array_header(file: IO[bytes], limits: Limits = DEFAULT) -> ArrayHeader:
    """Read shape, Fortran order and dtype of a .npy file."""
    try:
        is_first = np.lib.format.read_magic(file) == (1, 0)
        length = int.from_bytes(file.read(2 if is_first else 4), "little")
        limits.check("header_bytes", length, f"the .npy file has a header of {length:,} bytes")
        file.seek(8)  # after magic and version
        formats = np.lib.format
        read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except (OSError, DecodeError):
        raise
    except SystemError:  # CPython 3.11 fails at random if two threads parse (gh-106905)
        file.seek(0)
        return array_header(file, limits)
    except Exception as error:  # NumPy evaluates the header as Python, with errors of any kind
        raise DecodeError(f"broken .npy header: {reason(error).partition('. ')[0]}") from error
    if dtype.hasobject:
        raise DecodeError("the .npy file holds Python objects, and dfgen never unpickles")
    if min(shape, default=0) < 0 or dtype.itemsize == 0:
        raise DecodeError(f"broken .npy header: {dtype} of shape {shape}")
    return shape, fortran, dtype


def whole_array(file: IO[bytes], limits: Limits = DEFAULT) -> ArrayHeader:
    """Read the header of a .npy file that is complete. The file is then at its first number."""
    shape, fortran, dtype = array_header(file, limits)
    start, wanted = file.tell(), math.prod(shape) * dtype.itemsize
    length = file.seek(0, io.SEEK_END) - start
    file.seek(start)
    if length < wanted:
        raise DecodeError(
            f"truncated .npy file: {dtype} of shape {shape} takes {wanted:,} bytes, and {length:,} "
            "follow the header"
        )
    return shape, fortran, dtype


def decode_array(data: bytes, limits: Limits = DEFAULT) -> npt.NDArray[Any]:
    """Decode a .npy file."""
    if data.startswith(HDF5):
        raise DecodeError('HDF5 files are read by rows: name their column, as in index="index"')
    if not data.startswith(b"\x93NUMPY"):
        raise DecodeError(
            f"the file begins with {data[:8]!r}, so it is no .npy file: read images with "
            "dfgen.Image, other files with dfgen.Array(..., decode=function)"
        )
    file = io.BytesIO(data)
    shape, fortran, dtype = whole_array(file, limits)
    array = np.frombuffer(data, dtype, math.prod(shape), file.tell())
    return array.reshape(shape, order="F" if fortran else "C")


def hdf5_arrays(source: str | IO[bytes], cache: int = 1 << 20) -> dict[str, ArrayRows]:
    """Return the arrays of an HDF5 file by name. The file stays open as long as one is in use."""
    import h5py  # late, because it takes 60 ms

    arrays: dict[str, ArrayRows] = {}

    def keep(name: str | bytes, item: object) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim > 0:
            if item.is_virtual or item.external:
                raise DecodeError(f"the array {name!r} is in other files: copy it into one file")
            arrays[str(name)] = item

    file = h5py.File(source, "r", rdcc_nbytes=cache, rdcc_nslots=_SLOTS)
    file.visititems(keep)  # does not follow links into other files
    return arrays


def check_row(rows: ArrayRows, limits: Limits) -> None:
    """Raise a DecodeError if a row, or the chunk that holds it, exceeds `limits.decoded_bytes`."""
    for shape in (rows.shape[1:], getattr(rows, "chunks", None) or ()):
        nbytes = math.prod(shape) * rows.dtype.itemsize
        what = f"{rows.dtype} of shape {shape} takes {nbytes:,} bytes"
        limits.check("decoded_bytes", nbytes, what)


class ArrayFiles:
    """Rows of array files, which stay open.

    Args:
        store: the files are there; remote files are read as a whole.
        cache: bytes of unpacked HDF5 chunks per file.
    """

    def __init__(self, store: Store, cache: int = CHUNK_CACHE) -> None:
        self.store, self._cache = store, cache
        self._opened = lru_cache(MOST_OPEN)(partial(_open, store, cache))
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayFiles, (self.store, self._cache)

    def array(self, path: str, dataset: str | None = None, size: int | None = None) -> ArrayRows:
        """Return all rows of a file without reading them.

        Args:
            path: of the file.
            dataset: name of the array in an HDF5 file; None if there is one.
            size: of the file in the manifest; None compares nothing.

        Raises:
            MissingFileError: there is no such file.
            DecodeError: it is damaged, or has no such array.
        """
        head = self.store.head(path)
        check_size(head.size, size)
        with self._lock:
            return self._opened(path, dataset, (head.size, head.mtime_ns, head.version))

    def row(
        self, path: str, index: int, dataset: str | None = None, size: int | None = None
    ) -> Values:
        """Return one row; raises as `array`."""
        try:
            rows = self.array(path, dataset, size)
            if not 0 <= index < len(rows):
                raise DecodeError(f"the array has {len(rows):,} rows, there is no row {index}")
            return np.asarray(rows[index])
        except (DfgenError, MemoryError):
            raise
        except Exception as error:
            raise unreadable(error) from error

    def take(
        self,
        path: str,
        indices: IntArray,
        out: Values,
        dataset: str | None = None,
        size: int | None = None,
    ) -> bool:
        """Fill `out` with rows of one file; return False if some do not fit or cannot be read."""
        try:
            rows = self.array(path, dataset, size)
            inside = indices.min() >= 0 and indices.max() < len(rows)
            if not inside or rows.shape[1:] != out.shape[1:] or rows.dtype != out.dtype:
                return False
            if isinstance(rows, np.ndarray) and rows.flags.c_contiguous and out.flags.c_contiguous:
                # as bytes and with "clip", because NumPy would make a copy first otherwise
                flat = (len(out), -1)
                source = rows.reshape(len(rows), -1).view(np.uint8)
                np.take(source, indices, 0, out.reshape(flat).view(np.uint8), "clip")
            else:
                for place, index in zip(out, indices.tolist(), strict=True):
                    place[...] = rows[index]
            return True
        except MemoryError:
            raise
        except Exception:  # reading the rows one by one raises the right error
            return False

    def ahead(self, path: str, indices: IntArray, dataset: str | None = None) -> None:
        """Have the system read rows of a local file into its cache."""
        if "://" not in path:
            extents = _extents(self.array(path, dataset), np.unique(indices))
            prefetch(os.path.join(self.store.folder, path), *extents)

    def close(self) -> None:
        """Close all files."""
        self._opened.cache_clear()


def _open(store: Store, cache: int, path: str, dataset: str | None, version: object) -> ArrayRows:
    local = "://" not in path
    source: Any = os.path.join(store.folder, path) if local else store.read(path)
    with open(source, "rb") if local else io.BytesIO(source) as file:
        begin = file.read(8)
        if begin == HDF5:
            return _hdf5(source if local else io.BytesIO(source), dataset, cache, store.limits)
        if not begin.startswith(b"\x93NUMPY") or dataset is not None:
            named = "" if dataset is None else f" with dataset={dataset!r}"
            raise DecodeError(f"expected .npy, or HDF5{named}: the file begins with {begin!r}")
        file.seek(0)
        shape, fortran, dtype = whole_array(file, store.limits)
        if not shape:
            raise DecodeError("the array is a single number, and has no rows")
        if not local:
            return decode_array(source, store.limits)
        rows = np.memmap(source, dtype, "r", file.tell(), shape, "F" if fortran else "C")
        check_row(rows, store.limits)
        return np.asarray(rows)  # which returns a row in a tenth of the time


def _hdf5(source: str | IO[bytes], dataset: str | None, cache: int, limits: Limits) -> ArrayRows:
    found = hdf5_arrays(source, cache).items()
    arrays = {name: array for name, array in found if array.dtype.kind in "biuf"}
    if dataset is None and len(arrays) == 1:
        (dataset,) = arrays
    if dataset not in arrays:
        raise DecodeError(
            f"dataset={dataset!r} must be the name of an array of numbers in the HDF5 file: "
            f"{', '.join(arrays) or 'it has none'}"
        )
    check_row(arrays[dataset], limits)
    return _mapped(arrays[dataset], source)


def _mapped(array: Any, source: str | IO[bytes]) -> ArrayRows:
    """Return an HDF5 array as a memory map if it is contiguous in its file."""
    import h5py

    start = array.id.get_offset()  # None if it is in chunks, or was never written
    plain = array.dtype.kind in "iuf" and array.id.get_type().equal(h5py.h5t.py_create(array.dtype))
    if start is None or not plain or not isinstance(source, str):
        return array
    return np.asarray(np.memmap(source, array.dtype, "r", start, array.shape))


def _extents(rows: ArrayRows, indices: IntArray) -> tuple[IntArray, IntArray]:
    """Return where rows of an open local file, or their chunks, begin and end."""
    chunks = list[tuple[int, int]]()
    if isinstance(rows, np.ndarray):
        offset, step = getattr(rows.base, "offset", None), rows.strides[0]
        if offset is not None and rows.flags.c_contiguous:
            return offset + indices * step, offset + (indices + 1) * step
    elif rows.chunks is not None:
        starts = np.unique(indices - indices % rows.chunks[0]).tolist()
        others = (range(0, n, c) for n, c in zip(rows.shape[1:], rows.chunks[1:], strict=True))
        for place in product(starts, *others):
            chunk = rows.id.get_chunk_info_by_coord(place)
            if chunk.byte_offset is not None:
                chunks.append((chunk.byte_offset, chunk.byte_offset + chunk.size))
    begins, ends = np.array(sorted(chunks), np.int64).reshape(-1, 2).T
    return begins, ends
