"""From a recipe to its source: which arguments each source takes."""

from collections.abc import Iterator

from dfgen.manifest.building.recipe import Recipe
from dfgen.manifest.sources import SOURCES
from dfgen.manifest.sources.chunk import Chunk
from dfgen.manifest.sources.pattern import Pattern


def open_source(recipe: Recipe, pattern: Pattern | None) -> Iterator[Chunk]:
    """Return the chunks of the source that a recipe names; any but a table."""
    arguments = {
        "files": (recipe.source, pattern),
        "voc": (
            recipe.voc,
            recipe.images,
            recipe.box_label,
            recipe.class_names,
            recipe.unmatched,
        ),
        "coco": (recipe.coco, recipe.images),
        "yolo": (recipe.yolo, recipe.unmatched),
        "metadata": (recipe.metadata,),
        "listing": (recipe.listing, recipe.path_column, recipe.root, pattern),
        "arrays": (recipe.arrays,),
    }
    return SOURCES[recipe.kind](*arguments[recipe.kind])
