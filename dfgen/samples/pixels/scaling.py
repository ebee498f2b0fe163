"""Scaling of pixels to what a model wants, and depth: 8 bits, 16 bits and floats.

Nothing is cut in silence. benchmarks/bench_scaling.py measures it.
"""

import math
from functools import lru_cache
from typing import Any

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
_OF_RGB = ("caffe", "torch")

SCALE = (*_RANGES, *_OF_RGB, "standardize")
_FEW = 2**14  # numbers that are sooner looked up in a table than calculated
_DEPTHS = {np.dtype(np.float16): cv2.CV_16F, np.dtype(np.float32): cv2.CV_32F}


def rescale(pixels: Pixels, scale: Scale, out: Pixels) -> None:
    """Fill `out` with the pixels of one image, uint8, uint16 or float32, scaled.

    What a scale says of 255, or of 1, goes for the largest number of their dtype.
    """
    if scale is None and out.dtype != np.float16:
        out[...] = pixels
        return
    if scale == "standardize":
        _standardize(pixels, out)
        return
    if scale == "caffe":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    factor, offset = _line(scale, pixels.dtype)
    fits = pixels.dtype.kind == "u" and not isinstance(offset, tuple) and factor > 0
    fits = fits and pixels.size > _FEW and (out.dtype == np.float32 or offset == 0)
    if fits:  # the fastest conversion: of the largest number to another
        largest = factor * cv2.norm(pixels, cv2.NORM_INF)
        _keep(cv2.normalize(pixels, out, largest, 0, cv2.NORM_INF, _DEPTHS[out.dtype]), out)
        if offset != 0:
            out += np.float32(offset)
    elif pixels.dtype == np.uint8 and (pixels.size <= _FEW or out.dtype == np.float16):
        words = out.view(np.int16) if out.dtype == np.float16 else out
        _keep(cv2.LUT(pixels, _table(scale, out.dtype), words), words)
    else:
        direct = out.dtype == np.float32 and out.flags.c_contiguous
        made = out if direct else np.empty(out.shape, np.float32)
        rows = made.reshape(len(made), -1)
        factors, offsets = _of_row(scale, pixels.dtype, made.shape[1:])
        flat = pixels.reshape(rows.shape)
        scaled = flat if factor == 1 else np.multiply(flat, factors, out=rows)
        np.add(scaled, offsets, out=rows)
        _keep(made, out)


def _keep(made: Pixels, out: Pixels) -> None:
    """Copy what a function of OpenCV has made, if not in `out` itself."""
    if made is not out:
        out[...] = made.reshape(out.shape)


@lru_cache(maxsize=64)
def _of_row(scale: Scale, dtype: Any, shape: Any) -> list[Pixels]:
    """Return factor and offset for each number in a row of pixels."""
    return [np.broadcast_to(np.float32(each), shape).ravel() for each in _line(scale, dtype)]


@lru_cache(maxsize=64)
def _table(scale: Scale, dtype: Any) -> Pixels:
    """Return what each of 256 values becomes in every channel, float16 as words of 16 bits."""
    factor, offset = _line(scale, np.dtype(np.uint8))
    kind = np.float64 if isinstance(offset, tuple) else np.float32
    levels = np.arange(256, dtype=kind)[None, :, None] * np.asarray(factor, kind)
    table: Pixels = (levels + np.asarray(offset, kind)).astype(dtype)
    return table.view(np.int16) if dtype == np.float16 else table


@lru_cache(maxsize=64)
def _line(scale: Any, dtype: Any) -> tuple[Any, Any]:
    """Return factor and offset for pixels of a dtype, each one number or one for each channel."""
    most = np.iinfo(dtype).max if dtype.kind == "u" else 1
    if scale is None:
        return 1.0, 0.0
    if scale == "caffe":
        return 255 / most, tuple(-mean for mean in _CAFFE)
    if scale in _RANGES:
        factor, offset = _RANGES[scale]
        return factor / most, offset
    first, second = _IMAGENET if scale == "torch" else scale
    if not isinstance(first, tuple):
        return first, second
    factors = tuple(1 / (most * deviation) for deviation in second)
    return factors, tuple(-mean / deviation for mean, deviation in zip(first, second, strict=True))


