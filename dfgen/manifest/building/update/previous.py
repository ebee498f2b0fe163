"""The manifest that grows, as it was."""

import os
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from dfgen.errors import ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.recipe import Recipe, absolute_recipe
from dfgen.manifest.io import Path, read_table
from dfgen.manifest.schema import Metadata, quote, with_column
from dfgen.samples.storage.far.store_options import StorageOptions


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
    asked = recipe.divides and (not old.recipe or any(each.name in names for each in fields(how)))
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
