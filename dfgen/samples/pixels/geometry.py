"""Geometry: where an image, and the boxes and points on it, land in the array; and resizing.

Coordinates are continuous: a pixel is the square between two whole numbers, as in Keras's boxes.
"""

import math
from functools import lru_cache, reduce
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError

Size = tuple[int, int]  # (height, width)
Pixels = npt.NDArray[Any]  # (height, width, channels)
Corners = npt.NDArray[Any]  # boxes as xyxy, (boxes, 4)

RESIZE = ("stretch", "crop", "pad", "crop_or_pad")

CHANNELS: dict[Any, Any] = {"grayscale": 1, "rgb": 3, "rgba": 4}
"""color_mode -> number of channels."""
# (channels as OpenCV decodes them, color_mode) -> conversion. OpenCV's own order is BGR.
_CONVERSIONS = {
    (1, "rgb"): cv2.COLOR_GRAY2RGB, (1, "rgba"): cv2.COLOR_GRAY2RGBA,
    (3, "rgb"): cv2.COLOR_BGR2RGB, (3, "rgba"): cv2.COLOR_BGR2RGBA,
    (3, "grayscale"): cv2.COLOR_BGR2GRAY,
    (4, "rgb"): cv2.COLOR_BGRA2RGB, (4, "rgba"): cv2.COLOR_BGRA2RGBA,
    (4, "grayscale"): cv2.COLOR_BGRA2GRAY,
}  # fmt: skip
Interval = tuple[float, float]
AREA: Interval = (0.08, 1.0)
RATIO: Interval = (3 / 4, 4 / 3)
_TRIES = 10
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


class Box(NamedTuple):
    """A rectangle of whole pixels."""

    top: int
    left: int
    height: int
    width: int


class Draw(NamedTuple):
    """The random draws for one sample.

    `y` and `x` are the position of a crop, from 0 (top, left) to 1; None: the centre. `crops` are
    the candidates for `"random_resized"`: (share of the image's area, width / height).
    """

    y: float | None = None
    x: float | None = None
    flip: bool = False
    flip_vertical: bool = False
    crops: tuple[tuple[float, float], ...] = ()


STILL = Draw()  # crops are centred, no flips


class Geometry(NamedTuple):
    """How an upright `image` becomes an array: `source` is resized to `target`, then flipped.

    `target` may be larger than the array of `size`, or leave a part of it to padding. `steps` are
    two successive geometries, for pixels from a pack or a cache; None: there is one step.
    """

    image: Size
    source: Box
    target: Box
    size: Size
    flip: bool
    flip_vertical: bool = False
    steps: tuple[Any, Any] | None = None


@lru_cache(maxsize=4096)  # 3 microseconds, which counts for images of 32x32
def place(image: Size, size: Size, load_size: Size, resize: str, draw: Draw = STILL) -> Geometry:
    """Return the geometry of one image that is resized to `load_size` and cropped to `size`.

    Images are cropped before they are shrunk, to compute no other pixels, and after they are
    enlarged, because whole pixels of the image would be too coarse.
    """
    used = filled = (min(image[0], load_size[0]), min(image[1], load_size[1]))
    if resize != "crop_or_pad":
        used = _cut(load_size, image) if resize == "crop" else image
        filled = _fit(image, load_size) if resize == "pad" else load_size
    (top, height, first_row, rows), (left, width, first_column, columns) = (
        _along(image[axis], used[axis], filled[axis], load_size[axis], size[axis], share)
        for axis, share in enumerate((draw.y, draw.x))
    )
    source = Box(top, left, height, width)
    target = Box(first_row, first_column, rows, columns)
    return Geometry(image, source, target, size, draw.flip, draw.flip_vertical)


def shrunk(image: Size, most: int) -> Size:
    """Return the size of an image shrunk to at most `most` pixels on its longer side."""
    scale = min(1, most / max(image))
    return max(1, round(image[0] * scale)), max(1, round(image[1] * scale))


def after(first: Geometry, second: Geometry) -> Geometry:
    """Return the geometry of `first`, then `second`.

    `target` is rounded if `second` scales too; boxes and points use the `steps`.
    """
    seen, source, target = first.target, second.source, second.target
    down, across = target.height / source.height, target.width / source.width
    top, left = (seen.top - source.top) * down, (seen.left - source.left) * across
    landed = top + target.top, left + target.left, seen.height * down, seen.width * across
    moved, steps = Box(*map(round, landed)), (first, second)
    return second._replace(image=first.image, source=first.source, target=moved, steps=steps)


def enlarged(geometry: Geometry, times: int) -> Geometry:
    """Return the geometry of an image with `times` as many rows and columns."""
    if times == 1:
        return geometry
    (height, width), (rows, columns) = geometry.image, geometry.size
    source, target = (Box(*(times * n for n in box)) for box in (geometry.source, geometry.target))
    image, size = (height * times, width * times), (rows * times, columns * times)
    return geometry._replace(image=image, source=source, target=target, size=size, steps=None)


