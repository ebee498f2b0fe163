"""Polygons and run lengths of COCO as masks, drawn by pycocotools."""

from typing import Any, TypedDict

import msgspec
import numpy as np

from dfgen.errors import KAGGLE_ADVICE, KAGGLE_RUNS, ArgumentError, DecodeError, brief
from dfgen.samples.pixels.geometry import Size
from dfgen.spec import IntArray, Values

_MOST_POINTS = 2**22  # along the edges of a polygon, 5 per pixel: bounds the memory


class RunLengths(TypedDict):
    """COCO's run lengths: zeros and ones in turn, down the columns; text is compressed."""

    size: tuple[int, int]
    counts: list[int] | str


Region = list[list[float]] | RunLengths  # polygons: x, y of each corner, in pixels

_decoder = msgspec.json.Decoder(Region)


def parsed(text: Any) -> Region:
    """Return the region in the JSON of COCO's `segmentation`, or of the numbers of one polygon."""
    if not isinstance(text, str):
        return [text] if text else []
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        if KAGGLE_RUNS.fullmatch(text):
            raise DecodeError(
                f"a segmentation is {brief(text)}. {KAGGLE_ADVICE.format('runs')}"
            ) from None
        raise DecodeError(
            f"a segmentation is {brief(text)}, expected polygons, [[x, y, x, y, ...], ...], or run "
            f'lengths, {{"size": [height, width], "counts": ...}}: {error}'
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
        try:
            from pycocotools import mask as coco
        except ImportError as error:
            raise ArgumentError(
                'polygons need the package pycocotools: pip install "keras-dfgen[coco]"'
            ) from error
        runs = _unpacked(coco.merge(coco.frPyObjects(region, *size))["counts"])
    else:
        runs = np.array([size[0] * size[1]])
    # faster than the loop of pycocotools over pixels
    mask = np.repeat((np.arange(len(runs)) & 1).astype(np.uint8), runs)
    return np.ascontiguousarray(mask.reshape(size[::-1]).T)


def _run_lengths(region: RunLengths, size: Size) -> IntArray:
    """Return the lengths as numbers; raises DecodeError unless they fill an image of this size."""
    counts, annotated = region["counts"], tuple(region["size"])
    runs = _unpacked(counts.encode()) if isinstance(counts, str) else np.array(counts)
    if annotated != size or runs.sum() != size[0] * size[1] or runs.min(initial=0) < 0:
        raise DecodeError(
            f"run lengths (RLE) of {annotated[0]} x {annotated[1]} pixels (height x width) are "
            f"damaged, or do not fit the image, which has {size[0]} x {size[1]}"
        )
    return runs


def _check_polygon(polygon: list[float], size: Size) -> None:
    if len(polygon) < 6 or len(polygon) % 2:
        raise DecodeError(f"a polygon needs x and y of three corners, got {brief(polygon)}")
    spread = max(polygon) - min(polygon)
    if 2.5 * len(polygon) * spread + abs(sum(polygon)) < _MOST_POINTS:
        return  # most polygons; NaN is never less
    corners = np.reshape(polygon, (-1, 2))
    edges = np.abs(corners - np.roll(corners, 1, axis=0)).max(axis=1)
    if not (5 * edges.sum() < _MOST_POINTS and np.abs(corners).max() < _MOST_POINTS):  # or NaN
        raise DecodeError(
            f"the corners of a polygon lie far outside of the image, which has {size[0]} x "
            f"{size[1]} pixels (height x width)"
        )


def _unpacked(text: bytes) -> IntArray:
    """Decompress run lengths (rleFrString of maskApi.c); returns none if they are damaged.

    A character has 5 bits, low bits first; from the fourth on, a length is a difference from the
    length two before.
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
