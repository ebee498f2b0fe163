"""JPEG by libjpeg-turbo, through simplejpeg: the pixels of OpenCV and Pillow.

Where OpenCV's libjpeg writes to stderr that data are corrupt, this one says so to us.
benchmarks/bench_decode.py measures it beside OpenCV.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import IO

import simplejpeg
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile

from dfgen.samples.pixels.geometry import Pixels
from dfgen.samples.pixels.pillow_decoders import with_pillow

_SPACES = {"grayscale": "GRAY", "rgb": "RGB", "rgba": "RGBA"}
_COLOURS = ("RGB", "YCbCr", "Gray")

_UNUSUAL = re.compile("subsampling|unknown JFIF revision|Unknown Adobe color transform")
"""What libjpeg says of headers that Pillow takes."""

_HARMLESS = re.compile(
    r"Corrupt JPEG data: (\d+ extraneous bytes before|bad ICC marker)|Invalid SOS parameters"
)
"""What it says of files whose pixels are all there (jerror.h)."""


def decode_jpeg(data: bytes, color_mode: str, reduced: int = 1) -> Pixels:
    """Decode a JPEG, at 1/2, 1/4 or 1/8 of its size where `reduced` is that.

    One whose pixels are damaged or not all there is refused, where others show gray or garbage; so
    is one without its end marker, which may lack the finer scans.

    Raises:
        ValueError: what libjpeg says of it.
        OSError: what Pillow does, of inks and of unusual headers.
    """
    try:
        height, width, stored, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError as error:
        if not (_UNUSUAL.search(str(error)) or _HARMLESS.match(str(error))):
            raise
        stored = ""
    if stored not in _COLOURS:
        return with_pillow(partial(_smaller, reduced), data, color_mode)
    least = (0, 0) if reduced == 1 else (-(-height // reduced), -(-width // reduced))
    decode: Callable[..., Pixels] = partial(
        simplejpeg.decode_jpeg, min_height=least[0], min_width=least[1]
    )
    try:
        return decode(data, _SPACES[color_mode])
    except ValueError as error:
        if not _HARMLESS.match(str(error)):
            raise
    # which tells, of what else may be wrong, that the pixels are not all there
    return with_pillow(partial(_smaller, reduced), data, color_mode)


def _smaller(reduced: int, file: IO[bytes]) -> ImageFile:
    """Return an image that Pillow decodes at 1 / `reduced`."""
    image = JpegImageFile(file)
    if reduced > 1:
        image.draft(None, (image.width // reduced, image.height // reduced))
    return image
