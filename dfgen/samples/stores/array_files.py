"""Rows of large array files: .npy by memory mapping, HDF5 by h5py. Nothing is read as a whole.

Text of HDF5 is read by a process of its own. It lies in heaps, where three changed bytes have
libhdf5 read memory that is not its own, or go round for ever. It then ends that process, and no
notebook; numbers lie elsewhere.
"""

import errno
import io
import json
import math
import mmap
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import count, product
from math import prod
from threading import Lock, RLock
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError
from dfgen.limits import DEFAULT, Limits
from dfgen.platform_calls import give_back
from dfgen.samples.stores.npy import decode_array, whole_array
from dfgen.system import python_command

_SHARE = 4  # a block of more than this part of all is not kept: others would not be


class UnpackedBlocks:
    """Keeps those blocks that were asked for last, of all arrays together, for all threads."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._blocks: dict[tuple[int, int], npt.NDArray[Any]] = {}
        self._asked: dict[tuple[int, int], int] = {}  # when; of blocks that were dropped too
        self._count = count()
        self._held = 0
        self._lock = RLock()  # where an array is collected meanwhile, `forget` takes it again

    def get(self, array: Any, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` of an array."""
        key = id(array), start
        self._asked[key] = next(self._count)
        found = self._blocks.get(key)
        if found is not None:
            return found
        with self._lock:  # h5py unpacks one at a time anyway
            found = self._blocks.get(key)
            if found is None:
                found = array[start:stop]
                while self._blocks and self._held + found.nbytes > self.most:
                    self._drop(min(self._blocks, key=self._asked.__getitem__))
                self._blocks[key] = found
                self._held += found.nbytes
        return found

    def forget(self, array: Any) -> None:
        """Give up the blocks of an array that is closed."""
        with self._lock:
            for key in [key for key in [*self._asked] if key[0] == id(array)]:
                if key in self._blocks:
                    self._drop(key)
                del self._asked[key]

    def _drop(self, key: tuple[int, int]) -> None:
        self._held -= self._blocks.pop(key).nbytes


