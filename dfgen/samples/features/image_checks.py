"""Checks of Image: contradictory arguments, sizes of pairs, and pixels from other sources."""

from typing import Any

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, brief, one_of, whole
from dfgen.samples.features.feature_checks import numbers_of, set_fields
from dfgen.samples.pixels import geometry as geo
from dfgen.samples.pixels.geometry import CHANNELS, Pixels, Size, with_channels
from dfgen.samples.pixels.scaling import as_stored, in_depth
from dfgen.samples.transforms import check_call

_LEADERS = ("resize", "load_size", "crop", "area", "ratio", "flip")


_SIDE = 256

DEFAULT_SIZE: Size = (_SIDE, _SIDE)
"""(height, width) of an image without `size` and `like`, an object of its own: the size of a
followed image replaces it, and not an equal size that the user gives."""


def checked_size(name: str, size: Any) -> Size | None:
    """Return (height, width) as int, or None."""
    if size is None or size is DEFAULT_SIZE:
        return size
    pair = tuple(size) if isinstance(size, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in pair):
        raise ArgumentError(
            f"{name} must be (height, width) in pixels, got {brief(size)}: write {name}=(224, 224)"
        )
    return int(pair[0]), int(pair[1])


def channels_of(image: Any) -> int:
    """Return the number of channels of an Image."""
    mode = image.color_mode
    return CHANNELS[mode] if isinstance(mode, str) else mode


def check_image(image: Any) -> None:
    """Raise ArgumentError for arguments that contradict each other or have no effect."""
    if image.decode is not None:
        check_call("decode", image.decode, 1, "decode(data)", "it gets the bytes of a file")
    if image.decode is None or isinstance(image.color_mode, str):
        one_of("color_mode", image.color_mode, CHANNELS)
    else:
        set_fields(image, color_mode=whole("color_mode", image.color_mode, least=1))
    unsized, follows = image.size is None, image.like is not None
    no_use = [
        (unsized, ("resize", "load_size", "crop", "interpolation", "antialias", "decode", "index"),
         "size=None keeps the size of every image"),
        (unsized and not follows, ("missing",), "a missing image has no size with size=None"),
        (image.crop == "random_resized", ("load_size", "resize"),
         'crop="random_resized" stretches a crop of the whole image to size'),
        (image.crop != "random_resized", ("area", "ratio"), 'they are for crop="random_resized"'),
        (image.decode is not None, ("index",), "decode= takes the bytes of whole files"),
        (follows, _LEADERS, "the followed image decides that"),
        (not unsized and not (follows and image.size is DEFAULT_SIZE), ("padding_mask",),
         "only images with size=None are padded"),
        (image.crop != "random_resized" and image.load_size is None
         and image.resize not in ("crop", "crop_or_pad"), ("crop",),
         'without load_size= or resize="crop" nothing is cropped'),
        (image.dtype in ("uint8", "uint16"), ("scale",),
         f"dtype={image.dtype!r} cannot hold the fractions of a scale"),
    ]  # fmt: skip
    for holds, names, why in no_use:
        for name in names if holds else ():
            if getattr(image, name) != getattr(type(image), name):
                raise ArgumentError(
                    f"Image({image.column!r}) has {name}={getattr(image, name)!r}, but {why}"
                )
    if image.load_size is not None and min(np.subtract(image.load_size, image.size)) < 0:
        raise ArgumentError(
            f"load_size={image.load_size} must be at least as high and as wide as size={image.size}"
        )
    for name, most in (("area", 1), ("ratio", np.inf)):
        if getattr(image, name) is not None:
            set_fields(image, **{name: geo.checked_limits(name, getattr(image, name), most)})


def paired_size(image: Any, followed: Any) -> Size | None:
    """Return the size of an image by the followed one: equal, or a multiple of it."""
    size, other = image.size, followed.size
    if size is DEFAULT_SIZE or size is other:
        return other  # type: ignore[no-any-return]
    times = 0 if size is None or other is None else size[0] // other[0]
    if not times or size != (times * other[0], times * other[1]):
        raise ArgumentError(
            f"Image({image.column!r}) has size={size}, expected the size of the followed image, "
            f"{other}, or a multiple of it"
        )
    return size  # type: ignore[no-any-return]


def check_followed_size(size: Size, wanted: Size) -> None:
    """Raise DecodeError if an image or mask has another size than its followed image wants."""
    if size != wanted:
        turned = ": was it saved before EXIF turns the image?" * (size == wanted[::-1])
        raise DecodeError(
            f"it has {size[0]} x {size[1]} pixels (height x width), expected {wanted[0]} x "
            f"{wanted[1]} by the image that it follows{turned}"
        )


def user_decoded(image: Any, who: str, returned: Any) -> Pixels:
    """Return what `decode` has returned in the depth and channels of an image."""
    returned = numbers_of(who, returned)
    known = (image.color_mode,) if isinstance(image.color_mode, int) else (1, 3, 4)
    pixels = with_channels(returned) if returned.ndim in (2, 3) else returned
    if pixels.ndim != 3 or 0 in pixels.shape or pixels.shape[2] not in known:
        raise DecodeError(
            f"{who} returned an array of shape {returned.shape}, expected (height, width, "
            f"channels) with {' or '.join(map(str, known))} channels, or color_mode=channels"
        )
    try:
        return in_mode(pixels, image)
    except DecodeError as error:
        raise DecodeError(f"{who} returned {returned.dtype}: {error}") from None


def in_mode(pixels: Pixels, image: Any) -> Pixels:
    """Return pixels of an array in the depth and the color_mode of an image."""
    pixels = in_depth(as_stored(pixels), image.dtype)
    if pixels.shape[2] != channels_of(image):
        order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[pixels.shape[2]]  # OpenCV's order
        pixels = geo.in_color_mode(np.ascontiguousarray(pixels[..., order]), image.color_mode)
    return np.ascontiguousarray(pixels)


def holds_pixels(shape: tuple[int, ...]) -> bool:
    """Whether an array may be an image: (height, width), with 1, 3 or 4 channels, or without."""
    return 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)))


def with_pixels(row: Pixels) -> Pixels:
    """Return a row of an array file as (height, width, channels)."""
    if not holds_pixels(row.shape):
        raise DecodeError(
            f"the row has shape {row.shape}, expected (height, width), or (height, width, "
            "channels) with 1, 3 or 4 channels"
        )
    return with_channels(row)
