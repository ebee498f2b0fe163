"""Boxes and Keypoints: objects on an image."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, ManifestError, TransformError, one_of, whole
from dfgen.samples.features.base import (
    PADDING,
    ColumnSource,
    Feature,
    Ragged,
    Reading,
    check_column,
    set_fields,
)
from dfgen.samples.features.classes import class_numbers, names_of_lists
from dfgen.samples.features.image import image_of
from dfgen.samples.pixels.geometry import move, move_points
from dfgen.spec import Present, Spec, Values
from dfgen.table import arrow_types as arrow

BOX_FORMATS = ("xyxy", "xywh", "rel_xyxy")

_FAR = 0.5  # relative coordinates further outside than this must be pixels

Labelled = tuple[Values, Values]
"""Boxes, of shape (boxes, 4), and their labels."""


@dataclass(frozen=True, repr=False)
class Boxes(Feature):
    """Boxes and labels on an image, from columns that hold a list in each row.

    A batch holds `{"boxes": float32 (batch, max_items, 4), "labels": int32 (batch, max_items)}`,
    padded with -1, as KerasHub's detectors and Keras's preprocessing layers expect. Stored boxes
    refer to the upright image. They are cropped, flipped and resized like their image, clipped to
    it, and dropped if nothing is left. A transform gets boxes without padding, and may return
    another number of boxes.

    Args:
        column: the column of boxes: a list of lists of four numbers in each row, or [].
        labels: the column of their classes: a list in each row, as long as the list of boxes.
        like: the array or column of the image, if there are several.
        format: format in the batch: `"xyxy"` (default; left, top, right, bottom in pixels),
            `"xywh"` (left, top, width, height in pixels) or `"rel_xyxy"` (0 to 1).
        source_format: format in the column; pixels refer to the whole image.
        max_items: the most boxes per row; rows with more raise an error.
        class_names: the classes in the order of their indices. None (default): the classes of the
            manifest, else the sorted distinct labels; whole numbers are class indices.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets -1, and weighs 0.

    Raises:
        ArgumentError: an invalid argument.

    Example:
        >>> image = dfgen.Image(size=(512, 512), resize="pad")
        >>> dfgen.Sequence(df, x=image, y=dfgen.Boxes("boxes"))  # doctest: +SKIP
    """

    column: str = "boxes"
    labels: str = "labels"
    like: Any = ""
    format: str = "xyxy"
    source_format: str = "xyxy"
    max_items: int = 100
    class_names: tuple[object, ...] | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "boxes"

    def __post_init__(self) -> None:
        check_column(self)
        one_of("format", self.format, BOX_FORMATS)
        one_of("source_format", self.source_format, BOX_FORMATS)
        set_fields(self, max_items=whole("max_items", self.max_items, least=1))
        if self.format == "rel_xyxy" and getattr(self.like, "size", 0) is None:
            raise ArgumentError('format="rel_xyxy" needs an image with a size: take "xyxy"')

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of boxes and of classes."""
        return self.column, self.labels

    def resolve(self, columns: ColumnSource) -> "Boxes":
        """Set the class names by the labels, unless these are numbers."""
        return replace(self, class_names=self.class_names or names_of_lists(self.labels, columns))

    @property
    def spec(self) -> tuple[Spec, Spec]:
        """The boxes and their labels; a transform sees them without padding."""
        boxes = Spec((None, 4), np.dtype(np.float32), PADDING, axes=1)
        labels = Spec((None,), np.dtype(np.int32), PADDING, axes=1)
        return (
            replace(boxes, shape=(self.max_items, 4), seen=boxes),
            replace(labels, shape=(self.max_items,), seen=labels),
        )

    def arrays(self, name: str) -> dict[str, str]:
        """Return the names of boxes and labels."""
        return {"boxes": name, "labels": "labels" if name == "boxes" else f"{name}_labels"}

    def bind(self, columns: ColumnSource) -> Ragged:
        """Return the boxes as xyxy, and their class indices."""
        boxes = Ragged.of(self.column, columns[self.column])
        labels = Ragged.of(self.labels, columns[self.labels])
        boxes.check_same_lengths(labels)
        boxes.check_most(self.max_items)
        corners = self._corners(boxes, boxes.numbers(4, "four numbers per box"))
        return boxes.with_arrays(corners, class_numbers(labels, self.class_names))

    def _corners(self, rows: Ragged, boxes: Values) -> Values:
        """Return boxes as xyxy; raises for empty boxes and for the wrong unit."""
        relative = boxes.max(initial=0) <= 1 and (boxes % 1).any()
        if self.source_format == "xywh":
            boxes[:, 2:] += boxes[:, :2]
        with np.errstate(invalid="ignore"):  # infinity minus infinity
            wrong = ~(np.isfinite(boxes).all(1) & (boxes[:, 2:] > boxes[:, :2]).all(1))
        shown = ", ".join(f"{number:g}" for number in boxes[wrong.argmax()]) if len(boxes) else ""
        rows.refuse(wrong, f"is ({shown}) as xyxy, expected a width and a height above 0, by "
                           f"source_format={self.source_format!r}")  # fmt: skip
        if self.source_format == "rel_xyxy":
            rows.refuse(
                ((boxes < -_FAR) | (boxes > 1 + _FAR)).any(1),
                'is no relative box, 0 to 1: for pixels write source_format="xyxy"',
            )
        elif relative:
            raise ManifestError(
                f"all {len(boxes):,} boxes in column {self.column!r} lie within 0 to 1, expected "
                'pixels: write source_format="rel_xyxy"'
            )
        return boxes

    def read(self, value: Labelled, out: Labelled, reading: Reading) -> None:
        """Fill `out` with the boxes and labels of one row, by the geometry of its image."""
        (boxes, labels), geometry = value, reading.geometry
        height, width = geometry.image
        if self.source_format == "rel_xyxy":
            boxes = boxes * np.array([width, height] * 2, np.float32)
        outside = (boxes[:, :2] >= (width, height)).any(1) | (boxes[:, 2:] <= 0).any(1)
        if outside.any():
            box = ", ".join(f"{number:g}" for number in boxes[outside.argmax()])
            raise DecodeError(
                f"box {outside.argmax()} of column {self.column!r}, ({box}) as xyxy, lies outside "
                f"of the upright image of {width} x {height} pixels (width x height)"
            )
        moved, left = move(boxes, geometry)
        moved = moved[left].astype(np.float32)
        if self.format == "xywh":
            moved[:, 2:] -= moved[:, :2]
        elif self.format == "rel_xyxy":
            moved /= np.array([geometry.size[1], geometry.size[0]] * 2, np.float32)
        self.finish((moved, labels[left]), out)

    def finish(self, sample: Labelled, out: Labelled) -> None:
        """Fill the arrays of the batch with boxes and labels, then with -1."""
        counts = [len(one) for one in sample]
        if counts[0] != counts[1] or counts[0] > self.max_items:
            raise TransformError(
                f"the transform returned {counts[0]:,} boxes and {counts[1]:,} labels, expected "
                f"equal numbers up to max_items={self.max_items}"
            )
        for one, into in zip(sample, out, strict=True):
            into[: len(one)], into[len(one) :] = one, PADDING


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
