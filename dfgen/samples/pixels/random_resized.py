"""Crops of any size from anywhere, stretched to one size: torchvision's RandomResizedCrop.

Algorithm: https://github.com/pytorch/vision/blob/v0.21.0/torchvision/transforms/transforms.py,
`RandomResizedCrop.get_params`; of Szegedy et al., Going Deeper with Convolutions, 2015, section 6.
"""

import math
from functools import lru_cache

import numpy as np

from dfgen.errors import ArgumentError
from dfgen.samples.pixels.geometry import STILL, Box, Draw, Geometry, Size, start_of

Interval = tuple[float, float]

AREA: Interval = (0.08, 1.0)
RATIO: Interval = (3 / 4, 4 / 3)

_TRIES = 10


def drawn_crops(
    rng: np.random.Generator, area: Interval, ratio: Interval
) -> tuple[tuple[float, float], ...]:
    """Return crops to try as (share of the image's area, width / height): always 20 numbers.

    Shares are uniform, ratios are in their logarithm.
    """
    shares = rng.uniform(*area, _TRIES)
    ratios = np.exp(rng.uniform(math.log(ratio[0]), math.log(ratio[1]), _TRIES))
    return tuple(zip(shares.tolist(), ratios.tolist(), strict=True))


@lru_cache(maxsize=64)  # a sample asks twice: how small it may be decoded, and for the pixels
def place_resized(image: Size, size: Size, ratio: Interval, draw: Draw = STILL) -> Geometry:
    """Return the geometry of the first crop drawn that fits into the image, stretched to `size`.

    If none does, it is the largest in the centre whose ratio is allowed.

    Args:
        image: (height, width) of the upright image.
        size: (height, width) of the array.
        ratio: the least and the largest width / height of a crop.
        draw: what chance has decided; without crops, none fits.
    """
    height, width = image
    for share, shape in draw.crops:
        area = height * width * share
        rows, columns = round(math.sqrt(area / shape)), round(math.sqrt(area * shape))
        if 0 < rows <= height and 0 < columns <= width:
            y, x = draw.y, draw.x
            break
    else:
        (rows, columns), y, x = _largest(image, ratio), None, None
    source = Box(start_of(height - rows, y), start_of(width - columns, x), rows, columns)
    return Geometry(image, source, Box(0, 0, *size), size, draw.flip, draw.flip_vertical)


def _largest(image: Size, ratio: Interval) -> Size:
    height, width = image
    shape = min(max(width / height, ratio[0]), ratio[1])
    rows, columns = min(height, round(width / shape)), min(width, round(height * shape))
    return max(1, rows), max(1, columns)


def checked_limits(name: str, given: object, most: float = math.inf) -> Interval:
    """Return `area` (whose `most` is 1) or `ratio` as two floats, or refuse it."""
    pair = given if isinstance(given, tuple | list) and len(given) == 2 else (0, 0)
    numbers = all(isinstance(number, int | float | np.number) for number in pair)
    if not numbers or not 0 < pair[0] <= pair[1] <= most or math.isinf(pair[1]):
        limits = "above 0 and at most 1" if most == 1 else "above 0"
        raise ArgumentError(f"{name} must be (least, largest), both {limits}, got {given!r}")
    return float(pair[0]), float(pair[1])