def _standardize(pixels: Pixels, out: Pixels) -> None:
    """Do what `tf.image.per_image_standardization` does to one image."""
    flat = pixels.reshape(len(pixels), -1)  # of one channel: 8 times faster
    mean, deviation = (float(found[0, 0]) for found in cv2.meanStdDev(flat))
    factor = 1 / max(deviation, 1 / math.sqrt(pixels.size))
    least, most, _, _ = cv2.minMaxLoc(flat)
    low, high = (least - mean) * factor, (most - mean) * factor
    if pixels.dtype == np.uint8 and mean * factor < 4 * max(high, -low):
        _keep(cv2.normalize(pixels, out, low, high, cv2.NORM_MINMAX, _DEPTHS[out.dtype]), out)
    else:  # float32 would lose digits on the way
        out[...] = (pixels - np.float64(mean)) * factor


def checked_scale(given: Any, color_mode: str, channels: int) -> Scale:
    """Return a scale for images of so many channels as names and floats alone, or refuse it."""
    if isinstance(given, str) and given in _OF_RGB and channels != 3:
        raise ArgumentError(
            f'scale={given!r} is for color_mode="rgb", as in Keras, got color_mode={color_mode!r}'
        )
    if given is None or (isinstance(given, str) and given in SCALE):
        return given
    try:
        first, second = given
        numbers = np.array([first, second], float)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape == (2,) and np.isfinite(numbers).all():
        return float(first), float(second)
    inside = numbers.size and numbers.min() >= 0 and numbers.max() <= 1 and numbers[1].min() > 0
    if numbers.shape != (2, channels) or not inside:
        raise ArgumentError(
            f"scale must be one of {(None, *SCALE)}, a pair of numbers (scale, offset), or the "
            "mean, from 0 to 1, and the standard deviation, above 0 and at most 1, of pixels 0..1 "
            f"for each of the {channels} channels, as ((0.5, 0.5, 0.5), (0.2, 0.2, 0.2)), got "
            f"{brief(given)}"
        )
    return tuple(numbers[0].tolist()), tuple(numbers[1].tolist())


DEPTHS = (None, "uint8", "uint16", "float16", "float32")
"""The values of `dfgen.Image(dtype=)`; None stands for 8 bits of files that have no more."""

_REAL = 'give dtype="float32"'


def too_deep(bits: int) -> str:
    """Return why a file of so many bits is none of 8, and what to do."""
    ways = 'dtype="uint16" or "float32" keep the numbers, dtype="uint8" divides them by 257'
    return f"the image has {bits} bits a channel, not 8: {ways if bits <= 16 else _REAL}"


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

    Floats keep the numbers in their own dtype, by which a named scale knows their range.
    """
    if pixels.dtype == np.uint8:
        return pixels.astype(np.uint16) if dtype == "uint16" else pixels
    if dtype in ("float16", "float32") or pixels.dtype.name == dtype:
        return pixels
    if dtype == "uint16":
        with np.errstate(invalid="ignore"):
            whole: Pixels = pixels.astype(np.uint16)
        if not np.array_equal(whole, pixels):
            raise DecodeError(f"{_range(pixels)}, not whole numbers from 0 to 65535: {_REAL}")
        return whole
    if pixels.dtype != np.uint16 or dtype is None:
        raise DecodeError(too_deep(8 * pixels.dtype.itemsize))
    eight: Pixels = cv2.convertScaleAbs(pixels, alpha=1 / 257)
    return eight.reshape(pixels.shape)


def check_scaled(pixels: Pixels, scale: Scale, dtype: str | None) -> None:
    """Refuse floats, whose range a scale as `"0..1"` does not know, and numbers beyond float16."""
    if pixels.dtype == np.uint8 or scale == "standardize":
        return
    if isinstance(scale, str) or (scale and isinstance(scale[0], tuple)):
        if pixels.dtype == np.float32:
            raise DecodeError(
                f"{_range(pixels)}, whose range scale={scale!r} does not know: give a pair instead"
            )
    elif dtype == "float16":
        factor, offset = scale or (1.0, 0.0)
        made = np.abs(pixels[np.isfinite(pixels)] * factor + offset)
        if made.max(initial=0) > np.finfo(np.float16).max:
            raise DecodeError(f"{_range(pixels)}, more than float16 can hold: {_REAL}")


def _range(pixels: Pixels) -> str:
    finite = pixels[np.isfinite(pixels)]
    held = f"{finite.min():g} to {finite.max():g}" if finite.size else "no finite number"
    return f"the pixels are {pixels.dtype}, and hold {held}"
