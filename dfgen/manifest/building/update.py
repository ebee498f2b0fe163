"""Update a manifest: the rows of the source, with the ids, splits and class indices of before.

Rows are matched by id, then by path. Old rows keep their order and new rows follow. Old rows that
the source no longer has stay; if the file is gone, `problem` says so.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, count, first, listed, quote, warn
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import problems_now
from dfgen.manifest.diff import differ
from dfgen.manifest.io import Path
from dfgen.manifest.schema import (
    FACTS,
    PARTS,
    Label,
    class_names,
    describe_labels,
    known_first,
    label_columns,
    to_category,
    with_classes,
    with_column,
)
from dfgen.manifest.table_reading import read_table
from dfgen.spec import IntArray
from dfgen.table.any_table import PANDAS_TYPES
from dfgen.table.arrow_types import TEXT


@dataclass(frozen=True)
class Old:
    """The manifest that is updated: its file, rows with absolute paths, labels, and recipe."""

    name: str
    table: pa.Table
    labels: Mapping[str, Label]
    recipe: dict[str, Any]  # empty: it was not built by build_manifest


@dataclass(frozen=True)
class Grown:
    """The updated rows, the metadata of labels, and the splits or folds of old rows."""

    table: pa.Table
    labels: dict[str, Label]
    parts: Mapping[str, pd.Series] = field(default_factory=dict)


def read_old(path: Path, access: Access) -> Old:
    """Read the manifest that is updated; the errors are those of `read_manifest`."""
    table, metadata = read_table(path, limits=access.limits, options=access.options)
    if "path" not in table.column_names:
        raise ManifestError(
            f"{os.fspath(path)} holds the files themselves, but update= (--update) compares files "
            "by their paths and times: build the manifest again"
        )
    table = with_column(table, "path", table["path"].cast(pa.string()))
    return Old(os.fspath(path), table, metadata.labels, metadata.recipe or {})


def grow(
    fresh: pa.Table,
    labels: Mapping[str, Label],
    old: Old,
    read: Callable[[pa.ChunkedArray], pa.Table] | None,
) -> Grown:
    """Return the rows of the source together with those of the old manifest.

    `read` reads the facts of old files that the source no longer has; None: they stay.
    """
    fresh, places = _matched(fresh, old)
    matched = np.zeros(len(old.table), bool)
    matched[places[places >= 0]] = True
    if not matched.any():
        raise ManifestError(
            f"none of the {count(len(old.table), 'row')} of {old.name} is in the source, by id or "
            f"by path, such as {quote(old.table['path'][0].as_py())}. Check the source, or build "
            "the manifest again, without update= (--update)"
        )
    before, fresh = _same_classes(old.table, fresh)
    known = {**old.labels, **labels} | _same_lists(old.labels, labels)
    gone = np.flatnonzero(~matched)
    rest = before.take(pa.array(gone))
    if read is not None and len(gone):
        facts = read(rest["path"])
        facts = with_column(facts, "problem", problems_now(rest, facts))
        for name in facts.column_names:
            rest = with_column(rest, name, facts[name])
    if len(gone):
        shown = ", ".join(map(quote, first(rest["path"])[:3]))
        warn(
            f"Kept {count(len(gone), 'row')} of {old.name} that the source no longer has: {shown}. "
            "Missing files have a problem."
        )
    table = pa.concat_tables([fresh, _aligned(rest, fresh.schema, old.name)])
    places = np.concatenate([places, gone])
    order = np.argsort(np.where(places < 0, len(places), places), kind="stable")
    table = table.combine_chunks().take(pa.array(order))
    own = before.take(pa.array(places[order], mask=places[order] < 0))  # null for new rows
    table = with_column(table, "id", pc.coalesce(own["id"], table["id"]))
    if "format" in table.column_names:
        table = with_column(table, "format", to_category(table["format"].cast(pa.string())))
    added = [name for name in before.column_names if name not in (*table.column_names, *PARTS)]
    for name in added:
        table = table.append_column(name, own[name])
    if of_user := [name for name in added if name not in FACTS]:
        warn(f"Kept {', '.join(of_user)} of {old.name}: the source does not have it for new rows.")
    for name in label_columns(table.column_names):
        if name in own.column_names and name not in added:
            corrected = old.labels.get(name, {}).get("corrected", False)
            table = _with_labels(table, own, name, corrected, old.name)
            if corrected:
                known[name] = {**known[name], "corrected": True}
    parts = own.select([name for name in PARTS if name in own.column_names])
    split = dict(parts.to_pandas(types_mapper=PANDAS_TYPES.get).items())
    return Grown(table, describe_labels(table, known), split)


def _matched(fresh: pa.Table, old: Old) -> tuple[pa.Table, IntArray]:
    """Return the fresh rows with ids of the old type, and the old row of each, or -1.

    Rows with the same id are the same; so are rows with the same path, if it is unique.
    """
    kind = old.table["id"].type
    try:
        ids = fresh["id"].cast(kind)
    except pa.ArrowInvalid as error:
        raise ManifestError(
            f"{old.name} has ids of type {kind}, and the ids of the source are not: {error}. Give "
            "the arguments that make such ids (pattern=, id=), or build the manifest again, "
            "without update= (--update)"
        ) from None
    fresh = with_column(fresh, "id", ids)
    places = _indices(ids, old.table["id"])
    lonely = np.flatnonzero(places < 0)
    free = np.ones(len(old.table), bool)
    free[places[places >= 0]] = False
    if len(lonely) and free.any():
        rows = np.flatnonzero(free)
        ours, theirs = fresh["path"].take(pa.array(lonely)), old.table["path"].take(pa.array(rows))
        by_path = _indices(ours, theirs)
        unique = _are_unique(fresh["path"])[lonely] & (by_path >= 0)
        unique &= _are_unique(old.table["path"])[rows[by_path]]
        places[lonely] = np.where(unique, rows[by_path], -1)
    return fresh, places


def _indices(values: pa.ChunkedArray, known: pa.ChunkedArray) -> IntArray:
    places: IntArray = pc.fill_null(pc.index_in(values, value_set=known), -1).to_numpy()
    return places.astype(np.int64)


def _are_unique(paths: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    codes = paths.cast(pa.string()).combine_chunks().dictionary_encode().indices.to_numpy()
    return (np.bincount(codes) == 1)[codes]  # type: ignore[no-any-return]


def _same_classes(before: pa.Table, fresh: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Give class names their old indices; new names follow."""
    for name in fresh.column_names:
        kind = fresh[name].type
        if not pa.types.is_dictionary(kind):
            continue
        names = class_names(fresh[name])
        if name in before.column_names:
            known = class_names(before[name]).cast(names.type)
            names = known_first(names, known)
            before = with_column(before, name, with_classes(before[name], names, kind.ordered))
            if name not in ("format", *PARTS):
                _warn_of_new(name, len(known), names[len(known) :].to_pylist())
        fresh = with_column(fresh, name, with_classes(fresh[name], names, kind.ordered))
    return before, fresh


