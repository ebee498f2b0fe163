"""Build a manifest."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Never

import pandas as pd

from dfgen.executors import Made
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.kept_facts import KeptFacts
from dfgen.manifest.building.pipeline import build_frame
from dfgen.manifest.building.recipe import recipe_of
from dfgen.manifest.building.update import read_old
from dfgen.manifest.io import is_plain, only_writer_of
from dfgen.manifest.not_a_manifest import check_out
from dfgen.manifest.table_reading import Path
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import Table

OfSplits = Path | Mapping[str, Path]


def build_manifest(
    source: Path | None = None,
    *,
    voc: Path | None = None,
    coco: OfSplits | None = None,
    yolo: Path | None = None,
    images: OfSplits | None = None,
    image_sets: Path | None = None,
    pattern: str | None = None,
    labels: Path | Table | None = None,
    on: str | None = None,
    path_column: str | None = None,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    root: Path | None = None,
    id: str | None = None,
    category: str | Sequence[str] = (),
    label: str | Sequence[str] = (),
    unmatched: Literal["error", "keep", "drop"] | None = None,
    facts: Literal["none", "header", "full"] | None = None,
    split: Mapping[str, float] | None = None,
    folds: int | None = None,
    stratify: str | None = None,
    group: str | None = None,
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

    Use it once for a data set, then `read_manifest` its file. `dfgen build-manifest` is the same.
    docs/reference/manifests.md shows the smallest tree of each source.

    Args:
        source: a folder, a zip or tar archive, or the URL of a folder (`s3://bucket/imgs`). Each
            image, array or sound below it becomes a row. Or a recipe (`pets.toml`), a TOML file of
            these arguments; arguments of the call replace those of the recipe.
        voc: instead of a folder, XML files of Pascal VOC or ImageNet, with `images`; or the folder
            of a year of Pascal VOC, `"VOCdevkit/VOC2012"`, which holds its images, and masks for
            the columns `class_mask` and `object_mask`. `label` is the class of the largest box,
            `background` if there is none.
        coco: instead of a folder, a JSON file of COCO, or one of each split: `{"train": path}`.
        yolo: instead of a folder, the data.yaml of Ultralytics.
        images: the folder of the images of `voc` or `coco`, of `coco` also one of each split.
            Default for `coco`: the folder of the JSON file.
        image_sets: for `voc`, the folder of train.txt, val.txt and test.txt, which list images. It
            makes the column `split`, missing for images in no list.
        pattern: the path below the folder, as `"{kind}/{shard}/{id}.jpg"`: fields become columns,
            `{id:int}` a column of whole numbers, `{_}` none. Files that do not match are left out
            with a warning, as are hidden files and files of other kinds.
        labels: a label table: a DataFrame, an object with `__arrow_c_stream__`, or a .csv, .tsv,
            .jsonl (also gzipped), .parquet or .xlsx file.
        on: the key by which files find their row of labels, `"FIELD=COLUMN"`. FIELD is a field of
            the pattern, `name` (a.jpg), `stem` (a) or `relpath` (cats/a.jpg). COLUMN is a column of
            the table, by default of the same name. Both are compared as text.
        path_column: the column of the label table that names the files, or holds them (bytes, or
            structs of `bytes` and `path`), instead of a folder.
        sep: the separator of a .csv or .tsv file, as `";"`. Default: comma or tab.
        decimal: the decimal mark of its numbers. Default: a point.
        encoding: the encoding of the file, as `"cp1252"`. Default: UTF-8, or UTF-16 with its mark.
        root: the folder or URL where relative paths start, of the path column (default: the folder
            of the table) and of the paths in the file (default: the source).
        id: the column of unique ids. Default: the pattern's `{id}`, else the table's `id`, else
            the path below the folder, with its extension.
        category: the columns of numbers that are classes, or one: class numbers, versions such as
            1.10. Names are the text of the table. Text with few values and booleans are classes
            anyway.
        label: the columns to keep as labels, or one. Default: all.
        unmatched: what to do with files without labels or annotation, and the reverse: `"error"`
            (the default), `"keep"` or `"drop"`.
        facts: what to read of each file: `"header"` (the default) reads size, time and header;
            `"none"` nothing; `"full"` decodes it, which finds broken files, and adds `digest` and
            `phash`, which identify copies.
        split: each split and its share, as in `{"train": 0.8, "val": 0.2}`.
        folds: the number of folds for cross-validation, the column `fold`, instead of splits.
        stratify: the column whose classes get exactly these shares.
        group: the column whose groups stay whole.
        group_duplicates: keep copies of a picture in one split; needs `facts="full"`.
        seed: another seed gives another split. Default: 0.
        update: an older manifest to update: only new or changed files are opened, old rows keep id,
            split and class indices, and new rows follow. Labels come from the source, except in
            columns that `update_labels` corrected. Arguments that are left out are those of its
            recipe, unless the source is of another kind.
        out: also write the manifest to this file (the command: by default to `update`, or next to
            the recipe). Until it is complete, the facts are in the folder `<out>.building`: a build
            that was killed continues with the same call.
        workers: threads that read files; None: one per CPU of this process, 64 for URLs.
        executor: any `concurrent.futures.Executor` that reads the files instead, or a function that
            makes one, called again if its workers were lost. Its workers need the same paths and
            the same dfgen. `workers` are then the threads of each task (None: 1, 64 for URLs).
        limits: `dfgen.Limits`: what one file may ask for, also tables and annotations.
        storage_options: options to open URLs, as `{"region": "eu-central-1"}`; see `Sequence`. They
            are not stored.
        **unknown: none: arguments of other libraries are reported with their names here.

    Returns:
        One row a file: `id`, `path` (absolute), labels, `split`, facts. A file with a fault keeps
        its row, and `problem` has the reason. Warnings count files that are left out or have a
        problem.

    Raises:
        ArgumentError: arguments that cannot be together.
        MissingFileError: no such folder or table, or none of the files exists.
        ManifestError: files and labels do not match, ids are repeated, ...
        WriteError: `out` cannot be written.
        WorkerError: the executor lost its workers, or they have another dfgen or no such files.

    Example:
        >>> df = build_manifest("imgs", pattern="{kind}/{id}.jpg")  # doctest: +SKIP
    """
    arguments = locals()
    refuse_unknown(build_manifest, unknown)
    options = StorageOptions(storage_options)
    access = Access(workers, limits_given(limits), options, executor)
    old = None if update is None else read_old(update, access)
    known, where = (None, "") if old is None else (old.recipe, old.name)
    recipe = recipe_of(build_manifest, arguments, known, where, access.limits)
    if out is None:
        return build_frame(recipe, old, None, access)
    place = os.fspath(out)
    check_out(place, options)
    if not is_plain(place):
        return build_frame(recipe, old, place, access)
    kept = KeptFacts(place, recipe["facts"] == "full", access.limits)
    with only_writer_of(place):
        frame = build_frame(recipe, old, place, replace(access, kept=kept))
        kept.remove()
    return frame
