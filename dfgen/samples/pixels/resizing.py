"""Resizing of pixels by a Geometry."""

import math
from functools import reduce

import cv2
import numpy as np

from dfgen.samples.pixels.geometry import Geometry, Pixels

Lengths = tuple[float, float]  # height and width, fractions for JPEGs decoded smaller

INTERPOLATIONS = {
    "bilinear": cv2.INTER_LINEAR,
    "nearest": cv2.INTER_NEAREST_EXACT,  # INTER_NEAREST is half a pixel off
    "area": cv2.INTER_AREA,
}
"""Keras's names. When shrinking, OpenCV's bicubic is no closer to Pillow's than bilinear."""

# A JPEG is decoded smaller if it stays this many times larger than the target. Without antialias,
# the reduction is the only filter, so it may go below the target
_MARGIN, _MARGIN_ALIASED = 1.5, 0.8
_MARGIN_OF_BLOCKS = 2  # block means alias more than the JPEG decoder

_FLIPS = {(True, False): 1, (False, True): 0, (True, True): -1}  # (left-right, top-bottom): code


def reduction(geometry: Geometry, interpolation: str = "bilinear", antialias: bool = True) -> int:
    """Return the reduction at which to decode a JPEG for `resize`: 1, 2, 4 or 8."""
    source, target = geometry.source, geometry.target
    scale = min(source.height / target.height, source.width / target.width)
    if interpolation == "nearest":
        return 1
    margin = _MARGIN if antialias or interpolation == "area" else _MARGIN_ALIASED
    return next((number for number in (8, 4, 2) if scale >= margin * number), 1)


def resize(
    pixels: Pixels,
    geometry: Geometry,
    out: Pixels,
    interpolation: str = "bilinear",
    antialias: bool = True,
    reduced: int = 1,
    *,
    fill_value: float = 0,
) -> None:
    """Fill `out`, (*geometry.size, channels), with the pixels of an upright image of its dtype.

    `antialias` filters before shrinking by `"bilinear"`, much like Pillow's triangle filter. The
    pixels may be `reduced` times smaller than the image, with a partial last row and column.
    """
    _, source, target, size, horizontal, vertical, _ = geometry
    flip = _FLIPS[horizontal, vertical] if horizontal or vertical else None
    if source == target and pixels.shape == out.shape:  # nothing is resized or padded
        out[...] = pixels if flip is None else cv2.flip(pixels, flip).reshape(out.shape)
        return
    top, left = round(source.top / reduced), round(source.left / reduced)
    height, width = source.height / reduced, source.width / reduced
    part = pixels[top : top + math.ceil(height), left : left + math.ceil(width)]
    if target != (0, 0, *size):
        out[...] = fill_value
    above, left_out = max(-target.top, 0), max(-target.left, 0)  # of the target, outside `out`
    rows = slice(target.top + above, max(0, target.top + target.height))
    columns = slice(target.left + left_out, max(0, target.left + target.width))
    seen = out[rows, columns]
    if seen.shape[:2] == target[2:]:
        _sample(part, (height, width), seen, interpolation, antialias)
    elif seen.size:
        made = np.empty((*target[2:], out.shape[2]), out.dtype)
        _sample(part, (height, width), made, interpolation, antialias)
        seen[...] = made[above:, left_out:][: seen.shape[0], : seen.shape[1]]
    if flip is not None:
        cv2.flip(out, flip, out)


def _sample(
    pixels: Pixels, size: Lengths, out: Pixels, interpolation: str, antialias: bool
) -> None:
    if pixels.shape == out.shape:
        out[...] = pixels
        return
    if antialias and interpolation == "bilinear":
        pixels, size = _without_detail(pixels, size, out.shape)
    # scales, not a size, because the last row and column may be partial
    scale_y, scale_x = out.shape[0] / size[0], out.shape[1] / size[1]
    resized = cv2.resize(pixels, None, out, scale_x, scale_y, INTERPOLATIONS[interpolation])
    if resized is not out:
        out[...] = resized.reshape(*resized.shape[:2], -1)[: out.shape[0], : out.shape[1]]


def _without_detail(
    pixels: Pixels, size: Lengths, shape: tuple[int, ...]
) -> tuple[Pixels, Lengths]:
    """Remove the detail that sampling at the new size would alias."""
    scales = size[0] / shape[0], size[1] / shape[1]
    down, across = (max(1, int(scale / _MARGIN_OF_BLOCKS)) for scale in scales)
    if down > 1 or across > 1:
        pixels = _block_means(pixels, down, across)
    vertical, horizontal = _kernel(scales[0] / down), _kernel(scales[1] / across)
    if len(vertical) > 1 or len(horizontal) > 1:
        pixels = cv2.sepFilter2D(pixels, -1, horizontal, vertical, borderType=cv2.BORDER_REPLICATE)
    return pixels, (size[0] / down, size[1] / across)


def _block_means(pixels: Pixels, down: int, across: int) -> Pixels:
    height, width = pixels.shape[:2]
    below, right = -height % down, -width % across
    if below or right:  # partial blocks would be ten times as slow
        pixels = cv2.copyMakeBorder(pixels, 0, below, 0, right, cv2.BORDER_REPLICATE)
    size = ((width + right) // across, (height + below) // down)
    return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)  # type: ignore[no-any-return]


def _kernel(scale: float) -> Pixels:
    """Return the blur that turns bilinear sampling into a triangle filter `scale` pixels wide.

    Its variance is scale^2 / 6 - 1 / 6; a tenth more is closest to Pillow.
    """
    variance = 1.1 * (scale**2 - 1) / 6
    if variance < 0.02:
        return np.ones(1, np.float32)
    times = math.ceil(variance / 0.7)  # the variances of successive kernels of three add up
    side = variance / times / 2
    three = np.array([side, 1 - 2 * side, side], np.float32)
    return reduce(np.convolve, [three] * times)
