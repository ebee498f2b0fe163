"""Decoders: JPEG by simplejpeg, PNG and WebP by OpenCV, all other formats by Pillow.

The first bytes of a file decide its format, not its name. Only its first image is decoded. Colour
profiles (ICC) are ignored, as in TensorFlow and torchvision.
"""

import io
import re
import struct
import zlib
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import cv2
import numpy as np
import simplejpeg

from dfgen.errors import DecodeError, raise_broken
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.pixels.formats import FORMATS, check_holds, open_image, read_header, sniff
from dfgen.samples.pixels.geometry import CHANNELS, Pixels, Size, in_color_mode, with_channels
from dfgen.samples.pixels.headers import Header, check_decoded
from dfgen.samples.pixels.pillow_readers import pixels_of, values_of
from dfgen.samples.pixels.scaling import in_depth
from dfgen.stores.store import Store
from dfgen.table.arrow_types import Content

Reduction = Callable[[Size], int]  # upright size of a JPEG -> 1, 2, 4 or 8 times smaller

_SPACES = {"grayscale": "GRAY", "rgb": "RGB", "rgba": "RGBA"}
_FLIPS = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}  # EXIF orientation -> flip; from 5 on transposed
_AS_RGB = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
_DEEP_PNM = re.compile(rb"P6\s+\d+\s+\d+\s+65535\s").match
_PIXELS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
# messages of libjpeg (jerror.h) about files that may be complete: Pillow decides
_MAYBE_WHOLE = re.compile(
    r"subsampling|unknown JFIF revision|Unknown Adobe color transform|Invalid SOS parameters|"
    r"Corrupt JPEG data: (\d+ extraneous bytes before|bad ICC marker)"
)


def decode_image(
    data: bytes,
    color_mode: str = "rgb",
    dtype: str | None = "uint8",
    reduction: Reduction | None = None,
    limits: Limits = DEFAULT,
) -> tuple[Pixels, Size, int]:
    """Decode one image, upright; `dtype` decides what is done with more than 8 bits per channel.

    Returns the pixels, the upright (height, width) of the whole image, and the reduction of a JPEG:
    at 2, an image of 375 rows (187.5 reduced ones) has 188 rows of pixels.
    """
    header, pixels, reduced = decode_stored(data, color_mode, reduction, limits)
    if (header.bits or 0) > 8 and pixels.dtype == np.uint8 and dtype != "uint8":
        raise DecodeError(
            f"the image has {header.bits} bits per channel, and the decoder of {header.format} "
            'returns the first 8: dfgen.Image(dtype="uint8") takes these'
        )
    pixels = turn(in_depth(pixels, dtype), header.orientation)
    return pixels, pixels.shape[:2] if reduced == 1 else header.size, reduced


def decode_stored(
    data: bytes, color_mode: str, reduction: Reduction | None = None, limits: Limits = DEFAULT
) -> tuple[Header, Pixels, int]:
    """Decode one image like `decode_image`, but at its own depth, and not turned upright."""
    header, image = open_image(sniff(data[:16]), data, limits)
    reduced = reduction(header.size) if reduction and header.format == "jpeg" else 1
    check_decoded(header, limits, CHANNELS[color_mode], reduced)
    try:
        return header, _pixels(header, image, data, color_mode, reduced), reduced
    except Exception as error:
        raise_broken(f"{header.format} file", error)


def decode_values(data: bytes, in_colours: bool = False, limits: Limits = DEFAULT) -> Pixels:
    """Decode a mask, upright: grey levels or palette indices, (height, width, 1), or RGB colours.

    Raises:
        DecodeError: the format changes the values of pixels, as JPEG does.
    """
    header, image = open_image(sniff(data[:16]), data, limits)
    if not FORMATS[header.format].keeps_values:
        raise DecodeError(
            f"the mask is a {header.format.upper()}, which does not keep the values of pixels: "
            "save masks as PNG"
        )
    check_decoded(header, limits, 3 if in_colours else 1)
    try:
        if in_colours:
            values = in_depth(_pixels(header, image, data, "rgb"), "uint8")
        else:
            values = with_channels(_values(header, image, data))
    except Exception as error:
        raise_broken(f"{header.format} file", error)
    return turn(values, header.orientation)


def size_of_image(content: Content, store: Store) -> Size:
    """Return the upright (height, width) in the header of an image file."""
    header = read_header(content, store)
    check_holds(header.format, "image")
    return header.size


