"""Grow a manifest: what the source gives now, with the ids, splits and class numbers of before.

Rows are matched by id, then by path. The old rows stay in their order and the new ones follow. An
old row that the source no longer gives stays too: its file may be gone, which `problem` then says.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.manifest.categories import class_names, to_category, with_classes
from dfgen.manifest.frames import to_table
from dfgen.manifest.io import Path, read_table
from dfgen.manifest.paths import absolute_recipe, with_paths
from dfgen.manifest.recipe import Recipe
from dfgen.manifest.schema import (
    FACTS,
    Label,
    Metadata,
    count,
    describe_labels,
    first,
    is_text,
    quote,
)

Places = npt.NDArray[np.int64]
"""A row number for each row, or -1."""


@dataclass(frozen=True)
class Old:
    """The manifest that grows: its file, its rows with absolute paths, its metadata."""

    name: str
    table: pa.Table
    metadata: Metadata

    @property
    def recipe(self) -> dict[str, Any]:
        """The arguments that built it, with absolute paths; empty if it was made by hand."""
        return self.metadata["recipe"] or {}


@dataclass(frozen=True)
class Growth:
    """A grown frame, what is known of its labels, the splits of its old rows, and what to say."""

    frame: pd.DataFrame
    labels: dict[str, Label]
    splits: pd.Series | None = None
    warnings: tuple[str, ...] = ()


def read_old(path: Path) -> Old:
    """Read the manifest that grows; the errors are those of `read_manifest`."""
    table, metadata = read_table(path)
    return Old(os.fspath(path), with_paths(table, table["path"].cast(pa.string())), metadata)


def rebase(old: Old, paths: pa.ChunkedArray, root: str | None) -> tuple[Old, tuple[str, ...]]:
    """Look for the old files below a new root, if that is where the source has them now.

    So it is if none of the old paths is among those of the source, as when a data set was moved.
    """
    before = old.metadata["root"]
    if before is None or root is None or before == root:
        return old, ()
    if pc.any(pc.is_in(old.table["path"], value_set=paths)).as_py():
        return old, ()
    below = pc.utf8_slice_codeunits(old.table["path"], len(before.rstrip("/")))
    moved = pc.binary_join_element_wise(root.rstrip("/"), below, "")
    if not pc.any(pc.is_in(moved, value_set=paths)).as_py():
        return old, ()
    note = f"{old.name} has its files in {before}; they are looked for in {root} from now on."
    return Old(old.name, with_paths(old.table, moved), old.metadata), (note,)


def match(old: pa.Table, fresh: pa.Table, where: str) -> tuple[pa.Table, Places]:
    """Return the fresh rows with ids of the old type, and the old row of each, or -1.

    The same id is the same row; so is the same path, where no other row of either has it.

    Raises:
        ManifestError: The fresh ids cannot be of the old type.
    """
    kind = old["id"].type
    try:
        ids = fresh["id"].cast(kind)
    except pa.ArrowInvalid as error:
        raise ManifestError(
            f"{where} has ids of type {kind}, and the source gives other ones: {error}. Give the "
            "arguments that make ids of that type (pattern=, id=), or build the manifest anew, "
            "without update= (--update)."
        ) from None
    fresh = with_paths(_set(fresh, "id", ids), fresh["path"].cast(pa.string()))
    places = _places(pc.index_in(ids, value_set=old["id"]))
    lonely = np.flatnonzero(places < 0)
    taken = _taken(len(old), places)
    if len(lonely) and not taken.all():
        free = old["path"].filter(pa.array(~taken))
        by_path = _places(pc.index_in(fresh["path"].take(pa.array(lonely)), value_set=free))
        by_path[by_path >= 0] = np.flatnonzero(~taken)[by_path[by_path >= 0]]
        alone = _alone(old["path"])[by_path] & _alone(fresh["path"])[lonely]
        places[lonely] = np.where(alone, by_path, -1)
    return fresh, places


def _taken(rows: int, places: Places) -> npt.NDArray[np.bool_]:
    taken = np.zeros(rows, bool)
    taken[places[places >= 0]] = True
    return taken


def _places(found: pa.ChunkedArray) -> Places:
    places: Places = pc.fill_null(found, -1).to_numpy().astype(np.int64)
    return places


def _alone(paths: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Say for each path whether it stands in one row only."""
    codes = paths.combine_chunks().dictionary_encode().indices.to_numpy()
    alone: npt.NDArray[np.bool_] = (np.bincount(codes) == 1)[codes]
    return alone


