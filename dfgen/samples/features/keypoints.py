"""Keypoints: named points of an object, and whether each is seen."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.checks import whole
from dfgen.errors import ArgumentError, DecodeError, ManifestError, TransformError
from dfgen.samples.features.base import Feature, Reading
from dfgen.samples.features.column_source import ColumnSource
from dfgen.samples.features.feature_checks import check_column, set_fields
from dfgen.samples.features.image import image_of
from dfgen.samples.features.ragged import PADDING, Ragged
from dfgen.samples.pixels.geometry import Geometry, move_points
from dfgen.spec import Spec, Values
from dfgen.table import arrow_types as arrow

_MIDDLE = 0.5
"""COCO's x and y are the numbers of pixels, whose middle is half a pixel further."""


@dataclass(frozen=True, repr=False)
class Keypoints(Feature):
    """Points of the objects on an image as (x, y, visibility), from a column of annotations.

    Use it for the column `keypoints` of COCO and of YOLO's poses, to train a model that finds
    joints or landmarks. x and y are the numbers of the column and the row of a pixel, from 0. The
    points follow the resizing, crop and flip of their image. A point outside of it, before or
    afterwards, becomes 0, 0, 0, as one that was not annotated. An object whose points all lie
    outside of the file's image is a damaged row.

    With `max_items` it is float32 (batch, max_items, count, 3), and -1 where there is no object;
    without, of one object in each row, (batch, count, 3).

    Args:
        column: the column of points: a list for each object, x, y and visibility of each point in
            turn; [] of an object without points. Visibility is COCO's: 0 not annotated, 1 hidden, 2
            seen. Without `max_items` the list of one object may stand by itself.
        like: the array or column of their image, where there are several.
        count: how many points an object has; 17 (default) as COCO's persons.
        max_items: how many objects the batch has room for; a row of more is an error. None
            (default): each row has one.
        flip_pairs: which points are each other's mirror image, ((1, 2), (3, 4), ...), as the eyes.
            They change places where `flip`, but no transform, mirrors the image.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets -1, and weighs 0.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> image = dfgen.Image(size=(256, 256), flip="horizontal")
        >>> points = dfgen.Keypoints(max_items=5, flip_pairs=[(1, 2), (3, 4)])
    """

    column: str = "keypoints"
    like: Any = ""
    count: int = 17
    max_items: int | None = None
    flip_pairs: Any = ()
    missing: str = "raise"
    kind: ClassVar[str] = "keypoints"

    def __post_init__(self) -> None:
        check_column(self)
        set_fields(self, count=whole("count", self.count, least=1))
        if self.max_items is not None:
            set_fields(self, max_items=whole("max_items", self.max_items, least=1))
        numbers = np.array(self.flip_pairs or np.empty((0, 2)), int).ravel().tolist()
        if len({*numbers}) < len(numbers) or not {*numbers} <= {*range(self.count)}:
            raise ArgumentError(
                f"flip_pairs must be pairs of different points, numbered 0 to {self.count - 1}, as "
                f"((1, 2), (3, 4)), got {self.flip_pairs!r}"
            )
        set_fields(self, flip_pairs=tuple(zip(numbers[::2], numbers[1::2], strict=True)))

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        several = () if self.max_items is None else (self.max_items,)
        return Spec((*several, self.count, 3), np.dtype(np.float32), PADDING)

    def bind(self, columns: ColumnSource) -> Ragged:
        """Return the points of every row, (objects, count, 3)."""
        rows = Ragged.of(self.column, columns[self.column])
        if self.max_items is None and arrow.are_numbers(rows.arrays[0].type):  # a row is an object
            rows = Ragged(self.column, np.arange(len(rows) + 1), columns[self.column])
        counts = np.diff(rows.offsets)
        if self.max_items is not None:
            rows.check_most(self.max_items, "max_items")
        elif (counts != 1).any():
            row = int((counts != 1).argmax())
            raise ManifestError(
                f"row {row} has {counts[row]:,} objects in column {self.column!r}, expected one in "
                f"each row: write max_items={counts.max()}",
                row=row,
            )
        expected = f"x, y and visibility of each of count={self.count} points"
        points = rows.numbers(3 * self.count, expected).reshape(-1, self.count, 3)
        wrong = ~np.isin(points[..., 2], (0, 1, 2)) | ~np.isfinite(points).all(-1)
        why = "has a missing or infinite coordinate, or a visibility other than 0, 1 and 2"
        rows.refuse(wrong.any(1), f"{why}: write 0, 0, 0 for a point that is not annotated")
        return rows.with_arrays(points)

    def read(self, value: tuple[Values], out: Values, reading: Reading) -> None:
        """Fill `out` with the points of one row, by the geometry of its image."""
        geometry, points = reading.geometry, value[0].copy()
        annotated = points[..., 2] > 0
        _forget_outside(points, geometry.image)
        lost = annotated.any(1) & ~(points[..., 2] > 0).any(1)
        if lost.any():
            x, y = value[0][lost.argmax()][0, :2]
            raise DecodeError(
                f"all points of object {lost.argmax()} of column {self.column!r}, the first at "
                f"({x:g}, {y:g}), lie outside of the image of (height, width) {geometry.image}"
            )
        made = _moved(points, geometry)
        if geometry.flip != geometry.flip_vertical:  # turned by half a circle left stays left
            for one, other in self.flip_pairs:
                made[:, [one, other]] = made[:, [other, one]]
        _forget_outside(made, geometry.size)
        if self.max_items is None:
            out[...] = made[0]
        else:
            out[: len(made)], out[len(made) :] = made, PADDING

    def finish(self, sample: Values, out: Values) -> None:
        """Fill the array of the batch with a sample's points."""
        if sample.shape != out.shape:
            raise TransformError(
                f"the transform returned points of shape {sample.shape}, expected {out.shape}"
            )
        out[...] = sample
        if size := image_of(self).size:
            _forget_outside(out, size)


def _moved(points: Values, geometry: Geometry) -> Values:
    """Return points of the upright image as they are in the array."""
    if geometry.steps is not None:
        first, geometry = geometry.steps
        points = _moved(points, first)
        _forget_outside(points, first.size)
    moved = points.copy()
    moved[..., :2] = move_points(points[..., :2].astype(np.float64) + _MIDDLE, geometry) - _MIDDLE
    return moved


def _forget_outside(points: Values, size: tuple[int, ...]) -> None:
    """Set points to zeros that lie outside of an image of a size, or are not annotated."""
    x, y, seen = points[..., 0] + _MIDDLE, points[..., 1] + _MIDDLE, points[..., 2]
    outside = (x < 0) | (y < 0) | (x > size[1]) | (y > size[0])
    points[(outside | (seen == 0)) & (seen >= 0)] = 0
