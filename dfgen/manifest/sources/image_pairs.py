"""Images in one tree and annotations in another: each finds its partner by its relative path."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, quote
from dfgen.manifest.building.join_messages import Lonely, Words, join_fault, what_became
from dfgen.manifest.building.key_causes import CAUSES, Cause, JoinKeys
from dfgen.manifest.sources.file_tree import Skipped, list_files, read_files
from dfgen.manifest.sources.path_pattern import Pattern

Pair = tuple[str | None, str | None]
"""The paths of an image and of its annotation; None where there is no such file."""

IMAGES_A_GROUP = 4096
Given = TypeVar("Given")
VANISHED = "{} vanished while the folder was read. Build again when nothing changes it"
_SUFFIX = re.compile(r"\.[^./]*\Z")
_CAUSES = (
    *(cause for cause in CAUSES if cause.name in ("case", "Unicode form")),
    Cause(
        "directory",
        "give the two folders below which the paths are the same",
        lambda keys: pc.replace_substring_regex(keys, r"(?s)^.*/", ""),
    ),
)


class Listing(NamedTuple):
    """The relative paths of images and annotations, and what is neither, with its folder."""

    images: list[str]
    annotations: list[str]
    skipped: Skipped
    fields: dict[str, dict[str, str]]  # image without extension -> the fields of the pattern


def list_pairs(
    images: str, annotations: str, suffix: str, pattern: Pattern | None = None
) -> Listing:
    """Return what lies in two folders; images that a pattern does not fit are skipped."""
    paths, others, fields = list[str](), dict[str, str](), dict[str, dict[str, str]]()
    for group in read_files(images, pattern):
        paths += group.rows["path"].to_pylist()
        if pattern is not None:
            rows = group.rows.to_pylist()
            fields |= {without_suffix(row.pop("path")): row for row in rows}
        others |= _by_path(images, group.skipped)
    found, strangers = list_files(annotations, suffix)
    others |= _by_path(annotations, strangers)
    for folder, names in ((images, paths), (annotations, found)):  # which may share one tree
        for name in names:
            others.pop(f"{folder}/{name}", None)
    skipped = Skipped(list)
    for path, reason in others.items():
        skipped[reason].append(path)
    return Listing(paths, found, skipped, fields)


def schema_with(schema: pa.Schema, pattern: Pattern | None, source: str) -> pa.Schema:
    """Return columns with those of a pattern, which must have names of their own."""
    for name in pattern.fields if pattern else ():
        if name in schema.names:
            raise ArgumentError(
                f"pattern= has the field {{{name}}}, and {source}= makes a column of that name: "
                "call the field otherwise"
            )
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def _by_path(folder: str, skipped: Mapping[str, list[str]]) -> dict[str, str]:
    return {f"{folder}/{path}": reason for reason, paths in skipped.items() for path in paths}


def pair(
    images: list[str],
    annotations: list[str],
    folders: tuple[str, str],
    unmatched: str,
    bare: bool = False,
) -> tuple[list[Pair], tuple[str, ...], tuple[str, ...]]:
    """Pair `a/b.jpg` with `a/b.xml`; return notes on what was kept or dropped, and dropped images.

    The pairs are in the order of the images, then come the kept annotations without an image.
    `folders` are those where the relative paths start, for messages; `bare` images are those
    without annotation, on which there is nothing.
    """
    by_key = {without_suffix(path): path for path in annotations}
    keys = [without_suffix(path) for path in images]
    _refuse_same_name(images, "images", folders[0])
    _refuse_same_name(annotations, "annotations", folders[1])
    pairs: list[Pair] = [(path, by_key.get(key)) for path, key in zip(images, keys, strict=True)]
    known = set(keys)
    without_image = [path for key, path in by_key.items() if key not in known]
    without_annotation = 0 if bare else sum(annotation is None for _, annotation in pairs)
    suffix = os.path.splitext(annotations[0])[1] if annotations else "annotation"
    if unmatched == "error" and (without_image or without_annotation):
        raise ManifestError(_no_partner(keys, list(by_key), folders, suffix, bare))
    dropped: tuple[str, ...] = ()
    if unmatched == "drop":
        dropped = tuple(image for image, text in pairs if image and not (bare or text))
        pairs = [both for both in pairs if bare or both[1] is not None]
    else:
        pairs += [(None, path) for path in without_image]
    lonely = Lonely(without_annotation, len(keys), "image", f"without {suffix} file")
    lost = Lonely(len(without_image), len(by_key), f"{suffix} file", "without image")
    return pairs, what_became(unmatched, lonely, lost), dropped


def in_groups(
    pairs: Sequence[Given],
    rows_of: Callable[[Given, list[str]], list[dict[str, Any]]],
    schema: pa.Schema,
    annotations: int,
) -> Iterator[pa.Table]:
    """Yield the rows of images, some thousand at a time.

    `rows_of` makes those of a pair, and adds what is wrong with its annotation to the problems.
    Some that are broken keep their rows; if all are, something else is wrong.
    """
    problems = list[str]()
    for start in range(0, len(pairs), IMAGES_A_GROUP):
        part = pairs[start : start + IMAGES_A_GROUP]
        rows = [row for both in part for row in rows_of(both, problems)]
        yield pa.Table.from_pylist(rows, schema)
    refuse_all_broken(problems, annotations, "annotations")


def refuse_all_broken(problems: Sequence[str], total: int, noun: str) -> None:
    """Raise if each of so many annotations has a problem."""
    if problems and len(problems) == total:
        many = f"None of the {total} {noun} can be used. The first: " * (total > 1)
        raise ManifestError(many + problems[0])


def without_suffix(path: str) -> str:
    """Return a path without the extension of its file."""
    return _SUFFIX.sub("", path)


def _refuse_same_name(paths: list[str], noun: str, folder: str) -> None:
    seen: dict[str, str] = {}
    for path in paths:
        first = seen.setdefault(without_suffix(path), path)
        if first != path:
            raise ManifestError(
                f"two {noun} in {quote(folder)} have one name, {quote(first)} and {quote(path)}, "
                "so that it cannot be told what belongs to which. Rename one, and its partner"
            )


def _no_partner(
    keys: list[str], annotated: list[str], folders: tuple[str, str], suffix: str, bare: bool
) -> str:
    left, right = (pa.chunked_array([names], pa.string()) for names in (keys, annotated))
    words = Words(
        f"images in {quote(folders[0])} and {suffix} files in {quote(folders[1])} do not match "
        "by their relative paths.",
        f"images have no {suffix} file",
        f"{suffix} files have no image",
        ("images", f"{suffix} files"),
    )
    lonely = pc.and_(pc.invert(pc.is_in(left, value_set=right)), not bare)
    right_lonely = pc.invert(pc.is_in(right, value_set=left))
    return join_fault(JoinKeys(left, lonely), JoinKeys(right, right_lonely), words, _CAUSES)
