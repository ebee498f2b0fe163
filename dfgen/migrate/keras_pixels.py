"""Pixels as `keras.utils.load_img` makes them, which dfgen's own decoders leave upright and deep.

Read from `keras/src/utils/image_utils.py` of Keras 3.12 and 3.15: whatever Pillow opens, not turned
by EXIF, alpha dropped, resized by Pillow. Most JPEG and PNG files are decoded, and by `"nearest"`
resized, with what gives the same numbers sooner.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np
import PIL.Image

from dfgen.errors import DecodeError, raise_broken, reason, warn
from dfgen.limits import Limits
from dfgen.samples.features.base import Feature
from dfgen.samples.pixels.fast_decoders import check_scans, decode_jpeg, decode_png
from dfgen.samples.pixels.formats import parse_header
from dfgen.samples.pixels.geometry import CHANNELS, Pixels, Size
from dfgen.samples.pixels.headers import UNWARNED, check_decoded, png_glance
from dfgen.samples.stores.store import Store
from dfgen.spec import Spec, Values, Watch
from dfgen.table.file_columns import Content

FILTERS = {
    "nearest": PIL.Image.Resampling.NEAREST,
    "bilinear": PIL.Image.Resampling.BILINEAR,
    "bicubic": PIL.Image.Resampling.BICUBIC,
    "hamming": PIL.Image.Resampling.HAMMING,
    "box": PIL.Image.Resampling.BOX,
    "lanczos": PIL.Image.Resampling.LANCZOS,
}
"""Keras's `interpolation` -> Pillow's filter."""

_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}
_GRAY = ("L", "I;16", "I")  # which Keras leaves as they are
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8\xff"
_SOONER = (b"\x08\0", b"\x08\2", b"\x08\6")  # PNG of 8 bits: gray, RGB, RGBA
_BOX = tuple[int, int, int, int]


def load_pixels(
    data: bytes,
    color_mode: str,
    size: Size,
    interpolation: str,
    keep_aspect_ratio: bool,
    limits: Limits,
    doubt: Callable[[str], None],
) -> Pixels:
    """Return (height, width, channels) as Keras makes them of the bytes of a file.

    `interpolation` is one of `FILTERS`; `"grayscale"` keeps 16 and 32 bits; `doubt` is told what is
    wrong with a file that Pillow decodes nevertheless.
    """
    try:
        pixels = _sooner(data, color_mode, limits, doubt)
        if pixels is not None and interpolation == "nearest" and not keep_aspect_ratio:
            pixels = _nearest(pixels, size)
        if pixels is not None and pixels.shape == (*size, CHANNELS[color_mode]):
            return pixels
        with UNWARNED:
            image = _by_pillow(data, color_mode) if pixels is None else _image(pixels, color_mode)
            return _as_array(_resized(image, size, interpolation, keep_aspect_ratio))
    except Exception as error:
        raise_broken("image file", error)


def _sooner(
    data: bytes, color_mode: str, limits: Limits, doubt: Callable[[str], None]
) -> Pixels | None:
    """Return the pixels of a file that need not be decoded by Pillow, None of others.

    Colours are RGB where `"grayscale"` is asked for: Pillow weighs them in its own way.
    """
    decode: Callable[..., Pixels] = decode_jpeg
    if data[:3] == _JPEG:
        header = check_scans(data, parse_header(io.BytesIO(data), "jpeg", limits), limits)
        check_decoded(header, limits, 3)
        channels = header.channels
    elif data[:8] == _PNG and data[24:26] in _SOONER and (bare := png_glance(data)) is not None:
        check_decoded(bare, limits, 4)
        channels, decode = bare.channels, decode_png
    else:
        return None
    try:
        coloured = color_mode == "grayscale" and channels != 1
        return decode(data, "rgb" if coloured else color_mode)
    except (ValueError, OSError) as error:
        doubt(reason(error))
        return None


def _image(pixels: Pixels, color_mode: str) -> PIL.Image.Image:
    image = PIL.Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    return image.convert("L") if color_mode == "grayscale" else image


def _by_pillow(data: bytes, color_mode: str) -> PIL.Image.Image:
    if not data:
        raise DecodeError("the file is empty (0 bytes)")
    image: PIL.Image.Image = PIL.Image.open(io.BytesIO(data))
    as_it_is = image.mode in _GRAY if color_mode == "grayscale" else False
    return image if as_it_is else image.convert(_MODES[color_mode])


def _resized(
    image: PIL.Image.Image, size: Size, interpolation: str, keep_aspect_ratio: bool
) -> PIL.Image.Image:
    if image.size == size[::-1]:
        return image
    box = _cut((image.height, image.width), size) if keep_aspect_ratio else None
    return image.resize(size[::-1], FILTERS[interpolation], box)


def _nearest(pixels: Pixels, size: Size) -> Pixels:
    """Return an image as Pillow resizes it by `"nearest"`: the same pixels of it, found sooner.

    Pillow may round places otherwise in a part of an image than in one that begins at 0.
    """
    if pixels.shape[:2] == size:
        return pixels
    resized: Pixels = cv2.resize(pixels, size[::-1], interpolation=cv2.INTER_NEAREST_EXACT)
    return resized.reshape(*size, -1)


def _cut(image: Size, size: Size) -> _BOX:
    """Return left, top, right and bottom of the centre that has the aspect ratio of a size."""
    height = min(image[0], image[1] * size[0] // size[1])
    width = min(image[1], image[0] * size[1] // size[0])
    top, left = (image[0] - height) // 2, (image[1] - width) // 2
    return left, top, left + width, top + height


def _as_array(image: PIL.Image.Image) -> Pixels:
    array = np.asarray(image)
    return array if array.ndim == 3 else array[..., None]


class Doubts:
    """Tells of damaged files that are decoded nevertheless, once for all of an iterator."""

    def __init__(self) -> None:
        self._told = False

    def tell(self, path: object, reason: str) -> None:
        """Warn of the first."""
        if not self._told:
            self._told = True
            warn(
                f"{path}: {reason}. Keras trains on the pixels that Pillow reads from such a "
                "file, and so does this. dfgen reports no further ones. dfgen.verify(df, "
                "decode=True) finds them all, and dfgen.Sequence(df) refuses them by name"
            )


@dataclass(frozen=True, kw_only=True, repr=False)
class ChangedImage(Feature):
    """Images that are changed as an `ImageDataGenerator` says.

    `shape` is of one image in a batch, `floatx` the dtype in which pixels are changed, `dtype` that
    of the batch. `rescale` is what pixels are multiplied by where there is no `change(array,
    drawn)`. `drawn(rng)` says what chance decides for one image; None: nothing.
    """

    column: str
    shape: tuple[int, ...]
    floatx: str
    dtype: str
    rescale: float | None = None
    change: Callable[[Values, Any], Any] | None = None
    drawn: Callable[[np.random.Generator], Any] | None = None
    kind: ClassVar[str] = "image"

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        return Spec(self.shape, np.dtype(self.dtype))

    @property
    def is_random(self) -> bool:
        """Whether chance has a part in it."""
        return self.drawn is not None

    def draw(self, rng: np.random.Generator) -> Any:
        """Return what chance decides for one image."""
        return None if self.drawn is None else self.drawn(rng)

    def put(self, pixels: Values, out: Values, given: Any) -> None:
        """Fill `out` with an image, changed."""
        if self.change is not None:
            out[...] = self.change(pixels.astype(self.floatx), given)
        elif not self.rescale:
            out[...] = pixels
        elif self.dtype == self.floatx:
            np.multiply(pixels, self.rescale, out=out, dtype=out.dtype)
        else:
            out[...] = np.multiply(pixels, self.rescale, dtype=self.floatx)


@dataclass(frozen=True, kw_only=True, repr=False)
class LoadedImage(ChangedImage):
    """Pixels of image files as `keras.utils.load_img` makes them, changed."""

    size: Size
    color_mode: str
    interpolation: str
    keep_aspect_ratio: bool
    channels_first: bool
    doubts: Doubts
    of_files: ClassVar[bool] = True

    def read(self, value: Content, out: Values, store: Store, watch: Watch, given: Any) -> None:
        """Fill `out` with the pixels of one file."""
        watch("read")
        data = store.read(value)
        watch("decode", len(data))
        pixels = load_pixels(
            data, self.color_mode, self.size, self.interpolation, self.keep_aspect_ratio,
            store.limits, lambda reason: self.doubts.tell(value, reason),
        )  # fmt: skip
        watch("transform")
        self.put(pixels.transpose(2, 0, 1) if self.channels_first else pixels, out, given)


@dataclass(frozen=True, kw_only=True, repr=False)
class HeldImage(ChangedImage):
    """Images of an array of all rows, changed."""

    def at(self, values: Values, row: int) -> Values:
        """Return the image of one row."""
        found: Values = values[row]
        return found

    def read(self, value: Values, out: Values, store: Store, watch: Watch, given: Any) -> None:
        """Fill `out` with one image."""
        watch("transform")
        self.put(value, out, given)
