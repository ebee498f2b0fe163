"""Build a manifest: from a recipe to rows, facts, boxes, old rows, split, file."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Never

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, MissingFileError, count, quote, warn
from dfgen.executors import Made
from dfgen.explain.labels import warn_of_lookalikes
from dfgen.explain.missing import missing_path
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.manifest.building.box_columns import place_boxes
from dfgen.manifest.building.file_facts import NOT_THERE, Access, KeptFacts
from dfgen.manifest.building.gather import gather
from dfgen.manifest.building.recipe import OF_TABLE, Recipe, recipe_of
from dfgen.manifest.building.scan import read_facts, refresh_facts
from dfgen.manifest.building.splitting import Splitting
from dfgen.manifest.building.update import Grown, Old, grow, read_old
from dfgen.manifest.duplicates import warn_of_leaks
from dfgen.manifest.io import is_plain, only_writer_of, write_frame
from dfgen.manifest.paths import stored_paths
from dfgen.manifest.schema import (
    FACTS,
    OF_WHOLE_FILES,
    PARTS,
    Label,
    describe_labels,
    files_column,
    has_whole_facts,
    label_columns,
    to_categories,
    to_category,
    with_column,
    without,
)
from dfgen.manifest.sources.source import Rows
from dfgen.manifest.table_reading import Path
from dfgen.manifest.writing import check_out
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import has_store, scheme_of
from dfgen.table.any_table import PANDAS_TYPES, Table, to_frame
from dfgen.table.arrow_types import TEXT, are_files

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


def build_frame(recipe: Recipe, old: Old | None, out: str | None, access: Access) -> pd.DataFrame:
    """Build the manifest of a recipe, and write it to `out`."""
    rows = gather(recipe, access)
    if rows.relative and recipe["facts"] == "none":
        raise ArgumentError(
            f"boxes of {recipe.kind}= are shares of the image, so its size is needed: leave "
            'facts="none" (--facts none) out'
        )
    older = old.labels if old else {}
    known: dict[str, Label] = {name: {"kind": label["kind"]} for name, label in older.items()}
    known |= rows.labels
    table = to_categories(rows.table, recipe["category"], known, [recipe["stratify"]])
    labels = describe_labels(table, rows.labels)
    _, root = stored_paths(table, recipe["root"], rows.folder)
    grown = Grown(_with_facts(table, rows, recipe, access, old), labels)
    if old is not None:
        read = partial(facts_of, recipe=recipe, access=access, old=old)
        grown = grow(grown.table, labels, old, None if recipe["facts"] == "none" else read)
    frame = _with_parts(_to_frame(grown.table), recipe, grown.parts)
    kept = label_columns(list(frame.columns))
    if recipe["label"]:
        wanted = (*recipe["label"], *recipe["category"], recipe["path_column"])
        kept = [name for name in kept if name in wanted]
    _warn_of_lookalikes(grown.table, grown.labels, kept)
    recipe.splitting.warn_of_lookalikes(frame, None)
    recipe.splitting.warn_of_lacking(frame, kept)
    recorded, how = recipe.recorded(), recipe.splitting
    before = old.recipe if old else {}
    differs = any(before.get(name) != recorded.get(name) for name in Splitting.__annotations__)
    if old is not None and how.divides and how.column in grown.parts and differs:
        warn(
            f"Old rows of {old.name} keep their {how.column}; the arguments of this call are for "
            "new rows. To split all rows, use dfgen.split."
        )
    order = ("id", "path", "index", *kept, *PARTS, *FACTS)
    frame = frame[[name for name in order if name in frame]]
    warn_of_leaks(frame)
    _warn_of_problems(frame)
    labels = {name: grown.labels[name] for name in kept}
    frame.attrs = {"dfgen": {"root": root, "labels": labels, "recipe": recorded}}
    if out is not None:
        write_frame(frame, out, frame.attrs["dfgen"], recipe["root"], access.options)
    return frame


def _warn_of_lookalikes(table: pa.Table, labels: Mapping[str, Label], kept: list[str]) -> None:
    """Warn about names that look alike in categories, lists of labels and splits."""
    for name in [*kept, *PARTS]:
        if name in table.column_names and table[name].type not in TEXT and name != "captions":
            names = labels.get(name, {}).get("class_names")
            warn_of_lookalikes(name, names or table[name])


def _with_facts(
    table: pa.Table, rows: Rows, recipe: Recipe, access: Access, old: Old | None
) -> pa.Table:
    """Return the rows with facts, placed boxes and problems."""
    name = files_column(table.schema) or "path"
    if old is not None and name != "path":
        raise ArgumentError(
            "update= (--update) compares files by their paths and times, but the table holds the "
            "files themselves: build the manifest again"
        )
    facts = None
    if recipe["facts"] != "none":
        facts = facts_of(table[name], recipe, access, old, rows.listed)
        if name == "path":
            _check_any_file(table["path"], facts["problem"], recipe, rows.folder)
    problems = [table["problem"]] if "problem" in table.column_names else []
    problems += [facts["problem"]] if facts else []
    if "boxes" in rows.labels:
        table, faults = place_boxes(table, facts, rows.relative)
        problems.append(pa.chunked_array([faults]))
    if facts is not None:
        for fact in facts.column_names:
            table = with_column(table, fact, facts[fact])
    if facts is not None or any(len(part) > part.null_count for part in problems):
        table = with_column(table, "problem", pc.coalesce(*problems))
    return table


def facts_of(
    files: pa.ChunkedArray,
    recipe: Recipe,
    access: Access,
    old: Old | None,
    listed: pa.Table | None = None,
) -> pa.Table:
    """Return the facts of files, opening only files that the old manifest does not know."""
    full = recipe["facts"] == "full"
    known = old.table if old else None
    whole = full or (known is not None and has_whole_facts(known.schema))
    if known is not None and not has_whole_facts(known.schema):
        known = without(known, OF_WHOLE_FILES)
    if are_files(files.type):
        facts = read_facts(files, access, full)
    else:
        facts = refresh_facts(files, known, access, listed=listed, full=full)
    facts = with_column(facts, "format", to_category(facts["format"]))
    return facts if whole else without(facts, OF_WHOLE_FILES)


def _check_any_file(
    paths: pa.ChunkedArray, problems: pa.ChunkedArray, recipe: Recipe, folder: str
) -> None:
    """Raise if none of the files exists; a few missing files keep their rows."""
    if not pc.all(pc.fill_null(pc.equal(problems, NOT_THERE), False)).as_py():
        return
    first = paths[0].as_py()
    name = first.removeprefix(folder.rstrip("/") + "/")
    argument = "images=" if recipe.kind in ("voc", "coco") else "root="
    if has_store(scheme_of(first)):
        advice = f"give {argument}"
    else:
        frame = "labels" if recipe.kind == OF_TABLE else ""
        column = recipe["path_column"] or "path"
        advice = missing_path(name, folder, column=column, frame=frame, argument=argument)
    raise MissingFileError(
        f"none of the {pc.count_distinct(paths).as_py():,} files exists, such as {quote(first)}: "
        f'{advice}. For files that are not on this machine give facts="none" (--facts none)'
    )


def _with_parts(frame: pd.DataFrame, recipe: Recipe, kept: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return the rows with their split or fold; old rows keep theirs."""
    how = recipe.splitting
    if how.divides and how.column in frame:
        argument = "split" if how.folds is None else "folds"
        raise ManifestError(
            f'{argument}= (--{argument}) was passed, but the source has a column "{how.column}": '
            f"leave {argument}= out to use the column, or rename it"
        )
    for name, old in kept.items():
        if how.divides and name == how.column:
            continue
        new = frame[name] if name in frame else pd.Series(None, frame.index, object)
        part = old.astype(object).where(old.notna().to_numpy(), new.astype(object))
        changed = (old.notna() & new.notna() & (old.astype(object) != new.astype(object))).sum()
        if changed:
            warn(f"{count(int(changed), 'old row')} kept the {name}, which the source has changed.")
        kind = old.dtype
        if isinstance(kind, pd.CategoricalDtype):
            more = new.astype(object).dropna().unique()
            kind = pd.CategoricalDtype([*dict.fromkeys([*kind.categories, *more])])
        frame = frame.assign(**{name: part.astype(kind)})
    if how.divides:
        frame = frame.assign(**{how.column: how.parts(frame, kept.get(how.column))})
    return frame


def _warn_of_problems(frame: pd.DataFrame) -> None:
    """Warn with the number and three examples of each kind of problem."""
    if "problem" not in frame or not frame["problem"].notna().any():
        return
    broken = frame[frame["problem"].notna()]
    lines = [f"{count(len(broken), 'problem')}:"]
    names = broken["path" if "path" in broken else "id"].astype(str)
    for kind, rows in names.groupby(broken["problem"].str.partition(":")[0]):
        more = f" and {len(rows) - 3} more" if len(rows) > 3 else ""
        lines.append(f"  {len(rows)}  {kind}: {', '.join(rows[:3])}{more}")
    warn("\n".join([*lines, 'They keep their rows: df[df["problem"].notna()].']))


def _to_frame(table: pa.Table) -> pd.DataFrame:
    """Return a frame; whole numbers among the facts may be missing and stay whole."""
    facts = [name for name in table.column_names if name in FACTS]
    labels = table.drop_columns(facts).replace_schema_metadata()
    typed = table.select(facts).replace_schema_metadata().to_pandas(types_mapper=PANDAS_TYPES.get)
    frame: pd.DataFrame = pd.concat([to_frame(labels), typed], axis=1)
    return frame
