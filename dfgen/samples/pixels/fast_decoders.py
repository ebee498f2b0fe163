"""Fast decoders: JPEG by simplejpeg, PNG and WebP by OpenCV; the pixels that Pillow gives.

OpenCV gets no file of which it would write complaints to stderr, as far as the structure tells:
libjpeg-turbo says to us that data are corrupt. benchmarks/bench_decode.py measures both.
"""

import contextlib
import io
import re
from functools import partial
from typing import IO

import cv2
import numpy as np
import PIL.PngImagePlugin
import PIL.WebPImagePlugin
import simplejpeg
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile

from dfgen.errors import DecodeError
from dfgen.limits import Limits
from dfgen.samples.pixels.geometry import Pixels, in_color_mode
from dfgen.samples.pixels.headers import Header, jpeg_header
from dfgen.samples.pixels.pillow_decoders import pillow_values, with_pillow
from dfgen.samples.pixels.png_files import essential, is_bare, suits_libpng

_SPACES = {"grayscale": "GRAY", "rgb": "RGB", "rgba": "RGBA"}
_COLOURS = ("RGB", "YCbCr", "Gray")

_FOR_PILLOW = re.compile(
    r"subsampling|unknown JFIF revision|Unknown Adobe color transform|Invalid SOS parameters|"
    r"Corrupt JPEG data: (\d+ extraneous bytes before|bad ICC marker)"
)
"""Messages of libjpeg on files whose pixels may all be there (jerror.h): Pillow tells if not."""


def decode_jpeg(data: bytes, color_mode: str, reduced: int = 1) -> Pixels:
    """Decode a JPEG, at 1/2, 1/4 or 1/8 of its size where `reduced` is that.

    One whose pixels, or end marker, are damaged or missing is refused, where others show gray.
    """
    try:
        height, width, stored, _ = simplejpeg.decode_jpeg_header(data)
        if stored in _COLOURS:
            least = (0, 0) if reduced == 1 else (-(-height // reduced), -(-width // reduced))
            pixels: Pixels = simplejpeg.decode_jpeg(
                data, _SPACES[color_mode], min_height=least[0], min_width=least[1]
            )
            return pixels
    except ValueError as error:
        if not _FOR_PILLOW.search(str(error)):
            raise
    return with_pillow(partial(_smaller, reduced), data, color_mode)


_SCAN = b"\xff\xda"


def check_scans(data: bytes, header: Header, limits: Limits) -> Header:
    """Refuse a progressive JPEG of more scans than allowed; each takes as long as a decode.

    Returns the header; that of a progressive one where the first scan is not of all channels, as
    its decoder holds all pixels too.
    """
    if header.progressive:
        scans = data.count(_SCAN)
        if not limits.allows(
            "scans", scans
        ):  # as those bytes also stand in metadata, from there on
            jpeg_header(file := io.BytesIO(data), header.format, limits)
            scans = data.count(_SCAN, file.tell())
        if not limits.allows("scans", scans):
            what = f"the progressive JPEG has {scans:,} scans"
            raise DecodeError(limits.refusal("scans", scans, what))
        return header
    values = (header.width or 0) * (header.height or 0) * max(4, header.channels or 0)
    if 2 * values <= limits.most["decoded_bytes"]:
        return header  # small enough in any case
    at = data.find(_SCAN) + 4
    return header._replace(progressive=data[at : at + 1] != bytes([header.channels or 0]))


def _smaller(reduced: int, file: IO[bytes]) -> ImageFile:
    """Return an image that Pillow decodes at 1 / `reduced`."""
    image = JpegImageFile(file)
    if reduced > 1:
        image.draft(None, (image.width // reduced, image.height // reduced))
    return image


_BYTES = np.dtype(np.uint8)
_AS_RGB = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION

_GRAY_OF_8_BITS = (b"\1\0", b"\2\0", b"\4\0", b"\x08\0")  # bits, colour type
_WEBP_HEAD = 32  # bytes without which OpenCV complains
_WEBP_EXTENDED, _WEBP_ANIMATED, _WEBP_METADATA = b"VP8X", 0x02, 0x0C


def _decoded(data: bytes, flags: int = cv2.IMREAD_UNCHANGED) -> Pixels:
    pixels: Pixels | None = cv2.imdecode(np.frombuffer(data, _BYTES), flags)
    if pixels is None:
        raise ValueError("truncated or damaged")
    return pixels


def decode_png(data: bytes, color_mode: str) -> Pixels:
    """Have OpenCV decode what it decodes as Pillow does: not 16 bits, nor all gray.

    Pixels that refer farther back than they announce, as of old encoders, are left to Pillow.
    """
    if not is_bare(data):
        data, sound = essential(data)
        gray_clear = color_mode == "rgba" and data[24:26] in _GRAY_OF_8_BITS and b"tRNS" in data
        if gray_clear or not sound or not suits_libpng(data):
            return with_pillow(PIL.PngImagePlugin.PngImageFile, data, color_mode)
    try:
        if color_mode == "rgb" and data[24] <= 8:
            return _decoded(data, _AS_RGB)
        return in_color_mode(_decoded(data), color_mode)
    except ValueError:
        with contextlib.suppress(OSError, ValueError):
            return with_pillow(PIL.PngImagePlugin.PngImageFile, data, color_mode)
        raise


def png_values(data: bytes) -> Pixels:
    """Fewer than 8 bits of gray, OpenCV stretches to 255, which is undone here."""
    bits, kind, sound = data[24], data[25], is_bare(data)
    if not sound:
        data, sound = essential(data)
    if kind != 0 or not sound or not suits_libpng(data):
        return pillow_values(PIL.PngImagePlugin.PngImageFile, data)
    try:
        levels = _decoded(data)
    except ValueError:
        with contextlib.suppress(OSError, ValueError):
            return pillow_values(PIL.PngImagePlugin.PngImageFile, data)
        raise
    return levels if bits >= 8 else levels // (255 // (2**bits - 1))


def decode_webp(data: bytes, color_mode: str) -> Pixels:
    """OpenCV would not give the first image of an animation on its canvas."""
    if len(data) < _WEBP_HEAD:
        raise ValueError("truncated or damaged")
    if data[12:16] == _WEBP_EXTENDED and data[20] & _WEBP_ANIMATED:
        return with_pillow(PIL.WebPImagePlugin.WebPImageFile, data, color_mode)
    try:
        return in_color_mode(_decoded(data), color_mode)
    except ValueError:
        with contextlib.suppress(OSError, ValueError):  # but MemoryError, of which OpenCV is silent
            with_pillow(PIL.WebPImagePlugin.WebPImageFile, data, color_mode)
        raise


def webp_glance(data: bytes) -> Header | None:
    """Read the size alone (RFC 9649), a tenth of the time; None where EXIF or XMP may turn it."""
    kind = data[12:16]
    if len(data) < 30 or (kind == _WEBP_EXTENDED and data[20] & _WEBP_METADATA):
        return None
    if kind == _WEBP_EXTENDED:
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    elif kind == b"VP8L":
        sizes = int.from_bytes(data[21:25], "little")
        width, height = 1 + (sizes & 0x3FFF), 1 + (sizes >> 14 & 0x3FFF)
    else:
        width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    return Header("webp", width, height, 3 if kind == b"VP8 " else 4, 1, 8)
