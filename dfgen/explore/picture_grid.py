"""A grid of rows: their pictures, labels, boxes, masks, and what a model says of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError
from dfgen.explore.chosen_rows import check_known, chosen
from dfgen.explore.figures import Captioned, PictureRow, picture_figure
from dfgen.explore.predicted import heads_of, own_labels, prediction_lines, with_predictions
from dfgen.explore.thumbnails import thumbnails
from dfgen.limits import Limits
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.tables import Table
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.system import whole

_COLUMNS = 8
_SIDE = 160
_LABELS = 3
_NO_LABELS = ("loss", "mask", "prob_own")


def show(
    manifest: Path | Table,
    n: int = 16,
    *,
    by: str | None = None,
    sort: str | None = None,
    boxes: str | Boxes | bool | None = None,
    masks: str | Mask | bool | None = None,
    predictions: pd.DataFrame | None = None,
    image: str | Image | None = None,
    seed: int = 0,
    root: str | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Show some rows as pictures, with their labels, boxes and masks drawn.

    Files are decoded as for training, those of the rows that are shown alone. What is missing or
    broken is a tile that says why; of what is deeper than 8 bits, the caption says which values are
    black and white.

    Args:
        manifest: a frame or another table, or the path of a manifest.
        n: rows in all.
        by: some of each value of this column, one line of pictures each.
        sort: a column whose lowest rows are shown, or with `-` before its name the highest, as in
            `"-loss"`. None: rows are drawn by `seed`.
        boxes: the column of boxes (xyxy in pixels, classes in `labels`), or a `dfgen.Boxes`. None:
            `boxes`, where there is such a column; False: none.
        masks: the column of mask files, or a `dfgen.Mask`. None: `mask`, where there is such a
            column; False: none.
        predictions: a frame of `dfgen.predict_frame`: what it says of a row stands below it, in red
            where it is wrong. Where the manifest is one itself, it is not needed.
        image: the column of the pictures, or a `dfgen.Image`; None: `path`, else the first column
            that holds files.
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
    pictures = iter(captioned(rows, found))
    lines = [
        PictureRow([next(pictures) for _ in part], heading if not start else "")
        for heading, places in groups
        for start in range(0, len(places), _COLUMNS)
        for part in [places[start : start + _COLUMNS]]
    ]
    how = "drawn at random" if sort is None else f"the lowest {sort} first"
    if sort is not None and sort not in frame:
        how = f"the highest {sort[1:]} first"
    return picture_figure(lines, rows, f"{len(rows):,} of {len(frame):,} rows, {how}")


def captioned(rows: pd.DataFrame, found: list[Any], unlabelled: str = "id") -> Iterator[Captioned]:
    """Yield the thumbnails of rows with their labels, and what a model says of them, below.

    If there are no labels, the column `unlabelled` stands in their place.
    """
    heads = heads_of(rows)
    labels = [name for name in own_labels(rows) if _is_label(rows, name, heads)][:_LABELS]
    for place, thumbnail in enumerate(found):
        row = rows.iloc[place]
        said = ", ".join(_value(name, row[name], len(labels)) for name in labels)
        lines, is_wrong = prediction_lines(row, heads)
        caption = (said or str(row.get(unlabelled, "")), *lines, thumbnail.note)
        yield Captioned(thumbnail, tuple(filter(None, caption)), is_wrong)


def _column(frame: pd.DataFrame, given: Any, usual: str) -> Any:
    """Return the column that is to be drawn, or None."""
    if given is None:
        return usual if usual in frame and (usual != "boxes" or "labels" in frame) else None
    if given is True:
        check_known(usual, usual, frame)
        return usual
    return None if given is False else given


def _is_label(rows: pd.DataFrame, name: str, heads: list[str]) -> bool:
    """Whether a column says in a word or a number what a row is."""
    values = rows[name]
    is_long = values.dtype == object and not values.map(lambda one: isinstance(one, str)).all()
    is_long = bool(is_long or values.map(pd.api.types.is_list_like).any())  # lists of Arrow's too
    as_true = any(
        values.astype(str).equals(rows[f"y_true{head}"].astype(str))
        for head in heads
        if f"y_true{head}" in rows
    )
    return name not in _NO_LABELS and not is_long and not as_true


def _value(name: str, value: Any, several: int) -> str:
    text = "none" if pd.isna(value) else f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if several == 1 else f"{name} {text}"
