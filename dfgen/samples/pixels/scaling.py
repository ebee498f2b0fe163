"""Scaling of pixels to what a model wants, and casting, in one pass.

8 bits have 256 values: what each becomes is looked up in a table, at one cost for every scale and
dtype. benchmarks/bench_scaling.py measures it, beside what was not chosen.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import cv2
import numpy as np

from dfgen.errors import ArgumentError
from dfgen.samples.pixels.geometry import Pixels

PerChannel = tuple[float, ...]
Scale = str | tuple[float, float] | tuple[PerChannel, PerChannel] | None
"""As of `dfgen.Image`: a name, (scale, offset), or a mean and a deviation for each channel."""

_RANGES = {"0..1": (1.0, 0.0), "-1..1": (2.0, -1.0), "tf": (2.0, -1.0)}  # of pixels 0..1
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of pixels 0..1, red first
_CAFFE = (103.939, 116.779, 123.68)  # means of pixels 0..255, blue first
_OF_RGB = ("caffe", "torch")

SCALE = (*_RANGES, *_OF_RGB, "standardize")
"""Names of scales; `"tf"`, `"torch"` and `"caffe"` are the modes of
`keras.applications.imagenet_utils.preprocess_input`."""


class _Line(NamedTuple):
    """(pixels - centre) * factor + offset: each a number, or one for each channel."""

    centre: Any
    factor: Any
    offset: Any
    dtype: Any  # that it is computed in

    def of(self, pixels: Pixels) -> Pixels:
        centre, factor, offset = (np.asarray(numbers, self.dtype) for numbers in self[:3])
        made: Pixels = pixels.astype(self.dtype)
        if centre.any():
            made = made - centre
        made = made * factor
        return made + offset if offset.any() else made


def rescale(pixels: Pixels, scale: Scale, out: Pixels) -> None:
    """Fill `out` with the pixels of one image, scaled as in `dfgen.Image`.

    Args:
        pixels: (height, width, channels), uint8, uint16 or float32. What a scale says of 255, or of
            1, goes for 65535 too; of floats it does not know the range.
        scale: as `checked_scale` returns it.
        out: of the same shape; its dtype is what the pixels are cast to.
    """
    if scale is None and pixels.dtype == out.dtype:
        out[...] = pixels
        return
    if scale == "caffe":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    if pixels.dtype != np.uint8:
        line = _standardizing(pixels) if scale == "standardize" else _line(scale, pixels.dtype)
        out[...] = line.of(pixels)
    elif scale == "standardize":
        _look_up(pixels, _table(_standardizing(pixels), out.dtype), out)
    else:
        _look_up(pixels, _fixed_table(scale, out.dtype), out)


def _look_up(pixels: Pixels, table: Pixels, out: Pixels) -> None:
    out = out.view(table.dtype)
    made = cv2.LUT(pixels, table, out)
    if made is not out:
        out[...] = made.reshape(out.shape)


def _table(line: _Line, dtype: np.dtype[Any]) -> Pixels:
    """Return what the levels 0 to 255 become, (1, 256, 1 or channels), as OpenCV takes it."""
    table = line.of(np.arange(256).reshape(1, 256, 1)).astype(dtype)
    return table.view(np.int16) if dtype == np.float16 else table  # OpenCV knows no float16 here


@lru_cache(maxsize=64)
def _fixed_table(scale: Scale, dtype: np.dtype[Any]) -> Pixels:
    return _table(_line(scale, np.dtype(np.uint8)), dtype)


def _line(scale: Scale, dtype: np.dtype[Any]) -> _Line:
    """Return any scale but `"standardize"`, for pixels of a dtype."""
    if scale is None:
        return _Line(0, 1, 0, np.float32)
    most = np.iinfo(dtype).max if dtype.kind == "u" else 1
    if scale == "caffe":
        return _Line(np.multiply(_CAFFE, most / 255), 255 / most, 0, np.float64)
    if isinstance(scale, str) and scale in _RANGES:
        factor, offset = _RANGES[scale]
        return _Line(0, factor / most, offset, np.float32)
    first, second = _IMAGENET if isinstance(scale, str) else scale
    if isinstance(first, tuple):
        return _Line(np.multiply(first, most), 1 / np.multiply(second, most), 0, np.float64)
    return _Line(0, first, second, np.float32)


def _standardizing(pixels: Pixels) -> _Line:
    """Return the formula of `tf.image.per_image_standardization`, of one image."""
    mean, deviation = cv2.meanStdDev(pixels.reshape(len(pixels), -1))  # of one channel: 8 x faster
    return _Line(mean[0, 0], 1 / max(deviation[0, 0], 1 / math.sqrt(pixels.size)), 0, np.float64)


def checked_scale(given: Any, color_mode: str, channels: int) -> Scale:
    """Return a scale for images of so many channels as names and floats alone, or refuse it."""
    if given is None or (isinstance(given, str) and given in SCALE):
        if given in _OF_RGB and channels != 3:
            raise ArgumentError(
                f'scale={given!r} is for the three channels of color_mode="rgb", as in Keras, '
                f"got color_mode={color_mode!r}"
            )
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        pair = _numbers(given)
        if pair is not None:
            return pair  # type: ignore[return-value]
        means, deviations = map(_numbers, given)
        if means is not None and deviations is not None:
            _check_channels(given, (means, deviations), color_mode, channels)
            return means, deviations
    raise ArgumentError(
        f"scale must be one of {(None, *SCALE)}, a pair of numbers (scale, offset), or the mean "
        "and the standard deviation of each channel, of pixels 0..1, as ((0.5, 0.5, 0.5), "
        f"(0.2, 0.2, 0.2)), got {given!r}"
    )


def _numbers(given: Any) -> PerChannel | None:
    listed = given.tolist() if isinstance(given, np.ndarray) else given
    if not isinstance(listed, tuple | list) or not all(
        isinstance(number, int | float | np.number) and np.isfinite(number) for number in listed
    ):
        return None
    return tuple(map(float, listed))


def _check_channels(
    given: Any, numbers: tuple[PerChannel, PerChannel], color_mode: str, channels: int
) -> None:
    means, deviations = numbers
    if not len(means) == len(deviations) == channels:
        raise ArgumentError(
            f"scale={given!r} has {len(means)} means and {len(deviations)} deviations, but images "
            f"of color_mode={color_mode!r} have {channels} channels: give one of each for each"
        )
    if min(means) < 0 or max(means) > 1 or min(deviations) <= 0 or max(deviations) > 1:
        raise ArgumentError(
            f"scale={given!r} is not of pixels 0..1, whose means are 0 to 1, and whose standard "
            "deviations are above 0 and at most 1: divide both by 255 if they are of pixels 0..255"
        )
