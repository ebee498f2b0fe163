"""Places where relative paths begin: a folder, or an archive with or without a folder in it."""

import os
import posixpath
import re

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.stores.archives import ARCHIVES, Member, archive_at, member_of
from dfgen.stores.stores import refuse_password

URL = r"^[A-Za-z][A-Za-z0-9+.-]+://"
_MEMBER = rf"^(?s)(?:{'|'.join(ARCHIVES)})://.*::"


def absolute_place(place: str, folder: str = "") -> str:
    """Return a folder, archive or address as absolute; relative ones start at a folder.

    An archive may be given as the file that it is.

    Raises:
        ArgumentError: an address has a password in it.

    Example:
        >>> absolute_place("zip://train/::photos.zip", "/data")
        'zip://train::/data/photos.zip'
        >>> absolute_place("s3://bucket/imgs/"), absolute_place("imgs", "s3://bucket")
        ('s3://bucket/imgs', 's3://bucket/imgs')
    """
    member = member_of(place)
    if member is None:
        if is_address(place):
            return _without_slash(place)
        if is_address(folder):
            return in_folder(folder, place)
        path = os.path.abspath(os.path.join(folder, place))
        member = archive_at(path)
        return path if member is None else str(member)
    return str(at_folder(member._replace(name=member.name.strip("/").removeprefix("./")), folder))


def is_address(place: str | None) -> bool:
    """Whether a path is an address such as `s3://bucket/a.jpg`."""
    return place is not None and re.match(URL, place) is not None


def in_folder(folder: str, path: str) -> str:
    """Return a path that starts at a folder, or at the URL of one, without `.` and `..`.

    No `..` leaves a bucket; an absolute path stays on this machine.

    Example:
        >>> in_folder("s3://bucket/manifests", "../imgs"), in_folder("/data", "imgs")
        ('s3://bucket/imgs', '/data/imgs')
    """
    if not is_address(folder) or os.path.isabs(path):
        return os.path.normpath(os.path.join(folder, path))
    scheme, _, rest = folder.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}{posixpath.normpath(posixpath.join('/', key, path))}".rstrip("/")


def _without_slash(address: str) -> str:
    refuse_password(address)
    return address.rstrip("/")


def at_folder(member: Member, folder: str) -> Member:
    """Return a member with the absolute path of its archive; relative ones start at a folder."""
    return member._replace(archive=posix(os.path.abspath(os.path.join(folder, member.archive))))


def file_of(place: str) -> str:
    """Return the folder or file on disk of a place; for a place in an archive, the archive.

    Example:
        >>> file_of("zip://train::/data/photos.zip"), file_of("/data/imgs")
        ('/data/photos.zip', '/data/imgs')
    """
    member = member_of(place)
    return place if member is None else member.archive


def has_members(paths: pa.ChunkedArray) -> bool:
    """Whether there are members of archives among some paths."""
    return any(pc.any(pc.starts_with(paths, f"{kind}://")).as_py() for kind in ARCHIVES)


def ends_of(place: str) -> tuple[str, str]:
    """Return the texts before and after the relative paths that begin at an absolute place.

    Example:
        >>> ends_of("zip://train::/data/photos.zip"), ends_of("/data/imgs")
        (('zip://train/', '::/data/photos.zip'), ('/data/imgs/', ''))
    """
    member = member_of(place)
    if member is None:
        return posix(place).rstrip("/") + "/", ""
    folder = f"{member.name}/" if member.name else ""
    return f"{member.kind}://{folder}", f"::{member.archive}"


def are_below(paths: pa.ChunkedArray, place: str) -> pa.ChunkedArray:
    """Return for each path whether it begins at an absolute place."""
    before, after = ends_of(place)
    below = pc.starts_with(paths, before)
    return pc.and_(below, pc.ends_with(paths, after)) if after else below


def below_place(paths: pa.ChunkedArray, place: str) -> pa.ChunkedArray:
    """Return paths relative to the absolute place that they begin at."""
    before, after = ends_of(place)
    return pc.utf8_slice_codeunits(paths, len(before), -len(after) if after else None)


def joined(place: str, paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole paths of paths relative to an absolute place."""
    before, after = (pa.scalar(end, paths.type) for end in ends_of(place))
    empty = pa.scalar("", paths.type)
    return pc.binary_join_element_wise(before, paths, *[after] * len(after.as_py()[:1]), empty)


def common_archive(paths: pa.ChunkedArray) -> str | None:
    """Return the archive that all paths are members of, as a place; None if there is none."""
    first = member_of(paths[0].as_py()) if len(paths) else None
    place = None if first is None else str(first._replace(name=""))
    return place if place and pc.all(are_below(paths, place)).as_py() else None


def with_absolute_archives(paths: pa.Array, folder: str) -> pa.Array:
    """Return paths whose archives are absolute; relative archives start at a folder."""
    if not has_members(paths):
        return paths
    relative = pc.invert(
        pc.match_substring_regex(paths, r"(?s)::(?:file://)?(?:[/\\]|[A-Za-z]:)[^:]*$")
    )
    relative = pc.and_(relative, pc.match_substring_regex(paths, _MEMBER))
    if not pc.any(relative).as_py():
        return paths
    members = map(member_of, paths.filter(relative).to_pylist())
    whole = [str(at_folder(member, folder)) for member in members if member is not None]
    mask = relative.combine_chunks() if isinstance(relative, pa.ChunkedArray) else relative
    plain = paths.combine_chunks() if isinstance(paths, pa.ChunkedArray) else paths
    return pc.replace_with_mask(plain, mask, pa.array(whole, paths.type))


def posix(path: str) -> str:
    """Return a path of this machine with `/` between folders."""
    return path.replace(os.sep, "/")
