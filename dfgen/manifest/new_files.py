"""Files that the source of a manifest has now, and the manifest lacks."""

import os
from dataclasses import fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.limits import Limits
from dfgen.manifest.building.gather import gather_rows
from dfgen.manifest.building.recipe import A_FRAME, Recipe
from dfgen.manifest.building.recipe_file import resolve
from dfgen.manifest.building.update.match import match
from dfgen.manifest.io import Path
from dfgen.manifest.paths import tidy
from dfgen.manifest.places import absolute_place
from dfgen.manifest.schema import with_column
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.splitting.split_arguments import Splitting
from dfgen.samples.storage.far.store_options import StorageOptions


def new_files(
    table: pa.Table, recipe: Recipe, name: str, limits: Limits, options: StorageOptions | None
) -> pa.Table:
    """Return `id` and `path` of what the source has and the manifest, called `name`, lacks."""
    gathered = gather_rows(recipe, limits, options)
    fresh = gathered.rows
    if "problem" in fresh.column_names:  # labels without a file
        fresh = fresh.filter(pc.is_null(fresh["problem"]))
    paths = tidy(fresh["path"].cast(pa.string()), gathered.folder)
    table = with_column(table, "path", table["path"].cast(pa.string()))
    keys, places = match(table, pa.table({"id": fresh["id"], "path": paths}), name)
    new = keys.filter(pa.array(places < 0))
    return new.select(["id", "path"])


def looks_for_files(recipe: dict[str, Any]) -> bool:
    """Whether there is a source to ask for new files; a frame that named them is gone."""
    return recipe.get("labels") != A_FRAME or any(name in recipe for name in SOURCES)


def source_of(recipe: dict[str, Any], root: Path | None, where: str) -> Recipe:
    """Return the recipe that finds the files of a manifest, and opens none.

    `where` is the file of the manifest, "" for a frame in hand.
    """
    left_out = [field.name for field in fields(Splitting)]
    if recipe.get("labels") == A_FRAME:
        left_out += ["labels", "on", "id", "category", "label", "path_column"]
    recipe = {name: value for name, value in recipe.items() if name not in left_out}
    recipe["facts"] = "none"
    if recipe.get("unmatched", "error") == "error":
        recipe["unmatched"] = "keep"
    given = {}
    if root is not None and "root" not in recipe:
        for name, source in SOURCES.items():
            if name in recipe and source.folder in recipe:
                given[source.folder] = absolute_place(os.fspath(root))
    return resolve(given, recipe, where)
