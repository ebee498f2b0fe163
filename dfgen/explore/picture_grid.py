"""Rows as pictures: their labels, boxes, masks and predictions; and copies, side by side."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, takewhile
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError
from dfgen.explore.chosen_rows import check_known, chosen
from dfgen.explore.figures import Captioned, PictureRow, in_rows, picture_figure
from dfgen.explore.plain_words import word
from dfgen.explore.predicted import (
    caption_columns,
    caption_lines,
    heads_of,
    prediction_lines,
    with_predictions,
)
from dfgen.explore.sketches import shown_column
from dfgen.explore.thumbnails import thumbnails
from dfgen.limits import Limits
from dfgen.manifest.duplicates import duplicates, leaks
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import part_column
from dfgen.samples.features.base import Feature
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.mask import Mask
from dfgen.system import whole
from dfgen.table.any_table import Table

_SIDE = 160
_OF_GROUP = 8  # pictures of a group of copies


def show(
    manifest: Path | Table,
    n: int = 16,
    *,
    by: str | None = None,
    sort: str | None = None,
    caption: str | Iterable[str] | None = None,
    boxes: str | Boxes | bool | None = None,
    masks: str | Mask | bool | None = None,
    predictions: pd.DataFrame | None = None,
    image: str | Feature | None = None,
    seed: int = 0,
    root: str | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Show some rows as pictures, with their labels, boxes and masks drawn.

    A sound is its waveform above its spectrogram; an array is an image, or a curve if it has one
    axis; text is text.

    Files are decoded as for training, only those of the rows that are shown. A missing or damaged
    file is a tile that says why. For images deeper than 8 bits the caption names the values that
    are black and white.

    Args:
        manifest: a frame or another table, or the path of a manifest.
        n: rows in all.
        by: some of each value of this column, one line of pictures each. If it holds lists, such
            as tags, a row counts for each of its values.
        sort: a column whose lowest rows are shown, or with `-` before its name the highest, as in
            `"-loss"`. None: rows are drawn at random by `seed`.
        caption: the column whose values stand below the pictures, or several. None: `id`, and up to
            three labels.
        boxes: the column of boxes (xyxy in pixels, classes in `labels`), or a `dfgen.Boxes`. None:
            `boxes`, where there is such a column; False: none.
        masks: the column of mask files, or a `dfgen.Mask`. None: `mask`, where there is such a
            column; False: none.
        predictions: a frame of `dfgen.predict_frame`: what it says of a row stands below it, in red
            where it is wrong. Where the manifest is one itself, it is not needed.
        image: the column of the pictures, sounds, arrays, lists of numbers or text, or a
            `dfgen.Image`, `Audio`, `Array` or `Text`. None: `path`, else the first column that
            holds files, numbers or text.
        seed: of what is drawn.
        root: folder where relative paths begin; None: the working folder.
        limits: `dfgen.Limits`: what one file may ask for.
        storage_options: what opens URLs; see `dfgen.Sequence`.

    Returns:
        A `matplotlib.figure.Figure`, whose `table` is the frame of the rows that it shows.

    Raises:
        ManifestError: a column that is not there, or no rows.
        MissingPackageError: matplotlib is not installed.

    Example:
        >>> import dfgen.explore  # doctest: +SKIP
        >>> df.dfgen.show(by="kind").savefig("pets.png")
    """
    whole("n", n, least=1)
    frame = frame_of_manifest(manifest)
    if not len(frame):
        raise ManifestError("there are no rows to show")
    frame = frame if predictions is None else with_predictions(frame, predictions)
    groups = chosen(frame, n, by, sort, seed)
    rows = frame.iloc[np.concatenate([places for _, places in groups])]
    found = thumbnails(
        rows, image, side=_SIDE, boxes=_column(frame, boxes, "boxes"),
        masks=_column(frame, masks, "mask"), root=root, limits=limits,
        storage_options=storage_options,
    )  # fmt: skip
    below = caption_columns(frame, caption)
    if any(one.text is not None for one in found) and caption is None:  # it is not said twice
        below = [name for name in below if name != (image or shown_column(rows))]
    pictures = captioned(rows, found, below)
    lines = [
        line
        for heading, places in groups
        for line in in_rows([*islice(pictures, len(places))], heading)
    ]
    how = "drawn at random" if sort is None else f"the lowest {sort} first"
    if sort is not None and sort not in frame:
        how = f"the highest {sort[1:]} first"
    shown = len({place for _, places in groups for place in places.tolist()})
    return picture_figure(lines, rows, f"{shown:,} of {len(frame):,} rows, {how}")


