"""Build a manifest: what callers give, and what they are told; `run_recipe` does it."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Never

import pandas as pd

from dfgen.errors import ArgumentError, brief, legible
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.pipeline import run_recipe
from dfgen.manifest.building.recipe import all_arguments
from dfgen.manifest.building.recipe_file import resolve
from dfgen.manifest.building.summary import lines_of_skipped, problem_lines
from dfgen.manifest.io import Path
from dfgen.manifest.row_matching import read_old
from dfgen.manifest.schema import quote
from dfgen.manifest.sources.file_tree import NO_FIT
from dfgen.manifest.sources.source import NAMES, Argument
from dfgen.manifest.splitting.split_rules import Splitting
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.system import whole
from dfgen.table.any_table import Table

_WANTED = {str: "text", int: "a whole number", list: "a list", dict: "a dict by split"}
_ADVICE = {
    "source": ". It is the folder of the files. A frame with id and path is a manifest already: "
    "dfgen.Sequence(df); so is one of paths in hand: "
    'dfgen.Sequence(pandas.DataFrame({"id": range(len(paths)), "path": paths})). A table that '
    "names files goes into labels= with path_column=, one of labels into labels= with on=, beside "
    "the folder",
    "pattern": ', as in "{kind}/{id}.jpg": fields in braces become columns',
}
"""Argument -> what to do where it has another type."""
_CHECKED_ELSEWHERE = {"labels", "on", *(field.name for field in fields(Splitting))}

OfSplits = Path | Sequence[Path] | Mapping[str, Path | Sequence[Path]]
"""One file, several, or those of each split."""


def build_manifest(
    source: Path | None = None,
    *,
    voc: Path | None = None,
    coco: OfSplits | None = None,
    yolo: Path | None = None,
    metadata: Path | None = None,
    listing: Path | None = None,
    arrays: Path | Sequence[Path] | None = None,
    images: Path | Mapping[str, Path] | None = None,
    box_label: str | None = None,
    class_names: str | Sequence[str] = (),
    pattern: str | None = None,
    labels: Path | Table | None = None,
    on: str | None = None,
    path_column: str | None = None,
    root: Path | None = None,
    id: str | None = None,
    category: str | Sequence[str] = (),
    label: str | Sequence[str] = (),
    unmatched: str | None = None,
    facts: str | None = None,
    split: Mapping[str, float] | None = None,
    folds: int | None = None,
    stratify: str | None = None,
    group: str | None = None,
    order: str | None = None,
    group_duplicates: bool | None = None,
    seed: int | None = None,
    update: Path | None = None,
    out: Path | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Build a manifest from a folder of files, a table of labels, or annotations.

    Use it once for a data set, then `read_manifest` what it wrote. `dfgen build-manifest` does the
    same job. manifests/README.md shows the smallest tree of each source.

    Args:
        source: a folder, or the URL of one, `"s3://bucket/imgs"`, or a zip or tar archive,
            `"photos.zip"`, `"zip://train::photos.zip"`; every image, array or sound below it
            becomes a row. Or a recipe, a .toml file that holds such arguments: those given here
            replace its own. Or leave it out, and give one of the six that follow.
        voc: folder of Pascal VOC's or ImageNet's XML files; needs `images`.
        coco: a JSON file of COCO; several of the same images in a list; those of each split as
            `{"train": ..., "val": ...}`.
        yolo: the data.yaml of Ultralytics, or the folder of a classification set.
        metadata: Hugging Face's metadata.csv, .jsonl or .parquet, or the folder that has one, or
            one in the folder of each split.
        listing: a table of paths and sizes, or the manifest.json of an S3 Inventory, in place of
            a folder: nothing is listed again.
        arrays: a .npy or HDF5 file, or several; each row along the first axis becomes a row.
        images: the folder of the images of `voc` or `coco`; of `coco` also one a split. Default
            for `coco`: the folder of the JSON file.
        box_label: what the column `label` of `voc` holds: the class of the `"largest"` box
            (`background` where there is none; the default) or of the `"first"`, the list of
            `"all"` classes, or with `"each"` one row a box and its class.
        class_names: classes of `voc` in the order of their numbers, or one; default: sorted.
        pattern: what a path below the folder looks like, `"{kind}/{shard}/{id}.jpg"`: fields
            become columns, `{id:int}` a column of whole numbers. Files that it does not fit are
            left out with a warning, as are hidden files and those of other kinds.
        labels: a label table: a DataFrame, whatever has `__arrow_c_stream__`, or a .csv, .tsv,
            .jsonl or .parquet file.
        on: `"FIELD=COLUMN"`, how files find their row of labels. FIELD is a field of the pattern,
            `name` (a.jpg), `stem` (a) or `relpath` (cats/a.jpg); COLUMN is the table's, by default
            of the same name. Both are compared as text.
        path_column: the column of the label table that names the files, or holds them (bytes, or
            structs of `bytes` and `path`), instead of a folder.
        root: folder where relative paths start: of the path column (default: the table's folder),
            and of the paths as the manifest stores them (default: the source). It may be a URL.
        id: the column of unique ids. Default: the pattern's `{id}`, else the table's `id`, else
            the path below the folder, with its extension.
        category: the columns of whole numbers that are classes, or one. Text and booleans are by
            themselves.
        label: the columns to keep as labels, or one; default: all.
        unmatched: files without labels or annotation, and the reverse: `"error"`, `"keep"` or
            `"drop"`. Default: `"error"`.
        facts: `"header"` (the default) reads size, time and header of every file; `"none"` reads
            nothing; `"full"` decodes every file once, which finds broken ones, and adds `digest`
            and `phash`, by which copies are found.
        split: split -> share, as in `{"train": 0.8, "val": 0.2}`.
        folds: instead of splits make so many folds for cross-validation, the column `fold`.
        stratify: the column whose classes get exactly these shares.
        group: the column whose groups stay whole.
        order: a column of dates, times or numbers: the earliest rows are the first split. See
            `split`.
        group_duplicates: keep copies of a picture in one split; needs `facts="full"`. See `split`.
        seed: another seed gives another split; default: 0.
        update: an older manifest that grows: only new or changed files are opened, old rows keep
            id, split and class numbers, new rows follow. Arguments left out are those of its
            recipe, unless the source is of another kind.
        out: also write the manifest to this file.
        workers: threads that read headers; None: as many as this process may use CPUs, 64 for URLs.
        limits: `dfgen.Limits`: what one file may ask for, of tables and annotations too.
        storage_options: what opens URLs, as `{"region": "eu-central-1"}`; see `Sequence`. It is
            kept nowhere: neither in the manifest nor in its recipe.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        One row a file: `id`, `path` (absolute), labels, `split`, facts. A file with a fault keeps
        its row, and `problem` says what is wrong. What is left out, or has a problem, is counted
        in warnings.

    Raises:
        ArgumentError: arguments that cannot be together.
        MissingFileError: no such folder or table, or none of the files exists.
        ManifestError: files and labels do not match, ids are repeated, ...
        WriteError: `out` cannot be written.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = build_manifest("imgs", pattern="{kind}/{id}.jpg")  # doctest: +SKIP
    """
    asked = locals()
    refuse_unknown(build_manifest, unknown)
    if workers is not None:
        whole("workers", workers)
    given = {
        name: _plain(name, asked[name], item)
        for name, item in all_arguments().items()
        if name in asked
    }
    limits, options = limits_given(limits), StorageOptions(storage_options)
    old = None if update is None else read_old(update, limits, options)
    recipe = resolve(given, old.recipe if old else None, old.name if old else "", limits)
    target = None if out is None else os.fspath(out)
    frame, report = run_recipe(recipe, target, workers, old, limits, options)
    if report.skipped:
        widen = recipe.pattern and NO_FIT in report.skipped
        advice = f"Widen the pattern {quote(recipe.pattern)}, or move" if widen else "Move"
        lines = [*lines_of_skipped(report.skipped), f"{advice} elsewhere what is not a sample."]
        warnings.warn(legible("\n".join(lines), 1_000), stacklevel=2)
    if problems := problem_lines(frame):
        problems.append('They keep their rows: df[df["problem"].notna()].')
        warnings.warn(legible("\n".join(problems), 1_000), stacklevel=2)
    dropped = report.notes if recipe.unmatched == "drop" else ()
    for warning in (*dropped, *report.warnings):
        warnings.warn(legible(warning, 1_000), stacklevel=2)
    return frame


def _plain(name: str, value: Any, argument: Argument) -> Any:
    """Return paths as text, in lists and dicts too, and one name as a tuple of it."""
    value = _texts(value) if argument.is_path else value
    if name not in _CHECKED_ELSEWHERE:
        _check_type(name, value, argument)
    if argument.accepts == NAMES and value is not None:
        return (value,) if isinstance(value, str) else tuple(value)
    return value


def _check_type(name: str, value: Any, argument: Argument) -> None:
    accepts = (str, list, tuple) if argument.accepts == NAMES else argument.accepts
    fits = isinstance(value, accepts) and not isinstance(value, bool)
    if not (value is None or argument.choices or fits):
        wanted = " or ".join(_WANTED[kind] for kind in argument.accepts)
        raise ArgumentError(f"{name}={brief(value)}: expected {wanted}{_ADVICE.get(name, '')}")


def _texts(paths: Any) -> Any:
    if isinstance(paths, Mapping):
        return {name: _texts(value) for name, value in paths.items()}
    if isinstance(paths, list | tuple):
        return [_texts(path) for path in paths]
    return os.fspath(paths) if isinstance(paths, os.PathLike) else paths
