"""The `dfgen` key of a Parquet file's schema metadata: how it is made, and what it must hold.

It may have been written by anyone. Entries that are not known here are left alone.

The entry `left_out` has files that a manifest leaves out on purpose: `verify` counts them, and does
not call them new. It maps a reason to paths in one text, separated by NUL, which no path holds.
Paths are relative to the root of the manifest, with `..` where they lie elsewhere.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen import __version__
from dfgen.errors import ArgumentError, ManifestError, brief, quote
from dfgen.manifest.building.recipe import all_arguments, portable_recipe
from dfgen.manifest.building.recipe_file import check_recipe
from dfgen.manifest.fingerprint import fingerprint
from dfgen.manifest.path_roots import are_below, below_place, posix
from dfgen.manifest.paths import (
    check_stored_paths,
    portable_root,
    refuse_signatures,
    stored_paths,
    tidy,
)
from dfgen.manifest.schema import KEY, MANIFEST_FORMAT, Label, Metadata, describe_labels, validate
from dfgen.packs.pack_index import INDEX, in_pack, is_in_parts
from dfgen.table.file_columns import are_files

KINDS = ("category", "text", "boolean", "number", "list", "other")
"""The kinds of label columns."""
BOX_FORMAT = "xyxy"
"""How manifests hold boxes: in pixels of the upright image."""

_GROUP = 1 << 27  # bytes of a row group that holds files
_Rules = Mapping[str, tuple[Callable[[Any], bool], str]]  # entry -> its check, what it should be
UNMATCHED = "unmatched"
"""The reason of files without a label, or without an annotation, under `unmatched="drop"`."""
REMOVED = "removed"
"""The reason of files whose rows were in the manifest, until it was written again without them."""


def paths_as_text(paths: Iterable[str], root: str | None) -> str:
    """Return absolute paths as the entry holds them for one reason."""
    column = pa.chunked_array([pa.array(sorted({*paths}), pa.string())])
    if root is None:
        return "\0".join(column.to_pylist())
    below = are_below(column, root)
    outside = column.filter(pc.invert(below)).to_pylist()
    if "://" not in root:
        outside = [one if "://" in one else posix(os.path.relpath(one, root)) for one in outside]
    return "\0".join([*below_place(column.filter(below), root).to_pylist(), *outside])


def paths_left_out(left_out: Mapping[str, str], root: str | None, *reasons: str) -> pa.ChunkedArray:
    """Return the absolute paths of files that are left out, for these reasons or for any."""
    texts = [left_out[reason] for reason in reasons or left_out if left_out.get(reason)]
    names = [name for text in texts for name in text.split("\0")]
    return tidy(pa.chunked_array([pa.array(names, pa.string())]), root or "/")


def with_other_root(
    left_out: Mapping[str, str], old: str | None, new: str | None
) -> dict[str, str]:
    """Return the entry for a manifest with another root."""
    if old == new:
        return dict(left_out)
    texts = {reason: paths_left_out(left_out, old, reason).to_pylist() for reason in left_out}
    return {reason: paths_as_text(paths, new) for reason, paths in texts.items()}


def with_removed(
    known: Mapping[str, Any], paths: pa.ChunkedArray, before: pa.ChunkedArray
) -> dict[str, Any]:
    """Return what a frame says of itself, and which files it no longer has.

    `paths` are its absolute paths, `before` those of the manifest that it replaces.
    """
    left_out = {**known.get("left_out", {})}
    gone = {*before.to_pylist(), *paths_left_out(left_out, known["root"], REMOVED).to_pylist()}
    gone -= {*paths.to_pylist()}
    if gone:
        left_out[REMOVED] = paths_as_text(gone, known["root"])
    return {**known, "left_out": left_out} if left_out else dict(known)


def _are_names(names: Any) -> bool:
    if not isinstance(names, list) or {*map(type, names)} not in (set(), {str}, {int}):
        return False
    return len(set(names)) == len(names)


def _are_leaks(leaks: Any) -> bool:
    examples = leaks.get("examples") if isinstance(leaks, dict) else None
    if not isinstance(examples, list) or not examples or type(leaks.get("rows")) is not int:
        return False
    return all(
        isinstance(one, list) and [type(value) in (int, str) for value in one] == [True] * 4
        for one in examples
    )


_OF_KEY: _Rules = {
    "root": (
        lambda root: root is None or (isinstance(root, str) and bool(root) and "\0" not in root),
        "a folder as text, or null where every path is absolute",
    ),
    "labels": (lambda labels: isinstance(labels, dict), "an object: column -> what it is"),
    "recipe": (
        lambda recipe: recipe is None or isinstance(recipe, dict),
        "an object: the arguments that built it, or null",
    ),
    "created_by": (lambda text: isinstance(text, str), "a text"),
    "fingerprint": (
        lambda text: isinstance(text, str) and re.fullmatch("[0-9a-f]{32}", text) is not None,
        "32 hexadecimal digits",
    ),
    "left_out": (
        lambda paths: isinstance(paths, dict) and {*map(type, paths.values())} <= {str},
        "an object: reason -> paths separated by NUL",
    ),
    "leaks": (_are_leaks, "an object: rows, and examples of id and split, and those of its copy"),
}
_OF_LABEL: _Rules = {
    "kind": (lambda kind: kind in KINDS, f"one of {', '.join(map(quote, KINDS))}"),
    "class_names": (_are_names, "a list of texts or of whole numbers, each once"),
    "ordered": (lambda ordered: isinstance(ordered, bool), "true or false"),
    "corrected": (lambda corrected: isinstance(corrected, bool), "true or false"),
    "box_format": (lambda boxes: boxes == BOX_FORMAT, quote(BOX_FORMAT)),
}


def decode_metadata(schema_metadata: dict[bytes, bytes] | None, path: str) -> Metadata:
    """Return the parsed `dfgen` key of the Parquet file `path`, checked."""
    text = (schema_metadata or {}).get(KEY)
    if text is None and is_in_parts(os.path.dirname(path)):
        raise ManifestError(f"{path} is a part of the manifest {os.path.dirname(path)}: give that")
    if text is None:
        raise ManifestError(
            f'{path} is a Parquet file but not a manifest: its schema metadata has no "dfgen" key. '
            "Read it with pandas.read_parquet and save it with dfgen.write_manifest, root= the "
            "folder where its paths begin, or build a manifest from it: dfgen build-manifest "
            "--labels TABLE --path-column COLUMN --out M"
        )
    try:
        metadata: Metadata = json.loads(text)
        version = metadata["format"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ManifestError(
            f'{path}: the "dfgen" key of the schema metadata is not a JSON object with a "format". '
            "The file was changed by another program, or is damaged: build it again"
        ) from None
    if type(version) is not int or version != MANIFEST_FORMAT:
        raise ManifestError(
            f"{path} has manifest format {version!r}; this dfgen reads format {MANIFEST_FORMAT}. "
            "Upgrade dfgen, or build the manifest again with this version"
        )
    missing = [name for name in Metadata.__annotations__ if name in Metadata.__required_keys__]
    missing = [name for name in missing if name not in metadata]
    if missing:
        raise ManifestError(
            f'{path}: the "dfgen" key of the schema metadata lacks {", ".join(missing)}. '
            "manifests/README.md lists its content"
        )
    check_metadata(metadata, f'{path}, the "dfgen" key of its schema metadata')
    return metadata


def metadata_of_pack(
    content: Mapping[str, Any], folder: str, advice: str = "Pack again"
) -> Metadata:
    """Return the metadata that a pack keeps of its manifest, or one in parts, checked."""
    path = in_pack(folder, INDEX)
    missing = sorted(Metadata.__required_keys__ - content.keys())
    if missing:
        raise ManifestError(f"{path} is damaged: its dfgen lacks {', '.join(missing)}. {advice}")
    metadata: Metadata = {**content}  # type: ignore[typeddict-item]
    check_metadata(metadata, f"{path}, its dfgen")
    return metadata


def check_metadata(metadata: Metadata, where: str) -> None:
    """Raise a ManifestError if an entry is not what it should be; `where` it is, for messages."""
    _check(metadata, _OF_KEY, "", where)
    for name, label in metadata["labels"].items():
        place = f"labels[{quote(name)}]"
        if not isinstance(label, dict):
            raise _wrong(where, place, label, 'an object with a "kind"')
        _check({"kind": None, **label}, _OF_LABEL, place, where)
        if label["kind"] == "category" and "class_names" not in label:
            raise _wrong(where, f'{place}["class_names"]', None, "those of the category, as a list")
    known, recipe = all_arguments(), metadata["recipe"] or {}
    try:
        check_recipe({key: value for key, value in recipe.items() if key in known}, "recipe")
    except ArgumentError as error:
        raise ManifestError(f"{where}: {error}") from None


def _check(entries: Mapping[str, Any], rules: _Rules, within: str, where: str) -> None:
    for name, (fits, expected) in rules.items():
        if name in entries and not fits(entries[name]):
            raise _wrong(
                where, f"{within}[{quote(name)}]" * bool(within) or name, entries[name], expected
            )


def _wrong(where: str, entry: str, found: Any, expected: str) -> ManifestError:
    return ManifestError(f"{where}: {entry} is {brief(found)}, expected {expected}")


def as_written(
    table: pa.Table,
    known: Mapping[str, Any],
    folder: str,
    root: os.PathLike[str] | str | None = None,
) -> tuple[pa.Table, Metadata]:
    """Return a table as it stands in a manifest file of a folder, with its metadata in the schema.

    `known` is its `df.attrs["dfgen"]`, or what a manifest file says of itself; `root` is as of
    `write_manifest`.
    """
    table, absolute_root = with_stored_paths(table, known, root)
    labels, digest = describe_labels(table, known.get("labels")), fingerprint(table)
    metadata = metadata_of(labels, digest, known, absolute_root, folder)
    text = json.dumps(metadata, ensure_ascii=False).encode()
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), KEY: text})
    return table, metadata


def with_stored_paths(
    table: pa.Table, known: Mapping[str, Any], root: os.PathLike[str] | str | None = None
) -> tuple[pa.Table, str | None]:
    """Return a table, checked, with paths as they are stored, and the absolute root of these."""
    validate(table, "the frame")
    _refuse_odd_categories(table)
    refuse_signatures(table)
    given = None if root is None else str(root)
    table, absolute_root = stored_paths(table, given, known.get("root"))
    check_stored_paths(table, absolute_root, "the frame")
    return table, absolute_root


def metadata_of(
    labels: dict[str, Label], digest: str, known: Mapping[str, Any], root: str | None, folder: str
) -> Metadata:
    """Return the metadata of a manifest of a folder, checked; `digest` is its fingerprint."""
    metadata: Metadata = {
        "format": MANIFEST_FORMAT,
        "root": portable_root(root, folder),
        "labels": labels,
        "recipe": portable_recipe(known.get("recipe"), folder),
        "created_by": f"dfgen {__version__}",
        "fingerprint": digest,
    }
    if known.get("leaks"):
        metadata["leaks"] = known["leaks"]
    if known.get("left_out"):
        metadata["left_out"] = with_other_root(known["left_out"], known.get("root"), root)
    check_metadata(metadata, 'df.attrs["dfgen"] of the frame')
    return metadata


def _refuse_odd_categories(table: pa.Table) -> None:
    """Refuse categories that Parquet lacks, also in columns that are no label."""
    for field in table.schema:
        if isinstance(getattr(field.type, "value_type", None), pa.BaseExtensionType):
            raise ManifestError(
                f'column "{field.name}" of the frame has {field.type.value_type} as categories, '
                f'expected text or whole numbers: df["{field.name}"] = df["{field.name}"]'
                ".cat.rename_categories(str)"
            )


def rows_of_group(table: pa.Table) -> int | None:
    """Return the rows of a row group where a table holds files, else None: Arrow's default."""
    if not any(map(are_files, table.schema.types)) or not len(table):
        return None
    return max(1, _GROUP * len(table) // max(1, int(table.nbytes)))
