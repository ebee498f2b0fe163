"""Keypoints: points of the objects on an image, with visibility."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.checks import whole
from dfgen.errors import ArgumentError, DecodeError, ManifestError
from dfgen.samples.features.base import ColumnSource, Feature, Reading
from dfgen.samples.features.feature_checks import check_column, set_fields
from dfgen.samples.features.image import image_of
from dfgen.samples.features.ragged import PADDING, Ragged
from dfgen.samples.pixels.geometry import move_points
from dfgen.spec import Present, Spec, Values
from dfgen.table import arrow_types as arrow

_MIDDLE = 0.5
"""COCO's x and y are indices of pixels; the middle of a pixel is half a pixel further."""


@dataclass(frozen=True, repr=False)
class Keypoints(Feature):
    """Points of the objects on an image as (x, y, visibility), from a column of annotations.

    Use it for the column `keypoints` of COCO and of YOLO's poses, for example to find joints or
    landmarks. x and y are column and row indices of pixels, from 0. The points are cropped, flipped
    and resized like their image. Points outside of it, before or afterwards, become 0, 0, 0, as
    points that are not annotated. A row is damaged if all points of an object lie outside of the
    image in the file.

    With `max_items` it is float32 (batch, max_items, count, 3), with -1 for padding objects;
    without, for one object per row, (batch, count, 3).

    Args:
        column: the column of points: for each object the list of x, y and visibility of each point,
            or [] without points. Visibility is 0 for not annotated, 1 for hidden, 2 for visible.
            Without `max_items` a row may hold the list of its one object.
        like: the array or column of their image, if there are several.
        count: points per object, 17 (default) as in COCO.
        max_items: the most objects per row; rows with more raise an error. None (default): one
            object per row.
        flip_pairs: pairs of mirrored points such as the eyes, ((1, 2), (3, 4), ...). They are
            swapped if `flip` mirrors the image; a transform has to swap them itself.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets -1, and weighs 0.

    Raises:
        ArgumentError: an invalid argument.

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
                f"flip_pairs must be pairs of different points, 0 to {self.count - 1}, as "
                f"((1, 2), (3, 4)), got {self.flip_pairs!r}"
            )
        set_fields(self, flip_pairs=tuple(zip(numbers[::2], numbers[1::2], strict=True)))

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        several = () if self.max_items is None else (self.max_items,)
        return Spec((*several, self.count, 3), np.dtype(np.float32), PADDING)

    def bind(self, columns: ColumnSource) -> Ragged:
        """Return the points of every row, (objects, count, 3)."""
        rows = Ragged.of(self.column, columns[self.column])
        if self.max_items is None and arrow.are_numbers(rows.arrays[0].type):  # a row is an object
            rows = Ragged(self.column, np.arange(len(rows) + 1), columns[self.column])
        counts = np.diff(rows.offsets)
        if self.max_items is not None:
            rows.check_most(self.max_items)
        elif (counts != 1).any():
            row = int((counts != 1).argmax())
            raise ManifestError(
                f"row {row} has {counts[row]:,} objects in column {self.column!r}, expected one in "
                f"each row: write max_items={counts.max()}",
                row=row,
            )
        expected = f"x, y and visibility of count={self.count} points"
        points = rows.numbers(3 * self.count, expected).reshape(-1, self.count, 3)
        wrong = ~np.isin(points[..., 2], (0, 1, 2)) | ~np.isfinite(points).all(-1)
        why = "has a missing or infinite coordinate, or a visibility other than 0, 1 and 2"
        rows.refuse(wrong.any(1), f"{why}: write 0, 0, 0 for a point that is not annotated")
        return rows.with_arrays(points)

    def read(self, value: tuple[Values], out: Values, reading: Reading) -> None:
        """Fill `out` with the points of one row, by the geometry of its image."""
        [points], geometry = value, reading.geometry
        xy, annotated = points[..., :2].astype(np.float64) + _MIDDLE, points[..., 2] > 0
        visible = annotated & _inside(xy, geometry.image)
        lost = annotated.any(1) & ~visible.any(1)
        if lost.any():
            x, y = points[lost.argmax()][0, :2]
            raise DecodeError(
                f"all points of object {lost.argmax()} of column {self.column!r}, the first at "
                f"({x:g}, {y:g}), lie outside of the image of (height, width) {geometry.image}"
            )
        for step in geometry.steps or (geometry,):
            xy = move_points(xy, step)
            visible &= _inside(xy, step.size)
        moved = np.concatenate([xy - _MIDDLE, points[..., 2:]], axis=-1)
        moved[~visible] = 0
        if geometry.flip != geometry.flip_vertical:  # half a turn does not mirror
            for one, other in self.flip_pairs:
                moved[:, [one, other]] = moved[:, [other, one]]
        if self.max_items is None:
            out[...] = moved[0]
        else:
            out[: len(moved)], out[len(moved) :] = moved, PADDING

    def finish(self, sample: Values, out: Values) -> None:
        """Fill the array of the batch with a sample's points."""
        out[...] = sample
        if size := image_of(self).size:
            seen = out[..., 2]
            out[(seen >= 0) & ~((seen > 0) & _inside(out[..., :2] + _MIDDLE, size))] = 0


def _inside(xy: Values, size: tuple[int, ...]) -> Present:
    """Return which points lie in an image."""
    inside: Any = (xy >= 0) & (xy <= np.array(size[::-1]))
    return inside.all(-1)  # type: ignore[no-any-return]
