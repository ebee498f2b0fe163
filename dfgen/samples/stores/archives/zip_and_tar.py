"""The members of a zip archive, by its central directory, and of a tar archive, by its headers.

Those of a zip (PKWARE's APPNOTE.TXT 6.3.10) are read as columns, in a tenth of the time and memory
of Python's zipfile; those of a tar (POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar's
manual, "Tar Internals") by Python's tarfile, without the objects that it makes of them.
"""

import os
import posixpath
import struct
import tarfile
from collections.abc import Iterator

import numpy as np

from dfgen.errors import DecodeError
from dfgen.samples.stores.archives.archive_index import ArchiveFile, Contents, WholeNumbers, damaged
from dfgen.samples.stores.archives.archive_paths import PACKED
from dfgen.samples.stores.remote.ranges import as_file

STORED, DEFLATED = 0, 8
_METHODS = {1: "shrink", 6: "implode", 9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstd",
            95: "xz", 98: "ppmd", 99: "AES"}  # fmt: skip

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR = struct.Struct("<4sLQL")
_RECORD = np.dtype(
    [("mark", "S4"), ("made_by", "u2"), ("needs", "u2"), ("flags", "u2"), ("method", "u2"),
     ("time", "u2"), ("date", "u2"), ("check", "u4"), ("packed", "u4"), ("size", "u4"),
     ("name", "u2"), ("extra", "u2"), ("comment", "u2"), ("disk", "u2"), ("inner", "u2"),
     ("outer", "u4"), ("start", "u4")]
)  # fmt: skip
_FULL, _FULL_16 = 0xFFFFFFFF, 0xFFFF
_ENCRYPTED, _IS_UTF8, _PATCHED = 0x2041, 0x800, 0x20
_LINK, _DOS = 0xA, 0


def read_zip(file: ArchiveFile) -> Contents:
    """Return what a zip archive holds; folders are none of it.

    Names are UTF-8 if they say so or can be, else of code page 437. Times are those of the Unix
    extra field, else those of MS-DOS, which know no time zone, as if they were UTC.
    """
    data, base, count = _directory(file)
    begins = _begins(data, count)
    fixed = np.frombuffer(data, np.uint8)[begins[:, None] + np.arange(_RECORD.itemsize)]
    records = fixed.reshape(-1).view(_RECORD)
    names = [*_names(data, begins, records)]
    files = np.array([not name.endswith("/") for name in names], bool)
    begins, records = begins[files], records[files]
    names = [name for name, is_file in zip(names, files.tolist(), strict=True) if is_file]
    columns = {name: records[name].astype(np.int64) for name in ("size", "packed", "start")}
    times = _times(records)
    for place in np.flatnonzero(records["extra"]).tolist():
        _read_extra(data, int(begins[place]), records[place], place, columns, times)
    methods = records["method"].astype(np.uint8)
    ends = base + columns["start"] + columns["packed"]
    if len(ends) and int(ends.max()) > file.size:
        raise damaged(f"its members end at byte {ends.max():,}, the file at {file.size:,}")
    return Contents(
        [name.removeprefix("./") for name in names], columns["start"] + base, columns["packed"],
        columns["size"], times, records["check"], methods, _problems(records),
    )  # fmt: skip


def _directory(file: ArchiveFile) -> tuple[bytes, int, int]:
    """Return the central directory, what its places are behind, and how many members it has."""
    tail_at = max(0, file.size - _END.size - _FULL_16)
    tail = file.read(file.size - tail_at, tail_at)
    at = tail.rfind(b"PK\5\6")
    while at >= 0 and (len(tail) - at < _END.size or _comment_end(tail, at) > len(tail)):
        at = tail.rfind(b"PK\5\6", 0, at)
    if at < 0:
        cut = file.read(4, 0) in (b"PK\3\4", b"PK\x07\x08")
        what = "its end, where the names of its members stand, is missing"
        raise damaged(what) if cut else DecodeError(f"{file.path!r} is no zip archive")
    _, disk, first, _, count, nbytes, start, _ = _END.unpack_from(tail, at)
    end = tail_at + at
    if at >= _LOCATOR.size and tail[at - _LOCATOR.size : at].startswith(b"PK\6\7"):
        _, _, place, disks = _LOCATOR.unpack_from(tail, at - _LOCATOR.size)
        end, (count, nbytes, start) = _end_64(file, place, end - _LOCATOR.size)
        disk, first = max(disks, 1) - 1, 0
    if disk or first:
        raise DecodeError("the archive is one of several parts: put them together with zip -s 0")
    base = end - nbytes - start  # where something stands before it, as a program that unpacks
    data = file.read(nbytes, end - nbytes) if end >= nbytes else b""
    if base < 0 or len(data) < nbytes or data[:4] not in (b"PK\1\2", b""):
        raise damaged("the names of its members are not where they should be")
    return data, base, count


