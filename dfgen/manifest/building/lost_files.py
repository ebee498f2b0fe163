"""The error for a manifest none of whose files is on the disk."""

import os

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import MissingFileError
from dfgen.manifest.building.recipe import LABEL_TABLE, Recipe
from dfgen.manifest.building.scan import NOT_THERE
from dfgen.manifest.schema import quote
from dfgen.manifest.sources import SOURCES
from dfgen.samples.stores.near_paths import Begin, around, near
from dfgen.samples.stores.schemes import has_store, scheme_of


class _OfTable(Begin):
    """The folder where the paths of a label table begin; `build_manifest` says what to write."""

    def change(self, source: str) -> str:
        here = f'labels["{self.column}"]'
        return f"write {here} = {source.replace('{}', here)}"

    def rooted(self, folder: str) -> str:
        return f"give root={quote(folder)} (--root)"


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
        "the only file does not exist," if files == 1 else f"none of the {files:,} files exists, as"
    )
    if has_store(scheme_of(path)):
        raise MissingFileError(f"{what} {quote(path)}: {_root(recipe)}")
    some = dict.fromkeys((path, paths[len(paths) // 2].as_py(), paths[-1].as_py()))
    advice = _advice(list(some), recipe, folder)
    raise MissingFileError(
        f"{what} {quote(path)}: {advice}{'.' * (advice[-1] != '?')} For files that are not on this "
        'machine give facts="none" (--facts none)'
    )


def _advice(paths: list[str], recipe: Recipe, folder: str) -> str:
    """Return what is near the first of a few files, how many that finds, and what to do."""
    start = folder.rstrip("/") + "/"
    names = [path.removeprefix(start) for path in paths]
    begin = _OfTable(recipe.path_column or "path", folder)
    found = near(names[0], begin)
    if found is None or os.path.isdir(found.place(names[0])):
        if not any(os.path.splitext(name)[1] for name in names):
            shown = ", ".join(map(quote, names))
            return f"is {shown} the path of a file? Name the column of paths, path_column="
        return f"{around(names[0], begin)}. {_root(recipe)}"
    there = sum(os.path.exists(found.place(name)) for name in names)
    finds = f" ({there} of {len(names)} tried are found by that)" if there else ""
    if recipe.kind == LABEL_TABLE:
        key = "relpath" if "/" in names[0] else "name" if os.path.splitext(names[0])[1] else "stem"
        several = (
            ". If the files are in several folders, and no name is there twice, give the folder "
            f'above them as the source, and on="{key}={begin.column}"'
        )
        return found.advice + finds + several * (0 < there < len(names))
    return f"{found.what}{finds}. {_root(recipe)}"


def _root(recipe: Recipe) -> str:
    if recipe.kind != LABEL_TABLE and "images" in SOURCES[recipe.kind].arguments:
        return "Give the folder of the images as images= (--images)"
    if recipe.kind == LABEL_TABLE or "root" in SOURCES[recipe.kind].shared:
        return "Give the folder where the paths start as root= (--root)"
    return "Put the files where it says, or mend its paths"
