"""The members of a tar archive, by Python's tarfile, without the objects that it makes of members.

Format: POSIX.1-2017, pax, "ustar Interchange Format"; and GNU tar's manual, "Tar Internals".
"""

import os
import posixpath
import tarfile
from collections.abc import Iterator

import numpy as np

from dfgen.errors import DecodeError
from dfgen.samples.stores.archives.archive_index import ArchiveFile, Contents, damaged
from dfgen.samples.stores.archives.archive_paths import PACKED
from dfgen.samples.stores.remote.ranges import as_file

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
        f"the file holds several tar archives, of which one begins at byte {at:,}: unpack it with "
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
