"""Segmentation: masks drawn from the polygons and run lengths of annotations."""

from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
import pyarrow as pa

from dfgen.checks import whole
from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.base import Feature, Reading
from dfgen.samples.features.boxes import names_of_lists
from dfgen.samples.features.column_source import ColumnSource, NamingColumns
from dfgen.samples.features.feature_checks import check_column, set_fields
from dfgen.samples.features.image import spec_on
from dfgen.samples.features.ragged import PADDING, Ragged
from dfgen.samples.pixels import regions
from dfgen.samples.pixels.resizing import resize
from dfgen.spec import Spec, Values
from dfgen.table import arrow_types as arrow

_BACKGROUND = "background"


@dataclass(frozen=True, repr=False)
class Segmentation(Feature):
    """The class of every pixel, or a mask of every object, from the polygons of annotations.

    Use it for the column `segmentation` of COCO, and the `polygons` of YOLO. It sets the pixels
    that pycocotools sets, and then gets the geometry of its image as a `Mask` does. Needs
    `pip install "keras-dfgen[coco]"`.

    Without `max_items` it is the class of every pixel, (height, width, 1), of which class 0 is
    `"background"`; later objects cover earlier ones. With `max_items` a batch holds `{"masks":
    (batch, max_items, height, width, 1), "labels": int32 (batch, max_items)}`: 1 where the object
    is, 0 elsewhere, and the label -1 where there is no object.

    Args:
        column: the column of regions: in each row a list, [] where there is no object. A region is
            the JSON of COCO's `segmentation`, polygons or run lengths, or x and y of each corner of
            one polygon as a list of numbers, in pixels of the whole upright image.
        labels: the column of their classes: a list in each row, as long as that of the regions.
        like: the array or column of the image, where there are several.
        max_items: how many objects the batch has room for; a row of more is an error. None
            (default): the class of every pixel.
        ignore: the value of pixels of crowd regions, which stand below all others: leave it out of
            the loss, `SparseCategoricalCrossentropy(ignore_class=255)`. None (default): any object.
        crowd: the column that says which are crowd regions: a list of booleans in each row.
        fill_value: the class of what lies outside of the image; None (default): the background.
        class_names: as of `Boxes`, `"background"` put first if it is not among them. Whole numbers
            as labels are from 1, with `max_items` from 0.
        missing: of targets, `"raise"` (default), or `"ignore"`: null is `fill_value` of weight 0.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> image = dfgen.Image(size=(512, 512), resize="pad")
        >>> dfgen.Sequence(df, x=image, y=dfgen.Segmentation(ignore=255))  # doctest: +SKIP
    """

    column: str = "segmentation"
    labels: str = "labels"
    like: Any = ""
    max_items: int | None = None
    ignore: int | None = None
    crowd: str = "iscrowd"
    fill_value: int | None = None
    class_names: tuple[object, ...] | None = None
    missing: str = "raise"

    def __post_init__(self) -> None:
        check_column(self)
        for name in ("ignore", "fill_value"):
            if getattr(self, name) is not None:
                set_fields(self, **{name: whole(name, getattr(self, name), most=255)})
        if self.max_items is not None:
            set_fields(self, max_items=whole("max_items", self.max_items, least=1))
            if self.ignore is not None or getattr(self.like, "size", 0) is None:
                raise ArgumentError("max_items= needs an image with a size, and no ignore=")
        names = self.class_names
        if names is None:
            return
        names = names if _BACKGROUND in names or self.max_items else (_BACKGROUND, *names)
        set_fields(self, class_names=names)
        if self.ignore is not None and self.ignore < len(names):
            raise ArgumentError(
                f"ignore={self.ignore} is the number of the class {names[self.ignore]!r}: write "
                "ignore=255"
            )

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The name of its array where y gives none."""
        return "mask" if self.max_items is None else "masks"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of regions, of crowds if they are asked for, and of classes."""
        return (self.column, *([] if self.ignore is None else [self.crowd]), self.labels)

    def resolve(self, columns: NamingColumns) -> "Segmentation":
        """Return it with its class names, where labels are no numbers."""
        return replace(self, class_names=self.class_names or names_of_lists(self.labels, columns))

    def arrays(self, name: str) -> Any:
        """Return the name of the classes, or the names of masks and their labels."""
        return name if self.max_items is None else {"masks": name, "labels": f"{name}_labels"}

    @property
    def spec(self) -> Any:
        """The arrays that the model gets."""
        if self.max_items is None:
            return spec_on(self, "uint8", self._outside)
        labels = Spec((self.max_items,), np.dtype(np.int32), PADDING, axes=1)
        return spec_on(self, "uint8", 0, self.max_items), labels

    def bind(self, columns: ColumnSource) -> Ragged:
        """Return region, class number and whether it is a crowd, of the objects of every row."""
        labels = Ragged.of(self.labels, columns[self.labels])
        rows = Ragged.of(self.column, self._without_null(columns[self.column], labels))
        [found] = rows.arrays
        kind = found.type
        polygons = arrow.is_list(kind) and arrow.are_numbers(kind.value_type)
        if len(found) and not (arrow.is_text(kind) or polygons or pa.types.is_null(kind)):
            raise ManifestError(
                f"column {self.column!r} holds lists of {kind}, expected lists of the JSON of "
                "COCO's segmentation, or of polygons [x, y, x, y, x, y, ...]"
            )
        rows.check_same_lengths(labels)
        if self.max_items is not None:
            rows.check_most(self.max_items, "max_items")
        crowd = np.zeros(len(found), np.bool_)
        if self.ignore is not None:
            flags = Ragged.of(self.crowd, columns[self.crowd])
            rows.check_same_lengths(flags)
            crowd = np.asarray(flags.arrays[0].cast(pa.bool_()).fill_null(False))
        return rows.with_arrays(found, self._numbers(labels), crowd)

    def _without_null(self, values: pa.Array, labels: Ragged) -> pa.Array:
        """Return regions with [] for null where there are no labels, as YOLO has them."""
        if not arrow.is_list(values.type):
            return values
        null, bare = arrow.nulls(values), np.diff(labels.offsets) == 0
        if (null & ~bare).any():
            row = int((null & ~bare).argmax())
            raise ManifestError(
                f"column {self.column!r} has no regions in {(null & ~bare).sum():,} rows whose "
                f"objects have labels, the first is row {row}: drop these rows, {arrow.OR_IGNORE}",
                row=row,
            )
        ends = np.concatenate([[0], np.cumsum(arrow.lengths_of(values), dtype=np.int64)])
        return arrow.with_ends(arrow.flattened(values), ends, np.zeros(len(values), np.bool_))

    def _numbers(self, labels: Ragged) -> Values:
        """Return the class of every object; a class of pixels is not that of the background."""
        names = self.class_names
        if names and names[0] == _BACKGROUND and not isinstance(names[-1], str):
            return labels.class_numbers(names[1:]) + 1
        numbers = labels.class_numbers(names)
        if self.max_items is not None:
            return numbers
        labels.refuse(numbers > 255, "is a class above 255, which uint8 cannot hold")
        if names is None:
            background = "is of class 0, the background: add 1 to the labels, or give class_names="
            labels.refuse(numbers == 0, background)
            if self.ignore is not None:
                labels.refuse(numbers >= self.ignore, "is not below ignore=: write ignore=255")
        return numbers

    def read(self, value: tuple[Any, Values, Values], out: Any, reading: Reading) -> None:
        """Fill `out` with the objects of one row, by the geometry of its image."""
        reading.watch("decode")
        found, numbers, crowd = value
        geometry = reading.geometry

        def mask(place: int) -> Values:
            region = regions.parsed(found[place].as_py())
            return np.ascontiguousarray(regions.mask_of(region, geometry.image))

        if self.max_items is not None:
            for place, into in zip(range(len(found)), out[0], strict=False):
                resize(mask(place)[..., None], geometry, into, "nearest")
            out[0][len(found) :] = 0
            out[1][: len(found)], out[1][len(found) :] = numbers, PADDING
            return
        canvas = np.full(geometry.image, self._background, np.uint8)
        for place in np.argsort(~crowd, kind="stable").tolist():  # crowds lie below
            number = self.ignore if crowd[place] else numbers[place]
            cv2.copyTo(np.full_like(canvas, number), mask(place), canvas)
        reading.watch("resize")
        resize(canvas[..., None], geometry, out, "nearest", fill_value=self._outside)

    @property
    def _background(self) -> int:
        names = self.class_names or ()
        return names.index(_BACKGROUND) if _BACKGROUND in names else 0

    @property
    def _outside(self) -> int:
        return self._background if self.fill_value is None else self.fill_value
