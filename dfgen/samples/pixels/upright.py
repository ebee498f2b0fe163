"""Bytes to upright pixels, by the one decoder that a format has in FORMATS.

It is the same on every machine, and so is what it leaves to Pillow. What it refuses is an error.
"""

import io
from collections.abc import Callable

import cv2
import numpy as np

from dfgen.errors import DecodeError, raise_broken
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.pixels.formats import FEATURES, FORMATS, Format, parse_header, read_header, sniff
from dfgen.samples.pixels.geometry import CHANNELS, Pixels, Size
from dfgen.samples.pixels.headers import Header, check_decoded, check_header
from dfgen.samples.pixels.scaling import in_depth
from dfgen.samples.stores.store import Store
from dfgen.table.file_columns import Content

# EXIF orientation -> how to flip, after transposing from 5 on: 0 top to bottom, 1 left to right
_FLIPS = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}


def decode(data: bytes, color_mode: str = "rgb") -> Pixels:
    """Decode one image, upright, to 8 bits: uint8 (height, width, channels).

    The orientation of EXIF, else of XMP, is applied; 16-bit values are divided by 257; alpha is
    dropped unless `color_mode="rgba"`; of several images it is the first. Colour profiles (ICC) are
    ignored, as in TensorFlow and torchvision.

    Raises:
        DecodeError: the bytes are no image, or a broken one.

    Example:
        >>> decode(open("cat.jpg", "rb").read()).shape  # doctest: +SKIP
        (375, 500, 3)
    """
    return decode_reduced(data, color_mode, lambda size: 1, "uint8")[0]


def decode_reduced(
    data: bytes,
    color_mode: str,
    reduction: Callable[[Size], int],
    dtype: str | None = None,
    limits: Limits = DEFAULT,
) -> tuple[Pixels, Size, int]:
    """Decode one image as `decode`, a JPEG at 1/2, 1/4 or 1/8 of its size where that will do.

    Args:
        data: as of `decode`.
        color_mode: as of `decode`.
        reduction: told a JPEG's (height, width), returns 1, 2, 4 or 8.
        dtype: of `dfgen.Image`: what `in_depth` makes of files of more than 8 bits.
        limits: what one file may ask for.

    Returns:
        The pixels, the image's upright (height, width), and by how much the pixels are fewer: 375
        rows at 1/2 are 187.5, the last of the 188 decoded ones stands out by half.
    """
    name = sniff(data[:16])
    format = FORMATS[name]
    if format.decode is None:
        raise DecodeError(_no_image(name))
    header = _header(data, name, format, limits)
    size, orientation, bits = header.size, header.orientation, header.bits or 0
    reduced = reduction(size) if format.reduces else 1
    if format.guard is not None:
        header = format.guard(data, header, limits)
    check_decoded(header, limits, CHANNELS[color_mode], reduced)
    try:
        if reduced > 1:
            pixels = format.decode(data, color_mode, reduced)
        else:
            pixels = format.decode(data, color_mode)
        if bits > 8 and pixels.dtype == np.uint8 and dtype != "uint8":
            raise DecodeError(
                f"the image has {bits} bits a channel, and the decoder of {name} gives the "
                'first 8: dfgen.Image(dtype="uint8") takes these'
            )
        pixels = in_depth(pixels, dtype)
        if orientation > 1:
            pixels = turn(pixels, orientation)
    except Exception as error:
        raise_broken(f"{name} file", error)
    return pixels, pixels.shape[:2] if reduced == 1 else size, reduced


def decode_values(data: bytes, in_colours: bool = False, limits: Limits = DEFAULT) -> Pixels:
    """Decode a mask, whose pixels are values that stand for something.

    Returns upright gray levels or indices of colours, (height, width, 1), or `in_colours` RGB.
    """
    name = sniff(data[:16])
    format = FORMATS[name]
    if format.decode is None:
        raise DecodeError(f"the mask is a .{name} {format.holds}, not an image: save masks as PNG")
    if format.values is None:
        raise DecodeError(
            f"the mask is a {name.upper()}, which does not keep the values of pixels: save masks "
            "as PNG"
        )
    if in_colours:
        return decode_reduced(data, "rgb", lambda size: 1, "uint8", limits)[0]
    header = _header(data, name, format, limits)
    check_decoded(header, limits)
    try:
        values = format.values(data)[..., None]
    except Exception as error:
        raise_broken(f"{name} file", error)
    return turn(values, header.orientation) if header.orientation > 1 else values


def size_of_image(content: Content, store: Store) -> Size:
    """Return the upright (height, width) of an image file, of which the header alone is read."""
    header = read_header(content, store)
    if FORMATS[header.format].decode is None:
        raise DecodeError(_no_image(header.format))
    return header.size


def _no_image(name: str) -> str:
    holds = FORMATS[name].holds
    return f"this is a .{name} {holds}, not an image: use dfgen.{FEATURES[holds]} for this column"


def _header(data: bytes, name: str, format: Format, limits: Limits) -> Header:
    """Return the header of an image, read as quickly as can be, its size not checked."""
    header = format.glance(data) if format.glance is not None else None
    if header is None:
        return parse_header(io.BytesIO(data), name, limits)
    check_header(header)
    return header


def turn(pixels: Pixels, orientation: int) -> Pixels:
    """Turn pixels upright, by the table of EXIF 2.32, section 4.6.4, tag 0x0112."""
    turned = cv2.transpose(pixels) if orientation >= 5 else pixels
    if orientation in _FLIPS:
        turned = cv2.flip(turned, _FLIPS[orientation])
    return turned.reshape(*turned.shape[:2], pixels.shape[2])


def prepare_worker() -> None:
    """Set what the threads of this process decode best with; the whole process is changed.

    OpenCV uses one thread a call. The GNU C library sees one large block freed, after which it
    keeps freed memory: that saves a fifth of the time of a 500x375 JPEG.
    """
    cv2.setNumThreads(1)
    np.empty(2**25 - 2**14, np.uint8)  # the largest block that moves its thresholds: mallopt(3)
