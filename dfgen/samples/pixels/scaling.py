"""Scaling of pixels for a model, and conversions of depth: 8 bits, 16 bits and floats."""

import math
from functools import lru_cache
from typing import Any

import cv2
import numpy as np

from dfgen.errors import ArgumentError, DecodeError, brief
from dfgen.samples.pixels.geometry import Pixels

PerChannel = tuple[float, ...]
Scale = str | tuple[float, float] | tuple[PerChannel, PerChannel] | None
"""As in `dfgen.Image`: a name, (scale, offset), or mean and deviation of each channel."""

_RANGES = {"0..1": (1.0, 0.0), "-1..1": (2.0, -1.0), "tf": (2.0, -1.0)}  # of pixels 0..1
_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of pixels 0..1, in the order RGB
_CAFFE = (103.939, 116.779, 123.68)  # means of pixels 0..255, in the order BGR
_OF_RGB = ("caffe", "torch")

SCALE = (*_RANGES, *_OF_RGB, "standardize")
_FEW = 2**14  # up to this size, a table is faster than arithmetic


def rescale(pixels: Pixels, scale: Scale, out: Pixels) -> None:
    """Fill `out` with the scaled pixels of one image, uint8, uint16 or float32.

    A scale defined for 0..255 or 0..1 is applied to the full range of the dtype.
    """
    half, standard = out.dtype == np.float16, scale == "standardize"
    if scale is None and not half:
        out[...] = pixels
        return
    if scale == "caffe":
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
    factor, offset = _standard(pixels) if standard else _line(scale, pixels.dtype)
    into: Any = out.view(np.int16) if half else out
    if pixels.dtype == np.uint8 and (half or standard or pixels.size <= _FEW):
        made = cv2.LUT(pixels, _table(factor, offset, half), into)
    elif pixels.dtype.kind == "u" and not half and not isinstance(offset, tuple) and factor > 0:
        largest = factor * cv2.norm(pixels, cv2.NORM_INF)
        made = cv2.normalize(pixels, out, largest, 0, cv2.NORM_INF, cv2.CV_32F)
        if offset != 0:
            made += np.float32(offset)
    else:  # whole rows, because NumPy's loops over three channels are slow
        flat = pixels.reshape(len(pixels), -1)
        factors, offsets = _row(factor, pixels.shape[1:]), _row(offset, pixels.shape[1:])
        into, is_direct = out, out.dtype == np.float32 and out.flags.c_contiguous
        rows = out.reshape(flat.shape) if is_direct else None
        made = np.add(flat if factor == 1 else np.multiply(flat, factors, out=rows), offsets, rows)
        made = out if is_direct else made
    if made is not into:
        into[...] = made.reshape(out.shape)


@lru_cache(maxsize=64)
def _row(number: Any, shape: tuple[int, ...]) -> Pixels:
    return np.broadcast_to(np.float32(number), shape).ravel()


@lru_cache(maxsize=64)
def _table(factor: Any, offset: Any, half: bool) -> Pixels:
    """Return the scaled values of 0 to 255 in every channel; halves as words of 16 bits."""
    levels: Pixels = np.arange(256.0)[None, :, None] * np.asarray(factor) + np.asarray(offset)
    return levels.astype(np.float16).view(np.int16) if half else levels.astype(np.float32)


@lru_cache(maxsize=64)
def _line(scale: Any, dtype: Any) -> tuple[Any, Any]:
    """Return factor and offset for pixels of a dtype, each one number or one per channel."""
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


def _standard(pixels: Pixels) -> tuple[np.float64, np.float64]:
    """Return factor and offset of `tf.image.per_image_standardization`."""
    flat = pixels.reshape(len(pixels), -1)  # as one channel: 8 times as fast
    mean, deviation = (np.float64(value[0, 0]) for value in cv2.meanStdDev(flat))
    factor = np.float64(1 / max(deviation, 1 / math.sqrt(pixels.size)))
    return factor, -mean * factor


def checked_scale(scale: Any, color_mode: str, channels: int) -> Scale:
    """Return a scale as a name or as floats; raises if it does not fit the channels."""
    if isinstance(scale, str) and scale in _OF_RGB and channels != 3:
        raise ArgumentError(f'scale={scale!r} needs color_mode="rgb", got {color_mode!r}')
    if scale is None or (isinstance(scale, str) and scale in SCALE):
        return scale
    try:
        first, second = scale
        numbers = np.array([first, second], float)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.shape == (2,) and np.isfinite(numbers).all():
        return float(first), float(second)
    inside = numbers.size and numbers.min() >= 0 and numbers.max() <= 1 and numbers[1].min() > 0
    if numbers.shape != (2, channels) or not inside:
        raise ArgumentError(
            f"scale must be one of {(None, *SCALE)}, two numbers (scale, offset), or mean and "
            f"standard deviation, 0 to 1, of each of the {channels} channels, like ((0.5, 0.5, "
            f"0.5), (0.2, 0.2, 0.2)), got {brief(scale)}"
        )
    return tuple(numbers[0].tolist()), tuple(numbers[1].tolist())


DEPTHS = (None, "uint8", "uint16", "float16", "float32")
"""The values of `dfgen.Image(dtype=)`; None accepts files of up to 8 bits."""

_REAL = 'give dtype="float32"'


def too_deep(bits: int) -> str:
    """Return the message for a file of more than 8 bits."""
    ways = 'dtype="uint16" or "float32" keep the numbers, dtype="uint8" divides them by 257'
    return f"the image has {bits} bits per channel, not 8: {ways if bits <= 16 else _REAL}"


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
    """Convert pixels to the depth at which `dfgen.Image(dtype=...)` resizes and transforms them.

    For floats they keep the dtype of the file, from which named scales infer the range.
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
    """Raise DecodeError for floats with a named scale, and for numbers beyond float16."""
    if pixels.dtype == np.uint8 or scale == "standardize":
        return
    if isinstance(scale, str) or (scale and isinstance(scale[0], tuple)):
        if pixels.dtype == np.float32:
            raise DecodeError(f"{_range(pixels)}: scale={scale!r} needs integers, give a pair")
    elif dtype == "float16":
        factor, offset = scale or (1.0, 0.0)
        made = np.abs(pixels[np.isfinite(pixels)] * factor + offset)
        if made.max(initial=0) > np.finfo(np.float16).max:
            raise DecodeError(f"{_range(pixels)}, more than float16 can hold: {_REAL}")


def _range(pixels: Pixels) -> str:
    finite = pixels[np.isfinite(pixels)]
    held = f"{finite.min():g} to {finite.max():g}" if finite.size else "no finite number"
    return f"the pixels are {pixels.dtype}, and hold {held}"
