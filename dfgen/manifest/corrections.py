"""Labels that were corrected, by a person or a model, put into a manifest."""

import os
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from copy import deepcopy
from typing import Never

import pandas as pd
import pyarrow as pa

from dfgen.errors import ArgumentError, ManifestError, brief, column_list, did_you_mean, legible
from dfgen.manifest.building.categories import numbered_after
from dfgen.manifest.corrected_column import (
    CorrectedColumn,
    classes_of,
    is_read_as_text,
    with_values,
)
from dfgen.manifest.diff import differ
from dfgen.manifest.foreign_arguments import refuse_foreign
from dfgen.manifest.io import Path, frame_of_manifest, write_manifest
from dfgen.manifest.rows_by_id import rows_by_id
from dfgen.manifest.schema import label_columns, quote, validate
from dfgen.manifest.tables import Table, arrow_table
from dfgen.samples.arrow_types import is_text
from dfgen.samples.storage.stores import has_store, scheme_of
from dfgen.system import flag, only_writer


def update_labels(
    manifest: Path | Table,
    corrections: Path | Table,
    *,
    label: str | Sequence[str] = (),
    new_classes: bool = False,
    out: Path | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Put corrected labels into a manifest, each into the row of its id.

    Use it for what a person or a model found to be wrong. Class names keep their numbers, and
    `build_manifest(update=...)` leaves the labels of a column that was corrected to the rows that
    had one. `dfgen.diff` of the manifest before and after lists what changed.

    Args:
        manifest: a file, which is rewritten, whole or not at all; or a frame or another table,
            which stays as it is.
        corrections: the column `id` and label columns of the manifest, a row for each id to
            correct: a frame or another table, or a .csv, .tsv, .jsonl or .parquet file.
        label: the columns to take, or one. Default: all, and each of them must be a label.
        new_classes: take values that are not among the classes, numbered after those; else such a
            value is an error.
        out: write the manifest to this file instead; one in hand, too.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        The corrected manifest: a new frame, with rows and columns in their order.

    Raises:
        ArgumentError: an argument has a value that it cannot have.
        ManifestError: an id that is missing, unknown or there twice; a column that is no label; a
            value that is missing where there was one, no class, or of another type.
        MissingFileError: there is no such file.
        WriteError: the manifest cannot be written.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "kind": ["cat", "dog"]})
        >>> update_labels(df, pd.DataFrame({"id": [2], "kind": ["cat"]}))["kind"].tolist()
        ['cat', 'cat']
    """
    refuse_foreign(update_labels, unknown)
    new_classes = flag("new_classes", new_classes)
    if not (isinstance(label, str | list | tuple) and all(isinstance(one, str) for one in label)):
        raise ArgumentError(
            f"label={brief(label)}: expected the name of a column, or a list of them"
        )
    _, frame, notes = correct(manifest, corrections, label, new_classes, out)
    for note in notes:
        warnings.warn(legible(note, 1_000), stacklevel=2)
    return frame


def correct(
    manifest: Path | Table,
    corrections: Path | Table,
    label: str | Sequence[str] = (),
    new_classes: bool = False,
    out: Path | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame, tuple[str, ...]]:
    """Do what `update_labels` says; return the manifest before, after, and what is to be said."""
    of_file = isinstance(manifest, str | os.PathLike)
    target = os.fspath(manifest if out is None and of_file else out or "")
    near = target and not has_store(scheme_of(target))
    # from reading it to writing it
    with only_writer(os.path.abspath(target)) if near else nullcontext():
        before = frame_of_manifest(manifest)
        wanted = (label,) if isinstance(label, str) else tuple(label)
        frame, notes = _corrected(before, corrections, wanted, new_classes)
        if target:
            write_manifest(frame, target)
    return before, frame, notes


def _corrected(
    before: pd.DataFrame, given: Path | Table, wanted: tuple[str, ...], new_classes: bool
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    table = arrow_table(before)
    validate(table, "the manifest")
    where = os.fspath(given) if isinstance(given, str | os.PathLike) else "the table of corrections"
    labels = label_columns(table.column_names)
    as_text = [name for name in labels if is_read_as_text(table[name])]
    rows, places = rows_by_id(given, where, table["id"], as_text)
    frame, known, notes = before.copy(), deepcopy(before.attrs.get("dfgen")), tuple[str, ...]()
    for name in _columns(rows.column_names, labels, wanted, where):
        about = (known or {}).get("labels", {}).get(name, {})
        column = CorrectedColumn(name, where, rows["id"], rows[name])
        old = table[name].take(pa.array(places))
        values = column.cast(old)
        column.refuse_missing(old, values)
        names = classes_of(table[name]) or about.get("class_names")
        new = [] if names is None else column.new_classes(values, names, new_classes)
        changed = differ(old, values)
        values = values.filter(pa.array(changed)).to_pylist()
        frame[name] = with_values(frame[name], places[changed], values, new)
        if about and changed.any():
            about["corrected"] = True
        if "class_names" in about:
            about["class_names"] = [*names, *new]
        if names is not None and not is_text(old.type):
            notes += numbered_after(name, len(names), new)
    frame.attrs = {} if known is None else {**frame.attrs, "dfgen": known}
    return frame, notes


def _columns(
    given: list[str], labels: list[str], wanted: tuple[str, ...], where: str
) -> tuple[str, ...]:
    """Return the columns to take, each of them a label of the manifest."""
    for name in wanted:
        if name not in given:
            raise ManifestError(
                f"label={quote(name)} is not a column of {where}.{did_you_mean(name, given)} "
                f"Columns: {column_list(given)}"
            )
    columns = wanted or tuple(name for name in given if name != "id")
    others = [name for name in columns if name not in labels]
    if not columns:
        raise ManifestError(
            f"{where} has no column but id, expected one of the labels: {column_list(labels)}"
        )
    if others:
        both = [name for name in given if name in labels]
        take = f". Or take those that are: label={both!r} (--label {both[0]})" if both else ""
        raise ManifestError(
            f"column {quote(others[0])} of {where} is not a label of the manifest. Labels: "
            f"{column_list(labels)}.{did_you_mean(others[0], labels)} Rename it{take}"
        )
    return columns
