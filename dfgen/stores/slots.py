"""Slots: arrays of one shape in a sparse file that threads, processes and runs share.

Each slot has a record with its checksum in a second file. A slot is written before its record, and
compared with it when a process first reads the slot. So a slot that is half written, torn, or of
another version counts as missing, in whatever order the system writes blocks. Nothing is locked.

A folder of cached pixels:

DIR/0123456789abcdef/           of one decode setting
    89abcdef01234567.keys       sorted 64-bit hashes of the paths of files; named by their digest
    89abcdef01234567.slots      the pixels of these files, sparse
    89abcdef01234567.records    their checksums
"""

import contextlib
import errno
import glob
import json
import os
import struct
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_64_intdigest

from dfgen.files import write_whole
from dfgen.machine import flock, memory_file, reserve
from dfgen.spec import IntArray, Present, Spec, Values

SLOTS, RECORDS = ".slots", ".records"
_RECORD = np.dtype([("check", "<u8"), ("height", "<u4"), ("width", "<u4")])
_PACKED = struct.Struct("<QII")
_AT_A_TIME = 64  # slots that are written between two looks at the free room
_SPARE = 20  # one part in so many of a disk stays free
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)

_FORMAT = 3
Keys = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Room:
    """How much may be written to the slots in the folders of a folder.

    Args:
        folder: 5 % of its disk stay free; "" is memory.
        most: bytes of all slots; None is any number.
    """

    folder: str
    most: int | None = None

    def free(self, own: str) -> int:
        """Return the bytes that may still be written, also to the file `own` in memory."""
        free = 1 << 62
        if self.folder:
            disk = os.statvfs(self.folder)
            free = disk.f_bavail * disk.f_frsize - disk.f_blocks * disk.f_frsize // _SPARE
        if self.most is not None:
            files = glob.glob(f"{glob.escape(self.folder)}/*/*{SLOTS}") if self.folder else [own]
            used = sum(os.stat(path).st_blocks * 512 for path in files)
            if used > self.most and self.folder:  # whole blocks of the disk, maybe of small slots
                used = sum(map(_written, files))
            free = min(free, self.most - used)
        return free


def _written(path: str) -> int:
    records = np.fromfile(path.removesuffix(SLOTS) + RECORDS, _RECORD)["check"]
    size = os.stat(path).st_size // max(1, len(records))
    return int(np.count_nonzero(records)) * size


