"""Give an existing manifest a new split."""

import warnings
from collections.abc import Mapping
from typing import Any, Never

import pandas as pd

from dfgen.errors import ArgumentError, ManifestError, column_list, did_you_mean, legible
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.manifest.building.recipe import is_left_out, unit_of
from dfgen.manifest.io import Path, frame_of_manifest, write_manifest
from dfgen.manifest.schema import FACTS, PARTS, label_columns, quote
from dfgen.manifest.splitting.absent_classes import lacking_rows
from dfgen.manifest.splitting.shared_paths import leaks_between_splits, notes_of
from dfgen.manifest.splitting.split_rules import Splitting
from dfgen.table.any_table import Table
from dfgen.table.from_pandas import check_names


def split(
    manifest: Path | Table,
    shares: Mapping[str, float] | None = None,
    *,
    folds: int | None = None,
    stratify: str | None = None,
    group: str | None = None,
    order: str | None = None,
    group_duplicates: bool = False,
    seed: int = 0,
    out: Path | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Return a manifest with a new split of all its rows: the column `split`, or `fold`.

    Use it to change shares, names or seed, to make folds for cross-validation, or to split by time.
    To give a split to new rows alone, let the manifest grow: `build_manifest(update=...)`. Made
    anew, a split keeps old rows where they were if new ones came by their hash alone, that is
    without `stratify`, `order` and `group_duplicates`.

    Args:
        manifest: a file, or a frame or another table; older splits and folds are replaced.
        shares: split -> share, as in `{"train": 0.8, "val": 0.2}`.
        folds: instead of shares, how many folds: the column `fold` holds 0 to folds - 1, int8.
            `dfgen.sequences(df, fold=0)` validates on one and trains on the others. Without
            `stratify` they are of about the same size.
        stratify: the column whose classes get exactly these shares, or fill folds evenly.
        group: the column whose groups stay whole.
        order: with shares, a column of dates, times or numbers: the earliest rows are the first
            split, the latest the last. Shares are exact, but rows of the same time stay together,
            in the split of the first of them. With `group`, a group stands where its latest row
            does. Neither `seed` nor chance has a part in it.
        group_duplicates: keep copies of a picture in one split: rows of the same file, bytes or
            nearly the same perceptual hash. Needs a manifest built with `facts="full"`.
        seed: another seed gives another split.
        out: also write the manifest to this file.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        A new frame. The recipe in its attrs makes the same split.

    Raises:
        ArgumentError: the shares do not add up to 1, arguments do not go together, or there is no
            such column.
        ManifestError: there is no column `id`, a row has no group or time, or the classes are
            fractions.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> df = pd.DataFrame({"id": range(4), "path": [*"abcd"], "kind": ["cat", "dog"] * 2})
        >>> split(df, {"train": 0.5, "val": 0.5}, stratify="kind")["split"].tolist()
        ['train', 'train', 'val', 'val']
    """
    refuse_unknown(split, unknown)
    how = Splitting(shares, folds, stratify, group, order, group_duplicates, seed)
    frame, messages = make_split(manifest, how, out)
    for message in messages:
        warnings.warn(legible(message, 1_000), stacklevel=2)
    return frame


def make_split(
    manifest: Path | Table, how: Splitting, out: Path | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Do what `split` says, and return with the frame what is to be said of it."""
    if how.split is None and how.folds is None and not how.named:
        raise ArgumentError(
            'say how to split: shares, as in {"train": 0.8, "val": 0.2} (--split train=0.8 --split '
            "val=0.2), or folds=5 (--folds 5)"
        )
    how.check()
    frame = frame_of_manifest(manifest)
    check_names([*frame.columns], "the manifest")
    for argument, name in how.named.items():
        if name not in frame:
            raise ArgumentError(
                f"{argument}={quote(name)} is not a column of the manifest."
                f"{did_you_mean(name, frame.columns)} Columns: {column_list(frame.columns)}"
            )
    if "id" not in frame:
        raise ManifestError(
            'the manifest has no column "id", by which rows fall into splits. Make one of what '
            'tells rows apart, such as df["id"] = df["path"]. Columns: '
            f"{column_list(frame.columns)}"
        )
    came_with = [name for name in PARTS if name in frame]
    known = frame.attrs.get("dfgen", {})
    parts = how.parts(frame, how.group or unit_of(known.get("recipe") or {}))
    frame = frame.drop(columns=came_with)
    place = len([name for name in frame.columns if name not in FACTS])
    frame.insert(place, how.column, pd.Series(parts, frame.index))
    recipe, messages = _new_recipe(known.get("recipe"), how, came_with)
    leaks = None if how.group_duplicates else leaks_between_splits(frame)
    messages += notes_of(leaks, frame)
    known = {**known, "recipe": recipe} if known else {}
    known = {**known, "leaks": leaks} if leaks or "leaks" in known else known
    frame.attrs = {"dfgen": known} if known else {}
    messages += lacking_rows(frame, label_columns(list(frame.columns)), how)
    if out is not None:
        write_manifest(frame, out)
    return frame, messages


def _new_recipe(
    recipe: dict[str, Any] | None, how: Splitting, came_with: list[str]
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a recipe that makes the new split too, if one can, and what to say if none can."""
    if recipe and came_with and not {"split", "folds"} & {*recipe}:
        return None, (
            f"The {came_with[0]} came from the source, so the recipe cannot make this one: the "
            "manifest is kept without its recipe.",
        )
    if recipe:
        asked = {**recipe, **vars(how)} | ({"split": dict(how.split)} if how.split else {})
        recipe = {name: value for name, value in asked.items() if not is_left_out(value)}
    return recipe, ()
