"""Pixels of any depth, with alpha or without, as 8 bits of RGB that can be looked at."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
"""RGB, (height, width, 3)."""

_BEYOND = (1, 99)  # percentiles that become black and white: a few odd pixels darken no picture
_OPAQUE = {"uint8": 255, "uint16": 65535}  # of floats 1, as OpenCV has it
_SQUARE = 8  # pixels of the chequered ground below what is transparent
_GROUND = (205, 255)
_GRAY, _RED = (232, 232, 232), (200, 60, 60)


def visible(pixels: npt.NDArray[Any]) -> tuple[Picture, str]:
    """Return pixels as RGB of 8 bits, and what was done to them, or "".

    Images deeper than 8 bits are stretched: 1 % of its numbers are black, 1 % white, and what is no
    number is black. What is transparent shows a chequered ground.

    Args:
        pixels: (height, width, 1, 3 or 4), of any dtype.

    Example:
        >>> deep = np.full((2, 2, 1), 800, np.uint16)
        >>> deep[0] = 900
        >>> visible(deep)[1]
        'uint16 800..900'
    """
    colours, note = pixels[..., :3], ""
    if pixels.dtype != np.uint8:
        colours, note = _stretched(colours)
    if colours.shape[2] == 1:
        colours = np.repeat(colours, 3, axis=2)
    if pixels.shape[2] == 4:
        share = pixels[..., 3:] / np.float32(_OPAQUE.get(pixels.dtype.name, 1))
        if share.min(initial=1) < 1:
            colours = np.rint(colours * share + _ground(*share.shape[:2]) * (1 - share))
    return np.ascontiguousarray(colours, np.uint8), note


def crossed(side: int) -> Picture:
    """Return the tile that stands for what cannot be shown."""
    tile = np.full((side, side, 3), _GRAY, np.uint8)
    for start, end in (((0, 0), (side, side)), ((side, 0), (0, side))):
        cv2.line(tile, start, end, _RED, max(1, side // 32), cv2.LINE_AA)
    return tile


def _stretched(pixels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], str]:
    numbers = pixels[np.isfinite(pixels)]
    if not numbers.size:
        return np.zeros(pixels.shape, np.uint8), f"{pixels.dtype}, no finite number"
    low, high = np.percentile(numbers, _BEYOND)
    with np.errstate(invalid="ignore"):
        share = np.clip((pixels - low) / ((high - low) or 1), 0, 1)
    shown = np.rint(np.nan_to_num(share * 255, nan=0.0)).astype(np.uint8)
    return shown, f"{pixels.dtype} {low:.4g}..{high:.4g}"


def _ground(height: int, width: int) -> npt.NDArray[Any]:
    rows, columns = np.ogrid[:height, :width]
    return np.where((rows // _SQUARE + columns // _SQUARE) % 2, *_GROUND)[..., None]
