"""Regions of an image as annotations write them: polygons and run lengths, drawn into masks.

Every pixel is the one that COCO's own library, pycocotools, would set: `rleFrPoly` and
`rleFrString` of its maskApi.c, https://github.com/cocodataset/cocoapi, are done here by NumPy.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated

import cv2
import msgspec
import numpy as np

from dfgen.errors import DecodeError, brief
from dfgen.samples.pixels.geometry import Size
from dfgen.spec import IntArray, Values

_SCALE = 5  # corners are placed to a fifth of a pixel
_MOST_POINTS = 2**22  # along the edges of polygons drawn in one step; each takes 100 bytes

Runs = tuple[IntArray, IntArray]
"""Begins and ends of the runs of a region, counted down the columns of the image."""


_Whole = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class RunLengths(msgspec.Struct, forbid_unknown_fields=True):
    """COCO's run lengths: of zeros and ones in turn, down the columns; as text compressed."""

    size: tuple[_Whole, _Whole]
    counts: list[_Whole] | str


Polygons = Sequence[Sequence[float]]
"""x, y of each corner of each polygon, in pixels."""

Region = Polygons | RunLengths

_decoder: msgspec.json.Decoder[Region] = msgspec.json.Decoder(list[list[float]] | RunLengths)


def parsed(text: str) -> Region:
    """Return the region that the JSON of COCO's `segmentation` describes."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError as error:
        raise DecodeError(
            f"a segmentation is {brief(text)}, expected COCO's polygons, "
            f'[[x, y, x, y, x, y, ...], ...], or run lengths, {{"size": [height, width], '
            f'"counts": ...}}: {error}'
        ) from None


def runs_of(regions: Iterable[Region], size: Size) -> list[list[Runs]]:
    """Return the runs of each region of an image; those of several polygons may overlap.

    Raises:
        DecodeError: a polygon has less than three corners, or run lengths are of another size.
    """
    regions = list(regions)
    corners = [np.asarray(one) for each in regions if isinstance(each, Sequence) for one in each]
    drawn = iter(_polygons(corners, size))
    return [
        [next(drawn) for _ in each] if isinstance(each, Sequence) else [_decoded(each, size)]
        for each in regions
    ]


def paint(runs: Iterable[Runs], value: int, canvas: Values) -> None:
    """Set the pixels of runs in a canvas, (width, height): its columns lie one after the other."""
    flat = canvas.reshape(-1)
    for starts, ends in runs:
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            flat[start:end] = value


def blank_canvas(size: Size, value: int) -> Values:
    """Return the bytes that `paint` fills, for an image of a size."""
    return np.full(size[::-1], value, np.uint8)


def upright(canvas: Values) -> Values:
    """Return a canvas as (height, width, 1)."""
    turned: Values = cv2.transpose(canvas)[..., None]
    return turned


def run_lengths(mask: Values) -> RunLengths:
    """Return a mask, (height, width), as run lengths."""
    flat = np.concatenate([[False], (mask != 0).T.ravel(), [False]])
    edges = np.append(np.flatnonzero(flat[1:] != flat[:-1]), mask.size)
    height, width = mask.shape
    return RunLengths((height, width), np.diff(edges, prepend=0).tolist())


def _decoded(region: RunLengths, size: Size) -> Runs:
    counts = np.asarray(region.counts) if isinstance(region.counts, list) else _unpacked(region)
    if region.size != size or counts.sum() != size[0] * size[1] or counts.min(initial=0) < 0:
        height, width = region.size
        raise DecodeError(
            f"run lengths (RLE) of {height} x {width} pixels (height x width) sum to "
            f"{counts.sum():,}, and the image has {size[0]} x {size[1]}, {size[0] * size[1]:,}: "
            "annotate the image as it is, or correct the size"
        )
    ends = np.cumsum(counts)
    return ends[:-1:2], ends[1::2]


def _unpacked(region: RunLengths) -> IntArray:
    """Return the counts of compressed run lengths: 5 bits a character, low ones first."""
    text = str(region.counts).encode()
    bits = np.frombuffer(text, np.uint8).astype(np.int64) - 48
    ends = np.flatnonzero(bits & 32 == 0)
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts[: len(ends)] + 1
    whole = len(ends) and ends[-1] == len(bits) - 1 and bits.min() >= 0 and bits.max() <= 63
    if not whole or lengths.max() > 8:
        raise DecodeError(f"the run lengths (RLE) {brief(region.counts)} are damaged or cut short")
    places = np.arange(len(bits)) - np.repeat(starts, lengths)
    counts = np.add.reduceat((bits & 31) << 5 * places, starts)
    counts -= np.where(bits[ends] & 16, 1 << 5 * lengths, 0)
    counts[1::2] = np.cumsum(counts[1::2])  # each but the first three is told by the one before
    counts[2::2] = np.cumsum(counts[2::2])
    return counts


def _polygons(polygons: Sequence[Values], size: Size) -> list[Runs]:
    """Return the runs of each polygon: where its edges cross the middle of a column, it begins."""
    height, width = size
    if not polygons:
        return []
    counts = np.array([len(one) // 2 for one in polygons])
    short = next((one for one in polygons if len(one) < 6 or len(one) % 2), None)
    if short is not None:
        raise DecodeError(
            f"a polygon has {len(short)} numbers, {brief(short.tolist())}, expected x and y of "
            "three corners or more: correct the annotation or remove it"
        )
    corners = _SCALE * np.concatenate(polygons).reshape(-1, 2).astype(np.float64) + 0.5
    if not (np.abs(corners) < 2**31).all():
        raise DecodeError("a polygon has corners that are no pixels: correct the annotation")
    start = corners.astype(np.int64)
    following = np.arange(1, len(start) + 1)
    following[np.cumsum(counts) - 1] -= counts
    end = start[following]
    wide, high = np.abs(end - start).T
    level = wide >= high
    # the longer way of an edge goes up, from `low`, in steps of one; `slope` tells the other one
    first = np.where(level, start[:, 0] <= end[:, 0], start[:, 1] <= end[:, 1])[:, None]
    low, top = np.where(first, start, end), np.where(first, end, start)
    long, across = np.where(level, low.T, low.T[::-1])
    length = np.maximum(wide, high)
    slope = np.where(level, (top - low)[:, 1], (top - low)[:, 0]) / np.maximum(length, 1)
    # of a level edge only the steps into the middle of a column count
    begin, stride = np.where(level, (2 - long) % _SCALE, 0), np.where(level, _SCALE, 1)
    steps = np.maximum(0, (length - 1 - begin) // stride + 1)
    total = int(steps.sum())
    if total > _MOST_POINTS:
        if half := len(polygons) // 2:
            return _polygons(polygons[:half], size) + _polygons(polygons[half:], size)
        raise DecodeError(
            f"a polygon has edges of {total:,} points, more than {_MOST_POINTS:,}: its corners "
            f"lie far outside of the image, which is {width} x {height} pixels (width x height)"
        )
    edge = np.repeat(np.arange(len(steps)), steps)
    step = begin[edge] + stride[edge] * (np.arange(total) - (np.cumsum(steps) - steps)[edge])
    base, rise = across[edge], slope[edge]
    here, there = ((base + rise * at + 0.5).astype(np.int64) for at in (step, step + 1))
    least, along, flat = np.minimum(here, there), long[edge] + step, level[edge]
    x, y = np.where(flat, along, least), np.where(flat, least, along)
    column = (x - 2) // _SCALE
    kept = (x % _SCALE == 2) & (flat | (here != there)) & (column >= 0) & (column < width)
    row = np.clip(-((2 - y[kept]) // _SCALE), 0, height)
    owner = np.repeat(np.arange(len(counts)), counts)[edge[kept]]
    whole = height * width
    crossed = np.sort(owner * (whole + 1) + column[kept] * height + row)
    bounds = np.searchsorted(crossed, np.arange(len(counts) + 1) * (whole + 1))
    found = []
    for number, (one, next_one) in enumerate(pairwise(bounds)):
        places = crossed[one:next_one] - number * (whole + 1)
        if len(places) % 2:
            places = np.append(places, whole)
        found.append((places[::2], places[1::2]))
    return found
