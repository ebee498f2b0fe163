"""Segmentation: masks drawn from the polygons and run lengths of annotations."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import Feature
from dfgen.samples.features.boxes import NO_OBJECTS, PADDING, class_numbers
from dfgen.samples.features.category import Category
from dfgen.samples.features.image import Image
from dfgen.samples.features.one_row import ColumnSource
from dfgen.samples.pixels.geometry import Geometry
from dfgen.samples.pixels.regions import Region, mask_of, parsed
from dfgen.samples.pixels.resizing import resize
from dfgen.spec import IntArray, Spec, Values, Watch
from dfgen.stores.store import Store
from dfgen.system import whole
from dfgen.table import arrow_types as arrow

_BACKGROUND = "background"


class SegmentRows(NamedTuple):
    """The objects of every row: those of row i stand at `offsets[i]` to `offsets[i + 1]`."""

    offsets: IntArray
    regions: pa.Array
    numbers: Values
    crowd: Values


class Segments(NamedTuple):
    """The objects of one row: the region of each as it was written, and the value of its pixels."""

    regions: list[Any]
    numbers: Values
    crowd: Values


@dataclass(frozen=True, repr=False)
class Segmentation(Feature):
    """The class of every pixel, or a mask of every object, from the polygons of annotations.

    Use it for the column `segmentation` of COCO, and the `polygons` of YOLO; for
    mask files take `Mask`. It sets those pixels of the whole image that pycocotools sets, and then
    gets the geometry of its image as a `Mask` does: the same size, crop and flip, by the nearest
    pixel.

    Without `max_items` it is the class of every pixel, (height, width, 1), of which class 0 is
    `"background"`; later objects cover earlier ones. With `max_items` a batch holds `{"masks":
    (batch, max_items, height, width, 1), "labels": int32 (batch, max_items)}`: 1 where the object
    is, 0 elsewhere, and the label -1 where there is no object.

    Args:
        column: the column of regions: in each row a list, [] where there is no object. A region is
            the JSON of COCO's `segmentation`, polygons or run lengths, or x and y of each corner of
            one polygon as a list of numbers, in pixels of the whole upright image.
        labels: the column of their classes: a list in each row, as long as that of the regions.
        like: which image they belong to, where there are several: the name of its array, or of its
            column. By hand, on one row: the `Image`.
        max_items: how many objects the batch has room for; a row of more is an error. None
            (default): the class of every pixel.
        ignore: the value of pixels of crowd regions, which stand below all others: leave it out of
            the loss, `SparseCategoricalCrossentropy(ignore_class=255)`. None (default) draws
            these as any object. With `max_items` it is no use.
        crowd: the column that tells which are crowd regions: a list of booleans in each row.
        fill_value: the class of what lies outside of the image, as of `resize="pad"`. None
            (default): that of the background.
        class_names: the classes in the order of their numbers, `"background"` put first if it is
            not among them. None (default) takes those of the manifest, else the sorted distinct
            labels of the frame, but whole numbers from 1 on as they are; with `max_items` from 0.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row whose regions or labels are
            null holds `fill_value`, and weighs 0 in the loss of this target.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> image = dfgen.Image(size=(512, 512), resize="pad")  # doctest: +SKIP
        >>> dfgen.Sequence(df, x=image, y=dfgen.Segmentation("segmentation", ignore=255))
    """

    column: str = "segmentation"
    labels: str = "labels"
    like: str | Image | None = None
    max_items: int | None = None
    ignore: int | None = None
    crowd: str = "iscrowd"
    fill_value: int | None = None
    class_names: tuple[object, ...] | None = None
    missing: str = "raise"
    follows = True
    pixel_kind: ClassVar[str] = "map"

    def __post_init__(self) -> None:
        check_column(self)
        if self.max_items is not None:
            object.__setattr__(self, "max_items", whole("max_items", self.max_items, least=1))
            if self.ignore is not None:
                raise ArgumentError(
                    "ignore= is the value of pixels, and with max_items= each object has a mask of "
                    "its own: leave one of them out"
                )
            if getattr(self.like, "variable_size", False):
                raise ArgumentError(
                    "max_items= makes one array of the masks of all objects, so give the image a "
                    "size, or leave max_items= out"
                )
        for name in ("ignore", "fill_value"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, whole(name, value, most=255))
        if self.class_names is not None:
            names = Category(self.labels, class_names=self.class_names).class_names or ()
            names = names if _BACKGROUND in names or self.max_items else (_BACKGROUND, *names)
            object.__setattr__(self, "class_names", names)
            if self.ignore is not None and self.ignore < len(names):
                raise ArgumentError(
                    f"ignore={self.ignore} is the number of the class {names[self.ignore]!r}: "
                    "write ignore=255"
                )

    @property
    def kind(self) -> str:  # type: ignore[override]
        """Sequence names its array so."""
        return "mask" if self.max_items is None else "masks"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of regions, of crowds if they are asked for, and of classes."""
        return (self.column, *([] if self.ignore is None else [self.crowd]), self.labels)

    def unnamed(self, column: pa.Array) -> pa.Array | None:
        """Return the labels, None where they are numbers, which may stay as they are."""
        labels = arrow.flattened(column)
        return labels if len(labels) and not arrow.are_numbers(labels.type) else None

    def arrays(self, name: str) -> Any:
        """Return the name of the classes, or the names of masks and their labels."""
        if self.max_items is None:
            return name
        return {"masks": name, "labels": f"{name}_labels"}

    def read_spec(self, transform: bool) -> Any:
        """Return the arrays that `read` fills, of the size that its image has there."""
        size = self.image.read_spec(transform).shape[:2]
        if self.max_items is None:
            return Spec((*size, 1), np.dtype(np.uint8), self._outside)
        return (
            Spec((self.max_items, *size, 1), np.dtype(np.uint8)),
            Spec((self.max_items,), np.dtype(np.int32), PADDING, axes=1),
        )

    @property
    def spec(self) -> Any:
        """The arrays that the model gets."""
        return self.read_spec(False)

    def bind(self, columns: ColumnSource) -> SegmentRows:
        """Return the objects of every row; refuse lists that do not go together."""
        values, labels = columns[self.column], columns[self.labels]
        both = arrow.is_list(values.type) and arrow.is_list(labels.type)
        if both:  # those of YOLO are null where none are
            lengths = arrow.lengths_of(values)
            bare = arrow.nulls(values) & ~arrow.nulls(labels) & (arrow.lengths_of(labels) == 0)
            boxed = np.flatnonzero(arrow.nulls(values) & (arrow.lengths_of(labels) > 0))
            if len(boxed):
                raise ManifestError(
                    f"column {self.column!r} has no regions in {len(boxed):,} rows whose objects "
                    f"have labels, the first is row {boxed[0]}: the annotations hold boxes alone "
                    f"there. Draw regions, or drop these rows, {arrow.OR_IGNORE}",
                    row=int(boxed[0]),
                )
            ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            values = arrow.with_ends(arrow.flattened(values), ends, arrow.nulls(values) & ~bare)
        where = arrow.offsets(self.column, values, NO_OBJECTS)
        regions = arrow.flattened(values)
        kind = regions.type
        listed = arrow.is_list(kind) and arrow.are_numbers(kind.value_type)
        if len(regions) and not (arrow.is_text(kind) or listed or pa.types.is_null(kind)):
            raise ManifestError(
                f"column {self.column!r} holds lists of {kind}, expected lists of the JSON of "
                "COCO's segmentation, or of polygons [x, y, x, y, x, y, ...]"
            )
        self._check_length(where, labels, self.labels)
        numbers = self._numbers(labels, where)
        limit = 2**31 if self.max_items else 256
        if numbers.max(initial=0) >= limit:
            raise ManifestError(
                f"column {self.labels!r} has the class {numbers.max()}, more than uint8 can hold: "
                "classes of pixels go from 0 to 255"
            )
        most = int(np.diff(where).max(initial=0))
        if self.max_items is not None and most > self.max_items:
            raise ManifestError(
                f"row {np.diff(where).argmax()} has {most:,} objects, more than max_items="
                f"{self.max_items}: write {replace(self, max_items=most, class_names=None)!r}"
            )
        crowd = np.zeros(len(regions), np.bool_)
        if self.ignore is not None:
            told = columns[self.crowd]
            self._check_length(where, told, self.crowd)
            flags = arrow.flattened(told)
            try:
                flags = flags.cast(pa.bool_()).fill_null(False)
            except pa.ArrowException as error:
                raise ManifestError(
                    f"column {self.crowd!r} holds lists of {flags.type}, expected lists of "
                    f"booleans: {error}"
                ) from None
            crowd = flags.to_numpy(zero_copy_only=False)
        return SegmentRows(where, regions, numbers, crowd)

    def _numbers(self, labels: pa.Array, where: IntArray) -> Values:
        """Return the class of every object; pixels have no number that tells other things too."""
        names = self.class_names
        if names and names[0] == _BACKGROUND and not isinstance(names[-1], str):
            return class_numbers(self.labels, labels, where, names[1:]) + 1
        numbers = class_numbers(self.labels, labels, where, names)
        if names is not None or self.max_items or not len(numbers):
            return numbers
        if not numbers.all():
            row, _ = arrow.place_of(where, int(numbers.argmin()))
            raise ManifestError(
                f"row {row} has an object of class 0 in column {self.labels!r}, the background, "
                "which is not seen: add 1 to the labels, or give their class_names=[...]"
            )
        if self.ignore is not None and self.ignore < numbers.max():
            raise ManifestError(
                f"column {self.labels!r} has the class {numbers.max()}, and ignore={self.ignore} "
                "is that of a class: write ignore=255"
            )
        return numbers

    def without_region(self, values: SegmentRows) -> IntArray:
        """Return which objects have no region at all, by their places among those of all rows."""
        regions = values.regions
        empty = arrow.nulls(regions)
        if arrow.is_list(regions.type):
            empty |= arrow.lengths_of(regions) == 0
        elif arrow.is_text(regions.type):
            empty |= np.asarray(pc.fill_null(pc.equal(regions, "[]"), False))
        return np.flatnonzero(empty)

    def _check_length(self, where: IntArray, values: pa.Array, column: str) -> None:
        lengths = np.diff(arrow.offsets(column, values, NO_OBJECTS))
        odd = np.flatnonzero(np.diff(where) != lengths)
        if len(odd):
            row = int(odd[0])
            raise ManifestError(
                f"row {row} has {np.diff(where)[row]:,} regions in column {self.column!r}, but "
                f"{lengths[row]:,} values in column {column!r} ({len(odd):,} such rows)"
            )

    def at(self, values: SegmentRows, row: int) -> Segments:
        """Return the objects of one row."""
        part = slice(values.offsets[row], values.offsets[row + 1])
        regions = values.regions[part].to_pylist()
        return Segments(regions, values.numbers[part], values.crowd[part])

    def read(self, value: Segments, out: Any, store: Store, watch: Watch, given: Geometry) -> None:
        """Fill `out` with the objects of one row, by the geometry of its image."""
        watch("decode")
        regions = [_region(one) for one in value.regions]
        if self.max_items is None:
            canvas = np.full(given.image, self._background, np.uint8, order="F")
            values = np.where(value.crowd, self.ignore or 0, value.numbers)
            for n in np.argsort(~value.crowd, kind="stable"):
                inside = mask_of(regions[n], given.image).view(np.bool_)
                np.copyto(canvas, np.uint8(values[n]), where=inside)
            watch("resize")
            pixels = np.ascontiguousarray(canvas)[..., None]
            resize(pixels, given, out, "nearest", fill_value=self._outside)
            return
        masks, labels = out
        watch("resize")
        for one, into in zip(regions, masks, strict=False):
            pixels = np.ascontiguousarray(mask_of(one, given.image))[..., None]
            resize(pixels, given, into, "nearest", fill_value=0)
        masks[len(regions) :] = 0
        labels[: len(regions)], labels[len(regions) :] = value.numbers, PADDING

    @property
    def _background(self) -> int:
        names = self.class_names or ()
        return names.index(_BACKGROUND) if _BACKGROUND in names else 0

    @property
    def _outside(self) -> int:
        return self._background if self.fill_value is None else self.fill_value

    def label_numbers(self, values: Any, data: bytes | None = None) -> Values | None:
        """Return the classes of pixels, which can all occur, if they have names."""
        if self.class_names is None or self.max_items is not None:
            return None
        return np.arange(len(self.class_names))[None]


def _region(given: Any) -> Region:
    if given is None:
        return []
    if isinstance(given, str):
        return parsed(given)
    return [given] if len(given) else []
