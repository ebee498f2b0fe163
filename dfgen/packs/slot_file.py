"""SlotFile: arrays of one shape by their keys, in a file that threads, processes and runs share.

Two files stand for one. `pixels` has a slot for each array, and holes where nothing was written.
`index` has a record for each slot: key, two facts, checksum. A record is written once its slot is,
in one piece: whoever sees it sees the pixels.

    index    64 bytes: what it is, the bytes of a slot; then 32 bytes a slot
    pixels   slot 0, slot 1, ...

Who writes takes a few empty slots at a time, under a lock: nothing else is locked. Nothing is
evicted: where each row is read once an epoch in random order, any fixed part gives its share of
hits, where an LRU gives none (Mohan et al., VLDB 2021, section 4.1).
"""

import contextlib
import errno
import mmap
import os
import struct
import tempfile
import threading
import weakref
from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64

from dfgen.locks import is_at, lock
from dfgen.platform_calls import reserve
from dfgen.spec import IntArray, Present, Spec, Values

_SLOT = np.dtype([("key", "<u8", 2), ("facts", "<u4", 2), ("check", "<u8")])
_TOLD = struct.Struct("<QQII")  # a record before its checksum
_CLAIMED, _CLAIMED_BYTES = 256, 1 << 22  # slots that are taken at a time, at most
_LOOKED_AT = 4096  # slots, the last ones, that may be in the making elsewhere
_MERGED = 1 << 16  # keys in a dict, of over 100 bytes each, before they go to those in arrays
_HEADER_BYTES = 64  # of an index, before its records
_MAGIC = b"dfgen: an index of cached pixels, format 2"
_HEADER = struct.Struct("<56sQ")
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)

SlotKey = tuple[int, int]
KeyHalves = npt.NDArray[np.uint64]

NOWHERE = -1
"""Instead of the slot of a key that has none."""

SlotFacts = tuple[int, int]
"""Two numbers that are kept with an array."""

_CACHE_FAILED = "cache_failed_"


class SlotsByKey:
    """Slots by the first halves of their keys: most in sorted arrays, the latest in a dict.

    The latest slot of a key counts.
    """

    def __init__(self) -> None:
        self._keys: KeyHalves = np.empty(0, np.uint64)
        self._slots: IntArray = np.empty(0, np.int64)
        self._latest: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._keys) + len(self._latest)

    def add(self, keys: KeyHalves, slots: IntArray) -> None:
        """Add some keys."""
        if len(keys) + len(self._latest) < _MERGED:
            self._latest.update(zip(keys.tolist(), slots.tolist(), strict=True))
            return
        keys = np.concatenate([self._keys, np.fromiter(self._latest, np.uint64), keys])
        slots = np.concatenate([self._slots, np.array([*self._latest.values()], np.int64), slots])
        self._keys, last = np.unique(keys[::-1], return_index=True)
        self._slots, self._latest = slots[::-1][last], {}

    def put(self, key: int, slot: int) -> None:
        """Add one key."""
        self._latest[key] = slot

    def slots(self, keys: KeyHalves) -> IntArray:
        """Return the slots of some keys, NOWHERE where there is none."""
        found = np.full(len(keys), NOWHERE, np.int64)
        if len(self._keys):
            at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            found = np.where(self._keys[at] == keys, self._slots[at], NOWHERE)
        if self._latest:
            found[:] = [*map(self._latest.get, keys.tolist(), found.tolist())]
        return found


