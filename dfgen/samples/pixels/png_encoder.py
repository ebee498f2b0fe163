"""Pixels as bytes of a PNG file, which loses nothing."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError

_TO_OPENCV = {3: cv2.COLOR_RGB2BGR, 4: cv2.COLOR_RGBA2BGRA}


def png_of(pixels: npt.NDArray[Any]) -> bytes:
    """Return the bytes of a PNG file of gray, RGB or RGBA pixels, hardly compressed.

    Example:
        >>> png_of(np.zeros((2, 3, 3), np.uint8))[1:4]
        b'PNG'
    """
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if pixels.ndim not in (2, 3) or channels not in (1, 3, 4) or not pixels.size:
        raise ArgumentError(
            f"an image must be an array (height, width, channels) of 1, 3 or 4 channels, or "
            f"(height, width), got the shape {pixels.shape}"
        )
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ArgumentError(
            f"an image must be an array of uint8 or uint16, as files hold it, got {pixels.dtype}"
        )
    if channels in _TO_OPENCV:
        pixels = cv2.cvtColor(np.ascontiguousarray(pixels), _TO_OPENCV[channels])
    data: bytes = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])[1].tobytes()
    return data