def _comment_end(tail: bytes, at: int) -> int:
    return at + _END.size + int(_END.unpack_from(tail, at)[-1])


def _end_64(file: ArchiveFile, place: int, end: int) -> tuple[int, tuple[int, int, int]]:
    """Return where the end of a large archive begins: members, bytes and start of the directory."""
    for at in (place, end - _END_64.size):  # the second where something stands before it
        data = file.read(_END_64.size, at) if 0 <= at < file.size else b""
        if len(data) == _END_64.size and data.startswith(b"PK\6\6"):
            *_, count, nbytes, start = _END_64.unpack(data)
            return at, (count, nbytes, start)
    raise damaged("the end that large archives have is missing")


def _begins(data: bytes, count: int) -> WholeNumbers:
    begins, at, lengths = list[int](), 0, struct.Struct("<3H")
    while data.startswith(b"PK\1\2", at) and at + 46 <= len(data):
        begins.append(at)
        at += 46 + sum(lengths.unpack_from(data, at + 28))
    # of more than 65,535 members old programs wrote the number without its upper digits
    if at != len(data) or len(begins) not in (count, count + (len(begins) & ~_FULL_16)):
        raise damaged(f"it should have {count:,} members, of which {len(begins):,} are there")
    return np.array(begins, np.int64)


def _names(data: bytes, begins: WholeNumbers, records: WholeNumbers) -> Iterator[str]:
    """Yield the names; in those of MS-DOS without any /, a backslash is one, as for unzip."""
    starts = (begins + _RECORD.itemsize).tolist()
    utf8 = (records["flags"] & _IS_UTF8 != 0).tolist()
    dos = (records["made_by"] >> 8 == _DOS).tolist()
    lengths = records["name"].tolist()
    for start, length, is_utf8, is_dos in zip(starts, lengths, utf8, dos, strict=True):
        name = data[start : start + length]
        try:
            text = name.decode()
            yield text.replace("\\", "/") if is_dos and b"/" not in name else text
        except UnicodeDecodeError:
            yield name.decode("utf-8", "surrogateescape") if is_utf8 else name.decode("cp437")


def _times(records: WholeNumbers) -> WholeNumbers:
    """Return the times of MS-DOS, to 2 seconds, in nanoseconds since 1970."""
    date, time = (records[name].astype(np.int64) for name in ("date", "time"))
    months = (date >> 9) * 12 + (date >> 5 & 15) - 1 + 10 * 12  # from 1980
    days = months.astype("M8[M]").astype("M8[D]").astype(np.int64) + (date & 31) - 1
    seconds = (time >> 11) * 3600 + (time >> 5 & 63) * 60 + (time & 31) * 2
    times: WholeNumbers = (days * 86_400 + seconds) * 10**9
    return times


def _read_extra(
    data: bytes, begin: int, record: WholeNumbers, place: int, columns: dict[str, WholeNumbers],
    times: WholeNumbers
) -> None:  # fmt: skip
    """Take the sizes of large members, and the time, from the extra field of one."""
    at = begin + _RECORD.itemsize + int(record["name"])
    end = at + int(record["extra"])
    while at + 4 <= end:
        kind, nbytes = struct.unpack_from("<2H", data, at)
        at += 4
        if kind == 1:
            large = [name for name in ("size", "packed", "start") if record[name] == _FULL]
            if nbytes < 8 * len(large):
                raise damaged("a large member does not say how large it is")
            for name, number in zip(large, struct.unpack_from(f"<{len(large)}Q", data, at),
                                    strict=True):  # fmt: skip
                columns[name][place] = min(number, 2**62)
        elif kind == 0x5455 and nbytes >= 5 and data[at] & 1:
            times[place] = struct.unpack_from("<i", data, at + 1)[0] * 10**9
        at += nbytes


def _problems(records: WholeNumbers) -> dict[int, str]:
    flags, methods, problems = records["flags"], records["method"], dict[int, str]()
    readable = np.isin(methods, (STORED, DEFLATED)) & (flags & (_ENCRYPTED | _PATCHED) == 0)
    links = (records["made_by"] >> 8 == 3) & (records["outer"] >> 28 == _LINK)
    for place in np.flatnonzero(~readable | links).tolist():
        method = int(methods[place])
        if flags[place] & _ENCRYPTED or method == 99:
            problems[place] = "it is encrypted: unpack the archive with its password"
        elif not readable[place]:
            name = _METHODS.get(method, f"number {method}")
            problems[place] = (
                f"it is packed by the method {name}, which is not read: pack it again by deflate, "
                "or with zip -0, as images are packed already"
            )
        else:
            problems[place] = "it is a symbolic link: zip the files that links lead to"
    return problems


