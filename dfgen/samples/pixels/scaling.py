"""Scaling of pixels to what a model wants, and casting, in one pass; 16 bits and floats, too.

8 bits go through OpenCV's conversion where that is as exact as the formula, else each of their 256
values is looked up. benchmarks/bench_scaling.py measures both, beside what was not chosen.
Nothing is cut in silence.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import cv2
import numpy as np

from dfgen.errors import ArgumentError, DecodeError, brief
from dfgen.samples.pixels.geometry import Pixels

PerChannel = tuple[float, ...]
Scale = str | tuple[float, float] | tuple[PerChannel, PerChannel] | None
"""As of `dfgen.Image`: a name, (scale, offset), or a mean and a deviation for each channel."""

_RANGES = {"0..1": (1.0, 0.0), "-1..1": (2.0, -1.0), "tf": (2.0, -1.0)}  # of pixels 0..1
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of pixels 0..1, red first
_CAFFE = (103.939, 116.779, 123.68)  # means of pixels 0..255, blue first
_NAMED = {
    **dict.fromkeys(("01", "0-1", "rescale", "minmax", "unit", "1/255", "1255"), "0..1"),
    **dict.fromkeys(("-11", "-1-1"), "-1..1"),
    **dict.fromkeys(("imagenet", "pytorch", "normalize"), "torch"),
    **dict.fromkeys(("tensorflow", "keras"), "tf"),
    **dict.fromkeys(("standard", "zscore", "z-score", "standardise"), "standardize"),
}
"""Names of scales elsewhere, letters, digits and hyphens alone -> here."""

_OF_RGB = ("caffe", "torch")

SCALE = (*_RANGES, *_OF_RGB, "standardize")
"""Names of scales; `"tf"`, `"torch"` and `"caffe"` are the modes of
`keras.applications.imagenet_utils.preprocess_input`."""

_HALF = np.dtype(np.float16)
_DEPTHS = {_HALF: cv2.CV_16F, np.dtype(np.float32): cv2.CV_32F}
_FEW = 2**13  # numbers that are sooner looked up, as of 32x32 RGB
_MOST_SHIFTED = 8  # times the largest number: where more is added, float32 loses digits on the way


class _Line(NamedTuple):
    """(pixels - centre) * factor + offset, of all channels or one, rounded to `dtype`."""

    centre: float
    factor: float
    offset: float
    dtype: Any

    def of(self, pixels: Pixels) -> Pixels:
        made: Pixels = pixels.astype(self.dtype)
        if self.centre:
            made -= self.dtype(self.centre)
        made *= self.dtype(self.factor)
        if self.offset:
            made += self.dtype(self.offset)
        return made


def rescale(pixels: Pixels, scale: Scale, out: Pixels) -> None:
    """Fill `out` with the pixels of one image, scaled as in `dfgen.Image`.

    `pixels` are uint8, uint16 (what a scale says of 255, or of 1, goes for 65535) or float32;
    `scale` is as `checked_scale` returns it.
    """
    if scale is None and out.dtype != _HALF:  # to which NumPy takes 20 times as long
        out[...] = pixels
        return
    lines = (_standardizing(pixels),) if scale == "standardize" else _lines(scale, pixels.dtype)
    if len(lines) == 1:
        _draw(lines[0], pixels, out)
        return
    planes = cv2.split(pixels)[:: -1 if scale == "caffe" else 1]
    made = [np.empty(plane.shape, out.dtype) for plane in planes]
    for line, plane, into in zip(lines, planes, made, strict=True):
        _draw(line, plane, into)
    words = _words(out)
    _keep(cv2.merge([_words(into) for into in made], words), words)


def _draw(line: _Line, pixels: Pixels, out: Pixels) -> None:
    if pixels.dtype != np.uint8:
        out[...] = line.of(pixels)
    elif pixels.size <= _FEW or not _converted(line, pixels, out):
        words = _words(out)
        _keep(cv2.LUT(pixels, _table(line, out.dtype), words), words)


def _converted(line: _Line, pixels: Pixels, out: Pixels) -> bool:
    """Fill `out` by OpenCV's conversion, half a look-up's time; False where that is less exact.

    Python reaches it through `cv2.normalize`. With nothing to add it is the formula bit for bit,
    else within 2e-6 of the largest number.
    """
    factor = float(line.dtype(line.factor))
    shift = line.offset - line.centre * factor
    kept = shift != 0 and line.dtype == np.float32 == out.dtype
    if factor <= 0 or kept:
        return False
    least, most, _, _ = cv2.minMaxLoc(pixels.reshape(len(pixels), -1))
    low, high = factor * least + shift, factor * most + shift
    if abs(shift) > _MOST_SHIFTED * max(abs(low), abs(high)):
        return False
    ends = (low, high, cv2.NORM_MINMAX) if shift else (high, 0, cv2.NORM_INF)
    _keep(cv2.normalize(pixels, out, *ends, _DEPTHS[out.dtype]), out)
    return True


def _words(array: Pixels) -> Pixels:
    """Return float16 as words of 16 bits: what only moves numbers knows those in all versions."""
    return array.view(np.int16) if array.dtype == np.float16 else array


def _keep(made: Pixels, out: Pixels) -> None:
    """Copy what a function of OpenCV has made, if not in `out` itself."""
    if made is not out:
        out[...] = made.reshape(out.shape)


@lru_cache(maxsize=64)
def _table(line: _Line, dtype: np.dtype[Any]) -> Pixels:
    return _words(line.of(np.arange(256)).astype(dtype))


@lru_cache(maxsize=64)
def _lines(scale: Scale, dtype: np.dtype[Any]) -> tuple[_Line, ...]:
    """Return any scale but `"standardize"` for pixels of a dtype: one, or one for each channel."""
    most = np.iinfo(dtype).max if dtype.kind == "u" else 1
    if scale is None:
        return (_Line(0, 1, 0, np.float32),)
    if scale == "caffe":
        return tuple(_Line(mean * most / 255, 255 / most, 0, np.float64) for mean in _CAFFE)
    if isinstance(scale, str) and scale in _RANGES:
        factor, offset = _RANGES[scale]
        return (_Line(0, factor / most, offset, np.float32),)
    first: Any
    second: Any
    first, second = _IMAGENET if isinstance(scale, str) else scale
    if not isinstance(first, tuple):
        return (_Line(0, first, second, np.float32),)
    pairs = zip(first, second, strict=True)
    return tuple(_Line(mean * most, 1 / (most * spread), 0, np.float64) for mean, spread in pairs)


def _standardizing(pixels: Pixels) -> _Line:
    """Return the formula of `tf.image.per_image_standardization` for one image."""
    flat = pixels.reshape(len(pixels), -1)  # of one channel: 8 times faster
    mean, deviation = (float(found[0, 0]) for found in cv2.meanStdDev(flat))
    return _Line(mean, 1 / max(deviation, 1 / math.sqrt(pixels.size)), 0, np.float64)


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
        f"(0.2, 0.2, 0.2)), got {brief(given)}{_meant(given)}"
    )


def _meant(given: Any) -> str:
    """Return the scale that a factor, or a name of another library, stands for."""
    if isinstance(given, str):
        word = "".join(sign for sign in given.lower() if sign.isalnum() or sign == "-")
        found = _NAMED.get(word, "")
    else:
        factor = float(given) if isinstance(given, int | float | np.number) else 0.0
        factor = 1 / factor if factor > 1 and not isinstance(given, bool) else factor
        found = "-1..1" if math.isclose(factor, 2 / 255, rel_tol=0.01) else ""
        found = "0..1" if factor == 1 or math.isclose(factor, 1 / 255, rel_tol=0.01) else found
    return f': write scale="{found}"' if found else ""


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


DEPTHS = (None, "uint8", "uint16", "float16", "float32")
"""The values of `dfgen.Image(dtype=)`; None stands for 8 bits of files that have no more."""

WAYS = {
    16: 'give dfgen.Image a dtype: "uint16" or "float32" keep the numbers (of "float32", '
    'scale="0..1" divides them by 65535), "uint8" divides them by 257 and rounds',
    32: 'dfgen.Image(dtype="float32") keeps the numbers',
}
"""Bits of a file that is too deep -> what to do."""


def too_deep(bits: int) -> str:
    """Return why a file of so many bits is none of 8, and what to do."""
    return f"the image has {bits} bits a channel, not 8: {WAYS[16 if bits <= 16 else 32]}"


def as_stored(pixels: Pixels) -> Pixels:
    """Return decoded pixels as uint8, uint16 or float32; DecodeError beyond float32."""
    if pixels.dtype == np.uint8 or (pixels.dtype == np.uint16 and pixels.dtype.isnative):
        return pixels
    if pixels.dtype.kind not in "uif":
        raise DecodeError(f"the pixels are {pixels.dtype}, expected numbers")
    with np.errstate(over="ignore"):
        made: Pixels = pixels.astype(np.uint16 if pixels.dtype == ">u2" else np.float32)
    held = np.isfinite(made) | ~np.isfinite(pixels) if pixels.dtype.kind == "f" else made == pixels
    if not held.all():
        raise DecodeError(f"{_range(pixels)}, more than float32 can hold: save them as float32")
    return made


def in_depth(pixels: Pixels, dtype: str | None) -> Pixels:
    """Return pixels as they are resized and transformed for `dfgen.Image(dtype=...)`.

    `None` takes 8 bits alone, `"uint8"` divides 16 bits by 257, `"uint16"` takes whole numbers to
    65535, floats keep the numbers in their own dtype, by which a named scale knows their range.
    """
    if pixels.dtype == np.uint8:
        return pixels.astype(np.uint16) if dtype == "uint16" else pixels
    if dtype in ("float16", "float32"):
        return pixels
    if dtype == "uint16":
        return _uint16(pixels)
    if pixels.dtype != np.uint16:
        raise DecodeError(too_deep(32))
    if dtype is None:
        raise DecodeError(too_deep(16))
    eight: Pixels = cv2.convertScaleAbs(pixels, alpha=1 / 257)
    return eight.reshape(pixels.shape)


def _uint16(pixels: Pixels) -> Pixels:
    if pixels.dtype == np.uint16:
        return pixels
    with np.errstate(invalid="ignore"):
        whole: Pixels = pixels.astype(np.uint16)
    if not np.array_equal(whole, pixels):
        raise DecodeError(f"{_range(pixels)}, not whole numbers from 0 to 65535: {WAYS[32]}")
    return whole


def check_scaled(pixels: Pixels, scale: Scale, dtype: str | None) -> None:
    """Refuse floats, whose range a scale as `"0..1"` does not know, and numbers beyond float16."""
    if pixels.dtype == np.uint8 or scale == "standardize":
        return
    if isinstance(scale, str) or (scale and isinstance(scale[0], tuple)):
        if pixels.dtype == np.float32:
            raise DecodeError(
                f"{_range(pixels)}, whose full range scale={scale!r} does not know: give a pair "
                "scale=(factor, offset), or scale=None"
            )
        return
    if dtype == "float16":
        factor, offset = scale or (1.0, 0.0)
        made = np.abs(_finite(pixels) * factor + offset)
        if made.max(initial=0) > np.finfo(np.float16).max:
            raise DecodeError(f'{_range(pixels)}, more than float16 can hold: give dtype="float32"')


def _finite(pixels: Pixels) -> Pixels:
    return pixels[np.isfinite(pixels)] if pixels.dtype.kind == "f" else pixels


def _range(pixels: Pixels) -> str:
    finite = _finite(pixels)
    held = f"{finite.min():g} to {finite.max():g}" if finite.size else "no finite number"
    return f"the pixels are {pixels.dtype}, and hold {held}"
