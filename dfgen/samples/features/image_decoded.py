"""An Image whose files a function of the user's decodes: DICOM, GeoTIFF, raws of cameras."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.casting import returned_by
from dfgen.samples.pixels.geometry import CHANNELS, Geometry, Pixels, in_rgb_mode, with_channels
from dfgen.samples.pixels.resizing import resize
from dfgen.samples.pixels.scaling import as_stored, in_depth
from dfgen.samples.user_functions import check_call
from dfgen.system import whole

_TOGETHER = 4  # channels that all functions of OpenCV take at once


def check_decoding(image: Any) -> None:
    """Refuse a `decode` that is no function, or what does not go with it, or needs it."""
    if image.channels is not None:
        whole("channels", image.channels, least=1)
    if image.decode is None:
        if image.channels is not None:
            raise ArgumentError(
                f"channels={image.channels!r} is for what decode= returns: of files that dfgen "
                'decodes, say color_mode="rgb", "rgba" or "grayscale"'
            )
        return
    if not callable(image.decode):
        raise ArgumentError(f"decode must be a function of a file's bytes, got {image.decode!r}")
    check_call("decode", image.decode, 1, "decode(data)", "it gets the bytes of a file")
    if image.index is not None or image.size is None:
        other = "size=None" if image.index is None else f"index={image.index!r}"
        raise ArgumentError(
            f"decode= with {other}: no header tells the size of such a file, and no row of an "
            "array is a file: give a size, and no index"
        )


def channels_of(image: Any) -> int:
    """Return the channels of an image's array."""
    return image.channels or CHANNELS[image.color_mode]


def decoded(image: Any, data: bytes) -> Pixels:
    """Return the pixels of a file in the depth and channels of an image, by its `decode`."""
    decode: Callable[[bytes], Any] = image.decode
    what = f"Image({image.column!r}): {getattr(decode, '__qualname__', repr(decode))}"
    returned = returned_by(what, decode, [data])
    pixels = with_channels(returned)
    known = (image.channels,) if image.channels else (1, 3, 4)
    if pixels.ndim != 3 or 0 in pixels.shape or pixels.shape[2] not in known:
        counts = " or ".join(map(str, known))
        expected = f"(height, width, channels) with {counts} of them"
        raise DecodeError(
            f"{what} returned an array that has shape {returned.shape}, expected {expected}"
            f"{' or (height, width)' if 1 in known else ''}: have it return so for every file"
            + ("" if image.channels else ", or say channels= for all of another number")
        )
    try:
        pixels = in_depth(as_stored(pixels), image.dtype)
    except DecodeError as error:
        raise DecodeError(f"{what} returned {returned.dtype}: {error}") from None
    if image.channels or pixels.shape[2] == channels_of(image):
        return np.ascontiguousarray(pixels)
    return in_rgb_mode(pixels, image.color_mode)


def resize_bands(pixels: Pixels, geometry: Geometry, out: Pixels, *how: Any) -> None:
    """Do what `resize` does, for any number of channels."""
    count = out.shape[2]
    if count <= _TOGETHER:
        resize(pixels, geometry, out, *how)
        return
    for first in range(0, count, _TOGETHER):
        some = np.ascontiguousarray(pixels[..., first : first + _TOGETHER])
        made = np.empty((*out.shape[:2], some.shape[2]), out.dtype)
        resize(some, geometry, made, *how)
        out[..., first : first + _TOGETHER] = made
