"""Depth: pixels of 16 bits, and of floats, in what the model gets; nothing is cut in silence."""

import cv2
import numpy as np

from dfgen.errors import DecodeError
from dfgen.samples.pixels.geometry import Pixels
from dfgen.samples.pixels.scaling import Scale

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

    Raises:
        DecodeError: they are deeper than that, or beyond its range.
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
