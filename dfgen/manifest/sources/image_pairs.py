"""Images in one tree and annotations in another: partners have the same relative path."""

import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, MissingFileError, quote
from dfgen.manifest.mismatch import JoinSide, check_partners
from dfgen.manifest.paths import absolute_place
from dfgen.manifest.sources.file_tree import Pattern, Skipped, files_below, list_files
from dfgen.progress_bars import progress

_ROWS_A_TABLE = 4096
_Item = TypeVar("_Item")


class Pair(NamedTuple):
    """The paths of an image and of its annotation; None if there is no such file."""

    image: str | None
    annotation: str | None


class Listing(NamedTuple):
    """Relative paths, and the fields of the pattern of each image without extension."""

    images: list[str]
    annotations: list[str]
    fields: dict[str, dict[str, str]]


def without_suffix(path: str) -> str:
    """Return a path without its extension."""
    return posixpath.splitext(path)[0]


def list_pairs(
    images: str, annotations: str, suffix: str, skipped: Skipped, pattern: Pattern | None = None
) -> Listing:
    """Return the files in two folders; other files are skipped, by their absolute paths."""
    others = (Skipped(list), Skipped(list))
    table = files_below(images, pattern, others[0])
    files, texts = table["path"].to_pylist(), list_files(annotations, (suffix,), others[1])
    folders = (absolute_place(images), os.path.abspath(annotations))
    taken = {f"{folders[0]}/{path}" for path in files}
    taken |= {f"{folders[1]}/{path}" for path in texts.to_pylist()}
    left = dict[str, str]()
    for folder, reasons in zip(folders, others, strict=True):
        left |= {f"{folder}/{path}": why for why, paths in reasons.items() for path in paths}
    for path, reason in left.items():
        if path not in taken:  # both may share one tree
            skipped[reason].append(path)
    rows = [] if pattern is None else table.to_pylist()
    return Listing(files, texts.to_pylist(), {without_suffix(row.pop("path")): row for row in rows})


def pair(
    listing: Listing, folders: tuple[str, str], suffix: str, unmatched: str, bare: bool = False
) -> list[Pair]:
    """Pair `a/b.jpg` with `a/b.xml`, in the order of the images.

    Kept annotations without an image come last. `bare` images without annotation are no fault.
    """
    by_key = {without_suffix(path): path for path in listing.annotations}
    keys = [without_suffix(path) for path in listing.images]
    _refuse_same_name(listing.images, folders[0])
    _refuse_same_name(listing.annotations, folders[1])
    left, right = (pa.chunked_array([[*names]], pa.string()) for names in (keys, by_key))
    alone = pc.and_(pc.invert(pc.is_in(left, value_set=right)), not bare)
    lost = pc.invert(pc.is_in(right, value_set=left))
    sides = (
        JoinSide(left, alone, f"images have no {suffix} file"),
        JoinSide(right, lost, f"{suffix} files have no image"),
    )
    pairs = [Pair(path, by_key.get(key)) for path, key in zip(listing.images, keys, strict=True)]
    title = (
        f"images in {quote(folders[0])} and {suffix} files in {quote(folders[1])} do not match by "
        "their relative paths."
    )
    check_partners(unmatched, title, *sides, paths=True)
    if unmatched == "drop":
        return [each for each in pairs if bare or each.annotation is not None]
    known = set(keys)
    return pairs + [Pair(None, path) for key, path in by_key.items() if key not in known]


def _refuse_same_name(paths: Sequence[str], folder: str) -> None:
    seen: dict[str, str] = {}
    for path in paths:
        first = seen.setdefault(without_suffix(path), path)
        if first != path:
            raise ManifestError(
                f"two files in {quote(folder)} have the same name, {quote(first)} and "
                f"{quote(path)}, so partners are not clear. Rename one, and its partner"
            )


def table_of(
    items: Sequence[_Item], row_of: Callable[[_Item], Mapping[str, Any]], schema: pa.Schema
) -> pa.Table:
    """Return the rows of items as a table; not all rows are Python objects at the same time."""
    parts = [schema.empty_table()]
    with progress(len(items), "Reading annotations", " files") as bar:
        for start in range(0, len(items), _ROWS_A_TABLE):
            part = items[start : start + _ROWS_A_TABLE]
            parts.append(pa.Table.from_pylist([dict(row_of(item)) for item in part], schema))
            bar.update(len(part))
    return pa.concat_tables(parts)


class Annotations:
    """Reads annotations; a broken one is a problem of its row, unless all are broken."""

    def __init__(self) -> None:
        self._read, self._problems = 0, list[str]()

    def read(self, read: Callable[[], _Item]) -> tuple[_Item | None, str | None]:
        """Return what `read` returns, or None and the problem."""
        self._read += 1
        try:
            return read(), None
        except (ManifestError, MissingFileError) as error:
            self._problems.append(str(error))
            return None, str(error)

    def check(self) -> None:
        """Raise if all annotations are broken."""
        if self._problems and len(self._problems) == self._read:
            many = f"None of the {self._read} annotations can be used. The first: "
            raise ManifestError(many * (self._read > 1) + self._problems[0])
