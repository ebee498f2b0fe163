"""Build a manifest: source, join, facts, split, write."""

import os
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from dfgen.errors import ManifestError, did_you_mean
from dfgen.manifest.categories import to_categories
from dfgen.manifest.facts import PANDAS_TYPES, SCHEMA, read_facts
from dfgen.manifest.io import Path, attributes, check_folder, write_manifest
from dfgen.manifest.join import as_text, join, split_on
from dfgen.manifest.paths import absolute_paths
from dfgen.manifest.recipe import Recipe
from dfgen.manifest.schema import FACTS, describe_labels, label_columns, quote, validate
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.files import NO_FIT
from dfgen.manifest.sources.pattern import Pattern, parse_pattern
from dfgen.manifest.sources.table import table_name
from dfgen.manifest.splits import assign_splits, missing_classes
from dfgen.manifest.summary import Report

_PLAIN_INTEGER = r"\A(?:0|-?[1-9][0-9]{0,17})\z"


def build_manifest(
    source: Path | None = None,
    *,
    pattern: str | None = None,
    labels: Path | pd.DataFrame | None = None,
    on: str | None = None,
    path_column: str | None = None,
    root: Path | None = None,
    id: str | None = None,
    category: Sequence[str] = (),
    label: Sequence[str] = (),
    unmatched: str = "error",
    facts: str = "header",
    split: Mapping[str, float] | None = None,
    stratify: str | None = None,
    group: str | None = None,
    seed: int = 0,
    out: Path | None = None,
    workers: int | None = None,
) -> pd.DataFrame:
    """Build a manifest from a folder of files, a table of labels, or both.

    Use it once for a data set, then `read_manifest` what it wrote. `dfgen build-manifest` does the
    same job.

    Args:
        source: A folder; every image or array below it becomes a row.
        pattern: What a path below the folder looks like, `"{kind}/{shard}/{id}.jpg"`: fields
            become columns, `{id:int}` a column of whole numbers. Files that it does not fit are
            left out with a warning.
        labels: A label table: a DataFrame, or a .csv, .tsv, .jsonl or .parquet file.
        on: `"FIELD=COLUMN"`, how files find their row of labels. FIELD is a field of the pattern,
            `name` (a.jpg), `stem` (a) or `relpath` (cats/a.jpg); COLUMN is the table's, by default
            of the same name. Both are compared as text.
        path_column: The column of the label table that names the files, instead of a folder.
        root: Folder where relative paths start: of the path column (default: the table's folder),
            and of the paths as the manifest stores them (default: the source).
        id: The column of unique ids. Default: the pattern's `{id}`, else the table's `id`, else
            the path below the folder, with its extension.
        category: Columns of whole numbers that are classes. Text and booleans are by themselves.
        label: The columns to keep as labels; default: all.
        unmatched: Files without labels, and labels without a file: `"error"`, `"keep"` or
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
        pattern=pattern,
        labels=labels if isinstance(labels, pd.DataFrame) else _text(labels),
        on=on,
        path_column=path_column,
        root=_text(root),
        id=id,
        category=tuple(category),
        label=tuple(label),
        unmatched=unmatched,
        facts=facts,
        split=split,
        stratify=stratify,
        group=group,
        seed=seed,
    )
    frame, report = build(recipe, _text(out), workers)
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
    table, skipped, notes = _labelled_rows(recipe)
    table = to_categories(_with_id(table, recipe), recipe.category)
    validate(table, "the manifest")
    table = absolute_paths(table, recipe.folder, "the manifest") if recipe.source else table
    frame = _with_facts(table, recipe, workers)
    messages = _misfits(skipped, recipe)
    if recipe.split is not None:
        frame.insert(2, "split", _split(frame, recipe))
    if "split" in frame:
        messages += _lacking(frame, recipe)
    frame = _in_order(frame, recipe)
    root = os.path.abspath(recipe.root or recipe.folder)
    labels = describe_labels(pa.Table.from_pandas(frame[label_columns(list(frame))][:0]))
    frame.attrs = {"dfgen": attributes(root, labels, recipe.metadata())}
    if out is not None:
        write_manifest(frame, out, recipe.root)
    return frame, Report(skipped, notes, tuple(messages))
