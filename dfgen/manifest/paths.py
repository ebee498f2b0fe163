"""Paths as stored (relative to a root, `/`-separated) and as used (absolute).

The rules are lexical: symbolic links are not followed.
"""

import os
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, first, quote
from dfgen.manifest.path_roots import (
    URL,
    absolute_place,
    are_below,
    below_place,
    common_archive,
    file_of,
    is_address,
    joined,
    posix,
    with_absolute_archives,
)
from dfgen.manifest.schema import rows_where, with_column
from dfgen.stores.archives import member_of

_ABSOLUTE = rf"^/|{URL}" if os.name == "posix" else rf"^[/\\]|^[A-Za-z]:[/\\]|{URL}"
_UPWARD = r"(?:^|[/\\])\.\.(?:[/\\]|$)"
_DOTTED = r"\A\./|/\.?/"
_SIGNED = (
    r"(?i)\?(?:.*&)?(?:x-amz-(?:signature|security-token)|x-goog-signature|signature|sig|token|"
    r"access_token|api_?key)="
)
_UNTIDY = r"(?:^|/)\.{1,2}(?:/|$)|//|/$"


def is_utf8(path: str) -> bool:
    """Whether a manifest can hold a path: names on Linux may have any bytes.

    Example:
        >>> is_utf8("a.jpg"), is_utf8(os.fsdecode(bytes([255])))
        (True, False)
    """
    return not any("\ud800" <= character <= "\udfff" for character in path)


def is_url(paths: Any) -> Any:
    """Return for each path whether it is an address such as `s3://bucket/a.jpg`."""
    if not len(paths):  # of any type
        return pa.chunked_array([], pa.bool_())
    return pc.match_substring_regex(paths, URL)


def is_absolute(paths: Any) -> Any:
    """Return for each path whether it starts at the top of a file system, or is an address."""
    if os.name == "posix" and not _may_hold(paths, "://"):
        return pc.starts_with(paths, "/")  # four times as fast
    return pc.match_substring_regex(paths, _ABSOLUTE)


def is_upward(paths: Any) -> Any:
    """Return for each path whether it goes up by `..`."""
    if not _may_hold(paths, ".."):
        return pc.starts_with(paths, "..")  # none; the fastest test
    return pc.match_substring_regex(paths, _UPWARD)


def _may_hold(paths: Any, text: str) -> bool:
    """Whether some paths may hold a text: whether their bytes do, which is fast to see."""
    chunks = paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths]
    return any(text.encode() in bytes(chunk.buffers()[2] or b"") for chunk in chunks)


def _any(mask: Any) -> bool:
    return bool(pc.any(mask).as_py())


def check_stored_paths(table: pa.Table, root: str | None, where: str) -> None:
    """Raise if a stored path is not as manifests/README.md specifies it."""
    if "path" not in table.column_names or not len(table):
        return
    paths = table["path"]
    if _may_hold(paths, "\0"):
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

    A table without paths is returned as it is.

    Args:
        table: rows with `id` and `path`; relative paths start at the root, else at the current
            folder.
        root: every path must be below it. None: `known_root` if every path is below it, else the
            deepest common folder, else none.
        known_root: the root of the manifest that the rows come from, if any.
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


def refuse_signatures(table: pa.Table) -> None:
    """Raise if an address is signed: everybody who has the manifest could open the file."""
    if "path" in table.column_names and len(table):
        paths = table["path"]
        signed = pc.match_substring(paths, "?")
        if _any(signed):
            signed = pc.match_substring_regex(paths, _SIGNED)
            _refuse(table, signed, "the frame", "has a signature or token. Use storage_options=")


def tidied(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return paths without `./` and `//`, so that a file has one id; addresses are unchanged.

    Example:
        >>> tidied(pa.chunked_array([["./a//b.png", "a/./b.png", "s3://c//d"]])).to_pylist()
        ['a/b.png', 'a/b.png', 's3://c//d']
    """
    paths = paths.cast(pa.string())
    if not _any(pc.match_substring_regex(paths, _DOTTED)):
        return paths
    spare = pc.replace_substring_regex(paths, r"\A(?:\./+)+", "")
    spare = pc.replace_substring_regex(spare, r"([^/])/(?:\.?/)+", r"\1/")
    return pc.if_else(is_url(paths), paths, spare)


def whole_paths(paths: Any, base: str) -> Any:
    """Return absolute paths; relative ones, also of archives, start at an absolute place."""
    whole = pc.if_else(is_absolute(paths), paths, joined(base, paths))
    return with_absolute_archives(whole, file_of(base))


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
