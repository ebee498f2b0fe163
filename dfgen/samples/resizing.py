"""Geometry: pixels of any size into an array of one size."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import PIL.Image

Pixels = npt.NDArray[Any]

# Pillow's modes with as many channels, chosen so that it treats the channels alike (it would
# multiply RGBA by its alpha first).
_PILLOW_MODES = {1: "L", 3: "RGB", 4: "CMYK"}


def resize(pixels: Pixels, resize: str, antialias: bool, out: Pixels) -> None:
    """Fill `out` with the resized image.

    Args:
        pixels: uint8, (height, width, channels).
        resize: `"stretch"` changes the aspect ratio; `"crop"` cuts the largest centred part that
            has the aspect ratio of `out`; `"pad"` fits the whole image in, centred on zeros.
        antialias: filter before shrinking, as Pillow does (a triangle as wide as the reduction);
            False samples four neighbours, as TensorFlow's resize does by default.
        out: uint8, (new height, new width, channels); any strides.
    """
    if resize == "crop":
        pixels = _centre(pixels, *_fit(out.shape, pixels.shape))
    elif resize == "pad":
        out[...] = 0
        out = _centre(out, *_fit(pixels.shape, out.shape))
    if pixels.shape == out.shape:
        out[...] = pixels
    elif antialias and (pixels.shape[0] > out.shape[0] or pixels.shape[1] > out.shape[1]):
        out[...] = _antialiased(pixels, out.shape)
    else:
        size = (out.shape[1], out.shape[0])
        out[...] = cv2.resize(pixels, size, interpolation=cv2.INTER_LINEAR).reshape(out.shape)


def _antialiased(pixels: Pixels, shape: tuple[int, ...]) -> Pixels:
    height, width, channels = pixels.shape
    image = PIL.Image.frombuffer(
        _PILLOW_MODES[channels], (width, height), np.ascontiguousarray(pixels), "raw",
        _PILLOW_MODES[channels], 0, 1,
    )  # fmt: skip
    resized = image.resize((shape[1], shape[0]), PIL.Image.Resampling.BILINEAR)
    return np.asarray(resized).reshape(shape)


def _fit(inner: tuple[int, ...], outer: tuple[int, ...]) -> tuple[int, int]:
    """Return the largest (height, width) within `outer` that has the aspect ratio of `inner`."""
    scale = min(outer[0] / inner[0], outer[1] / inner[1])
    return max(1, round(inner[0] * scale)), max(1, round(inner[1] * scale))


def _centre(pixels: Pixels, height: int, width: int) -> Pixels:
    """Return a view of the middle of an image."""
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return pixels[top : top + height, left : left + width]
