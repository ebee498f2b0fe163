"""Grow a manifest: what the source gives now, with the ids, splits and class numbers of before.

Rows are matched by id, then by path. The old rows stay in their order and the new ones follow. An
old row that the source no longer gives stays too: its file may be gone, which `problem` then says.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, count, first, quote
from dfgen.manifest.building.categories import (
    class_names,
    numbered_after,
    to_category,
    with_classes,
)
from dfgen.manifest.building.scan import PANDAS_TYPES, problems_now
from dfgen.manifest.diff import differ
from dfgen.manifest.row_matching import Old, match, taken
from dfgen.manifest.schema import Label, describe_labels, with_column
from dfgen.table.arrow_types import is_text


@dataclass(frozen=True)
class Growth:
    """Grown rows, what is known of their labels, splits or folds of old ones, and what to say."""

    table: pa.Table
    labels: dict[str, Label]
    parts: Mapping[str, pd.Series]
    warnings: tuple[str, ...] = ()


def grow(
    table: pa.Table,
    labels: Mapping[str, Label],
    old: Old,
    read: Callable[[pa.ChunkedArray], pa.Table] | None,
    parts: Collection[str],
) -> Growth:
    """Return the rows of the source with what is kept of the old manifest.

    `table` and `labels` are what the source gives now; `read` reads the facts of old files that the
    source no longer gives, None: they stay. `parts` are columns that new rows are given afterwards.
    """
    fresh, places = match(old.table, table, old.name)
    if (places < 0).all():
        raise ManifestError(
            f"none of the {count(len(old.table), 'row')} of {old.name} is in the source, neither "
            "by id nor by path: it is the manifest of other files, below "
            f"{old.metadata['root'] or 'several folders'}. Check the source, or build the "
            "manifest anew, without update= (--update)"
        )
    gone = np.flatnonzero(~taken(len(old.table), places))
    before, fresh, warnings = _same_classes(old.table, fresh)
    known, of_lists = _same_lists(old.metadata["labels"], labels)
    warnings += of_lists
    rest = before.take(pa.array(gone))
    rest = _with_facts(rest, read(rest["path"])) if read and len(gone) else rest
    together = pa.concat_tables([fresh, _align(rest, fresh.schema, old.name)])
    places = np.concatenate([places, gone])
    order = np.argsort(np.where(places < 0, len(places), places), kind="stable")
    together = together.combine_chunks().take(pa.array(order))
    own = before.take(pa.array(places[order], mask=places[order] < 0))
    if "format" in together.column_names:
        together = with_column(
            together, "format", to_category(together["format"].cast(pa.string()))
        )
    together, kept = _keep(together, own, before, parts)
    warnings += _kept_notes(rest["path"], kept.column_names, old.name)
    for name in kept.column_names:
        together = together.append_column(name, kept[name])
    for name in (name for name in known if known[name].get("corrected")):
        together, of_corrected = _keep_corrected(together, own, name, old.name)
        warnings += of_corrected
    parts = {
        name: own[name].to_pandas(types_mapper=PANDAS_TYPES.get)
        for name in parts
        if name in own.column_names
    }
    return Growth(together, describe_labels(together, known), parts, warnings)


def _kept_notes(paths: pa.ChunkedArray, columns: list[str], where: str) -> tuple[str, ...]:
    """Say which rows and columns the old manifest alone has."""
    shown, names = (", ".join(map(quote, each)) for each in (first(paths), columns))
    of_rows = (
        f"Kept {count(len(paths), 'row')} of {where} that the source no longer gives: {shown}. "
        "Where the file is gone, the column problem says so."
    )
    of_columns = f"Kept {names} of {where}: the recipe does not make it, so new rows have none."
    return tuple(note for note, kept in ((of_rows, shown), (of_columns, names)) if kept)


def _same_lists(
    before: Mapping[str, Label], labels: Mapping[str, Label]
) -> tuple[dict[str, Label], tuple[str, ...]]:
    """Give the classes of lists the numbers that they had; new ones follow."""
    known, warnings = {**before, **labels}, tuple[str, ...]()
    for name in before.keys() & labels.keys():
        if known[name]["kind"] != "list" or "class_names" not in labels[name]:
            continue
        old = before[name].get("class_names", [])
        new = [value for value in labels[name]["class_names"] if value not in old]
        known[name] = {**labels[name], "class_names": [*old, *new]}
        warnings += numbered_after(name, len(old), new)
    for name in (name for name in before if before[name].get("corrected")):
        known[name] = {**known[name], "corrected": True}
    return known, warnings


def _same_classes(before: pa.Table, fresh: pa.Table) -> tuple[pa.Table, pa.Table, tuple[str, ...]]:
    """Give class names the numbers that they had; new names follow."""
    warnings = tuple[str, ...]()
    for name in fresh.column_names:
        kind = fresh[name].type
        if not pa.types.is_dictionary(kind):
            continue
        names = class_names(fresh[name])
        if name in before.column_names:
            known = class_names(before[name]).cast(names.type)
            new = names.filter(pc.invert(pc.is_in(names, value_set=known)))
            names = pa.concat_arrays([known, new])
            before = with_column(before, name, with_classes(before[name], names, kind.ordered))
            if name != "format":
                warnings += numbered_after(name, len(known), new.to_pylist())
        fresh = with_column(fresh, name, with_classes(fresh[name], names, kind.ordered))
    return before, fresh, warnings


def _with_facts(rows: pa.Table, facts: pa.Table) -> pa.Table:
    facts = with_column(facts, "problem", problems_now(rows, facts))
    for name in facts.column_names:
        rows = with_column(rows, name, facts[name])
    return rows


def _align(rows: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """Return old rows with the columns and types of the fresh ones, missing where they lack one."""
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(len(rows), field.type))
            continue
        column = rows[field.name]
        try:
            if pa.types.is_dictionary(field.type) and is_text(column.type):
                column = with_classes(column, class_names(column), field.type.ordered)
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ManifestError(
                f'column "{field.name}" of {where} has type {column.type}, and the source now '
                f"gives {field.type}: rows that it no longer gives cannot be kept beside the "
                f"others ({error}). Build the manifest anew, without update= (--update)"
            ) from None
    return pa.table(columns, schema=schema)


def _keep_corrected(
    together: pa.Table, own: pa.Table, name: str, where: str
) -> tuple[pa.Table, tuple[str, ...]]:
    """Give old rows their labels in a column that was corrected; say how many differ."""
    is_old = own["id"].is_valid().to_numpy()
    theirs = _align(own, together.select([name]).schema, where)[name]
    odd = np.count_nonzero(differ(together[name], theirs) & is_old)
    places = np.arange(len(is_old)) + np.where(is_old, len(is_old), 0)
    both = pa.chunked_array([*together[name].chunks, *theirs.chunks])
    note = (
        f"Kept the {name} of {count(int(odd), 'old row')} of {where}, where the source has another "
        "one: it was corrected."
    )
    together = with_column(together, name, both.take(pa.array(places)))
    return together, (note,) * bool(odd)


def _keep(
    together: pa.Table, own: pa.Table, before: pa.Table, parts: Collection[str]
) -> tuple[pa.Table, pa.Table]:
    """Give old rows their ids, and their paths if theirs is lost; return columns of theirs alone.

    `own` has the old row of each, all null for new ones.
    """
    together = with_column(together, "id", pc.coalesce(own["id"], together["id"]))
    if "bytes" in together.column_names:
        lost = pc.is_null(together["bytes"])
        paths = pc.if_else(lost, pc.coalesce(own["path"], together["path"]), together["path"])
        together = with_column(together, "path", paths)
    rest = [n for n in before.column_names if n not in (*together.column_names, *parts)]
    return together, own.select(rest)
