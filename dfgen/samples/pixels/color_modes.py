"""The modes of `color_mode`: channels, and how they are made of others."""

import cv2
import numpy as np

from dfgen.samples.pixels.geometry import Pixels

CHANNELS = {"grayscale": 1, "rgb": 3, "rgba": 4}
"""color_mode -> channels of the decoded image."""

# (channels as OpenCV decodes them, color_mode) -> conversion. OpenCV's own order is BGR.
_CONVERSIONS = {
    (1, "rgb"): cv2.COLOR_GRAY2RGB, (1, "rgba"): cv2.COLOR_GRAY2RGBA,
    (3, "rgb"): cv2.COLOR_BGR2RGB, (3, "rgba"): cv2.COLOR_BGR2RGBA,
    (3, "grayscale"): cv2.COLOR_BGR2GRAY,
    (4, "rgb"): cv2.COLOR_BGRA2RGB, (4, "rgba"): cv2.COLOR_BGRA2RGBA,
    (4, "grayscale"): cv2.COLOR_BGRA2GRAY,
}  # fmt: skip


def in_color_mode(pixels: Pixels, color_mode: str) -> Pixels:
    """Return gray, BGR or BGRA pixels in a color_mode; gray ones may lack their channel."""
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    if (channels, color_mode) in _CONVERSIONS:
        pixels = cv2.cvtColor(pixels, _CONVERSIONS[channels, color_mode])
    return with_channels(pixels)


def in_rgb_mode(pixels: Pixels, color_mode: str) -> Pixels:
    """Return gray, RGB or RGBA pixels, as arrays hold them, in a color_mode."""
    order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[pixels.shape[2]]
    return in_color_mode(np.ascontiguousarray(pixels[..., order]), color_mode)


def with_channels(pixels: Pixels) -> Pixels:
    """Give gray pixels their channel."""
    return pixels if pixels.ndim == 3 else pixels[..., None]
