"""Paths as stored (relative to a root, `/`-separated) and as used (absolute).

The rules are lexical: symbolic links are not followed.

A path that a table, a data.yaml, a recipe or a manifest names lies in what the caller gave
(`root=`, `images=`, the folder itself), or, where only that file was given, in its folder or the
one above; any other is warned of, once, with its folder and how to allow it. It is not refused:
most who have their images elsewhere named them themselves. Sequences and annotations leave the one
above in silence, as `../imgs` from `manifests/` does; the top of the file system is above nothing.
"""

import os
import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, first, quote, warn
from dfgen.manifest.path_roots import (
    URL,
    absolute_place,
    are_below,
    below_place,
    common_archive,
    file_of,
    files_of,
    is_address,
    joined,
    posix,
    with_absolute_archives,
)
from dfgen.manifest.schema import rows_where, with_column
from dfgen.packs.pack_index import is_in_parts
from dfgen.samples.stores.archives.archive_paths import member_of
from dfgen.samples.stores.schemes import refuse_passwords
from dfgen.table.arrow_types import joined_text

_OF_WINDOWS = r"^\\|^[A-Za-z]:[/\\]"
_ABSOLUTE = rf"^/|{_OF_WINDOWS}|{URL}"
_SIGNED = (
    rf"(?i){URL}[^?]*\?(?:.*&)?(?:x-amz-(?:signature|security-token)|x-goog-signature|signature|sig|"
    r"token|access_token|api_?key)="
)
_UPWARD = r"(?:^|[/\\])\.\.(?:[/\\]|$)"
_DOTTED = r"\A\./|/\.?/"
_UNTIDY = r"(?:^|/)\.{1,2}(?:/|$)|//|/$"


def is_utf8(path: str) -> bool:
    """Whether a manifest can hold a path; a name on Linux may be of any bytes.

    Example:
        >>> is_utf8("a.jpg"), is_utf8(os.fsdecode(bytes([255])))
        (True, False)
    """
    return not any("\ud800" <= character <= "\udfff" for character in path)


