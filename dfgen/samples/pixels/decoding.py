"""Bytes to pixels: one decoder a format, fixed by DECODERS and the same on every machine.

The format is known by the first bytes, never by the name: a PNG called `x.jpg` is a PNG. A file
that its decoder refuses is an error; no other decoder is tried.
"""

import io
import math
import struct
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image
from PIL.Image import DecompressionBombError

from dfgen.errors import DecodeError
from dfgen.samples.pixels.headers import (
    BITS_PER_SAMPLE,
    EXTRA_SAMPLES,
    PILLOW,
    check_size,
    parse_header,
    sniff,
    tiff_tags,
)
from dfgen.samples.storage.npy import whole_array

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

_AS_GRAY = cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
_AS_RGB = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
_REDUCED = {
    1: 0,  # RGB or gray at 1/n: the names with COLOR in them mean BGR
    2: cv2.IMREAD_REDUCED_GRAYSCALE_2,
    4: cv2.IMREAD_REDUCED_GRAYSCALE_4,
    8: cv2.IMREAD_REDUCED_GRAYSCALE_8,
}

# EXIF orientation -> how to flip, after transposing from 5 on: 0 top to bottom, 1 left to right
_FLIPS = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}

_PNG_START = struct.Struct(">16xII9xI4s")  # width, height; length and name of the second chunk
_PNG_FRAME = 57  # bytes of a PNG beside those of its pixels, where these are in one chunk

BROKEN = (cv2.error, OSError, ValueError, SyntaxError, EOFError, DecompressionBombError)
"""What decoders raise over broken files."""

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
    return decode_reduced(data, color_mode, lambda size: 1)[0]


def decode_reduced(
    data: bytes, color_mode: str, reduction: Callable[[tuple[int, int]], int]
) -> tuple[Pixels, tuple[int, int], int]:
    """Decode one image as `decode`, a JPEG at 1/2, 1/4 or 1/8 of its size where that will do.

    Args:
        data: the bytes of a whole file.
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        reduction: told a JPEG's (height, width), returns 1, 2, 4 or 8.

    Returns:
        The pixels, the image's upright (height, width), and by how much the pixels are fewer: 375
        rows at 1/2 are 187.5, the last of the 188 decoded ones stands out by half.

    Raises:
        DecodeError: the bytes are no image, or a broken one.
    """
    format = sniff(data[:16])
    if format not in DECODERS:
        raise DecodeError(
            f"this is a .{format} array, not an image: use dfgen.Array for this column"
        )
    size, orientation = _geometry(data, format)
    reduced = reduction(size) if format == "jpeg" else 1
    try:
        if reduced > 1:
            pixels = _direct(data, color_mode, reduced)
        else:
            pixels = DECODERS[format](data, color_mode)
    except BROKEN as error:
        raise DecodeError(f"broken {format} file: {getattr(error, 'err', error)}") from error
    if orientation > 1:
        pixels = turn(pixels, orientation)
    return pixels, pixels.shape[:2] if reduced == 1 else size, reduced


def decode_array(data: bytes) -> npt.NDArray[Any]:
    """Decode a .npy file; pickled objects are refused, never loaded.

    Raises:
        DecodeError: not a .npy file, one of objects, or one shorter than its header promises.
    """
    if data.startswith(b"\x89HDF"):
        raise DecodeError('an HDF5 file is read by rows: name their column, as in index="index"')
    if not data.startswith(b"\x93NUMPY"):
        raise DecodeError(f"not a .npy file: it begins with {data[:8]!r}")
    file = io.BytesIO(data)
    shape, fortran, dtype = whole_array(file)
    array = np.frombuffer(data, dtype, math.prod(shape), file.tell())
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


def _direct(data: bytes, color_mode: str, reduced: int = 1) -> Pixels:
    """8 bits a channel: the decoder itself can make the colours, and a JPEG smaller."""
    flags = (_AS_GRAY if color_mode == "grayscale" else _AS_RGB) | _REDUCED[reduced]
    pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None:
        raise ValueError("truncated or damaged")
    if color_mode == "rgba":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2RGBA)
    return _with_channels(pixels, color_mode)


def _png(data: bytes, color_mode: str) -> Pixels:
    """Bit depth stands at byte 24; OpenCV would cut 16 bits, and rounds gray in its own way."""
    if color_mode == "rgb" and data[24] <= 8:
        return _direct(data, color_mode)
    return _with_opencv(data, color_mode)


def _with_channels(pixels: Pixels, color_mode: str) -> Pixels:
    """Give grayscale its channel."""
    return pixels if pixels.ndim == 3 else pixels.reshape(*pixels.shape, CHANNELS[color_mode])


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
    "jpeg": _direct,
    "png": _png,
    "webp": _with_opencv,
    "bmp": _with_opencv,
    "tiff": _tiff,
    "pnm": _with_pillow,  # OpenCV ignores the maximum that a header gives
    "gif": _with_pillow,  # OpenCV opens GIF only in newer versions
}
"""Format -> its decoder. OpenCV is twice as fast as Pillow where both open a format."""


def _geometry(data: bytes, format: str) -> tuple[tuple[int, int], int]:
    """Return (height, width), where a decoder asks for it, and the EXIF orientation still to apply.

    Refuses images too large to decode. WebP and PNG without EXIF are spared most of their header:
    5 % of the time of a WebP, 15 % of a small PNG.
    """
    if format == "webp" and b"EXIF" not in data:
        return (0, 0), 1  # no WebP is larger than MAX_PIXELS
    if format == "png" and len(data) > _PNG_START.size:
        width, height, length, name = _PNG_START.unpack_from(data)
        alone = name == b"IDAT" and length == len(data) - _PNG_FRAME
        if alone or b"eXIf" not in data:
            check_size(width, height)
            return (height, width), 1
    header = parse_header(io.BytesIO(data), format)
    if format == "tiff":  # both TIFF decoders turn by themselves
        return header.size, 1
    return header.size, header.orientation


def turn(pixels: Pixels, orientation: int) -> Pixels:
    """Turn pixels upright, by the table of EXIF 2.32, section 4.6.4, tag 0x0112."""
    turned = cv2.transpose(pixels) if orientation >= 5 else pixels
    if orientation in _FLIPS:
        turned = cv2.flip(turned, _FLIPS[orientation])
    return turned.reshape(*turned.shape[:2], pixels.shape[2])


def prepare_worker() -> None:
    """Set what the threads of this process decode best with; the whole process is changed.

    OpenCV uses one thread a call: the workers share the CPUs already. And the GNU C library gets
    to see one large block freed, after which it keeps up to 64 MB of freed memory per thread
    instead of giving each image's back to the system and having it zeroed again for the next one;
    that takes a fifth of the time of a 500x375 JPEG.
    """
    cv2.setNumThreads(1)
    np.empty(2**25 - 2**14, np.uint8)  # the largest block that moves its thresholds: mallopt(3)
