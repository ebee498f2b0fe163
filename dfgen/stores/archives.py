"""Members of zip and tar archives, by paths such as `zip://cats/a.jpg::photos.zip`.

The index of an archive is read once per process; each member is read with one `pread`.
"""

import io
import os
import tarfile
import zipfile
import zlib
from contextlib import suppress
from datetime import date
from functools import lru_cache
from threading import Lock, RLock
from typing import IO, Any, NamedTuple

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, DfgenError, MissingFileError, unreadable
from dfgen.limits import refuse_bytes
from dfgen.machine import READING, read_at
from dfgen.stores.store import MOST_OPEN, Head, Store, check_size, file_of_ranges

ARCHIVES = ("zip", "tar")
"""Schemes of the paths of members."""

_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz", ".tar.zst")
_PACKED = {b"\x1f\x8b": "gunzip", b"BZh": "bunzip2", b"\xfd7zXZ": "unxz", b"(\xb5/\xfd": "unzstd"}
_STORED, _DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
_LOCAL = 30  # bytes of the header of a zip's member, without its name
_SLACK = 64  # bytes of extra fields that most of these headers do not exceed
_EPOCH_DAY = date(1970, 1, 1).toordinal() + 1  # days are counted from 1
_BOMB = 100  # compression ratio above which a member counts as decoded bytes


class Member(NamedTuple):
    """The parts of a member's path; `name` is "" for the archive itself."""

    kind: str
    name: str
    archive: str

    def __str__(self) -> str:
        return f"{self.kind}://{self.name}::{self.archive}"


def member_of(path: str) -> Member | None:
    """Return the parts of a member's path, or None for other paths.

    Example:
        >>> member_of("zip://cats/a.jpg::/data/photos.zip")
        Member(kind='zip', name='cats/a.jpg', archive='/data/photos.zip')
    """
    if path[3:6] != "://" or path[:3] not in ARCHIVES:
        return None
    kind, (name, mark, archive) = path[:3], path[6:].rpartition("::")
    archive = archive.removeprefix("file://")
    if not mark or not archive or "://" in archive or f"::{kind}://" in path:
        raise ArgumentError(
            f"{path!r} must be a member and a local archive, such as "
            f'"{kind}://cats/a.jpg::photos.{kind}". Copy remote archives to a disk, and unpack '
            "archives that are in archives"
        )
    return Member(kind, name, archive)


def archive_at(place: str) -> Member | None:
    """Return the archive at a place, named by its suffix or as `zip://::photos.zip`, or None."""
    member = member_of(place)
    if member is not None or not is_named_archive(place) or not os.path.isfile(place):
        return member
    if "::" in place:
        raise ArgumentError(f"the path of the archive {place!r} contains ::, rename the folder")
    return Member("zip" if place.lower().endswith(".zip") else "tar", "", place)


def is_named_archive(path: str) -> bool:
    """Return whether a path has a suffix of archives."""
    return path.lower().endswith(_SUFFIXES)


class _Entry(NamedTuple):
    """What the index of an archive has of a member."""

    start: int  # of its header in a zip, of its bytes in a tar
    packed: int  # bytes in the archive
    size: int
    mtime_ns: int
    crc: int
    method: int
    place: int = 0  # among the entries


_ENTRY = np.dtype([(name, "<i8") for name in _Entry._fields])
_UNREADABLE = 255  # the method of a member that is encrypted or compressed differently
_CANNOT = (
    "the member is encrypted, or compressed by a method other than deflate: unpack the archive "
    "and make it again, zip -0"
)


