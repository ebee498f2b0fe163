"""Regions of annotations on images that EXIF turns: polygons and run lengths, turned upright."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from dfgen.errors import DecodeError
from dfgen.samples.pixels import drawing
from dfgen.spec import Values

_TURNS: dict[int, Callable[[Values], Values]] = {
    2: np.fliplr,
    3: lambda mask: mask[::-1, ::-1],
    4: np.flipud,
    5: np.transpose,
    6: lambda mask: np.rot90(mask, -1),
    7: lambda mask: mask[::-1, ::-1].T,
    8: np.rot90,
}
"""EXIF orientation -> how the stored pixels become upright (EXIF 2.32, 4.6.4)."""


def turned(
    column: pa.Array,
    orientations: Values,
    turn: Callable[[Values, Values, Any], Values],
    images: Any,
) -> pa.Array:
    """Return lists of regions with those of turned images as they lie on the upright image.

    Args:
        column: of every row, the JSON of COCO's `segmentation` of each object.
        orientations: the EXIF orientation of every row's image.
        turn: returns points, (n, 2), of rows of `images` turned upright.
        images: what it needs of these.
    """
    rows = np.flatnonzero(orientations > 1)
    if not len(rows):
        return column
    lists = column.to_pylist()
    for row in rows.tolist():

        def upright(points: Values, row: int = row) -> Values:
            return turn(points, np.full(len(points), row), images)

        orientation, texts = int(orientations[row]), lists[row] or []
        lists[row] = lists[row] and [text and _turned(text, orientation, upright) for text in texts]
    return pa.array(lists, column.type)


def _turned(text: str, orientation: int, turn: Callable[[Values], Values]) -> str:
    """Return one region upright; as it is if it is none, which the feature refuses."""
    try:
        region = drawing.parsed(text)
        if isinstance(region, drawing.RunLengths):
            canvas = drawing.blank_canvas(region.size, 0, np.uint8)
            drawing.paint(drawing.runs_of([region], region.size)[0], 1, canvas)
            mask = drawing.upright(canvas)[..., 0]
            made: object = drawing.run_lengths(_TURNS[orientation](mask))
        else:
            made = [turn(np.reshape(one, (-1, 2))).ravel().tolist() for one in region]
    except (DecodeError, ValueError):
        return text
    return msgspec.json.encode(made).decode()
