"""Regions of annotations on images that EXIF turns: polygons and run lengths, turned upright."""

from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import DecodeError
from dfgen.manifest.sources.source import nest
from dfgen.samples.pixels import drawing
from dfgen.samples.pixels.geometry import Size
from dfgen.spec import Values
from dfgen.table import arrow_types as arrow

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
    sizes: Values,
    turn: Callable[[int, Values], Values],
) -> pa.Array:
    """Return lists of regions with those of turned images as they lie on the upright image.

    Args:
        column: of every row, the JSON of COCO's `segmentation` of each object.
        orientations: the EXIF orientation of every row's image.
        sizes: its height and width as stored, (rows, 2).
        turn: returns points, (n, 2), of a row turned upright.
    """
    lengths = arrow.lengths_of(column)
    rows = np.repeat(np.arange(len(column)), lengths)
    rows = rows[orientations[rows] > 1]
    if not len(rows):
        return column
    chosen = pa.array(np.repeat(orientations > 1, lengths))
    texts = column.flatten()
    made = [
        text and _turned(text, int(orientations[row]), tuple(sizes[row]), partial(turn, row))
        for row, text in zip(rows.tolist(), texts.filter(chosen).to_pylist(), strict=True)
    ]
    texts = pc.replace_with_mask(texts, chosen, pa.array(made, texts.type))
    return nest(texts, lengths, arrow.nulls(column))


def _turned(text: str, orientation: int, size: Size, turn: Callable[[Values], Values]) -> str:
    """Return one region upright; as it is if it is none, which the feature refuses."""
    try:
        region = drawing.parsed(text)
        if isinstance(region, drawing.RunLengths):
            [runs] = drawing.runs_of([region], size)
            canvas = drawing.blank_canvas(size, 0)
            drawing.paint(runs, 1, canvas)
            mask = drawing.upright(canvas)[..., 0]
            made: object = drawing.run_lengths(_TURNS[orientation](mask))
        else:
            made = [turn(np.reshape(one, (-1, 2))).ravel().tolist() for one in region]
    except (DecodeError, ValueError):
        return text
    return msgspec.json.encode(made).decode()
