"""Bytes to pixels: JPEG by simplejpeg, PNG and WebP by OpenCV, everything else by Pillow.

The first bytes of a file decide, never its name. Of several images in a file it is the first.
Colour profiles (ICC) are ignored, as in TensorFlow and torchvision.
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
import numpy.typing as npt
import simplejpeg

from dfgen.errors import ArgumentError, DecodeError, raise_broken
from dfgen.limits import DEFAULT, Limits
from dfgen.samples.pixels.formats import FORMATS, check_holds, read_header, sniff
from dfgen.samples.pixels.geometry import CHANNELS, Pixels, Size, in_color_mode
from dfgen.samples.pixels.headers import Header, check_decoded
from dfgen.samples.pixels.pillow_readers import open_image, pixels_of, values_of
from dfgen.samples.pixels.scaling import in_depth
from dfgen.stores.store import Store
from dfgen.table.file_columns import Content

Reduction = Callable[[Size], int]  # the upright size of a JPEG -> 1, 2, 4 or 8 times smaller

_SPACES = {"grayscale": "GRAY", "rgb": "RGB", "rgba": "RGBA"}
_FLIPS = {2: 1, 3: -1, 4: 0, 6: 1, 7: -1, 8: 0}  # EXIF orientation -> flip; from 5 on transposed
_AS_RGB = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
_DEEP_PNM = re.compile(rb"P6\s+\d+\s+\d+\s+65535\s").match
_PIXELS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
# messages of libjpeg on files whose pixels may all be there (jerror.h): Pillow tells if not
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
    """Decode one image, upright; `dtype` tells what becomes of more than 8 bits a channel.

    Returns the pixels, the upright (height, width) of the whole image, and by how much the pixels
    are fewer: of 375 rows at 1/2, which are 187.5, the last of 188 stands out by half.
    """
    header, pixels, reduced = decode_stored(data, color_mode, reduction, limits)
    if (header.bits or 0) > 8 and pixels.dtype == np.uint8 and dtype != "uint8":
        raise DecodeError(
            f"the image has {header.bits} bits a channel, and the decoder of {header.format} "
            'gives the first 8: dfgen.Image(dtype="uint8") takes these'
        )
    pixels = turn(in_depth(pixels, dtype), header.orientation)
    return pixels, pixels.shape[:2] if reduced == 1 else header.size, reduced


def decode_stored(
    data: bytes, color_mode: str, reduction: Reduction | None = None, limits: Limits = DEFAULT
) -> tuple[Header, Pixels, int]:
    """Decode one image as `decode_image`, as deep as it is stored, and not turned."""
    name, header, image = _opened(data, limits)
    reduced = reduction(header.size) if reduction and name == "jpeg" else 1
    check_decoded(header, limits, CHANNELS[color_mode], reduced)
    try:
        if name == "jpeg":
            pixels = _jpeg(data, color_mode, header, reduced)
        elif name == "png":
            pixels = _png(data, color_mode)
        elif image is None or _DEEP_PNM(data):  # which Pillow would cut to 8 bits
            pixels = in_color_mode(_by_opencv(data), color_mode)
        else:
            pixels = pixels_of(image, color_mode)
    except Exception as error:
        raise_broken(f"{name} file", error)
    return header, pixels, reduced


def decode_values(data: bytes, in_colours: bool = False, limits: Limits = DEFAULT) -> Pixels:
    """Decode a mask, whose pixels are values that stand for something.

    Returns upright gray levels or indices of colours, (height, width, 1), or `in_colours` RGB.
    """
    name, header, image = _opened(data, limits)
    if not FORMATS[name].keeps_values:
        lost = "which does not keep the values of pixels: save masks as PNG"
        raise DecodeError(f"the mask is a {name.upper()}, {lost}")
    if in_colours:
        return decode_image(data, "rgb", "uint8", None, limits)[0]
    check_decoded(header, limits)
    try:
        if name == "png":
            values = _png_values(data)
        else:
            values = values_of(image or _with_pillow(name, data))
    except Exception as error:
        raise_broken(f"{name} file", error)
    return turn(values[..., None], header.orientation)


def size_of_image(content: Content, store: Store) -> Size:
    """Return the upright (height, width) of an image file, of which the header alone is read."""
    header = read_header(content, store)
    check_holds(header.format, "image")
    return header.size


def turn(pixels: Pixels, orientation: int) -> Pixels:
    """Turn pixels upright, by the table of EXIF 2.32, section 4.6.4, tag 0x0112."""
    if orientation == 1:
        return pixels
    turned = cv2.transpose(pixels) if orientation >= 5 else pixels
    if orientation in _FLIPS:
        turned = cv2.flip(turned, _FLIPS[orientation])
    return turned.reshape(*turned.shape[:2], pixels.shape[2])


def prepare_worker() -> None:
    """Set what the threads of this process decode best with; the whole process is changed."""
    cv2.setNumThreads(1)
    # after this is freed, the GNU C library keeps freed memory: a fifth of the time of a JPEG.
    # It is the largest block that moves its thresholds: mallopt(3)
    np.empty(2**25 - 2**14, np.uint8)


def png_of(pixels: npt.NDArray[Any]) -> bytes:
    """Return the bytes of a PNG file of gray, RGB or RGBA pixels, hardly compressed."""
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    fits = pixels.ndim in (2, 3) and channels in (1, 3, 4) and pixels.size
    if not fits or pixels.dtype not in (np.uint8, np.uint16):
        raise ArgumentError(
            f"an image must be an array (height, width, channels) of 1, 3 or 4 channels, or "
            f"(height, width), of uint8 or uint16, got {pixels.dtype} {pixels.shape}"
        )
    if channels > 1:
        code = cv2.COLOR_RGB2BGR if channels == 3 else cv2.COLOR_RGBA2BGRA
        pixels = cv2.cvtColor(np.ascontiguousarray(pixels), code)
    data: bytes = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
    return data


def _opened(data: bytes, limits: Limits) -> tuple[str, Header, Any]:
    """Return format and header of an image, and the image of Pillow if that decodes it."""
    name = sniff(data[:16])
    check_holds(name, "image")
    format, image = FORMATS[name], None
    try:
        if format.parse is None:
            image, header = open_image(name, format.reader, io.BytesIO(data), limits)
        else:
            header = format.parse(data)
        if header.frames is None:  # OpenCV would not lay the first frame on its canvas
            check_decoded(header, limits)
            image = _with_pillow(name, data)
    except (IndexError, struct.error) as error:
        raise DecodeError(f"broken {name} file: cut short, or not {name} at all") from error
    except Exception as error:
        raise_broken(f"{name} file", error)
    return name, header, image


def _with_pillow(name: str, data: bytes) -> Any:
    return FORMATS[name].reader(io.BytesIO(data))


def _jpeg(data: bytes, color_mode: str, header: Header, reduced: int) -> Pixels:
    """Decode a JPEG. One that is damaged, or cut short, is refused, where others show gray."""
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
    image = _with_pillow("jpeg", data)
    if reduced > 1:
        image.draft(None, (image.width // reduced, image.height // reduced))
    return pixels_of(image, color_mode)


def _png(data: bytes, color_mode: str) -> Pixels:
    data = _with_chunks(data, _PIXELS)
    bits, color = data[24], data[25]
    as_rgb = color_mode == "rgb" and bits <= 8
    gray_clear = color_mode == "rgba" and color == 0 and bits <= 8 and b"tRNS" in data
    if not gray_clear:  # which OpenCV decodes in another way
        with suppress(DecodeError):  # of old encoders, pixels refer farther back than announced
            pixels = _by_opencv(data, _AS_RGB if as_rgb else cv2.IMREAD_UNCHANGED)
            return pixels if as_rgb else in_color_mode(pixels, color_mode)
    return pixels_of(_with_pillow("png", data), color_mode)


def _png_values(data: bytes) -> Pixels:
    """Return gray levels or indices; OpenCV stretches gray of fewer than 8 bits to 255."""
    if data[25] == 0:
        with suppress(DecodeError):
            levels = _by_opencv(_with_chunks(data, (b"IHDR", b"IDAT", b"IEND")))
            return levels if data[24] >= 8 else levels // (255 // (2 ** data[24] - 1))
    return values_of(_with_pillow("png", _with_chunks(data, _PIXELS)))


def _with_chunks(data: bytes, names: Collection[bytes]) -> bytes:
    """Return a PNG of some chunks alone: libpng writes to stderr what it thinks of others.

    OpenCV shows damaged colours, and pixels of a file that is cut short: here both are refused.
    """
    bare = data[37:41] == b"IDAT" and data[-8:-4] == b"IEND" and data[25] != 3
    if bare and int.from_bytes(data[33:37], "big") + 57 == len(data):
        return data  # there are no others, as in most files
    view, parts, kept_to, at, name, damaged = memoryview(data), list[memoryview](), 0, 8, b"", False
    while name != b"IEND":
        if at + 12 > len(data):
            raise DecodeError("the PNG is cut short")
        length, name = struct.unpack_from(">I4s", data, at)
        end = at + 12 + length
        if name not in names:
            parts.append(view[kept_to:at])
            kept_to = end
        elif name in (b"PLTE", b"tRNS"):
            checksum = int.from_bytes(view[end - 4 : end], "big")
            damaged |= zlib.crc32(view[at + 4 : end - 4]) != checksum or not length
        at = end
    if damaged or at > len(data) or (data[25] == 3 and b"PLTE" not in data):
        raise DecodeError("the PNG is cut short, or its palette is missing or damaged")
    if not parts and at == len(data):
        return data
    return b"".join([*parts, view[kept_to:at]])


def _by_opencv(data: bytes, flags: int = cv2.IMREAD_UNCHANGED) -> Pixels:
    pixels: Pixels | None = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    if pixels is None:
        raise DecodeError("the file is truncated or damaged")
    return pixels