class SlotFile:
    """Arrays by their keys, of one shape and dtype.

    Records of others are found after `refresh`. An array is compared with its checksum when it is
    first taken.

    Args:
        index, pixels: paths of the two files.
        spec: of one array.
        most: bytes of pixels that there may be; None: any number.
        spare: bytes of the disk that stay free.
        beside: other files of pixels that count too, of all folders in this one.

    Raises:
        OSError: the files cannot be opened, or are something else.
    """

    def __init__(
        self,
        index: str,
        pixels: str,
        spec: Spec,
        most: int | None = None,
        spare: int = 0,
        beside: str | None = None,
    ) -> None:
        self._arguments = (index, pixels, spec, most, spare, beside)
        self.spec, self._shape = spec, spec.shape
        self._size: int = prod(spec.shape) * spec.dtype.itemsize
        self._index, self._pixels, self.writable = _open_slots(index, pixels, self._size)
        weakref.finalize(self, close_files, self._index, self._pixels)
        self.failed: int | None = None
        """The errno of what ended the writing, None while nothing has."""
        self.is_full = False
        """Whether there is no slot left."""
        self._found = SlotsByKey()
        self._records = np.empty(0, _SLOT)
        self._slots: Values = np.empty((0, *self._shape), spec.dtype)
        self._counts = Counter[str]()
        self._told: int | None = None
        self._trusted = np.empty(0, np.bool_)
        self._seen, self._pending = 0, np.empty(0, np.int64)
        self._begin()
        self.refresh()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, self._arguments

    def _begin(self) -> None:
        """Have nothing in hand: what a parent had, a forked child must not write to."""
        self._process, self._lock = os.getpid(), threading.Lock()
        self._claimed: list[int] = []

    def __len__(self) -> int:
        """Return the number of arrays that are known here."""
        return len(self._found)

    @property
    def nbytes(self) -> int:
        """The bytes of those arrays."""
        return len(self) * self._size

    @property
    def keeps(self) -> bool:
        """Whether it takes more arrays, as far as is known."""
        return self.writable and self.failed is None and not self.is_full

    def count(self, what: str, number: int) -> None:
        """Note that so many were there, `"cache_hits"`, or had to be made, `"cache_misses"`."""
        with self._lock:
            self._counts[what] += number

    def counted(self) -> Mapping[str, int]:
        """Return what was counted since it was asked last, and once what ended the writing."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            failed, self._told = self.failed != self._told, self.failed
        if failed:
            counts[f"{_CACHE_FAILED}{self.failed}"] = 1
        return counts

    def refresh(self) -> None:
        """Find what was written since."""
        if self._is_cut():
            return
        with self._lock:
            count = max(0, os.fstat(self._index).st_size - _HEADER_BYTES) // _SLOT.itemsize
            count = min(count, os.fstat(self._pixels).st_size // self._size)  # one may be cut short
            if count > len(self._records):
                records = _mapped_array(self._index, count, _SLOT, _HEADER_BYTES)
                if records is None:
                    return
                self._records = records
                more = np.zeros(count - len(self._trusted), np.bool_)
                self._trusted = np.concatenate([self._trusted, more])
            latest = self._pending[self._pending >= count - _LOOKED_AT]
            looked = np.concatenate([latest, np.arange(self._seen, count)])
            written = self._records["check"][looked] != 0
            there = looked[written]
            if len(there):
                self._found.add(self._records["key"][there, 0], there)
            self._seen, self._pending = count, looked[~written]

    def find(self, keys: KeyHalves) -> IntArray:
        """Return the slots of some keys, shape (keys, 2), NOWHERE where there is none."""
        if self._is_cut():
            return np.full(len(keys), NOWHERE)
        with self._lock:
            slots = self._found.slots(keys[:, 0])
        there = np.flatnonzero(slots != NOWHERE)
        others = (self._records["key"][slots[there]] != keys[there]).any(axis=1)
        slots[there[others]] = NOWHERE
        return slots

    def facts(self, slot: int) -> SlotFacts:
        """Return the two numbers that are told with an array."""
        height, width = self._records["facts"][slot].tolist()
        return height, width

    def at(self, slot: int) -> Values | None:
        """Return one array, a view; None: what is in its slot is not what was written."""
        if not self._reaches(slot):
            return None
        found = self._slots[slot]
        return found if self._trusted[slot] or self._is_whole(slot, found) else None

    def take(self, slots: IntArray, out: Values) -> Present | None:
        """Fill `out` with the arrays in some slots; return which are there, None: all."""
        if not self._reaches(int(slots.max())):
            return np.zeros(len(slots), np.bool_)
        np.take(self._slots, slots, axis=0, out=out, mode="clip")  # any other makes a copy first
        there = self._trusted[slots]
        if there.all():
            return None
        for place in np.flatnonzero(~there).tolist():
            there[place] = self._is_whole(int(slots[place]), out[place])
        return None if there.all() else there

    def put(self, key: SlotKey, facts: SlotFacts, array: Values) -> int:
        """Write an array; return its slot, NOWHERE if it is not kept."""
        if self.failed is not None or not self.writable:
            return NOWHERE
        if self._process != os.getpid():
            self._begin()
        try:
            slot = self._free_slot()
            if slot == NOWHERE:
                return NOWHERE
            _write_at(self._pixels, array.data.cast("B"), slot * self._size)
            told = _TOLD.pack(*key, *facts)
            self._write_record(slot, told + _check(told, array).to_bytes(8, "little"))
        except OSError as error:
            self.failed = error.errno or errno.EIO
            return NOWHERE
        if slot >= len(self._trusted):
            self.refresh()
            if slot >= len(self._trusted):
                return NOWHERE
        self._trusted[slot] = True
        with self._lock:
            self._found.put(key[0], slot)
        return slot

    def _write_record(self, slot: int, record: bytes) -> None:
        _write_at(self._index, memoryview(record), _HEADER_BYTES + slot * _SLOT.itemsize)

    def _free_slot(self) -> int:
        with self._lock:
            if not self._claimed and not self.is_full:
                self._claimed = self._claim()
            return self._claimed.pop(0) if self._claimed else NOWHERE

    def _claim(self) -> list[int]:
        """Return some slots that nobody else will write to; none while another has the lock.

        Both files grow, that of the pixels by a hole; the index has none: of a full tmpfs, to read
        a hole that is mapped would end the process.
        """
        with open(self._arguments[0], "r+b", buffering=0) as index:
            if not is_at(self._index, index.name):
                raise FileNotFoundError(errno.ENOENT, "the cache was removed")
            file = index.fileno()
            held = lock(file)
            if held is None:
                raise OSError(errno.ENOLCK, "the file system has no locks")
            begin = (os.fstat(file).st_size - _HEADER_BYTES) // _SLOT.itemsize
            count = self._allowed(begin) if held else 0
            if count == 0:
                return []
            end = begin + count
            if os.fstat(self._pixels).st_size < end * self._size:
                os.ftruncate(self._pixels, end * self._size)
            start, nbytes = _HEADER_BYTES + begin * _SLOT.itemsize, count * _SLOT.itemsize
            reserve(file, start, nbytes)
            return list(range(begin, end))

    def _allowed(self, claimed: int) -> int:
        """Return how many slots may be claimed, after those that are."""
        _, path, _, most, spare, beside = self._arguments
        count = max(1, min(_CLAIMED, _CLAIMED_BYTES // self._size))
        if most is not None:
            taken = claimed * self._size if beside is None else _bytes_in(beside)
            count = min(count, (most - taken) // self._size)
        if spare:
            disk = os.statvfs(path)
            if disk.f_bavail * disk.f_frsize < spare + count * self._size:
                raise OSError(errno.ENOSPC, "the disk is full")
        self.is_full = count < 1
        return max(0, count)

    def _is_cut(self) -> bool:
        """Whether a file is shorter than what is mapped of it: to read that would end the process.

        Nothing in it is trusted any more, for it may grow again.
        """
        # First what is mapped: another thread may map what has been added meanwhile.
        mapped = self._slots.nbytes, self._records.nbytes + _HEADER_BYTES
        sizes = [os.lseek(file, 0, os.SEEK_END) for file in (self._pixels, self._index)]
        if sizes[0] >= mapped[0] and sizes[1] >= mapped[1]:
            return False
        self._trusted[:] = False
        self.failed = self.failed or errno.EIO
        return True

    def _reaches(self, slot: int) -> bool:
        """Map the pixels as far as a slot; False where the file is shorter than it should be."""
        if self._is_cut():
            return False
        if slot >= len(self._slots):
            with self._lock:
                count = os.fstat(self._pixels).st_size // self._size
                if count > len(self._slots):
                    flat = _mapped_array(self._pixels, count * self._size, np.dtype(np.uint8), 0)
                    if flat is not None:
                        self._slots = flat.view(self.spec.dtype).reshape(count, *self._shape)
        return slot < len(self._slots)

    def _is_whole(self, slot: int, array: Values) -> bool:
        """Compare an array with its checksum; the record of one that is not whole is blanked."""
        record = self._records[slot]
        if record["check"] == _check(record.tobytes()[: _TOLD.size], array):
            self._trusted[slot] = True
            return True
        with self._lock:
            self._found.put(int(record["key"][0]), NOWHERE)
        if self.writable:
            with contextlib.suppress(OSError):
                self._write_record(slot, bytes(_SLOT.itemsize))
        return False


def _reopened(index: str, pixels: str, *more: Any) -> SlotFile:
    """Return slots that a process was sent; where the files are gone, some that keep nothing."""
    try:
        return SlotFile(index, pixels, *more)
    except OSError as error:
        with tempfile.TemporaryDirectory() as folder:
            lost = SlotFile(f"{folder}/index", f"{folder}/pixels", *more)
        lost.failed = error.errno or errno.EIO
        return lost


def _check(told: bytes, array: Values) -> int:
    """Return XXH3-64 of key, facts and array; 0 stands for a slot without a record."""
    hashed = xxh3_64(told)
    hashed.update(array.data.cast("B"))
    return hashed.intdigest() or 1


def _bytes_in(folder: str) -> int:
    """Return the bytes of the pixels in all folders of one, their holes included."""
    nbytes = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                nbytes += os.stat(os.path.join(entry.path, "pixels")).st_size
    return nbytes


def _open_slots(index: str, pixels: str, size: int) -> tuple[int, int, bool]:
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
            _write_at(first, memoryview(header), 0)
        if os.pread(first, _HEADER_BYTES, 0) != header:
            fault = f"{index} is no index of slots of {size:,} bytes"
            raise OSError(errno.EINVAL, f"{fault}: delete it")
        second = os.open(pixels, flags, 0o666)
    except OSError:
        os.close(first)
        raise
    return first, second, flags != os.O_RDONLY


def close_files(*files: int) -> None:
    """Close files by their descriptors."""
    for file in files:
        os.close(file)


def _write_at(file: int, data: memoryview, place: int) -> None:
    while data:
        written = os.pwrite(file, data, place)
        data, place = data[written:], place + written


def _mapped_array(file: int, count: int, dtype: np.dtype[Any], offset: int) -> Values | None:
    """Return the numbers in a file from `offset` on, shared with whoever writes them.

    None: no descriptor or memory is free for it, which may be otherwise another time.
    """
    try:
        memory = mmap.mmap(file, offset + count * dtype.itemsize, access=mmap.ACCESS_READ)
    except OSError:
        return None
    return np.frombuffer(memory, dtype, count, offset)