class _Archive:
    """An open archive. Its entries are sorted by the hashes of the members' names."""

    def __init__(self, kind: str, path: str, version: object) -> None:
        self.descriptor, self.version, self.is_zip = -1, version, kind == "zip"
        self.descriptor = os.open(path, READING)
        self._lock = Lock()
        try:
            names, entries = (_zip_index if self.is_zip else _tar_index)(path)
        except DecodeError:
            raise
        except (zipfile.BadZipFile, tarfile.TarError, ValueError, OverflowError) as error:
            raise DecodeError(f"the archive {path!r} is damaged: {error}") from error
        self.names: list[str] = names
        hashes = np.fromiter(map(hash, names), np.int64, len(names))
        order = np.argsort(hashes, kind="stable")
        last = np.append(hashes[order][1:] != hashes[order][:-1], True)[: len(order)]
        order = order[last]  # of members with one name the last counts
        self._hashes, self._entries = hashes[order], np.array(entries, _ENTRY)[order]
        self._entries["place"] = np.arange(len(order))
        self._intact = np.zeros(len(order), np.bool_)

    def __del__(self, close: Any = os.close) -> None:
        if self.descriptor >= 0:
            close(self.descriptor)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes of the archive from `start` to before `stop`."""
        data = b""
        while len(data) < stop - start:
            at = start + len(data)
            part = read_at(self.descriptor, stop - at, at, self._lock)
            if not part:
                break
            data += part
        return data

    def find(self, name: str) -> _Entry | None:
        """Return the entry of a member."""
        key = hash(name)
        place = int(self._hashes.searchsorted(key))
        if place == len(self._hashes) or self._hashes.item(place) != key:
            return None
        return _Entry(*self._entries.item(place))

    def is_intact(self, entry: _Entry, data: bytes) -> bool:
        """Return whether a member has its size and, when first read, its checksum; tar has none."""
        if len(data) == entry.size and self.is_zip and not self._intact[entry.place]:
            self._intact[entry.place] = zlib.crc32(data) == entry.crc
        return len(data) == entry.size and (not self.is_zip or bool(self._intact[entry.place]))


_Index = tuple[list[str], list[tuple[int, ...]]]


def _zip_index(path: str) -> _Index:
    with zipfile.ZipFile(path) as file:
        infos = [info for info in file.infolist() if not info.is_dir()]
    return [*map(_zip_name, infos)], [*map(_zip_entry, infos)]


def _zip_entry(info: zipfile.ZipInfo) -> _Entry:
    method, (year, month, day, *clock) = info.compress_type, info.date_time
    if method not in (_STORED, _DEFLATED) or info.flag_bits & 0x41:
        method = _UNREADABLE
    days = date(year, min(max(month, 1), 12), 1).toordinal() + day - _EPOCH_DAY
    seconds = ((days * 24 + clock[0]) * 60 + clock[1]) * 60 + clock[2]
    sizes = info.header_offset, info.compress_size, info.file_size
    return _Entry(*sizes, seconds * 10**9, info.CRC, method)


def _zip_name(info: zipfile.ZipInfo) -> str:
    name = info.filename
    if not info.flag_bits & 0x800 and not name.isascii():  # many programs forget this flag
        with suppress(UnicodeError):
            name = name.encode("cp437").decode()
    return name.removeprefix("./")


def _tar_index(path: str) -> _Index:
    with open(path, "rb") as file:
        begin = file.read(6)
    for mark, program in _PACKED.items():
        if begin.startswith(mark):
            raise DecodeError(
                f"the archive {path!r} is compressed as a whole, so its members cannot be read at "
                f"random: make a plain one, {program} -k {os.path.basename(path)}"
            )
    with tarfile.open(path, "r:") as archive:
        names, entries = [], list[tuple[int, ...]]()
        while (info := archive.next()) is not None:
            if info.isreg() and not info.issparse():
                names.append(info.name.removeprefix("./"))
                mtime_ns = round(info.mtime * 10**9)
                entries.append(_Entry(info.offset_data, info.size, info.size, mtime_ns, 0, _STORED))
            archive.members = []  # type: ignore[attr-defined]  # else it keeps all
    return names, entries


class Archives(Store):
    """Members of local archives. An archive that changed is indexed again.

    A zip's member is compared with its checksum when a process first reads it; tar has none.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._opened, self._lock = lru_cache(MOST_OPEN)(_Archive), RLock()

    def read(self, path: Any, size: int | None = None) -> bytes:
        """Return the bytes of a member."""
        try:
            archive, entry = self._find(path)
            check_size(entry.size, size)
            return self._bytes(archive, entry, path)
        except (DfgenError, MemoryError):
            raise
        except Exception as error:
            raise unreadable(error) from error

    def head(self, path: Any) -> Head:
        """Return size and time of a member, as the archive has them."""
        archive, entry = self._find(path)
        problem = _CANNOT if entry.method == _UNREADABLE else None
        version = entry.start, entry.crc if archive.is_zip else archive.version
        return Head(entry.size, entry.mtime_ns, version, problem)

    def begin(self, path: Any) -> tuple[Head, IO[bytes]]:
        """Return the head of a member and the open member; a deflated one is unpacked whole."""
        head, (archive, entry) = self.head(path), self._find(path)
        if head.problem or not head.size:
            return head, io.BytesIO()
        if entry.method == _DEFLATED:
            return head, io.BytesIO(self.read(path))
        start = entry.start + (_local(archive, entry, _LOCAL)[1] if archive.is_zip else 0)

        def fetch(begin: int, end: int) -> bytes:
            return archive.read(start + begin, start + end)

        return head, file_of_ranges(entry.size, fetch, step=1 << 13)

    def names(self, archive: Member) -> list[str]:
        """Return the names of all files in an archive, in its order."""
        return self._archive(archive).names

    def close(self) -> None:
        """Close all archives."""
        self._opened.cache_clear()

    def _archive(self, member: Member) -> _Archive:
        path = os.path.join(self.folder, member.archive)
        try:
            status = os.stat(path)
            version = status.st_size, status.st_mtime_ns, status.st_ino
            with self._lock:  # or threads would index it together
                return self._opened(member.kind, path, version)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingFileError(f"there is no archive {path!r}") from error

    def _find(self, path: str) -> tuple[_Archive, _Entry]:
        member = member_of(path)
        if member is None:
            raise DecodeError(f'{path!r} must be a path such as "zip://cats/a.jpg::photos.zip"')
        archive = self._archive(member)
        entry = archive.find(member.name)
        if entry is None:
            raise MissingFileError(f"the archive {member.archive!r} has no file {member.name!r}")
        return archive, entry

    def _bytes(self, archive: _Archive, entry: _Entry, path: str) -> bytes:
        size, limits = entry.size, self.limits
        if entry.method == _UNREADABLE:
            raise DecodeError(_CANNOT)
        refuse_bytes(size, limits)
        if size > _BOMB * entry.packed:
            limits.check("decoded_bytes", size, f"the member has {size:,} bytes")
        if not archive.is_zip:
            data = archive.read(entry.start, entry.start + size)
        else:
            data, begin = _local(archive, entry, _LOCAL + len(path) + _SLACK + entry.packed)
            end = begin + entry.packed
            if end > len(data):
                data += archive.read(entry.start + len(data), entry.start + end)
            data = data[begin:end]
        if entry.method == _DEFLATED:
            try:
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)
            except zlib.error as error:
                raise DecodeError(f"the member is damaged: {error}") from error
        if not archive.is_intact(entry, data):
            raise DecodeError("the member is damaged: its size or checksum differs from the index")
        return data


def _local(archive: _Archive, entry: _Entry, nbytes: int) -> tuple[bytes, int]:
    """Return bytes from the header of a zip's member on, and the length of the header."""
    data = archive.read(entry.start, entry.start + nbytes)
    if data[:4] != b"PK\3\4" or len(data) < _LOCAL:
        raise DecodeError("the member is damaged: it has no header")
    return data, _LOCAL + data[26] + data[28] + (data[27] + data[29] << 8)
