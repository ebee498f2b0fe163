"""Bytes to pixels: one decoder a format, fixed by DECODERS and the same on every machine.

The format is known by the first bytes, never by the name: a PNG called `x.jpg` is a PNG. A file
that its decoder refuses is an error; no other decoder is tried.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image

from dfgen.errors import DecodeError, MissingFileError

Pixels = npt.NDArray[Any]

EXTENSIONS: dict[str, str] = {
    ".jpg": "jpeg", ".jpeg": "jpeg", ".jpe": "jpeg", ".jfif": "jpeg",
    ".png": "png", ".webp": "webp", ".bmp": "bmp", ".gif": "gif",
    ".tif": "tiff", ".tiff": "tiff",
    ".ppm": "pnm", ".pgm": "pnm", ".pbm": "pnm", ".pnm": "pnm",
    ".npy": "npy",
}  # fmt: skip
"""Suffix, in lower case -> the format it promises."""

CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
"""color_mode -> channels of the decoded image."""

_ORIENTATION_TAG = 0x0112
_EXIF_MARKERS = {"jpeg": b"Exif\0\0", "png": b"eXIf", "webp": b"EXIF"}

# (channels as OpenCV decodes them, color_mode) -> conversion. OpenCV's own order is BGR.
_CONVERSIONS = {
    (1, "rgb"): cv2.COLOR_GRAY2RGB, (1, "rgba"): cv2.COLOR_GRAY2RGBA,
    (3, "rgb"): cv2.COLOR_BGR2RGB, (3, "rgba"): cv2.COLOR_BGR2RGBA,
    (3, "grayscale"): cv2.COLOR_BGR2GRAY,
    (4, "rgb"): cv2.COLOR_BGRA2RGB, (4, "rgba"): cv2.COLOR_BGRA2RGBA,
    (4, "grayscale"): cv2.COLOR_BGRA2GRAY,
}  # fmt: skip

_PILLOW_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}


@dataclass(frozen=True)
class Header:
    """What a file says of itself before it is decoded.

    Width and height are as stored; `orientation` (EXIF, 1..8) tells how to turn them. Arrays have
    neither width, height nor channels.
    """

    format: str
    width: int | None = None
    height: int | None = None
    channels: int | None = None
    orientation: int = 1


def sniff(head: bytes) -> str:
    """Return the format that the first 16 bytes of a file announce.

    Raises:
        DecodeError: no decoder knows them.
    """
    if head.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    if head.startswith(b"GIF8"):
        return "gif"
    if head.startswith((b"II*\0", b"MM\0*")):
        return "tiff"
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head[:1] == b"P" and head[1:2] in b"123456" and head[2:3].isspace():
        return "pnm"
    if head.startswith(b"BM"):
        return "bmp"
    raise DecodeError(
        f"not an image or array that dfgen opens: the file begins with {head[:8]!r}. "
        f"Formats: {', '.join(sorted(set(EXTENSIONS.values())))}"
    )


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
    try:
        pixels = DECODERS[format](data, color_mode)
    except (cv2.error, OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError) as error:
        raise DecodeError(f"broken {format} file: {error}") from error
    return _turn(pixels, _orientation(data, format))


def decode_array(data: bytes) -> npt.NDArray[Any]:
    """Decode a .npy file; pickled objects are refused, never loaded.

    Raises:
        DecodeError: not a .npy file, one of objects, or one shorter than its header promises.
    """
    if not data.startswith(b"\x93NUMPY"):
        raise DecodeError(f"not a .npy file: it begins with {data[:8]!r}")
    file = io.BytesIO(data)
    shape, fortran, dtype = _array_header(file)
    size = dtype.itemsize * int(np.prod(shape, dtype=object))
    if len(data) - file.tell() < size:
        raise DecodeError(
            f"truncated .npy file: {dtype} of shape {shape} takes {size:,} bytes after the header, "
            f"{len(data) - file.tell():,} are there"
        )
    array = np.frombuffer(data, dtype, count=int(np.prod(shape)), offset=file.tell())
    return array.reshape(shape, order="F" if fortran else "C")


def read_header(path: str) -> Header:
    """Read what a file says of itself, without decoding it.

    Raises:
        MissingFileError: there is no such file.
        DecodeError: it is empty, or no decoder knows it.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(16)
            if not head:
                raise DecodeError("the file is empty (0 bytes)")
            format = sniff(head)
            file.seek(0)
            if format == "npy":
                _array_header(file)
                return Header(format)
            with PIL.Image.open(file) as image:
                orientation = image.getexif().get(_ORIENTATION_TAG, 1)
                return Header(format, *image.size, _channels(image), _known(orientation))
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError("the file does not exist") from None
    except DecodeError:
        raise
    except (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError) as error:
        # Pillow names the path or the file object in its text; the caller knows the path.
        text = str(error).partition(" <")[0].partition(" '")[0]
        raise DecodeError(f"broken header: {text}") from error


def _array_header(file: io.BufferedIOBase) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(file)
        else:
            header = np.lib.format.read_array_header_2_0(file)
    except ValueError as error:
        raise DecodeError(f"broken .npy header: {error}") from error
    if header[2].hasobject:
        raise DecodeError(
            "a .npy file of Python objects: dfgen never unpickles; save plain numbers"
        )
    return header


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
    with PIL.Image.open(io.BytesIO(data)) as image:
        pixels = np.array(image.convert(_PILLOW_MODES[color_mode]))
    return _with_channels(pixels, color_mode)


DECODERS: dict[str, Callable[[bytes, str], Pixels]] = {
    "jpeg": _jpeg,
    "png": _with_opencv,
    "webp": _with_opencv,
    "bmp": _with_opencv,
    "tiff": _with_opencv,
    "pnm": _with_opencv,
    "gif": _with_pillow,  # OpenCV opens GIF only in newer versions
}
"""Format -> its decoder. OpenCV is twice as fast as Pillow where both open a format."""


def _orientation(data: bytes, format: str) -> int:
    """EXIF orientation of a file in memory. OpenCV's TIFF decoder has applied it already."""
    marker = _EXIF_MARKERS.get(format)
    if marker is None or marker not in data:
        return 1
    try:
        with PIL.Image.open(io.BytesIO(data)) as image:
            return _known(image.getexif().get(_ORIENTATION_TAG, 1))
    except (OSError, ValueError, SyntaxError):
        return 1


def _known(orientation: object) -> int:
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1


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


def _channels(image: PIL.Image.Image) -> int:
    if image.mode == "P":
        return 4 if "transparency" in image.info else 3
    return 1 if image.mode.startswith("I") else len(image.getbands())
