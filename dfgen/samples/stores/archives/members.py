"""Members of zip and tar archives, each read by itself at the place where it lies."""

import os
import stat
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import IO, NamedTuple

from dfgen.errors import ArgumentError, DecodeError, MissingFileError
from dfgen.limits import Limits, refuse_bytes
from dfgen.samples.stores.archives.archive_index import (
    ArchiveFile,
    Contents,
    Index,
    damaged,
    make_index,
    version_of,
)
from dfgen.samples.stores.archives.archive_paths import Member, member_of
from dfgen.samples.stores.archives.zip_and_tar import DEFLATED, read_tar, read_zip
from dfgen.samples.stores.known_files import Check
from dfgen.samples.stores.remote.ranges import as_file
from dfgen.samples.stores.store import Head, Store

_CONTENTS: dict[str, Callable[[ArchiveFile], Contents]] = {"zip": read_zip, "tar": read_tar}
_LOCAL = 30  # bytes of a zip's header in front of a member, without its name
_SLACK = 64  # of what follows the name there, which most have less of
_TIMES = 100  # a member of more times what it takes in the archive counts as decoded

_OTHER_CHECKSUM = "the member has another checksum (CRC-32) than it should have"

_HEADER = 1 << 13  # bytes of a file that hold most headers
_Read = Callable[[int, int], bytes]  # of so many bytes from a place on


class _Found(NamedTuple):
    """The place of a member: bytes from `start` on of which `packed` are its `size`."""

    file: ArchiveFile
    is_zip: bool
    problem: str | None
    start: int
    packed: int
    size: int
    time: int
    crc: int
    method: int


class Indexes:
    """The indexes of the archives that were read, made once each; copies make their own."""

    def __init__(self) -> None:
        self._known = dict[str, Index]()
        self._lock = Lock()

    def of(self, kind: str, file: ArchiveFile) -> Index:
        """Return the index of an open archive; what is wrong with one is looked for once too."""
        key = f"{kind}://{file.path}"
        index = self._known.get(key)
        if index is None or index.version != file.version:
            with self._lock:  # others wait, as reading it twice takes no less time
                index = self._known.get(key)
                if index is None or index.version != file.version:
                    index = self._known[key] = _index(kind, file)
        if index.fault:
            raise DecodeError(index.fault)
        return index

    def __reduce__(self) -> tuple[type["Indexes"], tuple[()]]:
        return Indexes, ()


@dataclass(frozen=True)
class Archives(Store):
    """Members of archives, by paths as `zip://cats/a.jpg::photos.zip`.

    An archive is opened once in each process, anew where it has changed. What a zip's member
    unpacks to is compared with its checksum; tar has none.
    """

    indexes: Indexes = field(default_factory=Indexes, repr=False, compare=False)

    def read(self, path: str) -> bytes:
        """Return the bytes of one member."""
        return _bytes(self._find(path), path, self.limits)

    def read_as(self, path: str, check: Check) -> bytes:
        """Return the bytes of one member, if it is the one that is known."""
        found = self._find(path)
        check(found.size, found.time)
        return _bytes(found, path, self.limits)

    def head(self, path: str) -> Head:
        """Return size and time of one member, as the archive has them."""
        found = self._find(path)
        told = found.crc if found.is_zip else found.file.version[:2]
        return Head(found.size, found.time, (found.start, told), found.problem)

    def open(self, path: str) -> IO[bytes]:
        """Open a member, of which no more is unpacked than is read.

        Its checksum is compared where all of it is read.
        """
        found = self._find(path)
        read: _Read
        if found.method == DEFLATED or found.problem is not None:
            _check(found, self.limits)
            read = _Inflated(found, path).read
        else:
            start = found.start + (_local(found, _LOCAL)[1] if found.is_zip else 0)

            def read(nbytes: int, at: int) -> bytes:
                return found.file.read(nbytes, start + at)

        return as_file(found.size, _Checked(found, read).read if found.is_zip else read)

    def contents(self, place: Member) -> Contents:
        """Return all that an archive holds."""
        return _CONTENTS[place.kind](self._file(place.archive))

    def _file(self, archive: str) -> ArchiveFile:
        try:
            status = os.stat(archive)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MissingFileError(f"there is no archive {archive!r}") from error
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            raise DecodeError(f"{archive!r} is no archive but a folder, or no file at all")
        file: ArchiveFile = self.arrays.get(archive, None, version_of(status), ArchiveFile)
        return file

    def _find(self, path: str) -> _Found:
        kind, name, archive = _member(path)
        file = self._file(archive)
        index = self.indexes.of(kind, file)
        place = index.find(name)
        if place is None:
            raise MissingFileError(f"the archive {archive!r} has no member {name!r}")
        problem = index.problems.get(place) if index.problems else None
        return _Found(
            file, kind == "zip", problem, *[column.item(place) for column in index.columns]
        )


