"""Match the rows of a source with those of an older manifest."""

import os
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, quote
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.recipe import Recipe, absolute_recipe
from dfgen.manifest.io import Path, read_table
from dfgen.manifest.path_roots import below_place, joined
from dfgen.manifest.schema import Metadata, with_column
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.spec import IntArray


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


def read_old(path: Path, limits: Limits = DEFAULT, options: StorageOptions | None = None) -> Old:
    """Read the manifest that grows; the errors are those of `read_manifest`."""
    table, metadata = read_table(path, reads_files=False, limits=limits, options=options)
    if "path" not in table.column_names:
        raise ManifestError(
            f"{os.fspath(path)} holds the files themselves, and update= (--update) compares files "
            "by their paths and times: build the manifest anew"
        )
    return Old(
        os.fspath(path), with_column(table, "path", table["path"].cast(pa.string())), metadata
    )


def changed_recipe(old: Old, recipe: Recipe) -> tuple[str, ...]:
    """Return what to say if the manifest grows by other arguments than those that built it."""
    new = absolute_recipe(recipe.arguments(), os.getcwd()) or {}
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
    before = old.metadata["root"]
    if before is None or root is None or before == root:
        return old, ()
    moved = joined(root, below_place(old.table["path"], before))
    lost = not pc.any(pc.is_in(old.table["path"], value_set=paths)).as_py()
    if not (lost and pc.any(pc.is_in(moved, value_set=paths)).as_py()):
        return old, ()
    note = f"{old.name} has its files in {before}; they are looked for in {root} from now on."
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
