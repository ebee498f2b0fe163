"""Shapes that people draw, in LabelMe and CVAT, as the columns that COCO's annotations become.

A shape with an area is an object: it has a box, a label, and a region, the JSON of COCO's
`segmentation`. Lines and points have no area, and get columns of their own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, quote
from dfgen.limits import Limits
from dfgen.manifest.sources.source import ANNOTATED, BOXES, LABELS, MOST_PIXELS
from dfgen.samples.pixels import drawing
from dfgen.samples.pixels.geometry import Size
from dfgen.spec import Values

AREA, LINE, POINTS = "area", "line", "points"
Bounds = tuple[float, float, float, float]
_FINE = 0.1  # pixels that a polygon may lie beside the circle that it stands for
_OPTIONAL = {
    "segmentation": LABELS,
    "attributes": LABELS,
    "polylines": BOXES,
    "polyline_labels": LABELS,
    "keypoints": BOXES,
    "keypoint_labels": LABELS,
}
_OF_KIND = {LINE: ("polylines", "polyline_labels"), POINTS: ("keypoints", "keypoint_labels")}


@dataclass(frozen=True)
class Shape:
    """A shape of one image; shapes of one label and group are parts of one object."""

    label: str
    points: Sequence[float]  # x, y of each corner; with POINTS x, y, visibility
    kind: str = AREA
    mask: Values | None = None  # bool (height, width), whose upper left corner is the one point
    box: Bounds | None = None  # None: around the points, or the mask
    group: object = None
    attributes: Mapping[str, Any] = field(default_factory=dict)


def schema_of(tags: str, **more: pa.DataType) -> pa.Schema:
    """Return the columns of a source of shapes; `tags` names that of its tags of whole images."""
    fixed = {"path": pa.string(), **more, "boxes": BOXES, "labels": LABELS}
    sizes = dict.fromkeys(ANNOTATED, pa.int64())
    return pa.schema({**fixed, **_OPTIONAL, tags: LABELS, **sizes, "problem": pa.string()})


def check_one_folder(arguments: Mapping[str, Any]) -> None:
    """Raise if there are images of several splits: such a source has one set of annotations."""
    if not isinstance(arguments["images"], str | None):
        raise ArgumentError(
            "images= (--images) names several folders: give the one above them, from which the "
            "paths of the annotations start"
        )


def check_size(width: int, height: int, limits: Limits, where: str) -> None:
    """Raise if the masks of an image would take more memory than one file may ask for."""
    if not limits.allows("decoded_bytes", width * height):
        said = f"{where} has {width:,} x {height:,} pixels"
        raise ManifestError(limits.refusal("decoded_bytes", width * height, said))


def shape_columns(shapes: Sequence[Shape], size: Size | None, where: str) -> dict[str, list[Any]]:
    """Return the columns of one image, whose (height, width) masks need."""
    try:
        return _columns(shapes, size)
    except ManifestError as error:
        raise ManifestError(f"{where}: {error}") from None


def _columns(shapes: Sequence[Shape], size: Size | None) -> dict[str, list[Any]]:
    objects: dict[object, list[Shape]] = {}
    found: dict[str, list[Any]] = {name: [] for name in ("boxes", "labels", *_OPTIONAL)}
    for number, shape in enumerate(shapes):
        if not np.abs(shape.points).max(initial=0) < MOST_PIXELS:  # NaN is not
            raise ManifestError(f"a shape {quote(shape.label)} has a corner that is no pixel")
        if shape.kind == AREA:
            part = number if shape.group is None else (shape.label, shape.group)
            objects.setdefault(part, []).append(shape)
            continue
        for name, value in zip(_OF_KIND[shape.kind], (shape.points, shape.label), strict=True):
            found[name].append(value)
    for parts in objects.values():
        boxes = np.array([_box(part) for part in parts])
        known: dict[str, dict[Any, None]] = {}  # a value of which parts differ is a list
        for name, value in (item for part in parts for item in part.attributes.items()):
            known.setdefault(name, {})[value] = None
        told = {n: [*held] if len(held) > 1 else next(iter(held)) for n, held in known.items()}
        found["boxes"].append([*boxes[:, :2].min(axis=0), *boxes[:, 2:].max(axis=0)])
        found["labels"].append(parts[0].label)
        found["segmentation"].append(_region(parts, size))
        found["attributes"].append(_json(told) if told else None)
    return found


def without_empty(table: pa.Table, tags: str) -> pa.Table:
    """Return a table without the optional columns in which no row has anything."""
    values = {name: pc.list_flatten(table[name]) for name in (*_OPTIONAL, tags)}
    return table.drop_columns([n for n, held in values.items() if held.null_count == len(held)])


def rotated(points: Values, degrees: float) -> list[float]:
    """Return the x, y of corners, (n, 2), turned clockwise around their middle."""
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    cosine, sine = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    turned = (points - middle) @ np.array([[cosine, sine], [-sine, cosine]]) + middle
    flat: list[float] = turned.ravel().tolist()
    return flat


def seen(points: Sequence[float], visibility: float = 2.0) -> list[float]:
    """Return x, y of points with the visibility of COCO's key points; 2: seen."""
    pairs = zip(points[::2], points[1::2], strict=True)
    return [number for x, y in pairs for number in (x, y, visibility)]


