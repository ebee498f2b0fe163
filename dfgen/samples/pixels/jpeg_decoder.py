"""JPEG by libjpeg-turbo, through simplejpeg: the pixels of OpenCV and Pillow.

OpenCV's libjpeg writes to stderr that data are corrupt; this one says so to us.
benchmarks/bench_decode.py measures it beside OpenCV.
"""

import io
import re
from functools import partial
from typing import IO

import simplejpeg
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile

from dfgen.errors import DecodeError
from dfgen.limits import Limits
from dfgen.samples.pixels.geometry import Pixels
from dfgen.samples.pixels.headers import Header, jpeg_header
from dfgen.samples.pixels.pillow_decoders import with_pillow

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
