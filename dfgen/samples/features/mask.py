"""Mask: the class of every pixel of an image."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import cv2
import numpy as np

from dfgen.checks import one_of, whole
from dfgen.errors import ArgumentError, DecodeError, listed
from dfgen.samples.features.base import ColumnSource, Feature, Reading
from dfgen.samples.features.feature_checks import cast, check_column, set_fields
from dfgen.samples.features.image import spec_on
from dfgen.samples.features.image_checks import check_followed_size
from dfgen.samples.pixels.decoders import decode_values
from dfgen.samples.pixels.resizing import resize
from dfgen.spec import Spec, Values
from dfgen.table.arrow_types import flattened, is_text

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
        texts = [*flattened(column)[:1], *(column[:1] if is_text(column.type) else ())]
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