class Slots:
    """Arrays of one shape.

    Args:
        paths: of the file of slots and the file of records, made if they are missing.
        count: of slots.
        spec: of each array.
        room: how much may be written.

    Raises:
        OSError: the files cannot be opened.
    """

    def __init__(self, paths: tuple[str, str], count: int, spec: Spec, room: Room) -> None:
        self._arguments = paths, count, spec, room
        self.paths, self.count, self.spec, self._room = paths, count, spec, room
        self.slot_bytes: int = prod(spec.shape) * spec.dtype.itemsize
        self.error: int | None = None
        """The errno that ended the writing."""
        self.is_full = False
        sizes = count * self.slot_bytes, count * _RECORD.itemsize
        self._files = [_opened(path, size) for path, size in zip(paths, sizes, strict=True)]
        weakref.finalize(self, _close, [file for file, _ in self._files])
        self.writable = all(writable for _, writable in self._files)
        self.arrays: Values = np.asarray(
            np.memmap(paths[0], spec.dtype, "r", 0, (count, *spec.shape))
        )
        self._records: Any = np.asarray(np.memmap(paths[1], _RECORD, "r", 0, (count,)))
        self._checks = self._records["check"]
        self._seen = np.zeros(count, np.uint64)  # checksums that agreed with their slots
        self._left, self._lock, self._writing = 0, threading.Lock(), threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Slots, self._arguments

    @property
    def nbytes(self) -> int:
        """The bytes of slots that were written."""
        written = int(np.count_nonzero(self._checks))
        return written * self.slot_bytes

    def has(self, slots: IntArray, salts: Any) -> Present:
        """Return which slots were written with these salts."""
        checks = self._checks[slots]
        present: Present = (checks != 0) & (checks == self._seen[slots])
        if present.all():
            return present
        for place in np.flatnonzero(~present & (checks != 0)).tolist():
            present[place] = self.holds(int(slots[place]), int(salts[place]))
        return present

    def holds(self, slot: int, salt: int) -> bool:
        """Return whether one slot was written with this salt."""
        check, height, width = self._records[slot].tolist()
        if check and check != self._seen.item(slot):
            if check != _checksum(self.arrays[slot], salt, height, width):
                return False
            self._seen[slot] = check
        return bool(check)

    def take(self, slots: IntArray, salts: Any, out: Values) -> Present:
        """Fill `out` with arrays; return which of them are present."""
        present = self.has(slots, salts)
        if present.all():
            np.take(self.arrays, slots, axis=0, out=out, mode="clip")  # other modes make a copy
        else:
            for place in np.flatnonzero(present).tolist():
                out[place] = self.arrays[slots[place]]
        return np.asarray(present & self.same(slots))

    def same(self, slots: Any) -> Any:
        """Return whether nobody began to write a slot, or some slots, since they were present."""
        return self._checks[slots] == self._seen[slots]

    def size(self, slot: int) -> tuple[int, int]:
        """Return the two numbers that were written with an array."""
        _, height, width = self._records[slot].tolist()
        return height, width

    def put(self, slot: int, array: Values, salt: int = 0, size: tuple[int, int] = (0, 0)) -> bool:
        """Write an array; return False if there is no room for it."""
        if not self.writable or self.error is not None:
            return False
        try:
            written = bool(self._checks[slot])
            if not written and not self._has_room():
                return False
            (pixels, _), (records, _) = self._files
            if written:  # readers must not take it for whole
                _write_at(records, bytes(_RECORD.itemsize), slot * _RECORD.itemsize)
            _write_at(pixels, array.data.cast("B"), slot * self.slot_bytes)
            check = _checksum(array, salt, *size)
            _write_at(records, _PACKED.pack(check, *size), slot * _RECORD.itemsize)
        except OSError as error:
            self.error = error.errno or errno.EIO
            return False
        self._seen[slot] = check
        return True

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other threads and processes that ask for it out."""
        with self._writing, open(self.paths[1], "rb") as file:
            with contextlib.suppress(OSError):  # a file system without locks
                flock(file.fileno())
            yield

    def _has_room(self) -> bool:
        with self._lock:
            if self._left < 1 and not self.is_full:
                free = self._room.free(self.paths[0])
                self._left = min(_AT_A_TIME, free // self.slot_bytes)
                self.is_full = self._left < 1
            self._left -= 1
            return not self.is_full


def memory_slots(count: int, spec: Spec, most: int | None) -> Slots:
    """Return slots in memory, for this process and its children, until this process ends."""
    files = [memory_file(f"dfgen{suffix}") for suffix in (SLOTS, RECORDS)]
    pixels, records = (f"/proc/{os.getpid()}/fd/{file}" for file in files)
    slots = Slots((pixels, records), count, spec, Room("", most))
    weakref.finalize(slots, _close, files)
    return slots


def _opened(path: str, size: int) -> tuple[int, bool]:
    """Open a file, created or resized; return its descriptor and whether it is writable."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        file = os.open(path, os.O_RDONLY)
        if os.fstat(file).st_size == size:
            return file, False
        os.close(file)
        raise
    try:
        if os.fstat(file).st_size != size:
            os.ftruncate(file, size)
            if path.endswith(RECORDS):  # to read a hole of a full tmpfs would end the process
                reserve(file, 0, size)
    except OSError:
        os.close(file)
        raise
    return file, True


def _close(files: list[int]) -> None:
    for file in files:
        os.close(file)


def _checksum(array: Values, salt: int, height: int, width: int) -> int:
    seed = xxh3_64_intdigest(_PACKED.pack(salt, height, width))
    return xxh3_64_intdigest(array.data.cast("B"), seed) or 1


def _write_at(file: int, data: Any, place: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(file, view, place)
        view, place = view[written:], place + written


class Segment(NamedTuple):
    """Slots of some files: that with `keys[i]` has slot i."""

    keys: Keys
    slots: Slots


def open_segments(
    folder: str, settings: Mapping[str, Any], keys: Keys, spec: Spec, most: int | None
) -> list[Segment]:
    """Return segments with slots for all keys, segments of earlier runs first.

    Args:
        folder: of the cache.
        settings: of decoding, for JSON.
        keys: sorted and distinct.
        spec: of the pixels of one file.
        most: bytes of pixels in the whole folder; None: as much as the disk has.

    Raises:
        OSError: the folder cannot be used.
    """
    text = json.dumps([_FORMAT, settings], sort_keys=True).encode()
    own, room = os.path.join(folder, _digest(text)), Room(folder, most)
    os.makedirs(own, exist_ok=True)
    segments = []
    for path in sorted(glob.glob(f"{glob.escape(own)}/*.keys")):
        known = np.fromfile(path, np.uint64)
        left = np.setdiff1d(keys, known, assume_unique=True)
        if len(left) < len(keys) and f"{_digest(known.tobytes())}.keys" == os.path.basename(path):
            segments.append(Segment(known, _slots(path, len(known), spec, room)))
            keys = left
    if len(keys):
        path = os.path.join(own, f"{_digest(keys.tobytes())}.keys")
        write_whole(path, lambda file: file.write(keys.tobytes()))
        segments.append(Segment(keys, _slots(path, len(keys), spec, room)))
    return segments


def _slots(path: str, count: int, spec: Spec, room: Room) -> Slots:
    begin = path.removesuffix(".keys")
    return Slots((begin + SLOTS, begin + RECORDS), count, spec, room)


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