class UnpackedRows:
    """The rows of an HDF5 array in chunks, of which whole blocks are unpacked."""

    def __init__(self, array: Any, blocks: UnpackedBlocks) -> None:
        self.array, self._blocks = array, blocks
        self.shape, self.dtype, self.chunks = array.shape, array.dtype, array.chunks

    def __del__(self) -> None:
        self._blocks.forget(self.array)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        start = index - index % self.chunks[0]
        block = self._blocks.get(self.array, start, start + self.chunks[0])
        return np.asarray(block[index - start])

    def take(self, indices: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
        """Fill `out`, of the same dtype, with rows that are there."""
        starts = indices - indices % self.chunks[0]
        for start in np.unique(starts).tolist():
            here = np.flatnonzero(starts == start)
            block = self._blocks.get(self.array, start, start + self.chunks[0])
            out[here] = block[indices[here] - start]


def unpacked(array: Any, blocks: UnpackedBlocks) -> Any:
    """Return the rows of an open array, HDF5 in small chunks by whole blocks."""
    chunks = getattr(array, "chunks", None)
    if chunks is None:
        return array
    nbytes = chunks[0] * prod(array.shape[1:]) * array.dtype.itemsize
    return UnpackedRows(array, blocks) if nbytes * _SHARE <= blocks.most else array


HDF5 = b"\x89HDF\r\n\x1a\n"

ArrayRows = Any
"""An array on disk, which gives a row for an index: a memory map, a data set of HDF5."""

BROKEN_ROWS = (OSError, ValueError, KeyError, RuntimeError, OverflowError)
"""Errors of NumPy and h5py over broken files."""

MOST_OPEN = 128
"""Array files that a store keeps open. Each takes a descriptor; a process may have 256 to 1024."""

MOST_HELD = 2 * 10**9
"""Bytes of array files in memory where nobody says otherwise."""


class OpenArrays:
    """Keeps the array files open that were opened last, `MOST_OPEN` of them.

    A row that is being read keeps its file open. Copies, in worker processes too, open their own.
    At `most` so many bytes of them stay in memory.
    """

    def __init__(self, most: int = MOST_HELD) -> None:
        self.most = most
        self._blocks = UnpackedBlocks(most)
        self._taken = 0
        self._opened: dict[tuple[str, str | None], tuple[object, ArrayRows]] = {}
        self._lock = Lock()

    def get(
        self, path: str, dataset: str | None, version: object, opener: Callable[..., ArrayRows]
    ) -> ArrayRows:
        """Return the rows of a file, opened if it is not, or not in the version that it now has."""
        key = (path, dataset)
        known = self._opened.get(key)
        if known is not None and known[0] == version:
            return known[1]
        try:
            array = opener(path, dataset)  # unlocked: others read meanwhile
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            self.close()  # others than these have used up the descriptors
            array = opener(path, dataset)
        rows = unpacked(array, self._blocks)
        with self._lock:
            known = self._opened.pop(key, None)
            if known is not None and known[0] == version:
                rows = known[1]  # of another thread: blocks that it unpacks are not unpacked again
            if len(self._opened) >= MOST_OPEN:
                del self._opened[next(iter(self._opened))]
            self._opened[key] = version, rows
        return rows

    def took(self, nbytes: int) -> None:
        """Count what was read of mapped files, and give it back to the system in time."""
        self._taken += nbytes
        if self._taken > self.most // 2:
            self._taken = 0
            with self._lock:
                opened = [rows for _, rows in self._opened.values()]
            for mapping in filter(None, map(_mapping_of, opened)):
                give_back(mapping)

    def close(self) -> None:
        """Close all."""
        with self._lock:
            self._opened.clear()

    def __reduce__(self) -> tuple[type["OpenArrays"], tuple[int]]:
        return OpenArrays, (self.most,)


def open_rows(
    source: str | bytes, dataset: str | None = None, limits: Limits = DEFAULT
) -> ArrayRows:
    """Open an array file by its path, of which only the header is read, or by its bytes."""
    with open(source, "rb") if isinstance(source, str) else io.BytesIO(source) as file:
        head = file.read(8)
        if head == HDF5:
            arrays = open_hdf5(source)
            if dataset is None and len(arrays) == 1:
                (dataset,) = arrays
            if dataset not in arrays:
                asked = "several arrays" if dataset is None else f"no array {dataset!r}"
                raise DecodeError(
                    f"the HDF5 file has {asked}: write dataset= of {', '.join(arrays) or 'none'}"
                )
            if arrays[dataset].dtype.hasobject:
                raise DecodeError(
                    f"the HDF5 array {dataset!r} holds text or lists of changing length, expected "
                    "numbers"
                )
            check_row(arrays[dataset], limits)
            return _mapped(arrays[dataset], source)
        if not head.startswith(b"\x93NUMPY"):
            raise DecodeError(f"neither .npy nor HDF5: the file begins with {head!r}")
        if dataset is not None:
            raise DecodeError(f"dataset={dataset!r} is for HDF5 files, this is a .npy file")
        file.seek(0)
        shape, fortran, dtype = whole_array(file, limits)  # refuses what is not all there
        if not shape:
            raise DecodeError("the array is a single number: it has no rows")
        if isinstance(source, bytes):
            return decode_array(source, limits)
        order = "F" if fortran else "C"
        rows = np.memmap(source, dtype, "r", file.tell(), shape, order)  # type: ignore[call-overload]
        rows = np.asarray(rows)  # a plain array gives a row in a tenth of the time
        check_row(rows, limits)
        return rows


def _mapping_of(array: Any) -> mmap.mmap | None:
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array


def _mapped(array: Any, source: str | bytes) -> ArrayRows:
    """Return an HDF5 array, memory-mapped where it lies in its file as in memory, as .npy does."""
    import h5py

    start = array.id.get_offset()  # None where it is in chunks, or was never written
    plain = array.dtype.kind in "iuf" and array.id.get_type().equal(h5py.h5t.py_create(array.dtype))
    if start is None or not plain or isinstance(source, bytes):
        return array
    return np.asarray(np.memmap(source, array.dtype, "r", start, array.shape))


def as_bytes(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return rows that lie after one another as a view of their bytes, (rows, bytes)."""
    return rows.reshape(len(rows), -1).view(np.uint8)


def extents(rows: ArrayRows, start: int, stop: int) -> list[tuple[int, int]]:
    """Return where some rows of an open local file lie in it: starts and lengths in bytes."""
    if isinstance(rows, np.ndarray):
        offset, step = getattr(rows.base, "offset", None), rows.strides[0]
        if offset is None or not rows.flags.c_contiguous:
            return []
        return [(offset + start * step, (stop - start) * step)]
    array: Any = getattr(rows, "array", rows)  # of HDF5
    lengths = zip(array.shape[1:], array.chunks[1:], strict=True)
    places = (range(start, stop, array.chunks[0]), *(range(0, *each) for each in lengths))
    found = [array.id.get_chunk_info_by_coord(place) for place in product(*places)]
    return [(chunk.byte_offset, chunk.size) for chunk in found if chunk.byte_offset is not None]


def check_row(rows: ArrayRows, limits: Limits) -> None:
    """Refuse an array of which one row, or the chunk that it is unpacked from, takes too much."""
    chunk = getattr(rows, "chunks", None) or (1, *rows.shape[1:])
    for what, shape in (("a row", rows.shape[1:]), ("a chunk", chunk)):
        nbytes = math.prod(shape) * rows.dtype.itemsize
        if not limits.allows("decoded_bytes", nbytes):
            what = f"{what} of the array, {rows.dtype} of shape {shape}, has {nbytes:,} bytes"
            raise DecodeError(limits.refusal("decoded_bytes", nbytes, what))


def open_hdf5(source: str | bytes) -> dict[str, ArrayRows]:
    """Return the arrays of an HDF5 file by name; it stays open as long as one of them is held.

    Raises:
        DecodeError: a part of it lies in another file. Such a file could name any of this machine.
    """
    import h5py  # late: 60 ms that most programs need not spend

    found: dict[str, ArrayRows] = {}

    def keep(name: str | bytes, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            _refuse_other_files(name, item)
            if item.ndim > 0:
                found[name if isinstance(name, str) else repr(name)] = item  # bytes: no UTF-8

    file = h5py.File(source if isinstance(source, str) else io.BytesIO(source), "r")
    inner = (h5py.h5l.TYPE_HARD, h5py.h5l.TYPE_SOFT)
    links = file.id.links
    leaving = links.visit(lambda name, link: None if link.type in inner else name, info=True)
    if leaving is not None:
        raise _elsewhere(leaving, "an external link", links.get_val(leaving)[:1])
    file.visititems(keep)
    return found


def _refuse_other_files(name: str | bytes, array: Any) -> None:
    """Refuse an array that others hold; its shape alone would have HDF5 open them."""
    if array.is_virtual:
        raise _elsewhere(name, "virtual", [each.file_name for each in array.virtual_sources()])
    if array.external:
        raise _elsewhere(name, "external storage", [each[0] for each in array.external])


def _elsewhere(name: str | bytes, how: str, files: Sequence[str | bytes]) -> DecodeError:
    name, *shown = (os.fsdecode(each) for each in (name, *files[:1]))
    return DecodeError(
        f"the HDF5 file takes {name!r} from another file, {', '.join(map(repr, shown))} ({how}), "
        "and dfgen reads no file that another one names: copy the numbers into one file"
    )


_LONGEST = 120  # seconds that the texts of one file may take

Texts = dict[str, list[str] | None]


def read_texts(source: str | bytes, names: Sequence[str]) -> Texts:
    """Return arrays of a file, or of the bytes of one, as lists; None: they hold no text."""
    place, data = (source, b"") if isinstance(source, str) else ("-", source)
    command, environment = python_command(__name__, place, *names)
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=_LONGEST, env=environment
        )
    except subprocess.TimeoutExpired:
        raise DecodeError(f"its text was not read in {_LONGEST} s: the file is damaged") from None
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        raise DecodeError(f"damaged: reading its text ends a process by {name}")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise DecodeError(f"its text cannot be read: {said}")
    texts: Texts = json.loads(done.stdout)
    return texts


def _text(values: list[object]) -> list[str] | None:
    texts = [value.decode() for value in values if isinstance(value, bytes)]
    return texts if len(texts) == len(values) else None


def _main() -> None:
    place, *names = sys.argv[1:]
    try:
        arrays = open_hdf5(sys.stdin.buffer.read() if place == "-" else place)
        texts = {name: _text(arrays[name][...].ravel().tolist()) for name in names}
    except Exception as error:
        sys.exit(" ".join(str(error).split()) or type(error).__name__)
    print(json.dumps(texts))


if __name__ == "__main__":
    _main()