def grow(
    frame: pd.DataFrame, old: Old, read: Callable[[pa.ChunkedArray], pa.Table] | None
) -> Growth:
    """Return the rows of the source with what is kept of the old manifest.

    Args:
        frame: What the source gives now: id, path, labels, facts.
        old: The manifest that grows.
        read: Reads the facts of old files that the source no longer gives; None: they stay.

    Raises:
        ManifestError: None of the old rows is in the source, or ids or columns changed their type.
    """
    fresh, places = match(old.table, to_table(frame), old.name)
    if (places < 0).all():
        raise ManifestError(
            f"None of the {count(len(old.table), 'row')} of {old.name} is in the source, neither "
            "by id nor by path: it is the manifest of other files, below "
            f"{old.metadata['root'] or 'several folders'}. Check the source, or build the "
            "manifest anew, without update= (--update)."
        )
    gone = np.flatnonzero(~_taken(len(old.table), places))
    before, fresh, warnings = _same_classes(old.table, fresh)
    rest = before.take(pa.array(gone))
    rest = _with_facts(rest, read(rest["path"])) if read and len(gone) else rest
    together = pa.concat_tables([fresh, _align(rest, fresh.schema, old.name)])
    places = np.concatenate([places, gone])
    order = np.argsort(np.where(places < 0, len(places), places), kind="stable")
    together = together.combine_chunks().take(pa.array(order))
    own = before.take(pa.array(places[order], mask=places[order] < 0))
    if "format" in together.column_names:
        together = _set(together, "format", to_category(together["format"].cast(pa.string())))
    together, kept = _keep(together, own, before)
    if len(gone):
        shown = ", ".join(map(quote, first(rest["path"].combine_chunks())))
        warnings += (
            f"Kept {count(len(gone), 'row')} of {old.name} that the source no longer gives: "
            f"{shown}. Where the file is gone, the column problem says so.",
        )
    if kept.column_names:
        warnings += (
            f"Kept {', '.join(map(quote, kept.column_names))} of {old.name}: the recipe does not "
            "make it, so new rows have none.",
        )
    grown = pd.concat([together.to_pandas(), kept.to_pandas()], axis=1)
    grown["id"] = together["id"].to_pandas()  # the type that pandas knew may be another
    labels = describe_labels(together) | describe_labels(kept)
    splits = own["split"].to_pandas() if "split" in own.column_names else None
    return Growth(grown, labels, splits, warnings)


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
            before = _set(before, name, with_classes(before[name], names, kind.ordered))
            if len(new) and name != "format":
                warnings += (
                    f"{name} has new classes, numbered after the {len(known)} old ones: "
                    f"{', '.join(map(quote, first(new)))}.",
                )
        fresh = _set(fresh, name, with_classes(fresh[name], names, kind.ordered))
    return before, fresh, warnings


def _with_facts(rows: pa.Table, facts: pa.Table) -> pa.Table:
    for name in facts.column_names:
        if name in rows.column_names:
            rows = rows.drop_columns([name])
        rows = rows.append_column(name, facts[name])
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
                f'Column "{field.name}" of {where} has type {column.type}, and the source now '
                f"gives {field.type}: rows that it no longer gives cannot be kept beside the "
                f"others ({error}). Build the manifest anew, without update= (--update)."
            ) from None
    return pa.table(columns, schema=schema)


def _keep(together: pa.Table, own: pa.Table, before: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Give old rows their ids, and their paths if theirs is lost; return columns of theirs alone.

    Args:
        together: All rows.
        own: The old row of each, all null for new ones.
        before: The old rows, for their columns.
    """
    together = _set(together, "id", pc.coalesce(own["id"], together["id"]))
    changed = pa.array(np.zeros(len(together), bool))
    if "bytes" in together.column_names:
        lost = pc.is_null(together["bytes"])
        paths = pc.if_else(lost, pc.coalesce(own["path"], together["path"]), together["path"])
        together = _set(together, "path", paths)
        if "bytes" in own.column_names:
            changed = pc.or_(
                pc.not_equal(own["bytes"], together["bytes"]),
                pc.not_equal(own["mtime_ns"], together["mtime_ns"]),
            )
    rest = [n for n in before.column_names if n not in (*together.column_names, "split")]
    kept = own.select(rest)
    for name in rest:
        if name in FACTS:  # a digest of other bytes
            stale = pc.fill_null(changed, True)
            kept = _set(kept, name, pc.if_else(stale, None, kept[name]))
    return together, kept


def _set(table: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def changed_recipe(old: Old, recipe: Recipe) -> tuple[str, ...]:
    """Return what to say if the manifest grows by other arguments than those that built it."""
    new = absolute_recipe(recipe.arguments(), os.getcwd()) or {}
    names = [name for name in {**old.recipe, **new} if old.recipe.get(name) != new.get(name)]
    if not old.recipe or not names:
        return ()
    changes = "; ".join(
        f"{name} was {quote(old.recipe.get(name))}, is {quote(new.get(name))}" for name in names
    )
    return (
        f"The recipe is not that of {old.name}: {changes}. Old rows keep their id, split and class "
        "numbers, and the facts of files that did not change; labels are those of the new recipe.",
    )
