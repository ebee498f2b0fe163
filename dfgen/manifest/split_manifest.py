"""Give an existing manifest a new split."""

import os
import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd

from dfgen.errors import ArgumentError, did_you_mean
from dfgen.manifest.building.recipe import unit_of
from dfgen.manifest.facts import FACTS
from dfgen.manifest.io import Path, read_manifest, write_manifest
from dfgen.manifest.schema import label_columns, quote
from dfgen.manifest.splits import assign_splits, lacking_rows
from dfgen.manifest.tables import Table, data_frame


def split(
    manifest: Path | Table,
    shares: Mapping[str, float],
    *,
    stratify: str | None = None,
    group: str | None = None,
    seed: int = 0,
    out: Path | None = None,
) -> pd.DataFrame:
    """Return a manifest with a new split of all its rows.

    Use it to change shares, names or seed. To give a split to new rows alone, let the manifest
    grow: `build_manifest(update=...)`.

    Args:
        manifest: a file, or a frame or another table; an older split is replaced.
        shares: split -> share, as in `{"train": 0.8, "val": 0.2}`.
        stratify: the column whose classes get exactly these shares.
        group: the column whose groups stay whole.
        seed: another seed gives another split.
        out: also write the manifest to this file.

    Returns:
        A new frame. The recipe in its attrs makes the same split.

    Raises:
        ArgumentError: the shares do not add up to 1, or there is no such column.
        ManifestError: a row has no group, or the classes are fractions.

    Example:
        >>> df = pd.DataFrame({"id": range(4), "path": "a.png", "kind": ["cat", "dog"] * 2})
        >>> split(df, {"train": 0.5, "val": 0.5}, stratify="kind")["split"].tolist()
        ['train', 'train', 'val', 'val']
    """
    frame, messages = make_split(manifest, shares, stratify, group, seed, out)
    for message in messages:
        warnings.warn(message, stacklevel=2)
    return frame


def make_split(
    manifest: Path | Table,
    shares: Mapping[str, float],
    stratify: str | None,
    group: str | None,
    seed: int,
    out: Path | None,
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Do what `split` says, and return with the frame what is to be said of it."""
    of_file = isinstance(manifest, str | os.PathLike)
    frame = read_manifest(manifest) if of_file else data_frame(manifest)
    for argument, name in {"stratify": stratify, "group": group}.items():
        if name is not None and name not in frame:
            raise ArgumentError(
                f"{argument}={quote(name)} is not a column of the manifest."
                f"{did_you_mean(name, frame.columns)} Columns: {', '.join(frame.columns)}"
            )
    came_with_split = "split" in frame
    known = frame.attrs.get("dfgen", {})
    unit = group or unit_of(known.get("recipe") or {})
    codes = assign_splits(
        frame["id"],
        shares,
        seed=seed,
        stratify=None if stratify is None else frame[stratify],
        group=None if unit is None else frame[unit],
    )
    names = [name for name in frame.columns if name != "split"]
    place = len([name for name in names if name not in FACTS])
    frame = frame.drop(columns="split", errors="ignore")
    frame.insert(place, "split", pd.Series(codes, frame.index))
    asked = {"split": dict(shares), "stratify": stratify, "group": group, "seed": seed}
    recipe, messages = _new_recipe(known.get("recipe"), asked, came_with_split)
    frame.attrs = {"dfgen": {**known, "recipe": recipe}} if known else {}
    messages += lacking_rows(frame, label_columns(names), stratify, group)
    if out is not None:
        write_manifest(frame, out)
    return frame, messages


def _new_recipe(
    recipe: dict[str, Any] | None, asked: dict[str, Any], came_with_split: bool
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return a recipe that makes the new split too, if one can, and what to say if none can."""
    if recipe and came_with_split and "split" not in recipe:
        return None, (
            "The split came from the source, so the recipe cannot make this one: the manifest is "
            "kept without its recipe.",
        )
    if recipe:
        recipe = {name: v for name, v in {**recipe, **asked}.items() if v is not None}
    return recipe, ()
