"""Mask and Segmentation: the class of every pixel, from files or drawn from annotations."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import cv2
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, DecodeError, ManifestError, listed, one_of, whole
from dfgen.samples.features.base import (
    PADDING,
    ColumnSource,
    Feature,
    Ragged,
    Reading,
    cast,
    check_column,
    set_fields,
)
from dfgen.samples.features.classes import class_numbers, names_of_lists
from dfgen.samples.features.image import check_followed_size, spec_on
from dfgen.samples.pixels.decoders import decode_values
from dfgen.samples.pixels.geometry import resize
from dfgen.samples.pixels.regions import mask_of, parsed
from dfgen.spec import Spec, Values
from dfgen.table import arrow_types as arrow

_OUTSIDE = 0  # the code of padding; no colour and no grey level has it


@dataclass(frozen=True, repr=False)
class Mask(Feature):
    """The class of every pixel, from mask files named by a column.

    For polygons and run lengths in a column use `Segmentation`; for soft masks and depth maps
    `Image(like=..., dtype="float32", color_mode="grayscale", interpolation="nearest")`.

    The mask is cropped, flipped and resized like its image, to the nearest pixel. Its shape is
    (height, width, 1), as Keras's losses, metrics and preprocessing layers expect.

    Args:
        column: the column of paths, or of bytes, as in `Image`. A mask has the size of its image
            and a lossless format such as PNG. Without `palette` the grey levels, or the indices of
            indexed colours as in Pascal VOC, are the classes.
        like: the array or column of the image, if there are several.
        palette: colours or grey levels of classes, {(red, green, blue): class} or {level: class}.
        dtype: `"uint8"` (default), or `"int32"` for classes above 255.
        fill_value: the class outside of the image, as with `resize="pad"`. Exclude it from the loss
            with `SparseCategoricalCrossentropy(ignore_class=255)`.
        missing: of targets, `"raise"` (default), or `"ignore"`: null is `fill_value` of weight 0.

    Raises:
        ArgumentError: an invalid argument.

    Example:
        >>> dfgen.Sequence(df, x="path", y=dfgen.Mask("mask"))  # doctest: +SKIP
    """

    column: str
    like: Any = ""
    palette: Any = None
    dtype: str = "uint8"
    fill_value: int = 0
    missing: str = "raise"
    kind: ClassVar[str] = "mask"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)
        one_of("dtype", self.dtype, ("uint8", "int32"))
        most = int(np.iinfo(self.dtype).max)
        set_fields(self, fill_value=whole("fill_value", self.fill_value, most=most))
        if self.palette is not None:
            set_fields(self, palette=_palette(self.palette, most))

    @property
    def spec(self) -> Spec:
        """The array that the model gets, of the size of its image."""
        return spec_on(self, self.dtype, self.fill_value)

    def bind(self, columns: ColumnSource) -> Any:
        """Return the files of every row; raises for annotations, which `Segmentation` draws."""
        column = columns[self.column]
        texts = [*arrow.flattened(column)[:1], *(column[:1] if column.type in arrow.TEXT else ())]
        if texts and str(texts[0]).startswith(("[[", "{")):
            write = f"for annotations write dfgen.Segmentation({self.column!r})"
            raise ArgumentError(f"column {self.column!r} has no paths of mask files: {write}")
        return super().bind(columns)

    def read(self, value: Any, out: Values, reading: Reading) -> None:
        """Fill `out` with the classes of one file, by the geometry of its image."""
        reading.watch("read")
        data = reading.store.read(value)
        reading.watch("decode", len(data))
        in_colours = self.palette is not None and isinstance(self.palette[0][0], tuple)
        levels = decode_values(data, in_colours, reading.store.limits)
        if levels.dtype.kind == "f":
            raise DecodeError(
                f"the mask holds {levels.dtype} numbers, no classes: write dfgen.Image("
                f'{self.column!r}, like=..., dtype="float32", color_mode="grayscale")'
            )
        reading.watch("resize")
        check_followed_size(levels.shape[:2], reading.geometry.image)
        if self.palette is not None:
            self._fill_by_palette(_codes(levels), reading.geometry, out)
            return
        try:
            levels = cast(levels, out.dtype)
        except OverflowError as error:
            raise DecodeError(f'the mask {error}: write dfgen.Mask(dtype="int32")') from None
        resize(levels, reading.geometry, out, "nearest", fill_value=self.fill_value)

    def _fill_by_palette(self, pixels: Values, geometry: Any, out: Values) -> None:
        codes = np.empty(out.shape, np.int32)
        resize(pixels, geometry, codes, "nearest", fill_value=_OUTSIDE)
        flat = codes.ravel()
        starts = np.append(0, np.flatnonzero(flat[1:] != flat[:-1]) + 1)
        firsts = flat[starts]  # of runs of one code: three times as fast for drawn masks
        known, classes = self._table
        places = np.searchsorted(known, firsts).clip(max=len(known) - 1)
        strange = known[places] != firsts
        if strange.any():
            y, x = np.argwhere(pixels[..., 0] == firsts[strange][0])[0].tolist()
            code = firsts[strange][:1]
            gray = isinstance(self.palette[0][0], int)
            colour = int(code[0]) - 1 if gray else tuple(code.view(np.uint8)[:3].tolist())
            raise DecodeError(
                f"the mask has {colour} at row {y}, column {x} of its pixels, which the palette "
                f"does not have: {listed(key for key, _ in self.palette)}"
            )
        runs = np.diff(starts, append=flat.size)
        out[...] = np.repeat(classes[places], runs).reshape(out.shape)

    @cached_property
    def _table(self) -> tuple[Values, Values]:
        """The sorted codes of the palette, and their classes."""
        keys = np.array([key for key, _ in self.palette])
        codes = np.append(_codes(keys.reshape(1, len(keys), -1)), np.int32(_OUTSIDE))
        classes = np.array([*(number for _, number in self.palette), self.fill_value], self.dtype)
        order = np.argsort(codes)
        return codes[order], classes[order]


def _codes(pixels: Values) -> Values:
    """Return a number for each grey level or RGB colour (the fourth byte is 255)."""
    if pixels.shape[2] == 1:
        return np.add(pixels, 1, dtype=np.int32)
    pixels = pixels.astype(np.uint8, copy=False)
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2RGBA).view(np.int32)  # type: ignore[no-any-return]


def _palette(palette: Any, most: int) -> tuple[tuple[Any, int], ...]:
    pairs = dict(palette) if isinstance(palette, Mapping | tuple) else {}
    try:
        keys = np.array([*pairs])
    except ValueError:  # a mix of numbers and colours
        keys = np.empty(0)
    fits = keys.dtype.kind in "iu" and keys.shape[1:] in ((), (3,)) and keys.min(initial=0) >= 0
    if not pairs or not fits or keys.max() >= (2**16 if keys.ndim == 1 else 256):
        raise ArgumentError(
            "palette must be {(red, green, blue): class, ...}, with 0 to 255 each, or {grey level: "
            f"class, ...}}, got {palette!r}"
        )
    known = keys.tolist() if keys.ndim == 1 else map(tuple, keys.tolist())
    classes = [whole("palette", value, most=most) for value in pairs.values()]
    return tuple(zip(known, classes, strict=True))


_BACKGROUND = "background"


@dataclass(frozen=True, repr=False)
class Segmentation(Feature):
    """The class of every pixel, or a mask of every object, drawn from annotations.

    Use it for the column `segmentation` of COCO and the `polygons` of YOLO. It sets the pixels that
    pycocotools sets, and is cropped, flipped and resized like its image. It needs
    `pip install "keras-dfgen[coco]"`.

    Without `max_items` it is the class of every pixel, (height, width, 1); class 0 is
    `"background"`, and later objects cover earlier ones. With `max_items` a batch holds `{"masks":
    (batch, max_items, height, width, 1), "labels": int32 (batch, max_items)}`: masks are 1 inside
    the object and 0 elsewhere, and padding objects have the label -1.

    Args:
        column: the column of regions: a list in each row, [] without objects. A region is the JSON
            of COCO's `segmentation` (polygons or run lengths), or one polygon as a list of the x
            and y of its corners, in pixels of the whole upright image.
        labels: the column of their classes: a list in each row, as long as the list of regions.
        like: the array or column of the image, if there are several.
        max_items: the most objects per row; rows with more raise an error. None (default): the
            class of every pixel.
        ignore: the value of pixels of crowd regions, which other objects cover: exclude it from the
            loss, `SparseCategoricalCrossentropy(ignore_class=255)`. None (default): crowd regions
            are objects like others.
        crowd: the column of crowd flags: a list of booleans in each row.
        fill_value: the class outside of the image; None (default): the background.
        class_names: as in `Boxes`, with `"background"` put first if it is missing. Whole numbers as
            labels start at 1, with `max_items` at 0.
        missing: of targets, `"raise"` (default), or `"ignore"`: null is `fill_value` of weight 0.

    Raises:
        ArgumentError: an invalid argument.

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
            wrong = f"ignore={self.ignore} is the index of the class {names[self.ignore]!r}"
            raise ArgumentError(f"{wrong}: write ignore=255")

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The default name of its array."""
        return "mask" if self.max_items is None else "masks"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of regions, of crowd flags with `ignore`, and of classes."""
        return (self.column, *([] if self.ignore is None else [self.crowd]), self.labels)

    def resolve(self, columns: ColumnSource) -> "Segmentation":
        """Set the class names by the labels, unless these are numbers."""
        return replace(self, class_names=self.class_names or names_of_lists(self.labels, columns))

    def arrays(self, name: str) -> Any:
        """Return the name of the class array, or the names of masks and labels."""
        return name if self.max_items is None else {"masks": name, "labels": f"{name}_labels"}

    @property
    def spec(self) -> Any:
        """The arrays of the batch."""
        if self.max_items is None:
            return spec_on(self, "uint8", self._outside)
        labels = Spec((self.max_items,), np.dtype(np.int32), PADDING, axes=1)
        return spec_on(self, "uint8", 0, self.max_items), labels

    def bind(self, columns: ColumnSource) -> Ragged:
        """Return the region, class index and crowd flag of every object."""
        labels = Ragged.of(self.labels, columns[self.labels])
        values = columns[self.column]
        if isinstance(values.type, arrow.LISTS):  # YOLO has null for images without objects
            values = pc.fill_null(values, [])
        rows = Ragged.of(self.column, values)
        [regions] = rows.arrays
        kind = regions.type
        polygons = isinstance(kind, arrow.LISTS) and arrow.are_numbers(kind.value_type)
        if len(regions) and not (kind in arrow.TEXT or polygons or pa.types.is_null(kind)):
            raise ManifestError(
                f"column {self.column!r} holds lists of {kind}, expected lists of COCO's JSON, or "
                "of polygons [x, y, x, y, x, y, ...]"
            )
        rows.check_same_lengths(labels)
        if self.max_items is not None:
            rows.check_most(self.max_items)
        crowd = np.zeros(len(regions), np.bool_)
        if self.ignore is not None:
            flags = Ragged.of(self.crowd, columns[self.crowd])
            rows.check_same_lengths(flags)
            crowd = np.asarray(flags.arrays[0].cast(pa.bool_()).fill_null(False))
        return rows.with_arrays(regions, self._class_indices(labels), crowd)

    def _class_indices(self, labels: Ragged) -> Values:
        """Return the class of every object, which in masks of classes is not the background."""
        names = self.class_names
        if names and names[0] == _BACKGROUND and not isinstance(names[-1], str):
            return class_numbers(labels, names[1:]) + 1
        indices = class_numbers(labels, names)
        if self.max_items is None:
            labels.refuse(indices > 255, "is a class above 255, which uint8 cannot hold")
        if self.max_items is None and names is None:
            background = "is of class 0, the background: add 1 to the labels, or give class_names="
            labels.refuse(indices == 0, background)
            if self.ignore is not None:
                labels.refuse(indices >= self.ignore, "is not below ignore=: write ignore=255")
        return indices

    def read(self, value: tuple[Any, Values, Values], out: Any, reading: Reading) -> None:
        """Fill `out` with the objects of one row, by the geometry of its image."""
        reading.watch("decode")
        texts, indices, crowd = value
        geometry, count = reading.geometry, len(texts)
        below = np.argsort(~crowd, kind="stable")  # crowds first: other objects cover them
        masks = (mask_of(parsed(texts[n].as_py()), geometry.image) for n in below.tolist())
        if self.max_items is not None:
            for mask, into in zip(masks, out[0], strict=False):
                resize(mask[..., None], geometry, into, "nearest")
            out[0][count:] = 0
            out[1][:count], out[1][count:] = indices, PADDING
            return
        canvas = np.full(geometry.image, self._background, np.uint8)
        for mask, index in zip(
            masks, np.where(crowd, self.ignore or 0, indices)[below], strict=True
        ):
            cv2.copyTo(np.full_like(canvas, index), mask, canvas)
        reading.watch("resize")
        resize(canvas[..., None], geometry, out, "nearest", fill_value=self._outside)

    @property
    def _background(self) -> int:
        names = self.class_names or ()
        return names.index(_BACKGROUND) if _BACKGROUND in names else 0

    @property
    def _outside(self) -> int:
        return self._background if self.fill_value is None else self.fill_value
