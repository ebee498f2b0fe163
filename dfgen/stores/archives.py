"""Members of zip and tar archives, by paths such as `zip://cats/a.jpg::photos.zip`.

The index of an archive is read once per process; each member is read with one `pread`.
"""

import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, DecodeError, DfgenError, MissingFileError, unreadable
from dfgen.limits import refuse_bytes
from dfgen.platform_calls import READING, read_at
from dfgen.stores.open_files import OpenFiles
from dfgen.stores.store import Head, Store, check_size, file_of_ranges

ARCHIVES = ("zip", "tar")
"""Schemes of the paths of members."""

_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz", ".tar.zst")
_PACKED = {b"\x1f\x8b": "gunzip", b"BZh": "bunzip2", b"\xfd7zXZ": "unxz", b"(\xb5/\xfd": "unzstd"}
_STORED, _DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
_LOCAL = 30  # bytes of the header of a zip's member, without its name
_SLACK = 64  # bytes of extra fields that most of these headers do not exceed
_BOMB = 100  # a ratio of compression above which a size counts as decoded bytes


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


class _Archive:
    """An open archive and its index: arrays sorted by the hashes of the members' names."""

    def __init__(self, kind: str, path: str, version: object) -> None:
        self.descriptor, self.version = -1, version
        self.descriptor = os.open(path, READING)
        self._lock = Lock()
        try:
            names, columns = (_zip_index if kind == "zip" else _tar_index)(path)
        except (zipfile.BadZipFile, tarfile.TarError, ValueError, OverflowError) as error:
            raise DecodeError(f"the archive {path!r} is damaged: {error}") from error
        self.names: list[str] = names
        hashes = np.fromiter(map(hash, names), np.int64, len(names))
        order = np.argsort(hashes, kind="stable")
        last = np.append(hashes[order][1:] != hashes[order][:-1], True)[: len(order)]
        order = order[last]  # of members with one name the last counts
        self._hashes, self._columns = hashes[order], [column[order] for column in columns]

    def __del__(self, close: Any = os.close) -> None:
        if self.descriptor >= 0:
            close(self.descriptor)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes of the archive from `start` to before `stop`."""
        data = read_at(self.descriptor, stop - start, start, self._lock)
        while len(data) < stop - start:
            part = read_at(self.descriptor, stop - start - len(data), start + len(data), self._lock)
            if not part:
                break
            data += part
        return data

    def find(self, name: str) -> "list[int] | None":
        """Return start, packed size, size, time, CRC-32 and method of a member."""
        key = hash(name)
        place = int(self._hashes.searchsorted(key))
        if place == len(self._hashes) or self._hashes.item(place) != key:
            return None
        return [column.item(place) for column in self._columns]


_Index = tuple[list[str], list[npt.NDArray[Any]]]
_UNREADABLE = 255  # instead of the method of a member that is encrypted or compressed differently
_CANNOT = (
    "the member is encrypted, or compressed by a method other than deflate: unpack the archive "
    "and make it again, zip -0"
)


def _zip_index(path: str) -> _Index:
    with zipfile.ZipFile(path) as file:
        infos = [info for info in file.infolist() if not info.is_dir()]
    readable = [i.compress_type in (_STORED, _DEFLATED) and not i.flag_bits & 0x41 for i in infos]
    dates = np.array([info.date_time for info in infos], np.int64).reshape(-1, 6)
    days = (dates[:, 0] * 12 + dates[:, 1] - 1 - 1970 * 12).astype("M8[M]").astype("M8[D]")
    seconds = (days.astype(np.int64) + dates[:, 2] - 1) * 86_400 + dates[:, 3:] @ (3600, 60, 1)
    return [*map(_zip_name, infos)], [
        np.array([info.header_offset for info in infos], np.int64),
        np.array([info.compress_size for info in infos], np.int64),
        np.array([info.file_size for info in infos], np.int64),
        seconds * 10**9,
        np.array([info.CRC for info in infos], np.uint32),
        np.where(readable, [info.compress_type for info in infos], _UNREADABLE).astype(np.uint8),
    ]


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
        found = [*_tar_members(archive)]
    starts, sizes, times = np.array([row for _, row in found], np.int64).reshape(-1, 3).T
    zeros = np.zeros(len(found), np.uint8)
    return [name for name, _ in found], [starts, sizes, sizes, times, zeros, zeros]


def _tar_members(archive: tarfile.TarFile) -> Iterator[tuple[str, tuple[int, int, int]]]:
    while (info := archive.next()) is not None:
        if info.isreg() and not info.issparse():
            row = info.offset_data, info.size, round(info.mtime * 10**9)
            yield info.name.removeprefix("./"), row
        archive.members = []  # type: ignore[attr-defined]  # else it keeps all


class _Found(NamedTuple):
    archive: _Archive
    is_zip: bool
    start: int
    packed: int
    size: int
    time: int
    crc: int
    method: int


class Archives(Store):
    """Members of local archives. An archive that changed is indexed again.

    The bytes of a zip's member are compared with their checksum; tar has none.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._opened = OpenFiles()

    def read(self, path: Any, size: int | None = None) -> bytes:
        """Return the bytes of a member."""
        try:
            found = self._find(path)
            check_size(found.size, size)
            return self._bytes(found, path)
        except (DfgenError, MemoryError):
            raise
        except Exception as error:
            raise unreadable(error) from error

    def head(self, path: Any) -> Head:
        """Return size and time of a member, as the archive has them."""
        found = self._find(path)
        problem = _CANNOT if found.method == _UNREADABLE else None
        version = found.crc if found.is_zip else found.archive.version
        return Head(found.size, found.time, (found.start, version), problem)

    def begin(self, path: Any) -> tuple[Head, IO[bytes]]:
        """Return the head of a member and the open member; a deflated one is unpacked whole."""
        head, found = self.head(path), self._find(path)
        if head.problem or not head.size:
            return head, io.BytesIO()
        if found.method == _DEFLATED:
            return head, io.BytesIO(self.read(path))
        start = found.start + (_local(found, _LOCAL)[1] if found.is_zip else 0)

        def fetch(begin: int, end: int) -> bytes:
            return found.archive.read(start + begin, start + end)

        return head, file_of_ranges(found.size, fetch, step=1 << 13)

    def names(self, archive: Member) -> list[str]:
        """Return the names of all files in an archive, in its order."""
        return self._archive(archive).names

    def close(self) -> None:
        """Close all archives."""
        self._opened.close()

    def _archive(self, member: Member) -> _Archive:
        path = os.path.join(self.folder, member.archive)
        try:
            status = os.stat(path)
            version = status.st_size, status.st_mtime_ns, status.st_ino
            make = partial(_Archive, member.kind, path, version)
            archive: _Archive = self._opened.get((member.kind, path), version, make)
            return archive
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingFileError(f"there is no archive {path!r}") from error

    def _find(self, path: str) -> _Found:
        member = member_of(path)
        if member is None:
            raise DecodeError(f'{path!r} must be a path such as "zip://cats/a.jpg::photos.zip"')
        archive = self._archive(member)
        found = archive.find(member.name)
        if found is None:
            raise MissingFileError(f"the archive {member.archive!r} has no file {member.name!r}")
        return _Found(archive, member.kind == "zip", *found)

    def _bytes(self, found: _Found, path: str) -> bytes:
        if found.method == _UNREADABLE:
            raise DecodeError(_CANNOT)
        refuse_bytes(found.size, self.limits)
        if found.size > _BOMB * found.packed and not self.limits.allows(
            "decoded_bytes", found.size
        ):
            what = f"the member has {found.size:,} bytes"
            raise DecodeError(self.limits.refusal("decoded_bytes", found.size, what))
        if not found.is_zip:
            data = found.archive.read(found.start, found.start + found.size)
        else:
            most = _LOCAL + len(path) + _SLACK + found.packed
            data, begin = _local(found, most)
            if begin + found.packed > len(data):
                data += found.archive.read(
                    found.start + len(data), found.start + begin + found.packed
                )
            data = data[begin : begin + found.packed]
        if found.method == _DEFLATED:
            try:
                data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, found.size + 1)
            except zlib.error as error:
                raise DecodeError(f"the member is damaged: {error}") from error
        if len(data) != found.size or (found.is_zip and zlib.crc32(data) != found.crc):
            raise DecodeError("the member is damaged: its size or checksum differs from the index")
        return data


def _local(found: _Found, nbytes: int) -> tuple[bytes, int]:
    """Return bytes from the header of a zip's member on, and the length of the header."""
    data = found.archive.read(found.start, found.start + nbytes)
    if data[:4] != b"PK\3\4" or len(data) < _LOCAL:
        raise DecodeError("the member is damaged: it has no header")
    return data, _LOCAL + data[26] + data[28] + (data[27] + data[29] << 8)
