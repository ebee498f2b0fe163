"""The two files of a cache: how they are opened, written and mapped into memory."""

import contextlib
import errno
import mmap
import os
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.samples.features.spec import Indices, Values

_MERGED = 1 << 16  # keys in a dict, of over 100 bytes each, before they go to those in arrays

SlotKey = tuple[int, int]
SlotKeys = npt.NDArray[np.uint64]
"""An array of shape (keys, 2)."""

NOWHERE = -1
"""Instead of the slot of a key that has none."""


class SlotsByKey:
    """Keys and their slots: most in sorted arrays, the latest in a dict. The latest one counts."""

    def __init__(self) -> None:
        self._keys: SlotKeys = np.empty((0, 2), np.uint64)
        self._places: Indices = np.empty(0, np.int64)
        self._latest: dict[SlotKey, int] = {}

    def __len__(self) -> int:
        return len(self._keys) + len(self._latest)

    def add(self, keys: SlotKeys, slots: Indices) -> None:
        """Add some keys."""
        if len(keys) + len(self._latest) < _MERGED:
            for (first, second), slot in zip(keys.tolist(), slots.tolist(), strict=True):
                self._latest[first, second] = slot
            return
        latest = np.array([*self._latest], np.uint64).reshape(-1, 2)
        keys = np.concatenate([self._keys, latest, keys])
        slots = np.concatenate([self._places, [*self._latest.values()], slots]).astype(np.int64)
        order = np.lexsort((keys[:, 1], keys[:, 0]))
        keys = keys[order]
        last = np.append((keys[1:] != keys[:-1]).any(axis=1), True)
        self._keys, self._places = np.ascontiguousarray(keys[last]), slots[order][last]
        self._latest = {}

    def put(self, key: SlotKey, slot: int) -> None:
        """Add one key."""
        self._latest[key] = slot

    def slots(self, keys: SlotKeys) -> Indices:
        """Return the slots of some keys, NOWHERE where there is none."""
        found = np.full(len(keys), NOWHERE, np.int64)
        if len(self._keys):
            firsts = self._keys[:, 0]
            at = np.minimum(np.searchsorted(firsts, keys[:, 0]), len(firsts) - 1)
            same = (self._keys[at] == keys).all(axis=1)
            found[same] = self._places[at[same]]
        if self._latest:
            for place, (first, second) in enumerate(keys.tolist()):
                slot = self._latest.get((first, second))
                found[place] = found[place] if slot is None else slot
        return found


HEADER_BYTES = 64
"""Bytes of an index before its records."""
_MAGIC = b"dfgen: an index of cached pixels, format 2"
_OLDER = b"dfgen: an index of cached pixels, format 1"  # its checksums did not see order
_HEADER = struct.Struct("<56sQ")
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)


def open_slots(index: str, pixels: str, size: int) -> tuple[int, int, bool]:
    """Open both files, made if they can be; return them, and whether they may be written to."""
    header = _HEADER.pack(_MAGIC, size)
    flags = os.O_RDWR | os.O_CREAT
    try:
        first = os.open(index, flags, 0o666)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        flags, first = os.O_RDONLY, os.open(index, os.O_RDONLY)
    try:
        if os.fstat(first).st_size < len(header) and flags != os.O_RDONLY:
            write_at(first, memoryview(header), 0)
        if os.pread(first, HEADER_BYTES, 0) != header:
            raise OSError(errno.EINVAL, f"{index} is no index of slots of {size:,} bytes")
        second = os.open(pixels, flags, 0o666)
    except OSError:
        os.close(first)
        raise
    return first, second, flags != os.O_RDONLY


def remove_older(index: str, pixels: str) -> None:
    """Remove both files if an earlier version of dfgen made them; who has them open goes on."""
    with contextlib.suppress(OSError), open(index, "rb") as file:
        for path in (pixels, index) if file.read(len(_OLDER)) == _OLDER else ():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def close_files(*files: int) -> None:
    """Close files by their descriptors."""
    for file in files:
        os.close(file)


def write_at(file: int, data: memoryview, place: int) -> None:
    """Write all of some bytes at a place."""
    while data:
        written = os.pwrite(file, data, place)
        data, place = data[written:], place + written


def lengthen(file: int, start: int, nbytes: int) -> None:
    """Have a file end so many bytes after `start`, with room on the disk for them."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, nbytes)
    else:
        os.ftruncate(file, start + nbytes)


def mapped_array(file: int, count: int, dtype: np.dtype[Any], offset: int) -> Values:
    """Return the numbers in a file from `offset` on, shared with whoever writes them."""
    memory = mmap.mmap(file, offset + count * dtype.itemsize, access=mmap.ACCESS_READ)
    return np.frombuffer(memory, dtype, count, offset)
