"""A table of labels that was given in memory is kept beside the manifest, for its updates."""

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.manifest.building.recipe import A_FRAME, LABEL_TABLE, Recipe
from dfgen.manifest.not_a_manifest import check_out
from dfgen.manifest.schema import files_column
from dfgen.packs.pack_index import PARTS_SUFFIX
from dfgen.system import write_whole
from dfgen.table.arrow_types import is_text
from dfgen.table.parquet import write_parquet

_KEY = b"dfgen_labels"
_ENDING = ".labels.parquet"
_ELSEWHERE = r"^/|^[A-Za-z]:[/\\]|^[A-Za-z][A-Za-z0-9+.-]*://"
_UPWARD = r"(^|/)\.\.(/|$)"


@dataclass(frozen=True)
class KeptLabels:
    """Where a table is kept, and the arguments by which a recipe finds it."""

    table: pa.Table
    path: str
    root: str | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that take the place of those of the table in memory."""
        return {"labels": self.path, **({"root": self.root} if self.root else {})}

    def write(self) -> None:
        """Write the table."""
        table = self.table.replace_schema_metadata({_KEY: b"1"})
        write_whole(self.path, partial(write_parquet, table))


def labels_to_keep(recipe: Recipe, labels: pa.Table, out: str | None) -> KeptLabels | None:
    """Return the table of a recipe that is to be kept beside `out`; None: it needs not, or cannot.

    It cannot where `out` is not on a disk, where the table holds the files themselves, or where
    some of its paths start at the current folder and others lie elsewhere.

    Raises:
        WriteError: another file has the name.
    """
    folder, name = os.path.split(os.path.abspath(out or ""))
    stem, suffix = os.path.splitext(name)
    if (
        recipe.arguments().get("labels") != A_FRAME
        or suffix not in (".parquet", PARTS_SUFFIX)
        or "://" in str(out)
    ):
        return None
    if files_column(labels.schema) not in (None, "path"):
        return None
    root = None
    if recipe.kind == LABEL_TABLE and recipe.root is None:
        paths = labels[recipe.key]
        if not is_text(paths.type) or paths.null_count:
            return None
        elsewhere = pc.match_substring_regex(paths, _ELSEWHERE)
        if not pc.all(elsewhere).as_py():
            upward = pc.match_substring_regex(paths, _UPWARD)
            if pc.any(pc.or_(elsewhere, upward)).as_py():
                return None
            root = recipe.folder if recipe.folder != folder else None
    kept = KeptLabels(labels, os.path.join(folder, stem + _ENDING), root)
    check_out(kept.path, key=_KEY, kind="table of labels that dfgen keeps beside a manifest")
    return kept
