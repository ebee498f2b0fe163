"""Mask: the class, or a number, of every pixel of an image."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import cv2
import numpy as np

from dfgen.errors import ArgumentError, DecodeError, listed
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.samples.features.one_row import ColumnSource, pixels_of_row
from dfgen.samples.pixels.decoders import decode_values, png_of
from dfgen.samples.pixels.geometry import Geometry
from dfgen.samples.pixels.resizing import resize
from dfgen.samples.pixels.scaling import as_stored
from dfgen.spec import Spec, Values, Watch
from dfgen.stores.store import Store
from dfgen.system import one_of
from dfgen.table.arrow_types import flattened

_UNSEEN = 0  # the code of what lies outside of an image; no colour and no value has it


@dataclass(frozen=True, repr=False)
class Mask(Feature):
    """The class, or a number, of every pixel, from the mask files that a column names.

    Use it for files; of polygons and run lengths in a column `Segmentation` makes masks.

    It gets the geometry of its image: the same size, crop and flip, by the nearest pixel. Its
    shape (height, width, 1) is what Keras's losses and metrics take for outputs of shape (height,
    width, classes) and (height, width, 1), and what its preprocessing layers take as masks.

    Args:
        column: the column of paths, or of bytes, as of `Image`. The files are of the size of their
            image, in a format that keeps every value, as PNG. Without `palette` their values are
            the classes: gray levels, or the indices of indexed colours, as in Pascal VOC.
        like: which image it belongs to, where there are several: the name of its array, or of its
            column. By hand, on one row: the `Image`.
        palette: what else stands for a class: {(red, green, blue): class} or {gray level: class}.
        dtype: `"uint8"` (default), or `"int32"` for classes above 255. `"float32"` for what is no
            class, such as soft masks, alpha mattes and heights: the numbers of gray files of 8 and
            16 bits, and of floats, as TIFF has them, as they are.
        fill_value: the class, or number, of what lies outside of the image, as of `resize="pad"`.
            Leave it out of the loss: `SparseCategoricalCrossentropy(ignore_class=255)`.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row without a path holds
            `fill_value`, and weighs 0 in the loss of this target.
        index: the column of whole numbers that say which row of an array file the mask is, as of
            `Image`; None (default): a file is a mask.
        dataset: the name of the array in HDF5 files that hold several.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> image = Image("path", size=(224, 224))
        >>> Mask("mask", like=image)(df.iloc[0]).shape  # doctest: +SKIP
        (224, 224, 1)
    """

    column: str
    like: str | Image | None = None
    palette: Any = None
    dtype: str = "uint8"
    fill_value: float = 0
    missing: str = "raise"
    index: str | None = None
    dataset: str | None = None
    kind: ClassVar[str] = "mask"
    of_files: ClassVar[bool] = True
    follows = True
    pixel_kind: ClassVar[str] = "map"

    def __post_init__(self) -> None:
        check_column(self)
        one_of("dtype", self.dtype, ("uint8", "int32", "float32"))
        if self.dtype == "float32":
            _check_numbers(self)
            return
        _check_class("fill_value", self.fill_value, self.dtype)
        if self.palette is not None:
            object.__setattr__(self, "palette", _palette(self.palette, self.dtype))

    def bind(self, columns: ColumnSource) -> Any:
        """Return the files of every row; refuse annotations, which `Segmentation` draws."""
        texts = flattened(columns[self.column])[:1].to_pylist()
        if texts and isinstance(texts[0], str) and texts[0].startswith(("[[", "{")):
            raise ArgumentError(
                f"column {self.column!r} holds annotations, expected paths of mask files: write "
                f"dfgen.Segmentation({self.column!r})"
            )
        return super().bind(columns)

    def read_spec(self, transform: bool) -> Spec:
        """Return the array that `read` fills, of the size that its image has there."""
        size = self.image.read_spec(transform).shape[:2]
        return Spec((*size, 1), np.dtype(self.dtype), self.fill_value)

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        return self.read_spec(False)

    def read(self, value: Any, out: Values, store: Store, watch: Watch, given: Geometry) -> None:
        """Fill `out` with the classes of one file, by the geometry of its image."""
        watch("read")
        if self.index is None:
            data = store.read(value)
            watch("decode", len(data))
            pixels = self._decode(data, store.limits)
        else:
            pixels = self._coded(self._levels(pixels_of_row(value, self.dataset, store)))
        watch("resize")
        _check_size(pixels.shape, given.image)
        if self.palette is None:
            self._copy(pixels, given, out)
            return
        codes = np.empty(out.shape, np.int32)
        resize(pixels, given, codes, "nearest", fill_value=_UNSEEN)
        flat = codes.ravel()
        starts = np.append(0, np.flatnonzero(flat[1:] != flat[:-1]) + 1)
        firsts = flat[starts]  # of runs, not of each pixel: three times quicker in drawn masks
        known, classes = self._table
        places = np.searchsorted(known, firsts).clip(max=len(known) - 1)
        strange = known[places] != firsts
        if strange.any():
            raise DecodeError(_unlabelled(pixels, firsts[strange][0], self.palette))
        runs = np.diff(starts, append=flat.size)
        out[...] = np.repeat(classes[places], runs).reshape(out.shape)

    def label_numbers(self, values: Any, data: bytes | None = None) -> Values | None:
        """Return the classes of the palette, which can all occur; else those that a file holds."""
        if self.palette is not None:
            return np.array([[number for _, number in self.palette]], self.dtype)
        return None if data is None else np.unique(self._decode(data))

    def file_of(self, array: Values) -> bytes:
        """Return the bytes of a PNG file of classes, or colours."""
        return png_of(array)

    def _decode(self, data: bytes, limits: Limits = DEFAULT) -> Values:
        """Return classes, or the codes of what stands for them, (height, width, 1), upright."""
        return self._coded(decode_values(data, self._in_colours, limits))

    @property
    def _in_colours(self) -> bool:
        return self.palette is not None and isinstance(self.palette[0][0], tuple)

    def _levels(self, row: Values) -> Values:
        """Return a row of an array file as the pixels of a file would be."""
        expected = (1, "the class of each pixel")
        if self._in_colours:
            expected = (3, "the colours of the palette")
        if row.shape[2] != expected[0]:
            told = f"{expected[0]}, {expected[1]}"
            raise DecodeError(f"the mask has {row.shape[2]} channels, expected {told}")
        if row.dtype.kind == "b":
            return row.astype(np.uint8)
        if row.dtype.kind in "iu" and row.dtype not in (np.uint8, np.uint16):
            levels = row.astype(np.int32)
            if (levels == row).all():
                return levels
        return as_stored(row)

    def _coded(self, values: Values) -> Values:
        if values.dtype.kind == "f" and self.dtype != "float32":
            raise DecodeError(
                f"the mask holds {values.dtype} numbers, which are no classes: write "
                f'dfgen.Mask({self.column!r}, dtype="float32")'
            )
        return values if self.palette is None else _codes(values)

    def _copy(self, levels: Values, geometry: Geometry, out: Values) -> None:
        if levels.dtype != out.dtype and out.dtype.kind != "f":
            low, high = levels.min(), levels.max()
            if low < 0 or high > np.iinfo(out.dtype).max:
                raise DecodeError(
                    f"the mask holds the classes {low} to {high}, more than {out.dtype} can hold"
                    + (f': write dfgen.Mask({self.column!r}, dtype="int32")' if low >= 0 else "")
                )
        levels = levels.astype(out.dtype, copy=False)
        resize(levels, geometry, out, "nearest", fill_value=self.fill_value)

    @cached_property
    def _table(self) -> tuple[Values, Values]:
        keys = np.array([key for key, _ in self.palette])
        codes = np.append(_codes(keys.reshape(1, len(keys), -1)), np.int32(_UNSEEN))
        classes = np.array([*(number for _, number in self.palette), self.fill_value], self.dtype)
        order = np.argsort(codes)
        return codes[order], classes[order]


def _codes(pixels: Values) -> Values:
    """Return a number for each gray level or RGB colour (its fourth byte is 255), never _UNSEEN."""
    if pixels.shape[2] == 1:
        return np.add(pixels, 1, dtype=np.int32)
    pixels = pixels.astype(np.uint8, copy=False)
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2RGBA).view(np.int32)  # type: ignore[no-any-return]


def _check_size(shape: tuple[int, ...], image: tuple[int, int]) -> None:
    if shape[:2] == image:
        return
    turned = image[0] != image[1] and shape[:2] == image[::-1]
    hint = ": it lies as its image does before EXIF orientation turns that" if turned else ""
    raise DecodeError(
        f"the mask has {shape[0]} x {shape[1]} pixels (height x width), its image "
        f"{image[0]} x {image[1]}{hint}"
    )


def _unlabelled(pixels: Values, code: np.int32, palette: tuple[tuple[Any, int], ...]) -> str:
    y, x = np.argwhere(pixels[..., 0] == code)[0].tolist()
    gray = isinstance(palette[0][0], int)
    colour = int(code) - 1 if gray else tuple(np.array([code]).view(np.uint8)[:3].tolist())
    return (
        f"the mask has the {'value' if gray else 'colour'} {colour} at row {y}, column {x} of its "
        f"pixels, which is no class. The palette: {listed(key for key, _ in palette)}"
    )


def _check_numbers(mask: Mask) -> None:
    if mask.palette is not None:
        raise ArgumentError(
            "palette= gives classes, which are whole numbers: leave it out with "
            'dtype="float32", or leave out the dtype'
        )
    if not isinstance(mask.fill_value, int | float | np.integer | np.floating):
        raise ArgumentError(f"fill_value must be a number, got {mask.fill_value!r}")


def _check_class(name: str, given: object, dtype: str) -> int:
    most = np.iinfo(dtype).max
    if not isinstance(given, int | np.integer) or not 0 <= given <= most:
        raise ArgumentError(f"{name} must be a class from 0 to {most} ({dtype}), got {given!r}")
    return int(given)


def _palette(given: Any, dtype: str) -> tuple[tuple[Any, int], ...]:
    pairs = dict(given).items() if isinstance(given, Mapping | tuple) else ()
    found = tuple((_colour(key), _check_class("palette", value, dtype)) for key, value in pairs)
    if not found or len({type(key) for key, _ in found}) > 1 or found[0][0] is None:
        raise ArgumentError(
            "palette must be {(red, green, blue): class, ...} with 0 to 255 each, or {gray level: "
            f"class, ...}}, got {given!r}"
        )
    return found


def _colour(key: Any) -> int | tuple[int, ...] | None:
    if isinstance(key, int | np.integer) and 0 <= key < 2**16:
        return int(key)
    numbers = tuple(key) if isinstance(key, Iterable) and not isinstance(key, str) else ()
    whole = all(isinstance(n, int | np.integer) and 0 <= n <= 255 for n in numbers)
    return tuple(map(int, numbers)) if len(numbers) == 3 and whole else None