def _same_lists(before: Mapping[str, Label], labels: Mapping[str, Label]) -> dict[str, Label]:
    """Give the classes of lists their old indices; new classes follow."""
    known = dict[str, Label]()
    for name in before.keys() & labels.keys():
        if labels[name]["kind"] == "list" and "class_names" in labels[name]:
            old = before[name].get("class_names", [])
            new = [value for value in labels[name]["class_names"] if value not in old]
            known[name] = {**labels[name], "class_names": [*old, *new]}
            _warn_of_new(name, len(old), new)
    return known


def _warn_of_new(name: str, old: int, new: Sequence[object]) -> None:
    if new:
        warn(f"{name} has new classes, numbered after the {old} old ones: {listed(new)}.")


def _with_labels(
    table: pa.Table, own: pa.Table, name: str, corrected: bool, where: str
) -> pa.Table:
    """Return the rows with the old labels if they were corrected, else warn of changes.

    A file that was moved to another folder may well have another label.
    """
    old = _aligned(own, table.select([name]).schema, where)[name]
    is_old = own["id"].is_valid().to_numpy()
    stayed = is_old if corrected else pc.fill_null(pc.equal(own["path"], table["path"]), False)
    changed = np.flatnonzero(differ(table[name], old) & np.asarray(stayed))
    if len(changed):
        rows = pa.array(changed[:3])
        values = [column.take(rows).to_pylist() for column in (table["id"], old, table[name])]
        shown = ", ".join(f"{key} ({a} -> {b})" for key, a, b in zip(*values, strict=True))
        what = f"{name} of {count(len(changed), 'row')} of {where}"
        if corrected:
            warn(f"Kept the {what}, because it was corrected; the source differs: {shown}.")
        else:
            warn(f"{what} changed to the value of the source: {shown}.")
    if not corrected:
        return table
    places = np.arange(len(is_old)) + np.where(is_old, len(is_old), 0)
    both = pa.chunked_array([*table[name].chunks, *old.chunks])
    return with_column(table, name, both.take(pa.array(places)))


def _aligned(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Return old rows with the columns and types of the fresh ones, null if they lack one."""
    columns = []
    for column in schema:
        if column.name not in rows.column_names:
            columns.append(pa.nulls(len(rows), column.type))
            continue
        values = rows[column.name]
        try:
            if pa.types.is_dictionary(column.type) and values.type in TEXT:
                values = with_classes(values, class_names(values), column.type.ordered)
            elif column.type in TEXT and pa.types.is_dictionary(values.type):
                values = values.cast(values.type.value_type)
            columns.append(values.cast(column.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ManifestError(
                f'column "{column.name}" of {where} has type {values.type}, and the source now has '
                f"{column.type}, so old rows cannot be kept beside new ones ({error}). Build the "
                "manifest again, without update= (--update)"
            ) from None
    return pa.table(columns, schema=schema)
