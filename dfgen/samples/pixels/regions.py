"""Regions of an image as COCO writes them, polygons and run lengths, drawn by pycocotools."""

from typing import Any, TypedDict

import msgspec
import numpy as np

from dfgen.errors import KAGGLE_RUNS, ArgumentError, DecodeError, brief, kaggle_advice
from dfgen.samples.pixels.geometry import Size
from dfgen.spec import IntArray, Values

_MOST_POINTS = 2**22  # along the edges of a polygon, in steps of a fifth of a pixel


class RunLengths(TypedDict):
    """COCO's run lengths: of zeros and ones in turn, down the columns; as text compressed."""

    size: tuple[int, int]
    counts: list[int] | str


Region = list[list[float]] | RunLengths  # polygons: x, y of each corner, in pixels

_decoder = msgspec.json.Decoder(Region)


def parsed(given: Any) -> Region:
    """Return the region of the JSON of COCO's `segmentation`, or of the numbers of one polygon."""
    if not isinstance(given, str):
        return [given] if given else []
    try:
        region: Region = _decoder.decode(given)
        return region
    except msgspec.DecodeError as error:
        if KAGGLE_RUNS.fullmatch(given):
            raise DecodeError(f"a segmentation is {brief(given)}. {kaggle_advice()}") from None
        raise DecodeError(
            f"a segmentation is {brief(given)}, expected COCO's polygons, [[x, y, x, y, ...], ...],"
            f' or run lengths, {{"size": [height, width], "counts": ...}}: {error}'
        ) from None


def check_region(region: Region, size: Size) -> None:
    """Raise a DecodeError if a region cannot be drawn on an image of this size."""
    if isinstance(region, dict):
        _run_lengths(region, size)
    else:
        for polygon in region:
            _check_polygon(polygon, size)


def mask_of(region: Region, size: Size) -> Values:
    """Return the pixels of a region, 1 inside and 0 outside, as uint8 (height, width)."""
    if isinstance(region, dict):
        runs = _run_lengths(region, size)
    elif region:
        check_region(region, size)
        coco = _pycocotools()
        runs = _unpacked(coco.merge(coco.frPyObjects(region, *size))["counts"])
    else:
        runs = np.array([size[0] * size[1]])
    # ten times as fast as the loop of pycocotools over pixels
    mask: Values = np.repeat((np.arange(len(runs)) & 1).astype(np.uint8), runs)
    return mask.reshape(size[::-1]).T


def _run_lengths(region: RunLengths, size: Size) -> IntArray:
    """Return the lengths as numbers; raise unless they fill an image of this size."""
    counts, annotated = region["counts"], tuple(region["size"])
    runs = _unpacked(counts.encode()) if isinstance(counts, str) else np.array(counts)
    if annotated != size or runs.sum() != size[0] * size[1] or runs.min(initial=0) < 0:
        raise DecodeError(
            f"run lengths (RLE) of {annotated[0]} x {annotated[1]} pixels (height x width) are "
            f"damaged, or do not fill the image, which has {size[0]} x {size[1]}: annotate it as "
            "it is"
        )
    return runs


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
    spread = max(polygon) - min(polygon)
    if 2.5 * len(polygon) * spread + abs(sum(polygon)) < _MOST_POINTS:
        return  # most polygons; NaN is never less
    corners = np.reshape(polygon, (-1, 2))
    edges = np.abs(corners - np.roll(corners, 1, axis=0)).max(axis=1)
    if not (5 * edges.sum() < _MOST_POINTS and np.abs(corners).max() < _MOST_POINTS):  # or NaN
        raise DecodeError(
            f"the corners of a polygon lie far outside of the image, which is {size[1]} x "
            f"{size[0]} pixels (width x height): correct the annotation"
        )


def _unpacked(text: bytes) -> IntArray:
    """Return compressed run lengths as numbers, none of damaged ones (rleFrString of maskApi.c).

    A character has 5 bits, low ones first, and each length but three is told by the one before.
    """
    bits = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(bits & 32 == 0)
    starts = np.append(0, ends[:-1] + 1)
    lengths = ends - starts[: len(ends)] + 1
    whole = len(ends) and ends[-1] == len(bits) - 1 and bits.min() >= 0 and bits.max() <= 63
    if not whole or lengths.max() > 8:
        return np.zeros(0, np.int64)
    places = np.arange(len(bits)) - np.repeat(starts, lengths)
    counts = np.add.reduceat((bits & 31) << 5 * places, starts)
    counts -= np.where(bits[ends] & 16, 1 << 5 * lengths, 0)
    counts[1::2], counts[2::2] = np.cumsum(counts[1::2]), np.cumsum(counts[2::2])
    return counts
