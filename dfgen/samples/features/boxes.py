"""Boxes: what is where on an image."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, DecodeError, ManifestError, TransformError
from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import Feature
from dfgen.samples.features.category import Category
from dfgen.samples.features.image import Image
from dfgen.samples.features.one_row import ColumnSource
from dfgen.samples.pixels.geometry import Geometry, move
from dfgen.spec import IntArray, Present, Spec, Values, Watch
from dfgen.stores.store import Store
from dfgen.system import one_of
from dfgen.table import arrow_types as arrow

_FAR = 0.5  # how far relative coordinates may lie outside; further, they are surely pixels


class BoxRows(NamedTuple):
    """The boxes of every row, xyxy: those of row i stand at `offsets[i]` to `offsets[i + 1]`."""

    offsets: IntArray
    boxes: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]


def checked_corners(
    column: str, values: pa.Array, where: IntArray, source_format: str
) -> npt.NDArray[np.float32]:
    """Return the boxes of lists that begin `where` as xyxy; refuse those that are none."""
    boxes = _quadruples(column, values, where)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        sides = boxes[:, 2:] - (0 if source_format == "xywh" else boxes[:, :2])
    wrong = ~(np.isfinite(boxes).all(axis=1) & (sides > 0).all(axis=1))
    why = "its width and height" if source_format == "xywh" else "x2 - x1 and y2 - y1"
    why = f"{why} must be larger than 0"
    if source_format == "rel_xyxy" and not wrong.any():
        wrong = ((boxes < -_FAR) | (boxes > 1 + _FAR)).any(axis=1)
        why = 'relative coordinates go from 0 to 1. For pixels write source_format="xyxy"'
    if wrong.any():
        row, place = arrow.place_of(where, int(wrong.argmax()))
        box = ", ".join(f"{number:g}" for number in boxes[wrong.argmax()])
        raise ManifestError(
            f"box {place} of row {row} in column {column!r} is ({box}) as "
            f"{source_format} ({wrong.sum():,} such boxes): {why}"
        )
    # fractions of one pixel, as no box of pixels is
    relative = len(boxes) and boxes.max() <= 1 and (boxes % 1).any()
    if source_format != "rel_xyxy" and relative:
        corners = "make corners of them, x + width and y + height, and "
        raise ManifestError(
            f"all {len(boxes):,} boxes in column {column!r} lie within 0 to 1 as {source_format}, "
            f"expected pixels: for relative coordinates {corners * (source_format == 'xywh')}"
            'write source_format="rel_xyxy"'
        )
    if source_format == "xywh":
        boxes[:, 2:] += boxes[:, :2]
    return boxes


def _quadruples(column: str, values: pa.Array, where: IntArray) -> npt.NDArray[np.float32]:
    """Return the four numbers of all boxes of all rows, shape (boxes, 4)."""
    boxes = pc.list_flatten(values)
    if not len(boxes):
        return np.empty((0, 4), np.float32)
    if not arrow.is_list(boxes.type):
        raise ManifestError(
            f"column {column!r} holds lists of {boxes.type}, expected lists of boxes of four "
            "numbers each, [[x1, y1, x2, y2], ...]"
        )
    lengths = pc.fill_null(pc.list_value_length(boxes), 0)
    odd = pc.indices_nonzero(pc.not_equal(lengths, 4))
    if len(odd):
        row, place = arrow.place_of(where, odd[0].as_py())
        raise ManifestError(
            f"box {place} of row {row} in column {column!r} is {boxes[odd[0].as_py()].as_py()}, "
            "expected four numbers"
        )
    numbers = pc.list_flatten(boxes)
    if not arrow.are_numbers(numbers.type):
        raise ManifestError(f"column {column!r} holds boxes of {numbers.type}, expected numbers")
    found: npt.NDArray[np.float32] = numbers.to_numpy(zero_copy_only=False).astype(np.float32)
    return found.reshape(-1, 4)


def class_numbers(
    column: str, values: pa.Array, where: IntArray, class_names: tuple[object, ...] | None
) -> npt.NDArray[np.int32]:
    """Return the class numbers of all boxes; without `class_names` the labels are those."""
    labels = pc.list_flatten(values)
    if not len(labels):
        return np.empty(0, np.int32)
    if labels.null_count:
        row, place = arrow.place_of(where, pc.indices_nonzero(pc.is_null(labels))[0].as_py())
        raise ManifestError(f"label {place} of row {row} in column {column!r} is missing")
    if class_names is not None:
        numbers: npt.NDArray[np.int32] = Category(column, class_names=class_names).encode(labels)
        return numbers
    if not pa.types.is_integer(labels.type):
        raise ManifestError(
            f"column {column!r} holds lists of {labels.type}: tell the feature their order, "
            "class_names=[...]"
        )
    low, high = (pc.min_max(labels)[side].as_py() for side in ("min", "max"))
    if low < 0 or high >= 2**31:
        raise ManifestError(
            f"column {column!r} holds the numbers {low} to {high}: classes go from 0 on"
        )
    numbers = labels.to_numpy(zero_copy_only=False).astype(np.int32)
    return numbers


BOX_FORMATS = ("xyxy", "xywh", "rel_xyxy")

PADDING = -1
"""The value for no box, in coordinates and labels, as in KerasHub."""

Labelled = tuple[Values, Values]
"""Boxes, of shape (boxes, 4), and their labels."""

_NO_BOXES = "write [] where an image has no boxes"
NO_OBJECTS = "write [] where an image has no objects"
"""Advice on rows that lack a list of objects."""


@dataclass(frozen=True, repr=False)
class Boxes(Feature):
    """Boxes and labels on an image, from columns that hold a list in each row.

    A batch holds `{"boxes": float32 (batch, max_boxes, 4), "labels": int32 (batch, max_boxes)}`,
    filled up with -1, as KerasHub's detectors and Keras's preprocessing layers take it. Stored
    boxes refer to the upright image, as EXIF orientation has it. They follow the resizing, crop and
    flip of their image; what lies outside of it afterwards is cut off, and boxes of which nothing
    is left are dropped, as by `keras.utils.bounding_boxes.clip_to_image_size`. A transform gets
    them without the -1, any number of them, and may give back another number.

    Args:
        column: the column of boxes: a list of four numbers for each box, [] where there is none.
        labels: the column of their classes: a list in each row, as long as that of the boxes.
        like: which image they belong to, where there are several: the name of its array, or of its
            column. By hand, on one row: the `Image`.
        format: what the model gets: `"xyxy"` (default; left, top, right, bottom in pixels),
            `"xywh"` (left, top, width, height in pixels) or `"rel_xyxy"` (0 to 1).
        source_format: what the column holds, likewise; pixels are those of the whole image.
        max_boxes: how many the batch has room for; a row of more is an error.
        class_names: the classes in the order of their numbers. None (default) takes those of
            the manifest (COCO, VOC, YOLO), else the sorted distinct labels of the frame, but whole
            numbers as they are.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row whose boxes or labels are
            null, of which so nobody knows what is on it, holds -1, and weighs 0 in their loss.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> image = dfgen.Image(size=(512, 512), resize="pad")  # doctest: +SKIP
        >>> dfgen.Sequence(df, x=image, y=dfgen.Boxes("boxes", labels="labels"))
    """

    column: str = "boxes"
    labels: str = "labels"
    like: str | Image | None = None
    format: str = "xyxy"
    source_format: str = "xyxy"
    max_boxes: int = 100
    class_names: tuple[object, ...] | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "boxes"
    follows = True

    def __post_init__(self) -> None:
        check_column(self)
        one_of("format", self.format, BOX_FORMATS)
        one_of("source_format", self.source_format, BOX_FORMATS)
        if not isinstance(self.max_boxes, int | np.integer) or self.max_boxes < 1:
            raise ArgumentError(f"max_boxes must be a number of boxes, got {self.max_boxes!r}")
        if self.format == "rel_xyxy" and getattr(self.like, "variable_size", False):
            raise ArgumentError(
                f"{replace(self, like=None)!r}: with size=None the size that boxes would be "
                'relative to differs by batch. Take format="xyxy", or give the image a size'
            )
        if self.class_names is not None:
            names = Category(self.labels, class_names=self.class_names).class_names
            object.__setattr__(self, "class_names", names)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of boxes and of their classes."""
        return (*dict.fromkeys((self.column, self.labels)),)

    def unnamed(self, column: pa.Array) -> pa.Array | None:
        """Return the labels, None where they are numbers, which may stay as they are."""
        labels = arrow.flattened(column)
        return labels if len(labels) and not arrow.are_numbers(labels.type) else None

    def arrays(self, name: str) -> dict[str, str]:
        """Return the names of boxes and labels."""
        return {"boxes": name, "labels": labels_of(name)}

    def read_spec(self, transform: bool) -> tuple[Spec, Spec]:
        """Return the arrays that `read` fills: any number of boxes, and of labels."""
        return _specs(None)

    @property
    def spec(self) -> tuple[Spec, Spec]:
        """The arrays that the model gets: boxes and labels, with an axis of the loss for each."""
        return _specs(self.max_boxes)

    def bind(self, columns: ColumnSource) -> BoxRows:
        """Return the boxes of every row."""
        return self.encode(columns[self.column], columns[self.labels])

    def at(self, values: BoxRows, row: int) -> Labelled:
        """Return the boxes and the labels of one row."""
        part = slice(values.offsets[row], values.offsets[row + 1])
        return values.boxes[part], values.labels[part]

    def encode(self, boxes: pa.Array, labels: pa.Array) -> BoxRows:
        """Return the boxes of every row; refuse what are none, or have no label each."""
        where = arrow.offsets(self.column, boxes, _NO_BOXES)
        labelled = arrow.offsets(self.labels, labels, _NO_BOXES)
        odd = np.flatnonzero(np.diff(where) != np.diff(labelled))
        if len(odd):
            row = int(odd[0])
            raise ManifestError(
                f"row {row} has {np.diff(where)[row]:,} boxes in column {self.column!r}, but "
                f"{np.diff(labelled)[row]:,} labels in column {self.labels!r} ({len(odd):,} such "
                "rows)"
            )
        most = int(np.diff(where).max(initial=0))
        if most > self.max_boxes:
            raise ManifestError(
                f"row {np.diff(where).argmax()} has {most:,} boxes, more than max_boxes="
                f"{self.max_boxes}: write dfgen.Boxes({self.column!r}, max_boxes={most})"
            )
        corners = checked_corners(self.column, boxes, where, self.source_format)
        return BoxRows(where, corners, class_numbers(self.labels, labels, where, self.class_names))

    def truth(self, values: BoxRows, rows: slice, lacking: Present) -> tuple[pa.Array, pa.Array]:
        """Return the boxes of some rows as they are stored, and their labels, with names."""
        ends = values.offsets[rows.start : rows.stop + 1]
        part = slice(ends[0], ends[-1])
        boxes = arrow.lists_of(values.boxes[part], np.zeros(ends[-1] - ends[0], bool))
        labels = pa.array(values.labels[part])
        if self.class_names is not None:
            labels = pa.array(self.class_names).take(labels)
        return arrow.with_ends(boxes, ends - ends[0], lacking), arrow.with_ends(
            labels, ends - ends[0], lacking
        )

    def read(
        self, value: Labelled, out: Labelled, store: Store, watch: Watch, given: Geometry
    ) -> None:
        """Fill `out` with boxes in `format` and labels of one row, by the geometry of its image."""
        self.finish(self._moved(*value, given), out)

    def _moved(self, boxes: Values, labels: Values, geometry: Geometry) -> Labelled:
        height, width = geometry.image
        if self.source_format == "rel_xyxy":
            boxes = boxes * np.array([width, height] * 2, np.float32)
        outside = (boxes[:, :2] >= (width, height)).any(1) | (boxes[:, 2:] <= 0).any(1)
        if outside.any():
            box = ", ".join(f"{number:g}" for number in boxes[outside.argmax()])
            raise DecodeError(
                f"box {outside.argmax()} of column {self.column!r} is ({box}) as xyxy, outside of "
                f"the image, which is {width} x {height} pixels (width x height, upright)"
            )
        moved, left = move(boxes, geometry)
        moved = moved[left].astype(np.float32)
        if self.format == "xywh":
            moved[:, 2:] -= moved[:, :2]
        elif self.format == "rel_xyxy":
            moved /= np.array([geometry.size[1], geometry.size[0]] * 2, np.float32)
        return moved, labels[left]

    def finish(self, sample: Labelled, out: Labelled) -> None:
        """Fill the arrays of the batch with a sample's boxes and labels, the rest with -1."""
        boxes, labels = sample
        if len(boxes) != len(labels):
            raise TransformError(
                f"the transform returned {len(boxes):,} boxes, but {len(labels):,} labels for them"
            )
        if len(boxes) > self.max_boxes:
            raise TransformError(
                f"the transform returned {len(boxes):,} boxes, more than max_boxes={self.max_boxes}"
            )
        for one, into in zip(sample, out, strict=True):
            into[: len(one)] = one
            into[len(one) :] = PADDING


def _specs(count: int | None) -> tuple[Spec, Spec]:
    """Return the Specs of so many boxes and their labels; None: of any number."""
    boxes = Spec((count, 4), np.dtype(np.float32), PADDING, axes=1)
    return boxes, Spec((count,), np.dtype(np.int32), PADDING, axes=1)


def labels_of(boxes: str) -> str:
    """Return the name of the array of labels that goes with an array of boxes."""
    return "labels" if boxes == "boxes" else f"{boxes}_labels"