_BLOCK = 512
_BUFFER = 4096
_MOST = 2**62  # bytes
_LATEST = 2**33  # seconds since 1970: the nanoseconds are to fit into 64 bits
_STEPS = 40  # from link to link, as Linux has it

_Row = tuple[int, int, int]  # start, size and time


def read_tar(file: ArchiveFile) -> Contents:
    """Return the files of a tar archive, and links to files in it, hard and symbolic ones."""
    _refuse_packed(file)
    names, rows = list[str](), list[_Row]()
    links, problems = dict[int, str](), dict[int, str]()
    for info in _members(file):
        name = info.name.removeprefix("./")
        if info.islnk():
            links[len(names)] = info.linkname.removeprefix("./")
        elif info.issym():
            links[len(names)] = posixpath.normpath(
                posixpath.join(posixpath.dirname(name), info.linkname)
            )
        elif info.issparse():
            problems[len(names)] = "it has holes (GNU's sparse format): write it without --sparse"
        elif not info.isreg():
            continue
        names.append(name)
        rows.append((info.offset_data, info.size, round(info.mtime * 10**9)))
    _follow(links, names, rows, problems)
    starts, sizes, times = np.array(rows, np.int64).reshape(-1, 3).T
    return Contents(names, starts, sizes, sizes, times, problems=problems)


def _refuse_packed(file: ArchiveFile) -> None:
    begin = file.read(6, 0)
    for mark, unpack in PACKED.items():
        if begin.startswith(mark):
            raise DecodeError(
                "the tar archive is compressed as a whole, so that no member can be read without "
                f"all before it: make a plain one, {unpack} -k {os.path.basename(file.path)}"
            )


def _members(file: ArchiveFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members; a header that is none ends an archive for tarfile, here it is damage."""
    try:
        whole = as_file(file.size, file.read, _BUFFER)
        with tarfile.open(fileobj=whole, mode="r:") as archive:
            end = 0
            while (member := archive.next()) is not None:
                _refuse_absurd(member, archive.offset - end)
                yield member
                archive.members = []  # type: ignore[attr-defined]  # else it keeps them all
                end = archive.offset
            end = archive.offset
    except DecodeError:
        raise
    except (tarfile.TarError, ValueError, OverflowError) as error:
        raise damaged(str(error)) from error
    except MemoryError as error:
        raise damaged("a header says that it has more bytes than memory") from error
    if file.read(_BLOCK, end).strip(b"\0"):
        raise damaged(f"there is no header of a member at byte {end:,}, and not its end either")
    if end >= file.size:
        raise damaged(
            "it ends without the zeros that end a tar archive, and may lack members; if it is "
            "whole, add them: head -c 1024 /dev/zero >> FILE"
        )
    _refuse_another(file, end)


def _refuse_absurd(member: tarfile.TarInfo, step: int) -> None:
    """Refuse numbers that no member has: one that ends before it begins is read for ever."""
    if step <= 0 or not 0 <= member.size < _MOST or not abs(member.mtime) < _LATEST:
        raise damaged(
            f"the member {member.name!r} has {member.size} bytes, of the time {member.mtime}, and "
            f"ends {step} bytes after the one before"
        )


def _refuse_another(file: ArchiveFile, end: int) -> None:
    """Refuse archives one after another, as of `cat`, of which tar reads the first alone."""
    at = end
    while (block := file.read(_BLOCK, at)) and not block.strip(b"\0"):
        at += _BLOCK
    try:
        tarfile.TarInfo.frombuf(block, tarfile.ENCODING, "surrogateescape")
    except tarfile.HeaderError:  # its end, or what tar does not look at either
        return
    raise DecodeError(
        f"the file holds several tar archives, and one begins at byte {at:,}: unpack it with "
        f"tar --ignore-zeros -xf {os.path.basename(file.path)} and make one of them"
    )


def _follow(
    links: dict[int, str], names: list[str], rows: list[_Row], problems: dict[int, str]
) -> None:
    places = dict(zip(names, range(len(names)), strict=True)) if links else {}
    for link, target in links.items():
        place: int | None = link
        for _ in range(_STEPS):
            place = places.get(links[place]) if place in links else place
        if place is None or place in links:
            problems[link] = f"it is a link to {target!r}, which is no file of the archive"
        else:
            rows[link] = rows[place]
            if place in problems:
                problems[link] = problems[place]
