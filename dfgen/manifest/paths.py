"""Paths as stored (relative to a root, `/`-separated) and as used (absolute).

A root is a folder, an address, or an archive with or without a folder in it. The rules are lexical:
symbolic links are not followed.
"""

import os
import posixpath
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, first, quote
from dfgen.manifest.schema import rows_where, with_column
from dfgen.stores.archives import ARCHIVES, Member, archive_at, member_of
from dfgen.stores.stores import refuse_password
from dfgen.table.arrow_types import may_hold

URL = r"^[A-Za-z][A-Za-z0-9+.-]+://"
_MEMBER = rf"^(?s)(?:{'|'.join(ARCHIVES)})://.*::"
_ABSOLUTE = rf"^/|{URL}" if os.name == "posix" else rf"^[/\\]|^[A-Za-z]:[/\\]|{URL}"
_UPWARD = r"(?:^|[/\\])\.\.(?:[/\\]|$)"
_DOTTED = r"\A\./|/\.?/"
_UNTIDY = r"(?:^|/)\.{1,2}(?:/|$)|//|/$"


def absolute_place(place: str, folder: str = "") -> str:
    """Return a folder, archive or address as absolute; relative ones start at a folder.

    An archive may be the path of its file.
    """
    member = member_of(place)
    if member is None:
        if is_address(place):
            refuse_password(place)
            return place.rstrip("/")
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
    """
    if not is_address(folder) or os.path.isabs(path):
        return os.path.normpath(os.path.join(folder, path))
    scheme, _, rest = folder.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}{posixpath.normpath(posixpath.join('/', key, path))}".rstrip("/")


def at_folder(member: Member, folder: str) -> Member:
    """Return a member with the absolute path of its archive; relative ones start at a folder."""
    return member._replace(archive=posix(os.path.abspath(os.path.join(folder, member.archive))))


def ends_of(place: str) -> tuple[str, str]:
    """Return the texts before and after the relative paths that begin at an absolute place."""
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
    if not any(pc.any(pc.starts_with(paths, f"{kind}://")).as_py() for kind in ARCHIVES):
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


def is_utf8(path: str) -> bool:
    """Whether a manifest can hold a path: names on Linux may have any bytes."""
    return not any("\ud800" <= character <= "\udfff" for character in path)


def is_url(paths: Any) -> Any:
    """Return for each path whether it is an address such as `s3://bucket/a.jpg`."""
    if not len(paths):  # of any type
        return pa.chunked_array([], pa.bool_())
    return pc.match_substring_regex(paths, URL)


def is_absolute(paths: Any) -> Any:
    """Return for each path whether it starts at the top of a file system, or is an address."""
    if os.name == "posix" and not may_hold(paths, "://"):
        return pc.starts_with(paths, "/")  # four times as fast
    return pc.match_substring_regex(paths, _ABSOLUTE)


def is_upward(paths: Any) -> Any:
    """Return for each path whether it goes up by `..`."""
    if not may_hold(paths, ".."):
        return pc.starts_with(paths, "..")  # none; the fastest test
    return pc.match_substring_regex(paths, _UPWARD)


def _any(mask: Any) -> bool:
    return bool(pc.any(mask).as_py())


def check_stored_paths(table: pa.Table, root: str | None, where: str) -> None:
    """Raise if a stored path is not as docs/reference/manifests.md specifies it."""
    if "path" not in table.column_names or not len(table):
        return
    paths = table["path"]
    if may_hold(paths, "\0"):
        _refuse(table, pc.match_substring(paths, "\0"), where, "holds a NUL character")
    if root is None:
        relative = pc.invert(is_absolute(paths))
        _refuse(table, relative, where, "is relative, but the manifest has no root: give root=")
    else:
        _refuse(table, is_upward(paths), where, 'leaves its root by ".."')
        _refuse(table, is_absolute(paths), where, "is absolute, but has a root")


def absolute_paths(table: pa.Table, root: str | None) -> pa.Table:
    """Return a table whose stored paths start at an absolute root; None: they are absolute."""
    if root is None or "path" not in table.column_names:
        return table
    return with_column(table, "path", joined(root, table["path"]))


def all_absolute(table: pa.Table) -> bool:
    """Whether no path of a table is relative."""
    paths = table["path"] if "path" in table.column_names else []
    return not len(paths) or bool(pc.all(is_absolute(paths)).as_py())


def refuse_outside(table: pa.Table, root: str, where: str) -> None:
    """Raise if an absolute path is not below a root."""
    if "path" in table.column_names and len(table):
        outside = pc.or_(pc.invert(are_below(table["path"], root)), is_upward(table["path"]))
        _refuse(table, outside, where, f"is not in root={quote(root)}")


def _refuse(table: pa.Table, bad: pa.ChunkedArray, where: str, fault: str) -> None:
    if not _any(bad):
        return
    rows = rows_where(bad)
    ids = table["id"] if "id" in table.column_names else None
    shown = "; ".join(
        f"row {row}{'' if ids is None else f' (id {quote(ids[row].as_py())})'}: "
        f"{quote(table['path'][row].as_py())}"
        for row in first(rows)
    )
    raise ManifestError(
        f"{len(rows)} of {len(table)} paths of {where} cannot be used: the path {fault}. {shown}. "
        "Paths are stored relative to the manifest's root, or all of them absolute"
    )


def stored_paths(
    table: pa.Table, root: str | None, known_root: str | None
) -> tuple[pa.Table, str | None]:
    """Return a table with stored paths, and the absolute root that they start from.

    Relative paths start at a root, else at the current folder. Every path must be below `root`.
    None: the `known_root` of the rows' manifest if every path is below it, else the deepest common
    folder, else none.
    """
    if "path" not in table.column_names:
        return table, None
    paths = tidy(table["path"].cast(pa.string()), absolute_place(root or known_root or os.curdir))
    for folder in (root, known_root, common_archive(paths)):
        if folder is None:
            continue
        folder = absolute_place(folder)
        outside = pc.invert(are_below(paths, folder))
        if not _any(outside):
            return with_column(table, "path", below_place(paths, folder)), folder
        if root is not None:
            _refuse(table, outside, "the frame", f"is not in root={quote(folder)}")
    common = "" if _any(is_url(paths)) else common_folder(paths)
    stored = below_place(paths, common) if common else paths
    return with_column(table, "path", stored), common or None


def tidied(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return paths without `./` and `//`, so that a file has one id; addresses are unchanged."""
    paths = paths.cast(pa.string())
    if not _any(pc.match_substring_regex(paths, _DOTTED)):
        return paths
    spare = pc.replace_substring_regex(paths, r"\A(?:\./+)+", "")
    spare = pc.replace_substring_regex(spare, r"([^/])/(?:\.?/)+", r"\1/")
    return pc.if_else(is_url(paths), paths, spare)