def turn(pixels: Pixels, orientation: int) -> Pixels:
    """Turn pixels upright by their EXIF orientation (EXIF 2.32, section 4.6.4, tag 0x0112)."""
    if orientation == 1:
        return pixels
    turned = cv2.transpose(pixels) if orientation >= 5 else pixels
    if orientation in _FLIPS:
        turned = cv2.flip(turned, _FLIPS[orientation])
    return turned.reshape(*turned.shape[:2], pixels.shape[2])


def prepare_worker() -> None:
    """Set up this process to decode in several threads. It changes the whole process."""
    cv2.setNumThreads(1)
    # Freeing the largest block that moves the thresholds of mallopt(3) makes the GNU C library keep
    # freed memory, which saves a fifth of the time of a JPEG.
    np.empty(2**25 - 2**14, np.uint8)


def _pixels(header: Header, image: Any, data: bytes, color_mode: str, reduced: int = 1) -> Pixels:
    if header.format == "jpeg":
        return _jpeg(data, color_mode, header, reduced)
    if header.format == "png":
        return _png(data, color_mode)
    if image is None or _DEEP_PNM(data):  # Pillow would return the first 8 bits
        return in_color_mode(_by_opencv(data), color_mode)
    return pixels_of(image, color_mode)


def _values(header: Header, image: Any, data: bytes) -> Pixels:
    """Return grey levels or palette indices; OpenCV stretches greys of fewer than 8 bits to 255."""
    if header.format != "png":
        return values_of(image or _by_pillow(header.format, data))
    if data[25] == 0:
        with suppress(DecodeError):
            levels = _by_opencv(_with_chunks(data, (b"IHDR", b"IDAT", b"IEND")))
            return levels if data[24] >= 8 else levels // (255 // (2 ** data[24] - 1))
    return values_of(_by_pillow("png", _with_chunks(data, _PIXELS)))


def _by_pillow(name: str, data: bytes) -> Any:
    return FORMATS[name].reader(io.BytesIO(data))


def _jpeg(data: bytes, color_mode: str, header: Header, reduced: int) -> Pixels:
    """Decode a JPEG; damaged and truncated files, which other libraries fill with grey, raise."""
    if header.channels != 4:  # CMYK
        height, width = (-(-(n or 0) // reduced) for n in (header.height, header.width))
        try:
            pixels: Pixels = simplejpeg.decode_jpeg(
                data, _SPACES[color_mode], min_height=height, min_width=width
            )
            return pixels
        except ValueError as error:
            if not _MAYBE_WHOLE.search(str(error)):
                raise
    image = _by_pillow("jpeg", data)
    if reduced > 1:
        image.draft(None, (image.width // reduced, image.height // reduced))
    return pixels_of(image, color_mode)


def _png(data: bytes, color_mode: str) -> Pixels:
    data = _with_chunks(data, _PIXELS)
    bits, color = data[24], data[25]
    as_rgb = color_mode == "rgb" and bits <= 8
    gray_clear = color_mode == "rgba" and color == 0 and bits <= 8 and b"tRNS" in data
    if not gray_clear:  # OpenCV ignores the transparent grey
        flags = _AS_RGB if as_rgb else cv2.IMREAD_UNCHANGED
        pixels: Pixels | None = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if pixels is not None:  # None also if an old encoder announced a window that is too small
            return pixels if as_rgb else in_color_mode(pixels, color_mode)
    return pixels_of(_by_pillow("png", data), color_mode)


def _with_chunks(data: bytes, names: Collection[bytes]) -> bytes:
    """Return a PNG with only the named chunks: libpng prints warnings about others.

    Raises DecodeError for a truncated file and a damaged palette, which OpenCV would show.
    """
    bare = data[37:41] == b"IDAT" and data[-8:-4] == b"IEND" and data[25] != 3
    if bare and int.from_bytes(data[33:37], "big") + 57 == len(data):
        return data  # IHDR, one IDAT and IEND, as in most files
    view, at, name, sound = memoryview(data), 8, b"", data[25] != 3 or b"PLTE" in data
    parts = [view[:8]]
    while name != b"IEND" and at + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if name in names:
            parts.append(view[at:end])
        if name in (b"PLTE", b"tRNS"):
            checksum = int.from_bytes(view[end - 4 : end], "big")
            sound &= length > 0 and zlib.crc32(view[at + 4 : end - 4]) == checksum
        at = end
    if name != b"IEND" or at > len(data):
        raise DecodeError("the PNG is cut short")
    if not sound:
        raise DecodeError("the palette of the PNG is missing or damaged")
    return b"".join(parts)


def _by_opencv(data: bytes) -> Pixels:
    pixels: Pixels | None = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise DecodeError("the file is truncated or damaged")
    return pixels