def _member(path: str) -> Member:
    try:
        member = member_of(path)
    except ArgumentError as error:
        raise DecodeError(str(error)) from error
    if member is None:
        raise DecodeError('expected a path as "zip://cats/a.jpg::photos.zip"')
    return member


def _index(kind: str, file: ArchiveFile) -> Index:
    try:
        return make_index(_CONTENTS[kind](file), file.version)
    except DecodeError as error:
        return Index(file.version, fault=str(error))


def _bytes(found: _Found, path: str, limits: Limits) -> bytes:
    _check(found, limits)
    if not found.size:
        raise DecodeError("the file is empty (0 bytes)")
    data = _packed(found, path)
    if found.method == DEFLATED:
        data = _inflated(zlib.decompressobj(-zlib.MAX_WBITS), data, found.size + 1)
    if len(data) != found.size:
        raise damaged(f"it says that the member has {found.size:,} bytes, it has other")
    if found.is_zip and zlib.crc32(data) != found.crc:
        raise damaged(_OTHER_CHECKSUM)
    return data


def _inflated(unpacking: "zlib._Decompress", data: bytes, most: int) -> bytes:
    try:
        return unpacking.decompress(data, most)
    except zlib.error as error:
        raise damaged(f"the member cannot be unpacked: {error}") from error


def _check(found: _Found, limits: Limits) -> None:
    """Refuse a member that cannot be read, or would take too much memory."""
    if found.problem is not None:
        raise DecodeError(found.problem)
    refuse_bytes(found.size, limits)
    if found.size > _TIMES * found.packed and not limits.allows("decoded_bytes", found.size):
        what = f"the member has {found.size:,} bytes, of {found.packed:,} in the archive"
        raise DecodeError(limits.refusal("decoded_bytes", found.size, what))


def _packed(found: _Found, path: str) -> bytes:
    """Return the bytes of a member as they are in the archive."""
    if not found.is_zip:
        data = found.file.read(found.packed, found.start)
    else:
        most = _LOCAL + path.rindex("::") + _SLACK
        data, begin = _local(found, most + found.packed)
        missing = begin + found.packed - len(data)
        if missing > 0:
            data += found.file.read(missing, found.start + len(data))
        data = data[begin : begin + found.packed]
    if len(data) < found.packed:
        raise damaged("it ends within this member")
    return data


def _local(found: _Found, nbytes: int) -> tuple[bytes, int]:
    """Return so many bytes from the header in front of a zip's member, and where they are its."""
    data = found.file.read(nbytes, found.start)
    if data[:4] != b"PK\3\4" or len(data) < _LOCAL:
        raise damaged("there is no header in front of the member")
    lengths = data[26] + data[28] + (data[27] + data[29] << 8)  # of the name and what follows it
    return data, _LOCAL + lengths


class _Checked:
    """Compares the checksum of a member once it has been read from its begin to its end."""

    def __init__(self, found: _Found, read: _Read) -> None:
        self._found, self._read = found, read
        self._there, self._crc = 0, 0

    def read(self, nbytes: int, start: int) -> bytes:
        """Return so many bytes from a place on."""
        data = self._read(nbytes, start)
        if start <= self._there < start + len(data):
            self._crc = zlib.crc32(data[self._there - start :], self._crc)
            self._there = start + len(data)
            if self._there == self._found.size and self._crc != self._found.crc:
                raise damaged(_OTHER_CHECKSUM)
        return data


class _Inflated:
    """A deflated member, unpacked as far as it was read, and kept."""

    def __init__(self, found: _Found, path: str) -> None:
        self._found, self._path = found, path
        self._unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        self._there, self._rest = b"", b""

    def read(self, nbytes: int, start: int) -> bytes:
        """Return so many bytes from a place on."""
        missing = start + nbytes - len(self._there)
        if missing > 0:
            self._rest = self._rest or _packed(self._found, self._path)
            wanted = min(max(missing, _HEADER), self._found.size - len(self._there))
            self._there += _inflated(self._unpacking, self._rest, wanted)
            self._rest = self._unpacking.unconsumed_tail
        return self._there[start : start + nbytes]
