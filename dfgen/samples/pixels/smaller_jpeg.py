"""A JPEG of an image that is made smaller."""

import numpy as np
import simplejpeg

from dfgen.limits import Limits
from dfgen.samples.pixels.geometry import Geometry, Size, place, shrunk
from dfgen.samples.pixels.resizing import reduction, resize
from dfgen.samples.pixels.upright import decode_reduced


def smaller_jpeg(
    data: bytes, max_side: int, quality: int, color_mode: str, limits: Limits
) -> bytes:
    """Return the bytes of an image file as an upright JPEG of at most `max_side` pixels."""

    def geometry_of(image: Size) -> Geometry:
        size = shrunk(image, max_side)
        return place(image, size, size, "stretch")

    pixels, size, reduced = decode_reduced(
        data, color_mode, lambda size: reduction(geometry_of(size)), None, limits
    )
    geometry = geometry_of(size)
    out = np.empty((*geometry.size, pixels.shape[2]), np.uint8)
    resize(pixels, geometry, out, reduced=reduced)
    how = ("GRAY", "Gray") if color_mode == "grayscale" else ("RGB", "420")
    encoded: bytes = simplejpeg.encode_jpeg(out, quality, *how)
    return encoded
