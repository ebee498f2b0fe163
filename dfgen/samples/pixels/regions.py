"""Regions of an image as COCO writes them, polygons and run lengths, drawn by pycocotools."""

import re
from contextlib import suppress
from typing import Any, TypedDict

import msgspec
import numpy as np

from dfgen.errors import ArgumentError, DecodeError, brief
from dfgen.samples.pixels.geometry import Size
from dfgen.spec import Values

_MOST_POINTS = 2**22  # along the edges of a polygon, in steps of a fifth of a pixel
_COUNTS = re.compile("(?:[P-o]{0,6}[0-O])+")  # what pycocotools reads without leaving the text


class RunLengths(TypedDict):
    """COCO's run lengths: of zeros and ones in turn, down the columns; as text compressed."""

    size: tuple[int, int]
    counts: list[int] | str


Region = list[list[float]] | RunLengths  # polygons: x, y of each corner, in pixels

_decoder = msgspec.json.Decoder(Region)


def parsed(text: str) -> Region:
    """Return the region that the JSON of COCO's `segmentation` describes."""
    try:
        region: Region = _decoder.decode(text)
        return region
    except msgspec.DecodeError as error:
        raise DecodeError(
            f"a segmentation is {brief(text)}, expected COCO's polygons, [[x, y, x, y, x, y, ...], "
            f'...], or run lengths, {{"size": [height, width], "counts": ...}}: {error}'
        ) from None


def mask_of(region: Region, size: Size) -> Values:
    """Return the pixels of a region, 1 inside and 0 outside, as uint8 (height, width)."""
    coco = _pycocotools()
    if isinstance(region, dict):
        return _unpacked(coco, region, size)
    for polygon in region:
        _check_polygon(polygon, size)
    packed = coco.frPyObjects(region, *size) if region else [coco.encode(np.zeros(size, "u1", "F"))]
    mask: Values = coco.decode(coco.merge(packed))
    return mask


def run_lengths(mask: Values) -> RunLengths:
    """Return a mask, (height, width), as compressed run lengths."""
    packed = _pycocotools().encode(np.asfortranarray(mask, np.uint8))
    return {"size": packed["size"], "counts": packed["counts"].decode()}


def _pycocotools() -> Any:
    try:
        from pycocotools import mask
    except ImportError as error:
        raise ArgumentError(
            'regions are drawn by the package pycocotools: pip install "keras-dfgen[coco]"'
        ) from error
    return mask


def _check_polygon(polygon: list[float], size: Size) -> None:
    if len(polygon) < 6 or len(polygon) % 2:
        raise DecodeError(
            f"a polygon has {len(polygon)} numbers, {brief(polygon)}, expected x and y of three "
            "corners or more: correct the annotation or remove it"
        )
    corners = np.reshape(polygon, (-1, 2))
    edges = np.abs(corners - np.roll(corners, 1, axis=0)).max(axis=1)
    if not (5 * edges.sum() < _MOST_POINTS and np.abs(corners).max() < _MOST_POINTS):  # or NaN
        raise DecodeError(
            f"the corners of a polygon lie far outside of the image, which is {size[1]} x "
            f"{size[0]} pixels (width x height): correct the annotation"
        )


def _unpacked(coco: Any, region: RunLengths, size: Size) -> Values:
    """Return the pixels of run lengths, if they fill the image: pycocotools makes up the others."""
    pixels, packed = size[0] * size[1], dict[str, Any](region)
    with suppress(ValueError, OverflowError):
        if isinstance(region["counts"], list):
            whole = sum(region["counts"]) == pixels
            packed = coco.frPyObjects(packed, *size) if whole else packed
        elif whole := _COUNTS.fullmatch(region["counts"]) is not None:
            packed["counts"] = region["counts"].encode()
            with suppress(ValueError):  # of more runs than there is room for, as there must be
                coco.decode({**packed, "size": [1, pixels - 1]})
                whole = False
        if whole and tuple(region["size"]) == size:
            mask: Values = coco.decode(packed)
            return mask
    height, width = region["size"]
    raise DecodeError(
        f"run lengths (RLE) of {height} x {width} pixels (height x width) are damaged, or do not "
        f"fill the image, which has {size[0]} x {size[1]}: annotate the image as it is"
    )
