"""`split`: divide a manifest into splits or folds."""

from collections.abc import Mapping
from typing import Any, Never

import pandas as pd

from dfgen.errors import ArgumentError, ManifestError, column_list, did_you_mean, quote
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.manifest.building.split_rules import Splitting
from dfgen.manifest.duplicates import warn_of_leaks
from dfgen.manifest.io import Path, frame_of_manifest, write_manifest
from dfgen.manifest.schema import FACTS, PARTS, label_columns
from dfgen.table.any_table import Table
from dfgen.table.arrow_types import check_names


def split(
    manifest: Path | Table,
    shares: Mapping[str, float] | None = None,
    *,
    folds: int | None = None,
    stratify: str | None = None,
    group: str | None = None,
    group_duplicates: bool = False,
    seed: int = 0,
    out: Path | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Return a manifest with a new split of all its rows: the column `split`, or `fold`.

    Use it to change shares, names or seed, or to make folds for cross-validation. To give a split
    to new rows only, update the manifest: `build_manifest(update=...)`. Rows that are added later
    move no row, unless the split has `stratify` or `group_duplicates`.

    Args:
        manifest: a file, or a frame or another table; older splits and folds are replaced. Rows
            without column `id` are split by `path`.
        shares: each split and its share, as in `{"train": 0.8, "val": 0.2}`.
        folds: the number of folds instead of shares. The column `fold` holds 0 to folds - 1, int8;
            `dfgen.sequences(df, fold=0)` validates on fold 0 and trains on the others.
        stratify: the column whose classes get exactly these shares, or fill folds evenly.
        group: the column whose groups stay whole.
        group_duplicates: keep copies of a picture in one split: rows of the same file, bytes or
            nearly the same perceptual hash. Needs a manifest built with `facts="full"`.
        seed: another seed gives another split.
        out: also write the manifest to this file (the command: by default the manifest itself).
        **unknown: none: arguments of other libraries are reported with their names here.

    Returns:
        A new frame. The recipe in its attrs makes the same split.

    Raises:
        ArgumentError: the shares do not add up to 1, arguments do not go together, or there is no
            such column.
        ManifestError: a row has no group, or the classes are fractions.

    Example:
        >>> df = pd.DataFrame({"id": range(4), "path": [*"abcd"], "kind": ["cat", "dog"] * 2})
        >>> split(df, {"train": 0.5, "val": 0.5}, stratify="kind")["split"].tolist()
        ['train', 'train', 'val', 'val']
    """
    refuse_unknown(split, unknown)
    how = Splitting(shares, folds, stratify, group, group_duplicates, seed)
    if not how.divides:
        raise ArgumentError(
            'split received neither shares nor folds: give {"train": 0.8, "val": 0.2} (--split '
            "train=0.8 --split val=0.2), or folds=5 (--folds 5)"
        )
    frame = frame_of_manifest(manifest)
    check_names([*frame.columns], "the manifest")
    for argument, name in how.named.items():
        if name not in frame:
            raise ArgumentError(
                f"{argument}={quote(name)} is not a column of the manifest."
                f"{did_you_mean(name, frame.columns)} Columns: {column_list(frame.columns)}"
            )
    if not {"id", "path"} & {*frame.columns}:
        raise ManifestError(
            'the manifest has neither "id" nor "path", by which rows are split. Rename the column '
            f"that identifies rows to id. Columns: {column_list(frame.columns)}"
        )
    known = frame.attrs.get("dfgen")
    parts = how.parts(frame)
    how.warn_of_lookalikes(frame, manifest)
    from_source = any(name in frame for name in PARTS)
    frame = frame.drop(columns=[name for name in PARTS if name in frame])
    place = len([name for name in frame.columns if name not in FACTS])
    frame.insert(place, how.column, parts)
    frame.attrs = {"dfgen": {**known, "recipe": _recipe(known, how, from_source)}} if known else {}
    if out is not None:
        write_manifest(frame, out)
    warn_of_leaks(frame, copies=not group_duplicates)
    how.warn_of_lacking(frame, label_columns(list(frame.columns)))
    return frame


def _recipe(known: dict[str, Any], how: Splitting, was_split: bool) -> dict[str, Any] | None:
    """Return the recipe with the new split; unchanged if its source has the old one."""
    recipe = known.get("recipe")
    if not recipe or (was_split and not {"split", "folds"} & {*recipe}):
        return recipe
    asked = {**recipe, **vars(how), "split": dict(how.split) if how.split else None}
    return {name: value for name, value in asked.items() if value}