def captioned(rows: pd.DataFrame, found: list[Any], names: list[str]) -> Iterator[Captioned]:
    """Yield the thumbnails of rows; below them these columns, and what a model says of the row."""
    heads = heads_of(rows)
    if "path" in names:
        paths = rows["path"].map(word)
        folders = zip(*(path.split("/")[:-1] for path in paths), strict=False)
        shared = takewhile(lambda level: len(set(level)) == 1, folders)
        folder = "".join(f"{level[0]}/" for level in shared)
        rows = rows.assign(path=paths.str.removeprefix(folder))
    for place, thumbnail in enumerate(found):
        row = rows.iloc[place]
        lines, is_wrong = prediction_lines(row, heads)
        caption = (*caption_lines(row, names), *lines, thumbnail.note)
        yield Captioned(thumbnail, tuple(filter(None, caption)), is_wrong)


def _column(frame: pd.DataFrame, given: Any, usual: str) -> Any:
    if given is None:
        return usual if usual in frame and (usual != "boxes" or "labels" in frame) else None
    if given is True:
        check_known(usual, usual, frame)
        return usual
    return None if given is False else given


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
        >>> found = df.dfgen.show_duplicates()  # doctest: +SKIP
        >>> df = df.drop(found.table.index[found.table.duplicated("group")])
    """
    whole("n", n, least=1)
    frame = frame_of_manifest(manifest)
    found = duplicates(frame.reset_index(drop=True), within=within)
    lines = []
    for number, group in found[found["group"] < n].groupby("group"):
        kind, more = group["kind"].iloc[0], f", {_OF_GROUP} shown" if len(group) > _OF_GROUP else ""
        heading = f"{number}: {kind}, {len(group)} rows{more}"
        lines.append((heading, group.index[:_OF_GROUP].tolist()))
    groups = found["group"].nunique()
    title = f"{groups:,} groups of copies, {len(found):,} rows" if groups else "no copies"
    title += f"; {n} shown" if groups > n else ""
    how = {"root": root, "limits": limits, "storage_options": storage_options}
    return _copies_figure(frame, lines, found, title, image, how)


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
        >>> df = df.drop(df.dfgen.show_leaks().table.index)  # doctest: +SKIP
    """
    whole("n", n, least=1)
    frame = frame_of_manifest(manifest)
    found = leaks(frame.reset_index(drop=True), within=within)
    key = "id" if "id" in frame else "path"
    shown = found.head(n)
    others = pd.Series(range(len(frame)), frame[key]).groupby(level=0, observed=True).first()
    pairs = zip(shown.index.tolist(), others.loc[shown[f"other_{key}"]].tolist(), strict=True)
    lines = [(kind, [*pair]) for kind, pair in zip(shown["kind"].tolist(), pairs, strict=True)]
    title = (
        f"{len(found):,} rows have a copy in an earlier split" if len(found) else "nothing leaks"
    )
    title += f"; {n} shown" if len(found) > n else ""
    how = {"root": root, "limits": limits, "storage_options": storage_options}
    return _copies_figure(frame, lines, found, title, image, how)


def _copies_figure(
    frame: pd.DataFrame, lines: list[tuple[str, list[int]]], found: pd.DataFrame, title: str,
    image: Any, how: dict[str, Any]
) -> Any:  # fmt: skip
    """Return a figure of lines, each a heading and the rows whose pictures stand below it."""
    part = part_column(frame)
    rows = frame.iloc[np.array([row for _, places in lines for row in places], np.int64)]
    names = caption_columns(frame)
    shown = [one for one in (part,) if one is not None and one not in names]
    pictures = captioned(rows, thumbnails(rows, image, side=_SIDE, **how), [*names, *shown])
    drawn = [PictureRow([*islice(pictures, len(rows))], heading) for heading, rows in lines]
    return picture_figure(drawn, found.set_axis(frame.index[found.index]), title)
