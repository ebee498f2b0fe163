"""Geometry: pixels of any size into an array of one size.

benchmarks/bench_decode.py measures speed and distance from Pillow, beside what was not chosen.
"""

import math
from functools import reduce
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[Any]
Size = tuple[float, float]

# A JPEG may be decoded smaller as long as it stays so many times larger than what is wanted. With
# no filter after it, decoding smaller is the only filter there is: it is nearer to the photograph
# even if it falls a little short.
_MARGIN = 1.5
_MARGIN_ALIASED = 0.8
_MARGIN_OF_BLOCKS = 2  # means over blocks alias where the decoder does not


def reduction(size: Size, shape: tuple[int, ...], resize: str, antialias: bool) -> int:
    """Return by how much a JPEG should be decoded smaller: 1, 2, 4 or 8.

    Args:
        size: (height, width) of the image, upright.
        shape: of the array to fill, (height, width, channels).
        resize: as in `resize`.
        antialias: as in `resize`.
    """
    scales = size[0] / shape[0], size[1] / shape[1]
    scale = max(scales) if resize == "pad" else min(scales)
    margin = _MARGIN if antialias else _MARGIN_ALIASED
    return next((number for number in (8, 4, 2) if scale >= margin * number), 1)


def resize(
    pixels: Pixels, resize: str, antialias: bool, out: Pixels, size: Size | None = None
) -> None:
    """Fill `out` with the resized image.

    Args:
        pixels: uint8, (height, width, channels).
        resize: `"stretch"` changes the aspect ratio; `"crop"` cuts the largest centred part that
            has the aspect ratio of `out`; `"pad"` fits the whole image in, centred on zeros.
        antialias: filter before shrinking, close to Pillow's triangle as wide as the reduction;
            False samples four neighbours, as TensorFlow's resize does by default.
        out: uint8, (new height, new width, channels), C-contiguous.
        size: (height, width) of what the pixels show, in pixels: less than their shape where a
            JPEG decoded smaller ends within its last row or column. Default: their shape.
    """
    size = size or pixels.shape[:2]
    if resize == "crop":
        pixels = pixels[: max(1, round(size[0])), : max(1, round(size[1]))]
        pixels = _centre(pixels, *_fit(out.shape, pixels.shape))
        size = pixels.shape[:2]
    elif resize == "pad":
        out[...] = 0
        out = _centre(out, *_fit(size, out.shape))
    if pixels.shape == out.shape:
        out[...] = pixels
        return
    if antialias:
        pixels, size = _without_detail(pixels, size, out.shape)
    # scales instead of a size: the last row and column may be cut
    scale_y, scale_x = out.shape[0] / size[0], out.shape[1] / size[1]
    resized = cv2.resize(pixels, None, out, scale_x, scale_y, cv2.INTER_LINEAR)
    if resized is not out:
        out[...] = resized.reshape(*resized.shape[:2], -1)[: out.shape[0], : out.shape[1]]


def _without_detail(pixels: Pixels, size: Size, shape: tuple[int, ...]) -> tuple[Pixels, Size]:
    """Take away what sampling at the new size would alias."""
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
    if below or right:  # blocks that are not whole take a path that is ten times slower
        pixels = cv2.copyMakeBorder(pixels, 0, below, 0, right, cv2.BORDER_REPLICATE)
    size = ((width + right) // across, (height + below) // down)
    means: Pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return means


def _kernel(scale: float) -> Pixels:
    """Return the blur after which bilinear sampling acts as a triangle filter `scale` pixels wide.

    Its variance is the triangle's, scale^2 / 6, less that of the sampling itself, 1 / 6; a tenth
    more is nearest to Pillow.
    """
    variance = 1.1 * (scale**2 - 1) / 6
    if variance < 0.02:
        return np.ones(1, np.float32)
    times = math.ceil(variance / 0.7)  # kernels of three, one after the other, add up
    side = variance / times / 2
    three = np.array([side, 1 - 2 * side, side], np.float32)
    kernel: Pixels = reduce(np.convolve, [three] * times)
    return kernel


def _fit(inner: tuple[float, ...], outer: tuple[int, ...]) -> tuple[int, int]:
    """Return the largest (height, width) within `outer` that has the aspect ratio of `inner`."""
    scale = min(outer[0] / inner[0], outer[1] / inner[1])
    return max(1, round(inner[0] * scale)), max(1, round(inner[1] * scale))


def _centre(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return a view of the middle of an image."""
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return pixels[top : top + height, left : left + width]