def is_url(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Say of each path whether it is an address such as `s3://bucket/a.jpg`."""
    if not len(paths):  # of any type
        return pa.chunked_array([], pa.bool_())
    return pc.match_substring_regex(paths, URL)


def is_absolute(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Say of each path whether it starts at the top of a file system, or is an address."""
    if _somewhere(paths, b":"):
        return pc.match_substring_regex(paths, _ABSOLUTE)
    return pc.or_(pc.starts_with(paths, "/"), pc.starts_with(paths, "\\"))  # four times as fast


def is_upward(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Say of each path whether it goes up by `..`."""
    if not _somewhere(paths, b".."):
        return pc.starts_with(paths, "..")  # false of each
    return pc.match_substring_regex(paths, _UPWARD)


def _somewhere(paths: Any, part: bytes) -> bool:
    """Whether a part stands in the paths one after the other: sooner asked than of each path."""
    chunks = paths.chunks if isinstance(paths, pa.ChunkedArray) else [paths]
    return any(re.search(re.escape(part), joined_text(chunk)[0]) for chunk in chunks)


def absolute_paths(table: pa.Table, root: str | None, where: str) -> pa.Table:
    """Return `table` with the stored paths made absolute, after a check of them.

    `root` is the absolute folder where they start; None where every path is absolute.
    """
    check_stored_paths(table, root, where)
    if root is None or "path" not in table.column_names:
        return table
    return with_column(table, "path", joined(root, table["path"]))


def check_stored_paths(table: pa.Table, root: str | None, where: str) -> None:
    """Raise if a path as stored is not what manifests/README.md allows."""
    if "path" not in table.column_names or not len(table):
        return
    paths = table["path"]
    if root is None:
        relative = pc.invert(is_absolute(paths))
        _refuse(table, relative, where, "is relative, but the manifest has no root: give root=")
    if _somewhere(paths, b"\0"):
        _refuse(table, pc.match_substring(paths, "\0"), where, "holds a NUL character")
    if root is not None:
        _refuse(table, is_upward(paths), where, 'leaves its root by ".."')
        absolute = is_absolute(paths)
        if os.name == "posix":  # which has names such as C:/a.png
            absolute = pc.and_not(absolute, pc.match_substring_regex(paths, _OF_WINDOWS))
        _refuse(table, absolute, where, "is absolute, but has a root")


def all_absolute(table: pa.Table) -> bool:
    """Whether no path of a table is relative."""
    if "path" not in table.column_names or not len(table):
        return True
    return bool(pc.all(is_absolute(table["path"])).as_py())


def refuse_outside(table: pa.Table, root: str, where: str) -> None:
    """Raise if an absolute path does not lie in the root that the caller gave."""
    if "path" not in table.column_names or not len(table):
        return
    outside = pc.invert(are_below(table["path"], root))
    _refuse(
        table, pc.or_(outside, is_upward(table["path"])), where, f"is not in root={quote(root)}"
    )


def _refuse(table: pa.Table, bad: pa.ChunkedArray, where: str, fault: str) -> None:
    rows = rows_where(bad)
    if not len(rows):
        return
    shown = "; ".join(
        f"row {row} (id {quote(table['id'][row].as_py())}): {quote(table['path'][row].as_py())}"
        for row in first(rows)
    )
    raise ManifestError(
        f"{len(rows)} of {len(table)} paths of {where} cannot be used: the path {fault}. {shown}. "
        "Paths are stored relative to the manifest's root, or all of them absolute"
    )


def stored_paths(
    table: pa.Table, root: str | None, known_root: str | None
) -> tuple[pa.Table, str | None]:
    """Return `table` with paths as they are stored, and the absolute root they start from.

    A table without paths stays as it is.

    Args:
        table: rows with `id` and `path`; relative paths start at the root, else at the current
            folder.
        root: the root asked for; every path must lie in it. None: `known_root` if every path lies
            in it, else the deepest common folder, else none.
        known_root: the root of the manifest from which the rows came, if any.
    """
    if "path" not in table.column_names:
        return table, None
    base = absolute_place(root or known_root or os.curdir)
    paths = tidy(table["path"].cast(pa.string()), base)
    refuse_passwords(paths)
    archive, addresses = common_archive(paths), bool(pc.any(is_url(paths)).as_py())
    for folder in (root, known_root, archive):
        if folder is None:
            continue
        folder = absolute_place(folder)
        outside = pc.invert(are_below(paths, folder))
        if not pc.any(outside).as_py():
            return with_column(table, "path", below_place(paths, folder)), folder
        if root is not None:
            _refuse(table, outside, "the frame", f"is not in root={quote(folder)}")
    folder = "" if addresses else common_folder(paths)
    return with_column(table, "path", below_place(paths, folder) if folder else paths), (
        folder or None
    )


def refuse_signatures(table: pa.Table) -> None:
    """Raise if an address is signed, as whoever has the manifest would have what it opens."""
    if "path" not in table.column_names or not len(table):
        return
    paths = table["path"].cast(pa.string())
    if not pc.any(pc.match_substring(paths, "?")).as_py():
        return
    signed = rows_where(pc.match_substring_regex(paths, _SIGNED))
    if len(signed):
        row = signed[0].as_py()
        raise ManifestError(
            f"{len(signed):,} of {len(table):,} paths are addresses with a signature or token in "
            f"their query, the first in row {row} (id {quote(table['id'][row].as_py())}): "
            f"{quote(paths[row].as_py())}. Everybody who has the manifest could open them until "
            "they expire: write plain addresses and give the credentials as storage_options=, or "
            "give the frame to dfgen.Sequence as it is"
        )


def tidied(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return paths without `./` and `//`, so that a file has one id; addresses stay as they are.

    Example:
        >>> tidied(pa.chunked_array([["./a//b.png", "a/./b.png", "s3://c//d"]])).to_pylist()
        ['a/b.png', 'a/b.png', 's3://c//d']
    """
    paths = paths.cast(pa.string())
    if not pc.any(pc.match_substring_regex(paths, _DOTTED)).as_py():
        return paths
    spare = pc.replace_substring_regex(paths, r"\A(?:\./+)+", "")
    spare = pc.replace_substring_regex(spare, r"([^/])/(?:\.?/)+", r"\1/")
    return pc.if_else(is_url(paths), paths, spare)


def whole_paths(paths: Any, base: str) -> Any:
    """Return paths of which relative ones, of archives as well, begin at an absolute place.

    One of Windows is relative where there is such a file, as Linux allows the name `C:/a.png`.
    """
    absolute = is_absolute(paths)
    if os.name == "posix":
        odd = paths.filter(absolute)
        odd = odd.filter(pc.match_substring_regex(odd, _OF_WINDOWS)).to_pylist()
        here = [path for path in odd if os.path.lexists(os.path.join(base, path))]
        absolute = pc.and_not(absolute, pc.is_in(paths, value_set=pa.array(here, paths.type)))
    return with_absolute_archives(pc.if_else(absolute, paths, joined(base, paths)), file_of(base))


def tidy(paths: pa.ChunkedArray, base: str) -> pa.ChunkedArray:
    """Make every path absolute (from `base`), `/`-separated, without `.`, `..` and `//`."""
    if os.sep == "\\":
        paths = pc.replace_substring(paths, "\\", "/")
    paths = whole_paths(paths, base)
    untidy = pc.and_(pc.match_substring_regex(paths, _UNTIDY), pc.invert(is_url(paths)))
    if not pc.any(untidy).as_py():
        return paths
    tidied = [posix(os.path.normpath(path)) for path in paths.filter(untidy).to_pylist()]
    return pc.replace_with_mask(
        paths.combine_chunks(), untidy.combine_chunks(), pa.array(tidied, pa.string())
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

    A root that shares nothing with that folder but the top of the file system stays absolute.
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


def reach_of(place: str) -> str:
    """Return the folder that a file may name files of, or a folder that was given, absolute.

    Example:
        >>> reach_of("/data/pets/labels/train.csv"), reach_of("/tmp/train.csv")
        ('/data/pets', '/tmp')
    """
    place = os.path.abspath(file_of(place))
    if os.path.isdir(place) and not is_in_parts(place):
        return place
    own = os.path.dirname(place)
    above = os.path.dirname(own)
    return own if os.path.dirname(above) == above else above


def say_outside(who: str, paths: pa.ChunkedArray, folders: Iterable[str], allow: str) -> None:
    """Warn of paths that lie in none of some folders: absolute ones, and those with `..`.

    Args:
        who: what names them, for the message.
        paths: text; those of folders end in a slash. Addresses are not of this machine.
        folders: absolute.
        allow: what to write where it is meant; `{}` stands for their folder.
    """
    paths = files_of(paths)
    climbing = paths.filter(pc.match_substring(paths, ".."))  # sooner than a pattern
    climbing = climbing.filter(is_upward(climbing))
    for folder in folders:
        below = folder.replace(os.sep, "/").rstrip("/") + "/"
        paths = paths.filter(pc.invert(pc.starts_with(paths, below)))
    paths = paths.filter(pc.and_not(is_absolute(paths), is_url(paths)))
    far = pa.chunked_array([*climbing.chunks, *paths.chunks], paths.type)
    if len(far):
        folder = quote(common_folder(far) or "/")
        warn(
            f"{who} names files in {folder}, which is neither its folder nor the one above. If you "
            f"want that, {allow.format(folder)} says so. Look first if it is not your own: it "
            "may name any file of this machine"
        )
