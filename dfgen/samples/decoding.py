"""Bytes to pixels: one decoder a format, fixed by DECODERS and the same on every machine.

The format is known by the first bytes, never by the name: a PNG called `x.jpg` is a PNG. A file
that its decoder refuses is an error; no other decoder is tried.
"""

import io
import math
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image

from dfgen.errors import DecodeError
from dfgen.samples.headers import (
    BITS_PER_SAMPLE,
    EXTRA_SAMPLES,
    PILLOW,
    array_header,
    parse_header,
    sniff,
    tiff_tags,
)

Pixels = npt.NDArray[Any]

CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
"""color_mode -> channels of the decoded image."""

# (channels as OpenCV decodes them, color_mode) -> conversion. OpenCV's own order is BGR.
_CONVERSIONS = {
    (1, "rgb"): cv2.COLOR_GRAY2RGB, (1, "rgba"): cv2.COLOR_GRAY2RGBA,
    (3, "rgb"): cv2.COLOR_BGR2RGB, (3, "rgba"): cv2.COLOR_BGR2RGBA,
    (3, "grayscale"): cv2.COLOR_BGR2GRAY,
    (4, "rgb"): cv2.COLOR_BGRA2RGB, (4, "rgba"): cv2.COLOR_BGRA2RGBA,
    (4, "grayscale"): cv2.COLOR_BGRA2GRAY,
}  # fmt: skip

_PILLOW_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}


def decode(data: bytes, color_mode: str = "rgb") -> Pixels:
    """Decode one image, upright, to 8 bits.

    EXIF orientation is applied; 16-bit values are divided by 257 and rounded; alpha is dropped
    unless `color_mode="rgba"`, where images without alpha get 255. Of animations and multi-page
    files it is the first image.

    Args:
        data: the bytes of a whole file.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.

    Returns:
        uint8 array of shape (height, width, channels).

    Raises:
        DecodeError: the bytes are no image, or a broken one.

    Example:
        >>> decode(open("cat.jpg", "rb").read()).shape  # doctest: +SKIP
        (375, 500, 3)
    """
    format = sniff(data[:16])
    if format not in DECODERS:
        raise DecodeError("this is a .npy array, not an image: use dfgen.Array for this column")
    orientation = _orientation(data, format)
    try:
        pixels = DECODERS[format](data, color_mode)
    except (cv2.error, OSError, ValueError, SyntaxError, EOFError) as error:
        raise DecodeError(f"broken {format} file: {getattr(error, 'err', error)}") from error
    return _turn(pixels, orientation)


def decode_array(data: bytes) -> npt.NDArray[Any]:
    """Decode a .npy file; pickled objects are refused, never loaded.

    Raises:
        DecodeError: not a .npy file, one of objects, or one shorter than its header promises.
    """
    if not data.startswith(b"\x93NUMPY"):
        raise DecodeError(f"not a .npy file: it begins with {data[:8]!r}")
    file = io.BytesIO(data)
    shape, fortran, dtype = array_header(file)
    start, count = file.tell(), math.prod(shape)
    if min(shape, default=0) < 0 or dtype.itemsize == 0:
        raise DecodeError(f"broken .npy header: {dtype} of shape {shape}")
    if len(data) - start < count * dtype.itemsize:
        raise DecodeError(
            f"truncated .npy file: {dtype} of shape {shape} takes {count * dtype.itemsize:,} bytes "
            f"after the header, {len(data) - start:,} are there"
        )
    array = np.frombuffer(data, dtype, count, start)
    return array.reshape(shape, order="F" if fortran else "C")


def _with_opencv(data: bytes, color_mode: str) -> Pixels:
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise ValueError("truncated or damaged")
    if pixels.dtype == np.uint16:
        pixels = cv2.convertScaleAbs(pixels, alpha=1 / 257)
    elif pixels.dtype != np.uint8:
        raise ValueError(f"pixels are {pixels.dtype}, expected 8 or 16 bits; use dfgen.Array")
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if (channels, color_mode) in _CONVERSIONS:
        pixels = cv2.cvtColor(pixels, _CONVERSIONS[channels, color_mode])
    return _with_channels(pixels, color_mode)


def _jpeg(data: bytes, color_mode: str) -> Pixels:
    """JPEG is always 8 bits, so the decoder itself can make the colours."""
    flags = cv2.IMREAD_GRAYSCALE if color_mode == "grayscale" else cv2.IMREAD_COLOR_RGB
    flags |= cv2.IMREAD_IGNORE_ORIENTATION
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None:
        raise ValueError("truncated or damaged")
    if color_mode == "rgba":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2RGBA)
    return _with_channels(pixels, color_mode)


def _with_channels(pixels: Pixels, color_mode: str) -> Pixels:
    """Give grayscale its channel."""
    return pixels.reshape(*pixels.shape[:2], CHANNELS[color_mode])


def _with_pillow(data: bytes, color_mode: str) -> Pixels:
    image: PIL.Image.Image = PILLOW[sniff(data[:16])](io.BytesIO(data))
    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip
        image = PIL.Image.fromarray(np.round(np.asarray(image) / 257).astype(np.uint8))
    return _with_channels(np.array(image.convert(_PILLOW_MODES[color_mode])), color_mode)


def _tiff(data: bytes, color_mode: str) -> Pixels:
    """OpenCV would multiply 8-bit colours by their alpha; Pillow would cut 16 bits."""
    tags = tiff_tags(io.BytesIO(data))
    if EXTRA_SAMPLES in tags and tags.get(BITS_PER_SAMPLE) == 8:
        return _with_pillow(data, color_mode)
    return _with_opencv(data, color_mode)


DECODERS: dict[str, Callable[[bytes, str], Pixels]] = {
    "jpeg": _jpeg,
    "png": _with_opencv,
    "webp": _with_opencv,
    "bmp": _with_opencv,
    "tiff": _tiff,
    "pnm": _with_pillow,  # OpenCV ignores the maximum that a header gives
    "gif": _with_pillow,  # OpenCV opens GIF only in newer versions
}
"""Format -> its decoder. OpenCV is twice as fast as Pillow where both open a format."""


def _orientation(data: bytes, format: str) -> int:
    """Return how to turn the decoded pixels; refuse images too large to decode."""
    if format == "webp" and b"EXIF" not in data:
        return 1  # spares 5 % of the time; no WebP is larger than MAX_PIXELS
    header = parse_header(io.BytesIO(data), format)
    return 1 if format == "tiff" else header.orientation  # both TIFF decoders turn by themselves


def _turn(pixels: Pixels, orientation: int) -> Pixels:
    """Turn pixels upright, by the table of EXIF 2.32, section 4.6.4, tag 0x0112."""
    if orientation == 1:
        return pixels
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)
