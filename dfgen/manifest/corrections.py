"""Put corrected labels into a manifest, each into the row of its id."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from copy import deepcopy
from typing import Any, Never

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, column_list, did_you_mean, first, listed, quote
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.manifest.diff import differ, plain
from dfgen.manifest.io import Path, frame_of_manifest, only_writer_of, write_manifest
from dfgen.manifest.schema import (
    class_names,
    describe_labels,
    label_columns,
    refuse_repeated,
    rows_where,
    validate,
)
from dfgen.manifest.sources.label_table import read_labels
from dfgen.table.any_table import Table, arrow_table
from dfgen.table.arrow_types import TEXT, value_type


def update_labels(
    manifest: Path | Table,
    corrections: Path | Table,
    *,
    label: str | Sequence[str] = (),
    out: Path | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Put corrected labels into a manifest, each into the row of its id.

    Class names keep their numbers, and `build_manifest(update=...)` keeps the labels of a column
    that was corrected. `dfgen.diff` of the manifest before and after lists what changed.

    Args:
        manifest: a file, which is rewritten, whole or not at all; or a frame or another table,
            which stays as it is.
        corrections: the column `id` and label columns of the manifest, one row for each id to
            correct: a frame or another table, or a file of one, such as `"to_fix.csv"`.
        label: the columns to take, or one. Default: all columns.
        out: write the manifest to this file instead.
        **unknown: none: arguments of other libraries are reported with their names here.

    Returns:
        The corrected manifest: a new frame, with rows and columns in their order.

    Raises:
        ManifestError: an id is unknown, missing or on several rows; a column is no label; a value
            is missing, is no class, or has another type.
        MissingFileError: there is no such file.
        WriteError: the manifest cannot be written.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "path": ["a.png", "b.png"], "kind": ["cat", "dog"]})
        >>> update_labels(df, pd.DataFrame({"id": [2], "kind": ["cat"]}))["kind"].tolist()
        ['cat', 'cat']
    """
    refuse_unknown(update_labels, unknown)
    is_file = isinstance(manifest, str | os.PathLike)
    target: Any = manifest if is_file and out is None else out
    with nullcontext() if target is None else only_writer_of(target):
        frame = frame_of_manifest(manifest)
        frame = _corrected(frame, corrections, [label] if isinstance(label, str) else [*label])
        if target is not None:
            write_manifest(frame, target)
    return frame


def _corrected(before: pd.DataFrame, fixes: Path | Table, wanted: list[str]) -> pd.DataFrame:
    table = arrow_table(before)
    validate(table)
    labels = label_columns(table.column_names)
    fixes = os.fspath(fixes) if isinstance(fixes, os.PathLike) else fixes
    where = fixes if isinstance(fixes, str) else "the table of corrections"
    text = [name for name in labels if value_type(table[name].type) in TEXT]
    rows = read_labels(fixes, ["id", *text])
    names = wanted or [name for name in rows.column_names if name != "id"]
    for name in ["id", *names]:
        if name not in rows.column_names or name not in ["id", *labels]:
            raise ManifestError(
                f"column {quote(name)} of {where} must be in it and be a label of the manifest."
                f"{did_you_mean(name, labels)} Columns: {column_list(rows.column_names)}. Labels: "
                f"{column_list(labels)}. Name the columns to take: label="
            )
    places = _places(rows["id"], table["id"], where)
    frame, known = before.copy(), deepcopy(before.attrs.get("dfgen", {}))
    for name in names:
        old = table[name].take(places)
        values = _values(rows, name, old, where)
        mask = differ(old, values)
        held = frame[name].astype(object).to_numpy(copy=True)
        changed = values.filter(pa.array(mask)).to_pylist()
        for row, value in zip(places.filter(pa.array(mask)).to_pylist(), changed, strict=True):
            held[row] = value  # one by one: lists would become an array
        frame[name] = pd.Series(held, frame.index, frame[name].dtype)
        if changed and name in known.get("labels", {}):
            known["labels"][name]["corrected"] = True
    describe_labels(arrow_table(frame[names]), known.get("labels"))  # checks classes in lists
    frame.attrs = {**before.attrs, "dfgen": known} if known else {}
    return frame


def _places(keys: pa.ChunkedArray, ids: pa.ChunkedArray, where: str) -> pa.Array:
    """Return the row of the manifest of each id."""
    try:
        keys = keys.cast(ids.type)
    except pa.ArrowInvalid as error:
        raise ManifestError(
            f"the ids of {where} are not of type {ids.type}, as in the manifest: {error}"
        ) from None
    refuse_repeated(keys, where)
    places = pc.index_in(keys, value_set=ids)
    if places.null_count:
        unknown = keys.filter(pc.is_null(places)).to_pylist()
        near = did_you_mean(str(unknown[0]), ids.to_pylist()) if ids.type in TEXT else ""
        raise ManifestError(
            f"{len(unknown):,} of {len(keys):,} ids of {where} are not in the manifest: "
            f"{listed(unknown)}.{near} Correct these ids, or drop their rows"
        )
    return places.combine_chunks()


def _values(rows: pa.Table, name: str, old: pa.ChunkedArray, where: str) -> pa.Array:
    """Return corrections in the type of the manifest."""

    def refuse(mask: Any, fault: str) -> None:
        for row in first(rows_where(pa.chunked_array([mask]))):
            value, key = rows[name][row].as_py(), rows["id"][row].as_py()
            raise ManifestError(
                f"column {quote(name)} of {where} has {value!r} in row {row} (id {quote(key)}), "
                f"{fault}"
            )

    fixes, kind = plain(rows[name]), plain(old).type
    try:
        values = fixes.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ManifestError(
            f"column {quote(name)} of {where} has type {fixes.type}, expected {kind} as in the "
            f"manifest: {error}"
        ) from None
    lost = pc.and_(values.is_null(), plain(old).is_valid())
    refuse(lost, "and the manifest has a label. To keep it, drop the row from the corrections")
    if pa.types.is_dictionary(old.type):
        names = class_names(old).cast(kind)
        strange = pc.and_not(values.is_valid(), pc.is_in(values, value_set=names))
        more = f'df["{name}"] = df["{name}"].cat.add_categories([...])'
        refuse(strange, f"which is none of its classes: {listed(names.to_pylist())}. New: {more}")
    return values
