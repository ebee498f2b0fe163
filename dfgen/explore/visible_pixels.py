"""Pixels that can be seen: any depth as 8 bits, alpha on a ground, masks as a tint."""

from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.explore.plain_words import number

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

    Pixels are (height, width, 1, 3 or 4), of any dtype.

    Example:
        >>> deep = np.full((2, 2, 1), 800, np.uint16)
        >>> deep[0] = 900
        >>> visible(deep)[1]
        'uint16, 800 to 900'
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
    return in_8_bits(pixels, low, high), f"{pixels.dtype}, {number(low)} to {number(high)}"


def in_8_bits(pixels: npt.NDArray[Any], low: float, high: float) -> Picture:
    """Return numbers as 0..255, of which `low` is 0; what is no number is 0 too."""
    with np.errstate(invalid="ignore"):
        share = np.clip((pixels - low) / ((high - low) or 1), 0, 1)
    return np.rint(np.nan_to_num(share * 255)).astype(np.uint8)


def _ground(height: int, width: int) -> npt.NDArray[Any]:
    rows, columns = np.ogrid[:height, :width]
    return np.where((rows // _SQUARE + columns // _SQUARE) % 2, *_GROUND)[..., None]


SIDE = 128


@dataclass(frozen=True)
class Thumbnail:
    """A row as a small picture.

    Args:
        pixels: uint8 RGB (height, width, 3), at most as large as was asked for, never larger than
            the image; a tile with a cross where there is a `problem`. For sounds it is their
            waveform above their spectrogram, for rows of numbers a curve.
        problem: why the row cannot be shown, or None.
        note: what was done for it to be seen, such as `"uint16, 812 to 3,071"`: these values are
            black and white; or what of it cannot be drawn. Empty: nothing.
        size: (height, width) of the upright image; None where there is a problem.
        boxes: of `pixels`, left, top, right, bottom, shape (boxes, 4).
        labels: of the boxes, in words.
        mask: the class of each pixel, (height, width), or None.
        points: of `pixels`, x and y, shape (points, 2).
        text: what the row holds, if that is text; else None.
    """

    pixels: Picture
    problem: str | None = None
    note: str = ""
    size: tuple[int, int] | None = None
    boxes: npt.NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 4), np.float32))
    labels: tuple[str, ...] = ()
    mask: npt.NDArray[Any] | None = None
    points: npt.NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 2), np.float32))
    text: str | None = None


_COLOURS = np.array(
    [
        (31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40), (148, 103, 189),
        (140, 86, 75), (227, 119, 194), (127, 127, 127), (188, 189, 34), (23, 190, 207),
    ], np.uint8,
)  # fmt: skip
"""Of masks, by the number of the class: those of matplotlib's tab10."""
_TINT = 0.4  # opacity of a mask, whose edges are opaque


def mask_layer(mask: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return a mask as RGBA to lay on its picture: a tint of each class, and its edges; 0 is clear.

    Example:
        >>> mask_layer(np.array([[0, 3, 3, 3, 3]] * 3))[1, :, 3].tolist()
        [0, 255, 102, 102, 102]
    """
    classes = mask.astype(np.int64)
    around = np.pad(classes, 1, mode="edge")
    height, width = classes.shape
    others = [around[y : y + height, x : x + width] for y, x in ((0, 1), (2, 1), (1, 0), (1, 2))]
    is_edge = np.any([other != classes for other in others], axis=0)
    alpha = np.where(is_edge, 255, round(255 * _TINT)) * (classes != 0)
    return np.dstack([_COLOURS[classes % 10], alpha.astype(np.uint8)])


def tinted(thumbnail: Thumbnail) -> Picture:
    """Return the pixels of a thumbnail with its mask on them, if it has one."""
    if thumbnail.mask is None:
        return thumbnail.pixels
    layer = mask_layer(thumbnail.mask)
    share = layer[..., 3:] / np.float32(255)
    return np.rint(thumbnail.pixels * (1 - share) + layer[..., :3] * share).astype(np.uint8)