def rectangle(box: Bounds, degrees: float = 0.0) -> list[float]:
    """Return the x, y of the corners of a rectangle."""
    left, top, right, bottom = box
    corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]])
    return rotated(corners, degrees) if degrees else corners.ravel().tolist()


def ellipse(
    label: str, middle: tuple[float, float], radii: tuple[float, float], size: Size | None,
    degrees: float = 0.0, **more: Any
) -> Shape:  # fmt: skip
    """Return an ellipse as a polygon that lies less than a tenth of a pixel beside it.

    People draw it over the edge of the image to cover what the edge cuts off: its box ends there.
    """
    widest = max(*radii, 1.0)
    if not widest < MOST_PIXELS:
        raise ManifestError(f"a shape {quote(label)} has a radius of {widest:g} pixels")
    corners = 4 * math.ceil(max(3, math.pi / math.acos(1 - _FINE / widest) / 4))
    angles = np.arange(corners) * (2 * math.pi / corners)
    points = np.stack([np.cos(angles) * radii[0], np.sin(angles) * radii[1]], axis=1) + middle
    flat = rotated(points, degrees)
    box = np.reshape(_around(flat), (2, 2))
    edge = np.array([np.inf, np.inf] if size is None else size[::-1], np.float64)
    low, high = np.maximum(box[0], 0), np.minimum(box[1], edge)
    if (low < high).all():
        box = np.stack([low, high])
    return Shape(label, flat, box=tuple(box.ravel().tolist()), **more)


def _around(points: Sequence[float]) -> Bounds:
    xs, ys = points[::2], points[1::2]
    return min(xs), min(ys), max(xs), max(ys)


def _box(shape: Shape) -> Bounds:
    if shape.mask is None:
        return shape.box or _around(shape.points)
    rows, columns = (np.flatnonzero(shape.mask.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        raise ManifestError(f"a mask {quote(shape.label)} has no pixel: remove it")
    left, top = shape.points
    return left + columns[0], top + rows[0], left + columns[-1] + 1, top + rows[-1] + 1


def _region(parts: Sequence[Shape], size: Size | None) -> str:
    """Return the JSON of the region of an object: polygons, or with masks run lengths."""
    polygons = [list(map(float, part.points)) for part in parts if part.mask is None]
    if len(polygons) == len(parts):
        return _json(polygons)
    if size is None:
        raise ManifestError(
            f"a mask {quote(parts[0].label)} needs the width and height of its image, which the "
            "file does not have: save it again"
        )
    canvas = drawing.blank_canvas(size, 0)
    drawing.paint(drawing.runs_of([polygons], size)[0], 1, canvas)
    for part in parts:
        if part.mask is None:
            continue
        left, top = map(int, part.points)
        height, width = part.mask.shape
        if min(left, top) < 0 or left + width > size[1] or top + height > size[0]:
            raise ManifestError(
                f"a mask {quote(part.label)} of {width} x {height} pixels (width x height) at "
                f"{left}, {top} stands out of the image, which is {size[1]} x {size[0]}"
            )
        canvas[left : left + width, top : top + height] |= part.mask.T
    return _json(drawing.run_lengths(canvas.T))


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
