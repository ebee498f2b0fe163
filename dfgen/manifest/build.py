"""Build a manifest: source, join, facts, split, write."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError
from dfgen.manifest.boxes import place_boxes
from dfgen.manifest.categories import to_categories, to_category
from dfgen.manifest.facts import PANDAS_TYPES, read_facts
from dfgen.manifest.io import Path, attributes, check_folder, write_manifest
from dfgen.manifest.paths import is_url, stored_paths, tidy, with_paths
from dfgen.manifest.recipe import Recipe
from dfgen.manifest.rows import Rows, gather_rows
from dfgen.manifest.schema import (
    FACTS,
    describe_labels,
    label_columns,
    quote,
    validate,
)
from dfgen.manifest.sources.files import NO_FIT
from dfgen.manifest.splits import assign_splits, lacking_rows
from dfgen.manifest.summary import Report, left_out

Files = Path | Sequence[Path] | Mapping[str, Path | Sequence[Path]]
"""One file, several, or those of each split."""


def build_manifest(
    source: Path | None = None,
    *,
    voc: Path | None = None,
    coco: Files | None = None,
    yolo: Path | None = None,
    metadata: Path | None = None,
    listing: Path | None = None,
    arrays: Path | Sequence[Path] | None = None,
    images: Path | Mapping[str, Path] | None = None,
    box_label: str = "largest",
    class_names: str | Sequence[str] = (),
    pattern: str | None = None,
    labels: Path | pd.DataFrame | None = None,
    on: str | None = None,
    path_column: str | None = None,
    root: Path | None = None,
    id: str | None = None,
    category: str | Sequence[str] = (),
    label: str | Sequence[str] = (),
    unmatched: str = "error",
    facts: str = "header",
    split: Mapping[str, float] | None = None,
    stratify: str | None = None,
    group: str | None = None,
    seed: int = 0,
    out: Path | None = None,
    workers: int | None = None,
) -> pd.DataFrame:
    """Build a manifest from a folder of files, a table of labels, or annotations.

    Use it once for a data set, then `read_manifest` what it wrote. `dfgen build-manifest` does the
    same job. manifests/README.md shows the smallest tree of each source.

    Args:
        source: A folder; every image or array below it becomes a row. Or, instead of it, one of:
        voc: Folder of Pascal VOC's or ImageNet's XML files; needs `images`.
        coco: A JSON file of COCO; several of the same images in a list; those of each split as
            `{"train": ..., "val": ...}`.
        yolo: The data.yaml of Ultralytics, or the folder of a classification set.
        metadata: Hugging Face's metadata.csv, .jsonl or .parquet, or the folder that has one, or
            one in the folder of each split.
        listing: A table of paths and sizes, or the manifest.json of an S3 Inventory, in place of
            a folder: nothing is listed again.
        arrays: A .npy or HDF5 file, or several; each row along the first axis becomes a row.
        images: The folder of the images of `voc` or `coco`; of `coco` also one a split. Default
            for `coco`: the folder of the JSON file.
        box_label: What the column `label` of `voc` holds: the class of the `"largest"` box
            (`background` where there is none) or of the `"first"`, the list of `"all"` classes, or
            with `"each"` one row a box and its class.
        class_names: Classes of `voc` in the order of their numbers, or one; default: sorted.
        pattern: What a path below the folder looks like, `"{kind}/{shard}/{id}.jpg"`: fields
            become columns, `{id:int}` a column of whole numbers. Files that it does not fit are
            left out with a warning, as are hidden files and those of other kinds.
        labels: A label table: a DataFrame, or a .csv, .tsv, .jsonl or .parquet file.
        on: `"FIELD=COLUMN"`, how files find their row of labels. FIELD is a field of the pattern,
            `name` (a.jpg), `stem` (a) or `relpath` (cats/a.jpg); COLUMN is the table's, by default
            of the same name. Both are compared as text.
        path_column: The column of the label table that names the files, instead of a folder.
        root: Folder where relative paths start: of the path column (default: the table's folder),
            and of the paths as the manifest stores them (default: the source).
        id: The column of unique ids. Default: the pattern's `{id}`, else the table's `id`, else
            the path below the folder, with its extension.
        category: The columns of whole numbers that are classes, or one. Text and booleans are by
            themselves.
        label: The columns to keep as labels, or one; default: all.
        unmatched: Files without labels or annotation, and the reverse: `"error"`, `"keep"` or
            `"drop"`.
        facts: `"header"` reads size, time and header of every file; `"none"` reads nothing.
        split: Split -> share, as in `{"train": 0.8, "val": 0.2}`.
        stratify: The column whose classes get exactly these shares.
        group: The column whose groups stay whole.
        seed: Another seed gives another split.
        out: Also write the manifest to this file.
        workers: Threads that read headers; None: as many as this process may use CPUs.

    Returns:
        One row a file: `id`, `path` (absolute), labels, `split`, facts. A file with a fault keeps
        its row, and `problem` says what is wrong.

    Raises:
        ArgumentError: Arguments that cannot be together.
        MissingFileError: No such folder or table.
        ManifestError: Files and labels do not match, ids are repeated, ...
        WriteError: `out` cannot be written.

    Example:
        >>> df = build_manifest("imgs", pattern="{kind}/{id}.jpg")  # doctest: +SKIP
    """
    recipe = Recipe(
        source=_text(source),
        voc=_text(voc),
        coco=_texts(coco),
        yolo=_text(yolo),
        metadata=_text(metadata),
        listing=_text(listing),
        arrays=_texts(arrays),
        images=_texts(images),
        box_label=box_label,
        class_names=_names(class_names),
        pattern=pattern,
        labels=labels if isinstance(labels, pd.DataFrame) else _text(labels),
        on=on,
        path_column=path_column,
        root=_text(root),
        id=id,
        category=_names(category),
        label=_names(label),
        unmatched=unmatched,
        facts=facts,
        split=split,
        stratify=stratify,
        group=group,
        seed=seed,
    )
    frame, report = build(recipe, _text(out), workers)
    if report.skipped:
        widen = pattern and NO_FIT in report.skipped
        advice = f"Widen the pattern {quote(pattern)}, or move" if widen else "Move"
        lines = [*left_out(report), f"{advice} elsewhere what is no sample."]
        warnings.warn("\n".join(lines), stacklevel=2)
    for warning in report.warnings:
        warnings.warn(warning, stacklevel=2)
    return frame


def build(
    recipe: Recipe, out: str | None = None, workers: int | None = None
) -> tuple[pd.DataFrame, Report]:
    """Build the manifest of a recipe; return it with a report of what was left out or is amiss.

    `build_manifest` turns the warnings of the report into Python's, the command prints them.
    """
    if out is not None:
        check_folder(out)
    rows = gather_rows(recipe)
    if _are_relative(rows) and recipe.facts == "none":
        raise ArgumentError(
            "YOLO's boxes are shares of the image: its size is needed to make pixels of them. "
            'Leave facts="none" (--facts none) out.'
        )
    if not len(rows.table):
        raise ManifestError(
            "The manifest would have no rows: the source or the label table is empty, or no file "
            "has a row in it. Check labels= and on=, and see with "
            + "\n".join(['unmatched="error" what does not match.', *left_out(Report(rows.skipped))])
        )
    table = to_categories(rows.table, recipe.category, rows.labels)
    validate(table, "the manifest")
    labels = describe_labels(table, rows.labels)
    table = with_paths(table, tidy(table["path"].cast(pa.string()), rows.folder))
    _, root = stored_paths(table, recipe.root, rows.folder)
    frame = _settle(replace(rows, table=table), _facts(table, recipe, workers))
    if recipe.split is not None:
        frame["split"] = _split(frame, recipe)
    ordered = _order(list(frame.columns), recipe)
    kept = {name: labels[name] for name in label_columns(ordered)}
    lacking: tuple[str, ...] = ()
    if "split" in frame:
        lacking = _lacking(frame, list(kept), recipe)
    frame = frame[ordered]
    if "boxes" in kept:
        kept["boxes"]["box_format"] = "xyxy"
    frame.attrs = {"dfgen": attributes(root, kept, recipe.arguments())}
    if out is not None:
        write_manifest(frame, out, recipe.root)
    return frame, Report(rows.skipped, rows.notes, lacking)


def _settle(rows: Rows, facts: pa.Table | None) -> pd.DataFrame:
    """Place the boxes, add the facts, and gather what is wrong with each row."""
    table = rows.table
    problems = [table["problem"]] if "problem" in table.column_names else []
    problems += [facts["problem"]] if facts else []
    if "box_format" in rows.labels.get("boxes", {}):  # a column of the user's may be called so
        table, faults = place_boxes(table, facts, _are_relative(rows))
        problems.append(pa.chunked_array([faults]))
    frame: pd.DataFrame = table.to_pandas()
    if facts is not None:
        frame = frame.drop(columns=[name for name in facts.column_names if name in frame])
        frame = pd.concat([frame, facts.to_pandas(types_mapper=PANDAS_TYPES.get)], axis=1)
    if facts is not None or any(len(part) > part.null_count for part in problems):
        frame["problem"] = pc.coalesce(*problems).to_pandas()
    return frame


def _are_relative(rows: Rows) -> bool:
    """Say whether the source gives boxes relative to the size of the image."""
    return rows.labels.get("boxes", {}).get("box_format") == "rel_xyxy"


def _facts(table: pa.Table, recipe: Recipe, workers: int | None) -> pa.Table | None:
    """Return the facts of each row's file; several rows may share one."""
    if recipe.facts == "none":
        return None
    addresses = table["path"].filter(is_url(table["path"]))
    if len(addresses):
        raise ArgumentError(
            f"{addresses[0]} is an address, which dfgen does not open to read headers. Give "
            'facts="none" (--facts none), or with root= (--root) the folder where the files are '
            "mounted."
        )
    paths = table["path"].combine_chunks().dictionary_encode()
    facts = read_facts(paths.dictionary.to_pylist(), workers)
    place = facts.column_names.index("format")
    facts = facts.set_column(place, "format", to_category(facts["format"]))
    return facts if len(facts) == len(table) else facts.take(paths.indices)


def _split(frame: pd.DataFrame, recipe: Recipe) -> pd.Categorical:
    if "split" in frame:
        raise ManifestError(
            'split= (--split) was given, and the rows have a column "split" already. Leave split '
            "out to use it, or rename it."
        )
    # boxes of one image are no independent samples
    group = "path" if recipe.group is None and recipe.box_label == "each" else recipe.group
    return assign_splits(
        frame["id"],
        recipe.split or {},
        seed=recipe.seed,
        stratify=None if recipe.stratify is None else frame[recipe.stratify],
        group=None if group is None else frame[group],
    )


def _lacking(frame: pd.DataFrame, labels: list[str], recipe: Recipe) -> tuple[str, ...]:
    """Return what is to be said of rows and classes that splits lack."""
    if recipe.stratify is not None:
        labels = [recipe.stratify]
    units = "" if recipe.split is None else "rows" if recipe.group is None else "groups"
    ungrouped = [name for name in labels if name != recipe.group or name == recipe.stratify]
    return lacking_rows(frame, ungrouped, recipe.stratify is not None, units)


def _order(names: list[str], recipe: Recipe) -> list[str]:
    """Return the columns in the order of a manifest: id, path, labels, split, facts."""
    labels = label_columns(names)
    if recipe.label:
        labels = [name for name in labels if name in (*recipe.label, *recipe.category)]
    return [name for name in ("id", "path", "index", *labels, "split", *FACTS) if name in names]


def _texts(paths: Files | None) -> Any:
    """Return paths, or lists or dicts of them, as text."""
    if isinstance(paths, Mapping):
        return {name: _texts(value) for name, value in paths.items()}
    if paths is None or isinstance(paths, str | os.PathLike):
        return _text(paths)
    return [os.fspath(path) for path in paths]


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _text(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)
