"""Grow a manifest: what the source gives now, with the ids, splits and class numbers of before.

Rows are matched by id, then by path. The old rows stay in their order and the new ones follow. An
old row that the source no longer gives stays too: its file may be gone, which `problem` then says.
"""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, count, first, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.recipe import Recipe, absolute_recipe
from dfgen.manifest.building.scan import problems_now
from dfgen.manifest.diff import differ
from dfgen.manifest.io import Path
from dfgen.manifest.metadata import Metadata
from dfgen.manifest.path_roots import below_place, joined
from dfgen.manifest.schema import (
    Label,
    class_names,
    describe_labels,
    numbered_after,
    to_category,
    with_classes,
    with_column,
)
from dfgen.manifest.table_reading import read_table
from dfgen.spec import IntArray
from dfgen.stores.store import StorageOptions
from dfgen.table.any_table import PANDAS_TYPES
from dfgen.table.arrow_types import is_text


@dataclass(frozen=True)
class Old:
    """The manifest that grows: its file, its rows with absolute paths, its metadata."""

    name: str
    table: pa.Table
    metadata: Metadata

    @property
    def recipe(self) -> dict[str, Any]:
        """The arguments that built it, with absolute paths; empty if it was made by hand."""
        return self.metadata.recipe or {}


def read_old(path: Path, limits: Limits = DEFAULT, options: StorageOptions | None = None) -> Old:
    """Read the manifest that grows; the errors are those of `read_manifest`."""
    table, metadata = read_table(path, limits=limits, options=options)
    if "path" not in table.column_names:
        raise ManifestError(
            f"{os.fspath(path)} holds the files themselves, and update= (--update) compares files "
            "by their paths and times: build the manifest anew"
        )
    return Old(
        os.fspath(path), with_column(table, "path", table["path"].cast(pa.string())), metadata
    )


def changed_recipe(old: Old, recipe: Recipe, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what to say if the manifest grows by other arguments than those that built it."""
    new = absolute_recipe(dict(arguments), os.getcwd()) or {}
    names = [name for name in {**old.recipe, **new} if old.recipe.get(name) != new.get(name)]
    how = recipe.splitting
    asked = how.divides and (not old.recipe or any(each.name in names for each in fields(how)))
    kept: tuple[str, ...] = ()
    if asked and how.column in old.table.column_names:
        kept = (
            f"Old rows of {old.name} keep their {how.column}: "
            f"{'split' if how.folds is None else 'folds'}= and what goes with it are for new "
            "rows alone. To give all rows a new one, dfgen.split (dfgen split).",
        )
    if not old.recipe or not names:
        return kept
    changes = "; ".join(
        f"{name} was {quote(old.recipe.get(name))}, is {quote(new.get(name))}" for name in names
    )
    return (
        f"The recipe is not that of {old.name}: {changes}. Old rows keep their id, split and class "
        "numbers, and the facts of files that did not change; labels are those of the new recipe.",
        *kept,
    )


def rebase(old: Old, paths: pa.ChunkedArray, root: str | None) -> tuple[Old, tuple[str, ...]]:
    """Look for the old files below a new root, if that is where the source has them now.

    So it is if none of the old paths is among those of the source, as when a data set was moved.
    """
    before = old.metadata.root
    if before is None or root is None or before == root:
        return old, ()
    moved = joined(root, below_place(old.table["path"], before))
    lost = not pc.any(pc.is_in(old.table["path"], value_set=paths)).as_py()
    if not (lost and pc.any(pc.is_in(moved, value_set=paths)).as_py()):
        return old, ()
    note = f"{old.name} has its files in {before}; dfgen looks for them in {root} from now on."
    return Old(old.name, with_column(old.table, "path", moved), old.metadata), (note,)


def match(old: pa.Table, fresh: pa.Table, where: str) -> tuple[pa.Table, IntArray]:
    """Return the fresh rows with ids of the old type, and the old row of each, or -1.

    The same id is the same row; so is the same path, where no other row of either has it.
    """
    kind = old["id"].type
    try:
        ids = fresh["id"].cast(kind)
    except pa.ArrowInvalid as error:
        raise ManifestError(
            f"{where} has ids of type {kind}, and the source gives other ones: {error}. Give the "
            "arguments that make ids of that type (pattern=, id=), or build the manifest anew, "
            "without update= (--update)"
        ) from None
    fresh = with_column(fresh, "path", fresh["path"].cast(pa.string()))
    fresh = with_column(fresh, "id", ids)
    places = _places(pc.index_in(ids, value_set=old["id"]))
    lonely = np.flatnonzero(places < 0)
    in_use = taken(len(old), places)
    if len(lonely) and not in_use.all():
        free = old["path"].filter(pa.array(~in_use))
        by_path = _places(pc.index_in(fresh["path"].take(pa.array(lonely)), value_set=free))
        by_path[by_path >= 0] = np.flatnonzero(~in_use)[by_path[by_path >= 0]]
        alone = _alone(old["path"])[by_path] & _alone(fresh["path"])[lonely]
        places[lonely] = np.where(alone, by_path, -1)
    return fresh, places


def taken(rows: int, places: IntArray) -> npt.NDArray[np.bool_]:
    """Say of each old row whether it has a place."""
    found = np.zeros(rows, bool)
    found[places[places >= 0]] = True
    return found


def _places(found: pa.ChunkedArray) -> IntArray:
    places: IntArray = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return places


def _alone(paths: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Say for each path whether it stands in one row only."""
    codes = paths.combine_chunks().dictionary_encode().indices.to_numpy()
    alone: npt.NDArray[np.bool_] = (np.bincount(codes) == 1)[codes]
    return alone


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
            f"{old.metadata.root or 'several folders'}. Check the source, or build the "
            "manifest anew, without update= (--update)"
        )
    gone = np.flatnonzero(~taken(len(old.table), places))
    before, fresh, warnings = _same_classes(old.table, fresh)
    known, of_lists = _same_lists(old.metadata.labels, labels)
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
        "If the file is gone, the column problem says so."
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
