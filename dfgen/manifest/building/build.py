"""The doors where manifests are made: build one, or split one anew."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Never

import pandas as pd

from dfgen.errors import (
    ArgumentError,
    ManifestError,
    brief,
    column_list,
    did_you_mean,
    quote,
    warn,
)
from dfgen.executors import Made
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.pipeline import Build
from dfgen.manifest.building.recipe import all_arguments, is_left_out, unit_of
from dfgen.manifest.building.summary import lines_of_skipped, problem_lines
from dfgen.manifest.duplicates import leaks_between_splits, notes_of
from dfgen.manifest.io import Path, frame_of_manifest, write_manifest
from dfgen.manifest.schema import FACTS, PARTS, label_columns
from dfgen.manifest.sources.file_tree import NO_FIT
from dfgen.manifest.sources.source import NAMES, Argument
from dfgen.manifest.splitting.split_rules import Splitting, lacking_rows
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import Table
from dfgen.table.arrow_types import check_names

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
    images: Path | Mapping[str, Path] | None = None,
    image_sets: Path | None = None,
    pattern: str | None = None,
    labels: Path | Table | None = None,
    on: str | None = None,
    path_column: str | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
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
    executor: Made | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Build a manifest from a folder of files, a table of labels, or annotations.

    Use it once for a data set, then `read_manifest` what it wrote. `dfgen build-manifest` does the
    same job. manifests/README.md shows the smallest tree of each source.

    Args:
        source: a folder, a zip or tar archive, or the URL of a folder (`s3://bucket/imgs`), or a
            recipe (`pets.toml`). Every image, array or sound below a folder becomes a row. A recipe
            is a TOML file of such arguments; those given here replace its own. Or leave it out,
            and give one of those that follow.
        voc: folder of Pascal VOC's or ImageNet's XML files, which needs `images`; or the folder of
            a year of Pascal VOC, `"VOCdevkit/VOC2012"`, which holds its images, and masks for the
            columns `class_mask` and `object_mask`. The column `label` is the class of the largest
            box, `background` where there is none.
        coco: a JSON file of COCO; several of the same images in a list; those of each split as
            `{"train": ..., "val": ...}`.
        yolo: the data.yaml of Ultralytics.
        images: the folder of the images of `voc` or `coco`; of `coco` also one a split. Default for
            `coco`: the folder of the JSON files.
        image_sets: of `voc`, a folder of train.txt, val.txt and test.txt, which list images, as
            `"VOC2012/ImageSets/Main"`: the column `split`, missing where no list has the image.
        pattern: what a path below the folder looks like, `"{kind}/{shard}/{id}.jpg"`: fields
            become columns, `{id:int}` a column of whole numbers. Files that it does not fit are
            left out with a warning, as are hidden files and those of other kinds.
        labels: a label table: a DataFrame, whatever has `__arrow_c_stream__`, or a .csv, .tsv,
            .xlsx, .jsonl or .parquet file.
        on: `"FIELD=COLUMN"`, how files find their row of labels. FIELD is a field of the pattern,
            `name` (a.jpg), `stem` (a) or `relpath` (cats/a.jpg); COLUMN is the table's, by default
            of the same name. Both are compared as text.
        path_column: the column of the label table that names the files, or holds them (bytes, or
            structs of `bytes` and `path`), instead of a folder.
        sep: what separates the values of a .csv or .tsv file, as `";"`; default: seen from its
            rows.
        decimal: the decimal mark of its numbers, `"."` or `","`; default: seen from them. Numbers
            and dates that may be read in two ways are refused or told.
        encoding: of a .csv or .tsv file, as `"cp1252"`; default: UTF-8, or UTF-16 by its first
            bytes.
        sheet: the sheet of an .xlsx file by name; default: the first.
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
        split: each split and its share, as in `{"train": 0.8, "val": 0.2}`.
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
        out: also write the manifest to this file (the command: by default that of `update`, or
            next to the recipe). Until it is there, the facts that were read lie
            in the folder `<out>.building`: broken off, even by SIGKILL, the same call goes on.
        workers: threads that read headers; None: as many as this process may use CPUs, 64 for URLs.
        executor: any `concurrent.futures.Executor`, which reads the files instead; or a
            function that makes one, called again where its workers were lost. It changes nothing
            of the manifest. Its workers see the files at the same paths, and have the same dfgen;
            `workers` are then the threads of each task (None: 1, 64 for URLs).
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
        WorkerError: the executor lost its workers, or they have another dfgen or no such files.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = build_manifest("imgs", pattern="{kind}/{id}.jpg")  # doctest: +SKIP
    """
    asked = locals()
    refuse_unknown(build_manifest, unknown)
    given = plain_arguments(asked)
    options = StorageOptions(storage_options)
    access = Access(workers, limits_given(limits), options, executor)
    build = Build.of(given, update, out, access)
    frame, report = build.run()
    if report.skipped:
        widen = build.recipe.pattern and NO_FIT in report.skipped
        advice = f"Widen the pattern {quote(build.recipe.pattern)}, or move" if widen else "Move"
        lines = [
            *lines_of_skipped(report.skipped),
            f"{advice} files that are no samples elsewhere.",
        ]
        warn("\n".join(lines))
    if problems := problem_lines(frame):
        problems.append('They keep their rows: df[df["problem"].notna()].')
        warn("\n".join(problems))
    dropped = report.notes if build.recipe.unmatched == "drop" else ()
    for warning in (*dropped, *report.warnings):
        warn(warning)
    return frame


