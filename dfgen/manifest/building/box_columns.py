"""Boxes, polygons, key points and regions: turned upright, in pixels, and checked.

Sources have them as annotations do. Those of a manifest refer to the upright image, which
`dfgen.Image` returns: EXIF orientation is applied to both.
"""

from dataclasses import dataclass
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
from dfgen.table import arrow_types as arrow

SHAPES = {"boxes": 2, "polygons": 2, "keypoints": 3}
"""Column of shapes -> numbers a point: x, y, and of a key point whether it is seen."""
ROUNDING = 1.0  # pixels by which a box may be outside, as by rounding; it is cut off

Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Images:
    """The images of the rows; the size 0 is unknown."""

    width: Numbers  # as stored
    height: Numbers
    orientation: Numbers  # how shapes are turned (EXIF, 1..8); 1: not at all
    limits: Numbers  # (rows, 2), the width and height of the upright image


def place_boxes(
    table: pa.Table, facts: pa.Table | None, relative: bool
) -> tuple[pa.Table, pa.Array]:
    """Turn and scale the shapes of a table to its images, upright and in pixels.

    Shapes in pixels as stored are turned with the image, unless the annotated size is already
    upright. `relative` shapes are shares (0 to 1) of the upright image. A box outside of the
    image by up to a pixel is cut off at the edge. Return the table without `ANNOTATED`, and the
    problem of each row.
    """
    images, problems = _images(table, facts, relative)
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
        counts, sizes = arrow.lengths_of(column), arrow.lengths_of(shapes)
        rows = np.repeat(np.arange(len(table)), counts)
        points = shapes.flatten().to_numpy().astype(np.float64).reshape(-1, stride)
        owners = np.repeat(rows, sizes // stride)
        if relative:
            points[:, :2] *= images.limits[owners]
        placed = _turn(points, owners, images)
        if name == "boxes":
            placed, faults = _check(points.reshape(-1, 4), placed.reshape(-1, 4), rows, images)
            _name_faults(problems, faults, placed, rows, table["labels"], images)
        if name == "keypoints":  # pixel indices; the centres were turned
            placed[:, :2] -= 0.5 * (placed[:, 2:] > 0)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        inner = nest(pa.array(placed.astype(np.float32).ravel()), sizes)
        table = with_column(table, name, nest(inner, counts, missing))
    if "segmentation" in table.column_names:
        regions = _regions(table["segmentation"].combine_chunks(), images, problems)
        table = with_column(table, "segmentation", regions)
    kept = [name for name in table.column_names if name not in ANNOTATED]
    return table.select(kept), pa.array(problems, pa.string())


def _regions(column: pa.Array, images: Images, problems: list[str | None]) -> pa.Array:
    """Return regions upright as JSON of COCO's `segmentation`; add the first fault of a row."""
    lengths = arrow.lengths_of(column)
    rows = np.repeat(np.arange(len(column)), lengths).tolist()
    texts = column.flatten().to_pylist()
    for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if text is None:
            continue
        try:
            texts[place] = _upright(text, row, images)
        except (DecodeError, ValueError) as error:
            if problems[row] is None:
                number = place - int(np.searchsorted(rows, row))
                problems[row] = f"object {number} cannot be drawn: {error}"
    return nest(pa.array(texts, pa.string()), lengths, arrow.nulls(column))


def _upright(text: str, row: int, images: Images) -> str:
    """Return one region upright; raise if it cannot be drawn."""
    region, turned = regions.parsed(text), images.orientation[row] > 1
    width, height = (int(number) for number in images.limits[row])
    if isinstance(region, list) or width:  # else the size is unknown
        regions.check_region(region, (height, width))
    if not turned:
        return text
    if isinstance(region, dict):
        raise ValueError("EXIF turns the image, and run lengths cannot be turned: save it upright")
    points = [np.reshape(corners, (-1, 2)) for corners in region]
    upright = [_turn(one, np.full(len(one), row), images).ravel().tolist() for one in points]
    return msgspec.json.encode(upright).decode()


def _images(
    table: pa.Table, facts: pa.Table | None, relative: bool
) -> tuple[Images, list[str | None]]:
    """Return the sizes of the images, and the problem of each row with another annotated size."""
    size = np.stack([_whole(facts, name, len(table)) for name in ("width", "height")], axis=1)
    drawn = np.stack([_whole(table, name, len(table)) for name in ANNOTATED], axis=1)
    orientation = _whole(facts, "orientation", len(table))
    upright = np.where(orientation[:, None] >= 5, size[:, ::-1], size)
    known, annotated, as_stored, as_upright = (
        np.asarray(both.all(axis=1))
        for both in (size > 0, drawn > 0, drawn == size, drawn == upright)
    )
    turned = known & (~annotated | as_stored) & (not relative)
    problems: list[str | None] = [None] * len(table)
    for row in np.flatnonzero(known & annotated & ~as_stored & ~as_upright):
        ours, theirs = (" x ".join(map(str, sizes[row].tolist())) for sizes in (size, drawn))
        problems[row] = f"annotated for another size: {theirs} pixels, the file is {ours}"
    limits = np.where(known[:, None], upright, np.where(annotated[:, None], drawn, 0))
    return Images(size[:, 0], size[:, 1], np.where(turned, orientation, 1), limits), problems


def _whole(table: pa.Table | None, name: str, rows: int) -> Numbers:
    """Return a column of whole numbers, 0 where there is none."""
    if table is None or name not in table.column_names:
        return np.zeros(rows, np.int64)
    return table[name].fill_null(0).to_numpy().astype(np.int64)  # type: ignore[no-any-return]


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
) -> tuple[Numbers, Numbers]:
    """Return upright boxes cut off at the edge, and the fault of each, or ""."""
    inverted = ~(drawn[:, :2] <= drawn[:, 2:]).all(axis=1)  # NaN too
    empty = (drawn[:, :2] == drawn[:, 2:]).any(axis=1)
    corners = placed.reshape(-1, 2, 2)
    turned = (images.orientation[rows] > 1) & ~inverted
    low = np.where(turned[:, None], corners.min(axis=1), corners[:, 0])
    high = np.where(turned[:, None], corners.max(axis=1), corners[:, 1])
    limits = np.where(images.limits[rows] > 0, images.limits[rows], np.inf)
    out = (low < -ROUNDING) | (high > limits + ROUNDING) | (high <= 0) | (low >= limits)
    names = ["inverted", "empty", "outside the image"]
    faults = np.select([inverted, empty, out.any(axis=1)], names, "")
    whole = faults == ""
    low[whole], high[whole] = np.maximum(low, 0)[whole], np.minimum(high, limits)[whole]
    return np.concatenate([low, high], axis=1), faults


def _name_faults(
    problems: list[str | None],
    faults: Numbers,
    boxes: Numbers,
    rows: Numbers,
    labels: pa.ChunkedArray,
    images: Images,
) -> None:
    """Name the first fault of each row's boxes, where the row has no other problem yet."""
    for box in np.flatnonzero(faults != ""):
        row = int(rows[box])
        if problems[row] is not None:
            continue
        label = labels[row][int(box - np.searchsorted(rows, row))]
        corners = ", ".join(f"{number:g}" for number in boxes[box])
        width, height = images.limits[row]
        size = f", the image is {width} x {height} pixels" if width else ""
        problems[row] = f"a box is {faults[box]}: {label} ({corners}){size}"
