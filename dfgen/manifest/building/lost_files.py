"""What to say where none of the files of a manifest is on the disk."""

import os

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import MissingFileError, did_you_mean
from dfgen.manifest.building.recipe import LABEL_TABLE, Recipe
from dfgen.manifest.building.right_root import what_finds
from dfgen.manifest.building.scan import NOT_THERE
from dfgen.manifest.schema import quote
from dfgen.manifest.sources import SOURCES

_SHOWN = 5


def refuse_all_missing(
    paths: pa.ChunkedArray, problems: pa.ChunkedArray, recipe: Recipe, folder: str
) -> None:
    """Raise if no file of these absolute paths exists, by the problems that were read of them.

    A few that are missing keep their rows. Where all are, they were looked for in a wrong place;
    `folder` is where relative paths start.
    """
    if not len(problems) or not pc.all(pc.fill_null(pc.equal(problems, NOT_THERE), False)).as_py():
        return
    path = paths[0].as_py()
    files = pc.count_distinct(paths).as_py()
    what = (
        "the only file does not exist," if files == 1 else f"none of the {files} files exists, as"
    )
    some = dict.fromkeys((path, paths[len(paths) // 2].as_py(), paths[-1].as_py()))
    advice = what_finds(list(some), folder) or _advice(recipe)
    raise MissingFileError(
        f"{what} {quote(path)}: {_where_it_ends(path)} {advice}; for files "
        'that are not on this machine, facts="none" (--facts none)'
    )


def _where_it_ends(path: str) -> str:
    """Say from which folder on a path is not there, and what is there instead."""
    lost, folder = path, os.path.dirname(path)
    while not os.path.exists(folder) and os.path.dirname(folder) != folder:
        lost, folder = folder, os.path.dirname(folder)
    if not folder:
        return "it is no path of this system."
    if not os.path.isdir(folder):
        return f"{quote(folder)} is a file, not a folder."
    kind, name = "file" if lost == path else "folder", os.path.basename(lost)
    try:
        names = sorted(name for name in os.listdir(folder) if name[0] != ".")
    except OSError as error:
        return f"{quote(folder)} cannot be read: {error}."
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"has {', '.join(map(quote, names[:_SHOWN]))}{more}" if names else "is empty"
    near = did_you_mean(name, names)
    return f"there is no {kind} {quote(name)} in {quote(folder)}, which {there}.{near}"


def _advice(recipe: Recipe) -> str:
    if recipe.kind != LABEL_TABLE and "images" in SOURCES[recipe.kind].arguments:
        return "Give the folder of the images as images= (--images)"
    if recipe.kind == LABEL_TABLE or "root" in SOURCES[recipe.kind].shared:
        return "Give the folder where the paths start as root= (--root)"
    return "Put the files where it says, or mend its paths"