def split(
    manifest: Path | Table,
    shares: Mapping[str, float] | None = None,
    *,
    folds: int | None = None,
    stratify: str | None = None,
    group: str | None = None,
    order: str | None = None,
    group_duplicates: bool = False,
    seed: int = 0,
    out: Path | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Return a manifest with a new split of all its rows: the column `split`, or `fold`.

    Use it to change shares, names or seed, to make folds for cross-validation, or to split by time.
    To give a split to new rows alone, let the manifest grow: `build_manifest(update=...)`. Made
    anew, a split keeps old rows where they were if new ones came by their hash alone, that is
    without `stratify`, `order` and `group_duplicates`.

    Args:
        manifest: a file, or a frame or another table; older splits and folds are replaced.
        shares: each split and its share, as in `{"train": 0.8, "val": 0.2}`.
        folds: instead of shares, how many folds: the column `fold` holds 0 to folds - 1, int8.
            `dfgen.sequences(df, fold=0)` validates on one and trains on the others. Without
            `stratify` they are of about the same size.
        stratify: the column whose classes get exactly these shares, or fill folds evenly.
        group: the column whose groups stay whole.
        order: with shares, a column of dates, times or numbers: the earliest rows are the first
            split, the latest the last. Shares are exact, but rows of the same time stay together,
            in the split of the first of them. With `group`, a group stands where its latest row
            does. Neither `seed` nor chance has a part in it.
        group_duplicates: keep copies of a picture in one split: rows of the same file, bytes or
            nearly the same perceptual hash. Needs a manifest built with `facts="full"`.
        seed: another seed gives another split.
        out: also write the manifest to this file (the command: by default the manifest itself).
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        A new frame. The recipe in its attrs makes the same split.

    Raises:
        ArgumentError: the shares do not add up to 1, arguments do not go together, or there is no
            such column.
        ManifestError: there is no column `id`, a row has no group or time, or the classes are
            fractions.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = pd.DataFrame({"id": range(4), "path": [*"abcd"], "kind": ["cat", "dog"] * 2})
        >>> split(df, {"train": 0.5, "val": 0.5}, stratify="kind")["split"].tolist()
        ['train', 'train', 'val', 'val']
    """
    refuse_unknown(split, unknown)
    how = Splitting(shares, folds, stratify, group, order, group_duplicates, seed)
    frame, messages = make_split(manifest, how, out)
    for message in messages:
        warn(message)
    return frame


def make_split(
    manifest: Path | Table, how: Splitting, out: Path | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Do what `split` says, and return with the frame what is to be said of it."""
    if how.split is None and how.folds is None and not how.named:
        raise ArgumentError(
            'say how to split: shares, as in {"train": 0.8, "val": 0.2} (--split train=0.8 --split '
            "val=0.2), or folds=5 (--folds 5)"
        )
    how.check()
    frame = frame_of_manifest(manifest)
    check_names([*frame.columns], "the manifest")
    if not len(frame):
        raise ManifestError(
            "the manifest has no rows: expected some to split. Was it filtered by a value that "
            "does not occur?"
        )
    for argument, name in how.named.items():
        if name not in frame:
            raise ArgumentError(
                f"{argument}={quote(name)} is not a column of the manifest."
                f"{did_you_mean(name, frame.columns)} Columns: {column_list(frame.columns)}"
            )
    if "id" not in frame:
        raise ManifestError(
            'the manifest has no column "id", by which rows fall into splits. Make one of what '
            'tells rows apart, such as df["id"] = df["path"]. Columns: '
            f"{column_list(frame.columns)}"
        )
    came_with = [name for name in PARTS if name in frame]
    known = frame.attrs.get("dfgen", {})
    parts = how.parts(frame, how.group or unit_of(known.get("recipe") or {}))
    frame = frame.drop(columns=came_with)
    place = len([name for name in frame.columns if name not in FACTS])
    frame.insert(place, how.column, pd.Series(parts, frame.index))
    recipe, messages = _new_recipe(known.get("recipe"), how, came_with)
    messages += notes_of(None if how.group_duplicates else leaks_between_splits(frame), frame)
    known = {**known, "recipe": recipe} if known else {}
    frame.attrs = {"dfgen": known} if known else {}
    messages += lacking_rows(frame, label_columns(list(frame.columns)), how)
    if out is not None:
        write_manifest(frame, out)
    return frame, messages


def _new_recipe(
    recipe: dict[str, Any] | None, how: Splitting, came_with: list[str]
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a recipe that makes the new split too, if one can, and what to say if none can."""
    if recipe and came_with and not {"split", "folds"} & {*recipe}:
        return None, (
            f"The {came_with[0]} came from the source, so the recipe cannot make this one: the "
            "manifest is kept without its recipe.",
        )
    if recipe:
        asked = {**recipe, **vars(how)} | ({"split": dict(how.split)} if how.split else {})
        recipe = {name: value for name, value in asked.items() if not is_left_out(value)}
    return recipe, ()


def plain_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some values that are arguments of a recipe, as it holds them."""
    return {
        name: _plain(name, asked[name], item)
        for name, item in all_arguments().items()
        if name in asked
    }


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
