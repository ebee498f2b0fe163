"""Paths of members of archives: `zip://cats/a.jpg::photos.zip`, fsspec's chained notation."""

import os
from typing import NamedTuple

from dfgen.errors import ArgumentError

ARCHIVES = ("zip", "tar")
"""Schemes of the paths of members."""

PACKED = {b"\x1f\x8b": "gunzip", b"BZh": "bunzip2", b"\xfd7zXZ": "unxz", b"(\xb5/\xfd": "unzstd"}
"""First bytes of a compressed file -> the program that unpacks it."""

_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz", ".tar.zst")


class Member(NamedTuple):
    """The parts of a path of a member; `name` is "" where the archive itself is meant."""

    kind: str
    name: str
    archive: str

    def __str__(self) -> str:
        return f"{self.kind}://{self.name}::{self.archive}"


def member_of(path: str) -> Member | None:
    """Return what a path of a member says; None: it is none.

    Example:
        >>> member_of("zip://cats/a.jpg::/data/photos.zip")
        Member(kind='zip', name='cats/a.jpg', archive='/data/photos.zip')
    """
    if path[3:6] != "://" or path[:3] not in ARCHIVES:
        return None
    kind, (name, mark, archive) = path[:3], path[6:].rpartition("::")
    archive = archive.removeprefix("file://")
    if not mark or not archive:
        raise ArgumentError(
            f"{path!r} names no archive, expected the member and then the archive: "
            f'"{kind}://{path[6:] or "cats/a.jpg"}::photos.{kind}"'
        )
    if "://" in archive:
        raise ArgumentError(
            f"{path!r} is in an archive that is not on a disk, and archives are read from disks "
            "alone: copy it to one, or give the files as they are, unpacked in the store"
        )
    if "://" in name and any(f"::{each}://" in path for each in ARCHIVES):
        raise ArgumentError(
            f"{path!r} is in an archive within an archive, which cannot be read at random: unpack "
            "the outer one"
        )
    return Member(kind, name, archive)


def archive_at(place: str) -> Member | None:
    """Return what a folder or archive is called as the begin of paths; None: it is no archive.

    An archive is a file that begins as one, or is called so, or is named as `zip://::photos.zip`.
    """
    member = member_of(place)
    if member is not None or not os.path.isfile(place):
        return member
    kind = _kind(place)
    if kind is not None and "::" in place:
        raise ArgumentError(f"the path of the archive {place!r} has :: in it: rename the folder")
    return None if kind is None else Member(kind, "", place)


def is_named_archive(path: str) -> bool:
    """Whether a file is called as archives are."""
    return path.lower().endswith(_SUFFIXES)


def _kind(path: str) -> str | None:
    """Return the kind of an archive by how it begins, then by what it is called."""
    with open(path, "rb") as file:
        begin = file.read(512)
    called = is_named_archive(path)
    if begin[:4] in (b"PK\3\4", b"PK\5\6", b"PK\x07\x08"):
        return "zip" if called or not path.lower().endswith(".npz") else None
    if begin[257:262] == b"ustar" or (called and begin.startswith((*PACKED,))):
        return "tar"
    return ("zip" if path.lower().endswith(".zip") else "tar") if called else None
