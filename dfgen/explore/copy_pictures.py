"""Copies among the rows of a frame as rows of pictures, and those that stand in several splits."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dfgen.explore.figures import Captioned, PictureRow, picture_figure
from dfgen.explore.picture_grid import captioned
from dfgen.explore.thumbnails import thumbnails
from dfgen.limits import Limits
from dfgen.manifest.duplicates import duplicates, leaks
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import part_column
from dfgen.manifest.tables import Table
from dfgen.system import whole

_MOST = 8  # pictures of a group
_SIDE = 160


def show_duplicates(
    manifest: Path | Table,
    n: int = 8,
    *,
    within: int | None = None,
    image: str | None = None,
    root: str | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Show groups of copies, each as a row of pictures: the same bytes, or nearly the same picture.

    Args:
        manifest: a frame with the facts `digest` and `phash`, of
            `dfgen.build_manifest(facts="full")`.
        n: groups, the first of the frame; of each up to eight pictures.
        within: bits in which the hashes of near copies differ; None: as `duplicates` of
            `dfgen.manifest.duplicates` has it.
        image: the column of the pictures; None: `path`.
        root: folder where relative paths begin; None: the working folder.
        limits: `dfgen.Limits`: what one file may ask for.
        storage_options: what opens URLs; see `dfgen.Sequence`.

    Returns:
        A `matplotlib.figure.Figure`, whose `table` has all copies: `group`, `kind` ("exact" or
        "near"), `distance` in bits from the first of the group, `id`, `path`, `split`. It has no
        rows where there are no copies.

    Raises:
        ManifestError: the frame has no digests and hashes.
        MissingPackageError: matplotlib is not installed.

    Example:
        >>> found = df.dfgen.duplicates()  # doctest: +SKIP
        >>> df = df.drop(found.table.index[found.table.duplicated("group")])
    """
    whole("n", n, least=1)
    frame = frame_of_manifest(manifest)
    plain = frame.reset_index(drop=True)
    found = duplicates(plain, within=within)
    lines = []
    for number, group in found[found["group"] < n].groupby("group"):
        kind, more = group["kind"].iloc[0], f", {_MOST} shown" if len(group) > _MOST else ""
        lines.append((f"{number}: {kind}, {len(group)} rows{more}", group.index[:_MOST].tolist()))
    groups = found["group"].nunique()
    how = {"root": root, "limits": limits, "storage_options": storage_options}
    said = f"{groups:,} groups of copies, {len(found):,} rows" if groups else "no copies"
    said += f"; {n} shown" if groups > n else ""
    return _figure(plain, lines, found.set_axis(frame.index[found.index]), said, image, how)


def show_leaks(
    manifest: Path | Table,
    n: int = 8,
    *,
    within: int | None = None,
    image: str | None = None,
    root: str | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Show pictures that stand in several splits, side by side: what a model learned by heart.

    Args:
        manifest: as of `show_duplicates`, with a column `split`, or `fold`.
        n: pairs, the first of the frame.
        within: as of `show_duplicates`.
        image: as of `show_duplicates`.
        root: as of `show_duplicates`.
        limits: as of `show_duplicates`.
        storage_options: as of `show_duplicates`.

    Returns:
        A `matplotlib.figure.Figure`, whose `table` has all such pairs: `id`, `path` and `split` of
        each row of a later split, `other_id`, `other_path` and `other_split` of its copy in an
        earlier one, `kind` and `distance`. It has no rows where nothing leaks.

    Raises:
        ManifestError: the frame has no digests and hashes, or no splits.
        MissingPackageError: matplotlib is not installed.

    Example:
        >>> df = df.drop(df.dfgen.leaks().table.index)  # doctest: +SKIP
    """
    whole("n", n, least=1)
    frame = frame_of_manifest(manifest)
    plain = frame.reset_index(drop=True)
    found = leaks(plain, within=within)
    key = "id" if "id" in plain else "path"
    shown = found.head(n)
    others = pd.Series(plain.index, plain[key]).groupby(level=0, observed=True).first()
    pairs = zip(shown.index.tolist(), others.loc[shown[f"other_{key}"]].tolist(), strict=True)
    lines = [(kind, [*pair]) for kind, pair in zip(shown["kind"].tolist(), pairs, strict=True)]
    how = {"root": root, "limits": limits, "storage_options": storage_options}
    said = f"{len(found):,} rows have a copy in an earlier split" if len(found) else "nothing leaks"
    said += f"; {n} shown" if len(found) > n else ""
    return _figure(plain, lines, found.set_axis(frame.index[found.index]), said, image, how)


Lines = Sequence[tuple[str, list[int]]]
"""A heading, and the rows whose pictures stand below it."""


def _figure(
    frame: pd.DataFrame, lines: Lines, table: pd.DataFrame, title: str, image: Any,
    how: dict[str, Any],
) -> Any:  # fmt: skip
    """Return a figure of a line of pictures each."""
    part = part_column(frame)
    rows = frame.iloc[np.array([row for _, places in lines for row in places], np.int64)]
    shown = captioned(rows, thumbnails(rows, image, side=_SIDE, **how), unlabelled="")
    pictures = iter(
        Captioned(one.thumbnail, _caption(row, part, one.caption))
        for one, (_, row) in zip(shown, rows.iterrows(), strict=True)
    )
    drawn = [PictureRow([next(pictures) for _ in rows], heading) for heading, rows in lines]
    return picture_figure(drawn, table, title)


def _caption(row: "pd.Series[Any]", part: str | None, lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the id and the split of a row, and what else is said of it."""
    name = str(row.get("id", row.get("path")))
    return (name if part is None else f"{name} in {row[part]}", *lines)
