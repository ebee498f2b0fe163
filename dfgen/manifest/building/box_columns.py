"""Boxes and regions of the files as they are: turned upright, in pixels, and checked.

A source gives boxes as they were written down. What a manifest holds refers to the upright image,
which is what `dfgen.Image` makes: EXIF orientation is applied to both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import DecodeError
from dfgen.manifest.schema import with_column
from dfgen.manifest.sources.source import ANNOTATED, nest
from dfgen.manifest.sources.voc import MASKS
from dfgen.samples.pixels import regions
from dfgen.samples.pixels.geometry import Size
from dfgen.spec import Values
from dfgen.table import arrow_types as arrow

SHAPES = {"boxes": 2, "polygons": 2, "keypoints": 3}
"""Column of shapes -> numbers a point: x, y, and of a key point whether it is seen."""
ROUNDING = 1.0  # a box may stand out by a pixel: rounded, or counted from 1; it is cut off

Numbers = npt.NDArray[Any]
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


@dataclass(frozen=True)
class Images:
    """The images of the rows: what is needed to place a shape; 0 stands for an unknown size."""

    width: Numbers  # as stored
    height: Numbers
    orientation: Numbers  # how shapes are turned (EXIF, 1..8); 1: not at all
    limits: Numbers  # (rows, 2), the width and height of the upright image


def place_boxes(
    table: pa.Table, facts: pa.Table | None, box_format: str
) -> tuple[pa.Table, pa.Array]:
    """Turn and scale the shapes of a table to its images, upright and in pixels.

    Shapes drawn on the pixels as stored are turned as the image is; those whose annotation gives
    the size of the upright image were drawn on that, and stay. Relative ones (`rel_xyxy`, 0 to 1)
    are of the upright image. A box that stands out by up to a pixel is cut off at the
    edge. The table returned is without `ANNOTATED`; beside it stands what is wrong with each row,
    null where nothing is.
    """
    relative = box_format == "rel_xyxy"
    images, problems = _images(table, facts, box_format)
    masks = [name for name in MASKS if name in table.column_names]
    masked = np.any([table[name].is_valid().to_numpy() for name in masks], axis=0)
    for row in np.flatnonzero((images.orientation > 1) & masked):
        problems[row] = (
            f"EXIF turns the image (orientation {images.orientation[row]}), and its boxes with it, "
            f"but not its masks ({', '.join(masks)}): save image and masks upright"
        )
    for name, stride in SHAPES.items():
        if name not in table.column_names:
            continue
        column = table[name].combine_chunks()
        if relative:  # of an image of unknown size
            column = pc.if_else(pa.array(images.width == 0), pa.scalar(None, column.type), column)
        shapes = column.flatten()
        counts, sizes = _lengths(column), _lengths(shapes)
        rows = np.repeat(np.arange(len(table)), counts)
        points = shapes.flatten().to_numpy().astype(np.float64).reshape(-1, stride)
        owners = np.repeat(rows, sizes // stride)
        if relative:
            points[:, :2] *= images.limits[owners]
        placed = _turn(points, owners, images)
        if name == "boxes":
            placed, faults = _check(points.reshape(-1, 4), placed.reshape(-1, 4), rows, images)
            _name_faults(problems, faults, placed, rows, table, images)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        inner = nest(pa.array(placed.astype(np.float32).ravel()), sizes)
        table = with_column(table, name, nest(inner, counts, missing))
    if "segmentation" in table.column_names:
        regions = table["segmentation"].combine_chunks()
        sizes = np.stack([images.height, images.width], axis=1)

        def upright(row: int, points: Numbers) -> Numbers:
            return _turn(points, np.full(len(points), row), images)

        regions = turned(regions, images.orientation, sizes, upright)
        table = with_column(table, "segmentation", regions)
    kept = [name for name in table.column_names if name not in ANNOTATED]
    return table.select(kept), pa.array(problems, pa.string())


def _images(
    table: pa.Table, facts: pa.Table | None, box_format: str
) -> tuple[Images, list[str | None]]:
    """Return where shapes go, and the problem of each annotation that is of another image size."""
    size = np.stack([_whole(facts, name, len(table)) for name in ("width", "height")], axis=1)
    drawn = np.stack([_whole(table, name, len(table)) for name in ANNOTATED], axis=1)
    orientation = _whole(facts, "orientation", len(table))
    upright = np.where(orientation[:, None] >= 5, size[:, ::-1], size)
    known, told, as_stored, as_upright = (
        np.asarray(both.all(axis=1))
        for both in (size > 0, drawn > 0, drawn == size, drawn == upright)
    )
    turned = known & (~told | as_stored) & (box_format != "rel_xyxy")
    problems: list[str | None] = [None] * len(table)
    for row in np.flatnonzero(known & told & ~as_stored & ~as_upright):
        ours, theirs = (" x ".join(map(str, sizes[row].tolist())) for sizes in (size, drawn))
        problems[row] = f"annotated for another size: {theirs} pixels, the file is {ours}"
    limits = np.where(known[:, None], upright, np.where(told[:, None], drawn, 0))
    return Images(size[:, 0], size[:, 1], np.where(turned, orientation, 1), limits), problems


def _whole(table: pa.Table | None, name: str, rows: int) -> Numbers:
    """Return a column of whole numbers, 0 where there is none."""
    if table is None or name not in table.column_names:
        return np.zeros(rows, np.int64)
    return table[name].fill_null(0).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _lengths(lists: pa.Array) -> Numbers:
    return pc.list_value_length(lists).fill_null(0).to_numpy()  # type: ignore[no-any-return]


def _turn(points: Numbers, rows: Numbers, images: Images) -> Numbers:
    """Return points of stored pixels where they are in the upright image (EXIF 2.32, 4.6.4)."""
    orientation = images.orientation[rows]
    x, y = points[:, 0], points[:, 1]
    x = np.where(np.isin(orientation, (2, 3, 7, 8)), images.width[rows] - x, x)
    y = np.where(np.isin(orientation, (3, 4, 6, 7)), images.height[rows] - y, y)
    placed = points.copy()
    placed[:, 0], placed[:, 1] = np.where(orientation >= 5, (y, x), (x, y))
    if points.shape[1] == 3:  # a key point that is not there is 0, 0, 0 wherever it is
        placed[points[:, 2] == 0] = points[points[:, 2] == 0]
    return placed


def _check(
    drawn: Numbers, placed: Numbers, rows: Numbers, images: Images
) -> tuple[Numbers, dict[str, Numbers]]:
    """Return upright boxes cut off at the edge, and fault -> which boxes have it."""
    inverted = ~(drawn[:, :2] <= drawn[:, 2:]).all(axis=1)  # NaN too
    empty = (drawn[:, :2] == drawn[:, 2:]).any(axis=1)
    corners = placed.reshape(-1, 2, 2)
    turned = (images.orientation[rows] > 1) & ~inverted
    low = np.where(turned[:, None], corners.min(axis=1), corners[:, 0])
    high = np.where(turned[:, None], corners.max(axis=1), corners[:, 1])
    limits = np.where(images.limits[rows] > 0, images.limits[rows], np.inf)
    out = (low < -ROUNDING) | (high > limits + ROUNDING) | (high <= 0) | (low >= limits)
    outside = out.any(axis=1) & ~inverted & ~empty
    faults = {"inverted": inverted, "empty": empty & ~inverted, "outside the image": outside}
    whole = ~(inverted | empty | outside)
    low[whole], high[whole] = np.maximum(low, 0)[whole], np.minimum(high, limits)[whole]
    return np.concatenate([low, high], axis=1), faults


def _name_faults(
    problems: list[str | None],
    faults: dict[str, Numbers],
    boxes: Numbers,
    rows: Numbers,
    table: pa.Table,
    images: Images,
) -> None:
    """Name the first fault of each row's boxes, where the row has no other problem yet."""
    for box in np.flatnonzero(np.any([*faults.values()], axis=0)):
        row = int(rows[box])
        if problems[row] is not None:
            continue
        fault = next(name for name, where in faults.items() if where[box])
        label = table["labels"][row][int(box - np.searchsorted(rows, row))]
        corners = ", ".join(f"{number:g}" for number in boxes[box])
        width, height = images.limits[row]
        size = f", the image is {width} x {height} pixels" if width else ""
        problems[row] = f"a box is {fault}: {label} ({corners}){size}"


def turned(
    column: pa.Array, orientations: Values, sizes: Values, turn: Callable[[int, Values], Values]
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
        region = regions.parsed(text)
        if isinstance(region, dict):
            mask = regions.mask_of(region, size)
            made: object = regions.run_lengths(_TURNS[orientation](mask))
        else:
            made = [turn(np.reshape(one, (-1, 2))).ravel().tolist() for one in region]
    except (DecodeError, ValueError):
        return text
    return msgspec.json.encode(made).decode()
