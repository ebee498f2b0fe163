"""Build a manifest: source, join, facts, split, write."""

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.manifest.categories import to_categories, to_category
from dfgen.manifest.facts import PANDAS_TYPES, refresh_facts
from dfgen.manifest.growing import Old, changed_recipe, grow, read_old, rebase
from dfgen.manifest.io import Path, attributes, check_folder, write_manifest
from dfgen.manifest.paths import stored_paths, tidy, with_paths
from dfgen.manifest.recipe import Recipe
from dfgen.manifest.recipe_file import resolve
from dfgen.manifest.rows import gather_rows
from dfgen.manifest.schema import (
    EXAMPLES,
    FACTS,
    describe_labels,
    label_columns,
    quote,
    validate,
)
from dfgen.manifest.sources.files import NO_FIT
from dfgen.manifest.splits import assign_splits, missing_classes
from dfgen.manifest.summary import Report, left_out


def build_manifest(
    source: Path | None = None,
    *,
    pattern: str | None = None,
    labels: Path | pd.DataFrame | None = None,
    on: str | None = None,
    path_column: str | None = None,
    root: Path | None = None,
    id: str | None = None,
    category: str | Sequence[str] = (),
    label: str | Sequence[str] = (),
    unmatched: str | None = None,
    facts: str | None = None,
    split: Mapping[str, float] | None = None,
    stratify: str | None = None,
    group: str | None = None,
    seed: int | None = None,
    update: Path | None = None,
    out: Path | None = None,
    workers: int | None = None,
) -> pd.DataFrame:
    """Build a manifest from a folder of files, a table of labels, or both.

    Use it once for a data set, then `read_manifest` what it wrote. `dfgen build-manifest` does the
    same job.

    Args:
        source: A folder; every image or array below it becomes a row. Or a recipe, a .toml file
            that holds such arguments: those given here replace its own.
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
        unmatched: Files without labels, and labels without a file: `"error"`, `"keep"` or
            `"drop"`. Default: `"error"`.
        facts: `"header"` (the default) reads size, time and header of every file; `"none"` reads
            nothing.
        split: Split -> share, as in `{"train": 0.8, "val": 0.2}`.
        stratify: The column whose classes get exactly these shares.
        group: The column whose groups stay whole.
        seed: Another seed gives another split; default: 0.
        update: An older manifest that grows: only new or changed files are opened, old rows keep
            id, split and class numbers, new rows follow. Arguments left out are those of its
            recipe, unless the source is of another kind.
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
    given = dict(
        source=_text(source),
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
    old = None if update is None else read_old(update)
    recipe = resolve(given, old.recipe if old else None)
    frame, report = build(recipe, _text(out), workers, old)
    if report.skipped:
        no_fit = NO_FIT in report.skipped
        widen = f"Widen the pattern {quote(recipe.pattern)}, or m" if no_fit else "M"
        lines = [*left_out(report), f"{widen}ove elsewhere what is no sample."]
        warnings.warn("\n".join(lines), stacklevel=2)
    for warning in report.warnings:
        warnings.warn(warning, stacklevel=2)
    return frame


def build(
    recipe: Recipe, out: str | None = None, workers: int | None = None, old: Old | None = None
) -> tuple[pd.DataFrame, Report]:
    """Build the manifest of a recipe; return it with a report of what was left out or is amiss.

    `build_manifest` turns the warnings of the report into Python's, the command prints them.
    """
    if out is not None:
        check_folder(out)
    rows = gather_rows(recipe)
    if not len(rows.table):
        raise ManifestError(
            "The manifest would have no rows: the label table is empty, or no file has a row in "
            'it. Check labels= and on=, and see with unmatched="error" what does not match.'
        )
    table = to_categories(rows.table, recipe.category)
    validate(table, "the manifest")
    labels = describe_labels(table)
    table = with_paths(table, tidy(table["path"].cast(pa.string()), recipe.folder))
    _, root = stored_paths(table, recipe.root, recipe.folder)
    warnings, kept_splits = tuple[str, ...](), None
    if old is not None:
        warnings = changed_recipe(old, recipe)
        old, moved = rebase(old, table["path"], root)
        warnings += moved
    read = partial(refresh_facts, known=old.table if old else None, workers=workers)
    frame: pd.DataFrame = table.to_pandas()
    if recipe.facts == "header":
        frame = _with_facts(frame, read(table["path"]))
    if old is not None:
        grown = grow(frame, old, read if recipe.facts == "header" else None)
        frame, labels, kept_splits = grown.frame, grown.labels, grown.splits
        warnings += grown.warnings
    if recipe.split is not None:
        frame["split"] = _split(frame, recipe, kept_splits)
    elif kept_splits is not None and "split" not in frame:
        frame["split"] = kept_splits
    lacking = _lacking(frame, recipe) if "split" in frame else ()
    frame = frame[_order(list(frame.columns), recipe)]
    kept = {name: labels[name] for name in label_columns(list(frame.columns))}
    frame.attrs = {"dfgen": attributes(root, kept, recipe.arguments())}
    if out is not None:
        write_manifest(frame, out, recipe.root)
    return frame, Report(rows.skipped, rows.notes, (*warnings, *lacking))


def _with_facts(frame: pd.DataFrame, table: pa.Table) -> pd.DataFrame:
    """Add file facts; a problem that is known already stays."""
    place = table.column_names.index("format")
    table = table.set_column(place, "format", to_category(table["format"]))
    facts: pd.DataFrame = table.to_pandas(types_mapper=PANDAS_TYPES.get)
    if "problem" in frame:
        facts["problem"] = frame.pop("problem").combine_first(facts["problem"])
    return pd.concat([frame, facts], axis=1)


def _split(frame: pd.DataFrame, recipe: Recipe, kept: pd.Series | None) -> pd.Categorical:
    if "split" in frame:
        raise ManifestError(
            'split= (--split) was given, and the rows have a column "split" already. Leave split '
            "out to use it, or rename it."
        )
    return assign_splits(
        frame["id"],
        recipe.split or {},
        seed=recipe.seed,
        stratify=None if recipe.stratify is None else frame[recipe.stratify],
        group=None if recipe.group is None else frame[recipe.group],
        kept=kept,
    )


def _lacking(frame: pd.DataFrame, recipe: Recipe) -> tuple[str, ...]:
    """Return a warning for each split that has no row, or none of some class."""
    if recipe.stratify is not None:
        names = [recipe.stratify]
        advice = "Give the class more rows, or leave it out."
    else:
        names = [
            name
            for name in label_columns(_order(list(frame.columns), recipe))
            if isinstance(frame[name].dtype, pd.CategoricalDtype) and name != recipe.group
        ]
        advice = "Split with stratify={column} (--stratify {column}), or give the class more rows."
    units = "rows" if recipe.group is None else "groups"
    mend = f" Give it a larger share or more {units}, or try another seed (--seed)."
    sizes = frame["split"].value_counts(sort=False)
    messages = [
        f'Split "{split}" has no row.{mend if recipe.split else ""}'
        for split in sizes.index[sizes == 0]
    ]
    for name in names:
        for split, classes in missing_classes(frame["split"], frame[name]).items():
            shown = ", ".join(quote(value) for value in classes[:EXAMPLES])
            more = f" and {len(classes) - EXAMPLES} more" if len(classes) > EXAMPLES else ""
            messages.append(
                f'Split "{split}" has no row with {name} = {shown}{more}. '
                + advice.format(column=name)
            )
    return tuple(messages)


def _order(names: list[str], recipe: Recipe) -> list[str]:
    """Return the columns in the order of a manifest: id, path, labels, split, facts."""
    labels = label_columns(names)
    if recipe.label:
        labels = [name for name in labels if name in (*recipe.label, *recipe.category)]
    return [name for name in ("id", "path", *labels, "split", *FACTS) if name in names]


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _text(path: Path | None) -> str | None:
    return None if path is None else os.fspath(path)