def move(boxes: Corners, geometry: Geometry) -> tuple[Corners, npt.NDArray[np.bool_]]:
    """Return the boxes of the upright image in the array, and which of them are visible."""
    if geometry.steps is not None:
        first, geometry = geometry.steps
        boxes = move(boxes, first)[0]
    corners = move_points(_clip(boxes, geometry.image).reshape(-1, 2, 2), geometry)
    moved = _clip(np.sort(corners, axis=1).reshape(-1, 4), geometry.size)
    return moved, np.all(moved[:, :2] < moved[:, 2:], axis=1)


def move_points(points: Corners, geometry: Geometry) -> Corners:
    """Return points (x, y) of the upright image in the array, for a geometry of one step."""
    source, target, (height, width) = geometry.source, geometry.target, geometry.size
    across, down = target.width / source.width, target.height / source.height
    left, top = target.left - source.left * across, target.top - source.top * down
    if geometry.flip:
        across, left = -across, width - left
    if geometry.flip_vertical:
        down, top = -down, height - top
    return points * np.array((across, down)) + np.array((left, top))  # type: ignore[no-any-return]


def _clip(boxes: Corners, size: Size) -> Corners:
    return np.clip(boxes, 0, [size[1], size[0]] * 2)


def _fit(inner: Size, outer: Size) -> Size:
    """Return the largest (height, width) within `outer` with the aspect ratio of `inner`."""
    scale = min(outer[0] / inner[0], outer[1] / inner[1])
    return max(1, round(inner[0] * scale)), max(1, round(inner[1] * scale))


def _cut(ratio: Size, image: Size) -> Size:
    """Return the largest (height, width) within the image with the aspect ratio of a size.

    It is rounded down, as in `keras.utils.image_dataset_from_directory(crop_to_aspect_ratio=True)`.
    """
    (high, wide), (height, width) = ratio, image
    return max(1, min(height, width * high // wide)), max(1, min(width, height * wide // high))


def _along(
    length: int, used: int, filled: int, load: int, size: int, share: float | None
) -> tuple[int, int, int, int]:
    """Return start and length of source and target along one axis.

    `used` of `length` pixels are resized to `filled` of `load` pixels, then cropped to `size`.
    """
    start = start_of(length - used, share)
    first = (load - filled) // 2 - start_of(load - size, share)
    begin, end = max(first, 0), min(first + filled, size)
    scale = used / filled
    if scale < 1 or begin >= end:
        return start, used, first, filled
    above, below = round((begin - first) * scale), round((end - first) * scale)
    return start + above, below - above, begin, end - begin


def start_of(free: int, share: float | None) -> int:
    """Return the start of a crop that leaves `free` pixels."""
    return free // 2 if share is None else int(share * (free + 1))


def in_color_mode(pixels: Pixels, color_mode: str) -> Pixels:
    """Convert grey, BGR or BGRA pixels to a color_mode; grey pixels may be (height, width)."""
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if (channels, color_mode) in _CONVERSIONS:
        pixels = cv2.cvtColor(pixels, _CONVERSIONS[channels, color_mode])
    return with_channels(pixels)


def with_channels(pixels: Pixels) -> Pixels:
    """Add the channel axis to grey pixels."""
    return pixels if pixels.ndim == 3 else pixels[..., None]


def drawn_crops(
    rng: np.random.Generator, area: Interval, ratio: Interval
) -> tuple[tuple[float, float], ...]:
    """Draw candidate crops: (share of the area, width / height), uniform and log-uniform."""
    shares = rng.uniform(*area, _TRIES)
    ratios = np.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1]), _TRIES))
    return tuple(zip(shares.tolist(), ratios.tolist(), strict=True))


@lru_cache(maxsize=64)  # called twice per sample: for the reduction, and for the pixels
def place_resized(image: Size, size: Size, ratio: Interval, draw: Draw = STILL) -> Geometry:
    """Return the geometry of the first drawn crop that fits into the image, stretched to `size`.

    If none fits, it is the largest central crop with an allowed `ratio` (width / height).
    """
    height, width = image
    for share, shape in draw.crops:
        area = height * width * share
        rows, columns = round(math.sqrt(area / shape)), round(math.sqrt(area * shape))
        if 0 < rows <= height and 0 < columns <= width:
            y, x = draw.y, draw.x
            break
    else:
        shape, y, x = min(max(width / height, ratio[0]), ratio[1]), None, None
        rows = max(1, min(height, round(width / shape)))
        columns = max(1, min(width, round(height * shape)))
    source = Box(start_of(height - rows, y), start_of(width - columns, x), rows, columns)
    return Geometry(image, source, Box(0, 0, *size), size, draw.flip, draw.flip_vertical)


def checked_limits(name: str, interval: object, most: float = math.inf) -> Interval:
    """Return `area` or `ratio` as two floats."""
    pair = interval if isinstance(interval, tuple | list) and len(interval) == 2 else (0, 0)
    numbers = all(isinstance(number, int | float | np.number) for number in pair)
    if not numbers or not 0 < pair[0] <= pair[1] <= most or math.isinf(pair[1]):
        limits = "above 0 and at most 1" if most == 1 else "above 0"
        raise ArgumentError(f"{name} must be (least, largest), both {limits}, got {interval!r}")
    return float(pair[0]), float(pair[1])


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