def whole_paths(paths: Any, base: str) -> Any:
    """Return absolute paths; relative ones, also of archives, start at an absolute place."""
    whole, member = pc.if_else(is_absolute(paths), paths, joined(base, paths)), member_of(base)
    return with_absolute_archives(whole, member.archive if member else base)


def tidy(paths: pa.ChunkedArray, base: str) -> pa.ChunkedArray:
    """Return absolute paths (from `base`), `/`-separated, without `.`, `..` and `//`."""
    if os.sep == "\\":
        paths = pc.replace_substring(paths, "\\", "/")
    paths = whole_paths(paths, base)
    untidy = pc.and_(pc.match_substring_regex(paths, _UNTIDY), pc.invert(is_url(paths)))
    if not _any(untidy):
        return paths
    normal = [posix(os.path.normpath(path)) for path in paths.filter(untidy).to_pylist()]
    return pc.replace_with_mask(
        paths.combine_chunks(), untidy.combine_chunks(), pa.array(normal, pa.string())
    )


def common_folder(paths: pa.ChunkedArray) -> str:
    """Return the deepest folder of all paths; "" if that is the top of the file system.

    All share what the first and the last in alphabetical order share.
    """
    ends = pc.min_max(paths).as_py()
    if ends["min"] is None:
        return ""
    try:
        folder = os.path.commonpath([os.path.dirname(ends["min"]), os.path.dirname(ends["max"])])
    except ValueError:  # two Windows drives
        return ""
    return "" if folder == os.path.dirname(folder) else posix(folder)


def portable_root(root: str | None, folder: str) -> str | None:
    """Return the root as stored: relative to the manifest's folder, so that both can move together.

    A root that shares only the top of the file system with that folder stays absolute.
    """
    member = None if root is None else member_of(root)
    if member is not None:
        archive = portable_root(member.archive, folder) or member.archive
        return str(member._replace(archive=archive))
    if root is None or is_address(root):
        return root
    try:
        shared = os.path.commonpath([root, folder])
    except ValueError:  # two Windows drives
        return root
    if os.path.dirname(shared) == shared and root != folder:
        return root
    return posix(os.path.relpath(root, folder))
