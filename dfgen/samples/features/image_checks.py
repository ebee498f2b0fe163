"""Arguments of Image that contradict one another, sizes of pairs, and pixels of other sources."""

from typing import Any

import numpy as np

from dfgen.checks import one_of, whole
from dfgen.errors import ArgumentError, DecodeError, brief
from dfgen.samples.features.feature_checks import numbers_of, set_fields
from dfgen.samples.pixels import geometry as geo
from dfgen.samples.pixels.geometry import CHANNELS, Geometry, Pixels, Size, with_channels
from dfgen.samples.pixels.scaling import as_stored, in_depth
from dfgen.samples.user_functions import check_call

_LEADERS = ("resize", "load_size", "crop", "area", "ratio", "flip")


class _Unsaid(tuple[int, int]):
    """A size that nobody has asked for, which gives way to that of the followed image."""


DEFAULT_SIZE: Size = _Unsaid((256, 256))
"""(height, width) of an image that is given no size, and follows none."""


def is_unsaid(size: Size | None) -> bool:
    """Whether a size is the default, not one that happens to be the same."""
    return isinstance(size, _Unsaid)


def checked_size(name: str, given: Any) -> Size | None:
    """Return (height, width) as plain numbers, or None; refuse what is neither."""
    if given is None or is_unsaid(given):
        return given  # type: ignore[no-any-return]
    size = tuple(given) if isinstance(given, tuple | list) else ()
    if len(size) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in size):
        raise ArgumentError(
            f"{name} must be (height, width) in pixels, got {brief(given)}: write {name}=(224, 224)"
        )
    return int(size[0]), int(size[1])


def channels_of(image: Any) -> int:
    """Return the channels of an image's array."""
    mode = image.color_mode
    return CHANNELS[mode] if isinstance(mode, str) else mode


def check_image(image: Any) -> None:
    """Refuse arguments that contradict others, or that others leave without a use."""
    if image.decode is not None:
        check_call("decode", image.decode, 1, "decode(data)", "it gets the bytes of a file")
    if image.decode is None or isinstance(image.color_mode, str):
        one_of("color_mode", image.color_mode, CHANNELS)
    else:
        set_fields(image, color_mode=whole("color_mode", image.color_mode, least=1))
    unsized, follows = image.size is None, image.like is not None
    no_use = [
        (unsized, ("resize", "load_size", "crop", "interpolation", "antialias", "decode", "index"),
         "size=None leaves every image as large as it is"),
        (unsized and not follows, ("missing",), "size=None leaves a row without a file no size"),
        (image.crop == "random_resized", ("load_size", "resize"),
         'crop="random_resized" stretches a crop of the whole image to size'),
        (image.crop != "random_resized", ("area", "ratio"), 'they are for crop="random_resized"'),
        (image.decode is not None, ("index",), "decode= takes the bytes of whole files"),
        (follows, _LEADERS, "the image that it follows decides that"),
        (not unsized and not (follows and is_unsaid(image.size)), ("padding_mask",),
         "images of one size have no padding, for which size=None is"),
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
                    f"Image({image.column!r}) has {name}={getattr(image, name)!r}, but {why}: "
                    "leave one of them out"
                )
    if image.load_size is not None and min(np.subtract(image.load_size, image.size)) < 0:
        raise ArgumentError(
            f"load_size={image.load_size} must be at least as high and as wide as size={image.size}"
        )
    for name, most in (("area", 1), ("ratio", np.inf)):
        if getattr(image, name) is not None:
            set_fields(image, **{name: geo.checked_limits(name, getattr(image, name), most)})


def paired_size(image: Any, followed: Any) -> Size | None:
    """Return the size of a follower: that of the followed image, or a whole number of times it."""
    size, other = image.size, followed.size
    if is_unsaid(size) or size is other:
        return other  # type: ignore[no-any-return]
    times = 0 if size is None or other is None else size[0] // other[0]
    if not times or size != (times * other[0], times * other[1]):
        raise ArgumentError(
            f"Image({image.column!r}) has size={size}, expected {other}, the size of the image "
            "that it follows, or a whole number of times that"
        )
    return size  # type: ignore[no-any-return]


def follow(geometry: Geometry, image: Size, size: Size) -> Geometry:
    """Return the geometry of a follower's file into an array of `size`, by that of its image."""
    times = max(1, size[0] // geometry.size[0])
    check_followed_size(image, (times * geometry.image[0], times * geometry.image[1]))
    return geo.enlarged(geometry, times)


def check_followed_size(given: Size, wanted: Size) -> None:
    """Refuse an image or mask of another size than that of the image that it follows."""
    if given != wanted:
        turned = ": is it stored before EXIF orientation turns it?" * (given == wanted[::-1])
        raise DecodeError(
            f"it has {given[0]} x {given[1]} pixels (height x width), expected {wanted[0]} x "
            f"{wanted[1]}, by the image that it follows{turned}"
        )


def user_decoded(image: Any, who: str, returned: Any) -> Pixels:
    """Return what `decode` has returned in the depth and channels of an image."""
    returned = numbers_of(who, returned)
    known = (image.color_mode,) if isinstance(image.color_mode, int) else (1, 3, 4)
    pixels = with_channels(returned) if returned.ndim in (2, 3) else returned
    if pixels.ndim != 3 or 0 in pixels.shape or pixels.shape[2] not in known:
        raise DecodeError(
            f"{who} returned an array that has shape {returned.shape}, expected (height, "
            f"width, channels) with {' or '.join(map(str, known))} of them, or color_mode= with "
            "their number"
        )
    try:
        return in_mode(pixels, image)
    except DecodeError as error:
        raise DecodeError(f"{who} returned {returned.dtype}: {error}") from None


def in_mode(pixels: Pixels, image: Any) -> Pixels:
    """Return pixels of an array in the depth and the color_mode of an image."""
    pixels = in_depth(as_stored(pixels), image.dtype)
    if pixels.shape[2] != channels_of(image):
        order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[pixels.shape[2]]  # as OpenCV has them
        pixels = geo.in_color_mode(np.ascontiguousarray(pixels[..., order]), image.color_mode)
    return np.ascontiguousarray(pixels)


def holds_pixels(shape: tuple[int, ...]) -> bool:
    """Whether a row of a shape may be an image: (height, width), or that and channels."""
    return 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)))


def pixels_of_row(value: Any, dataset: str | None, store: Any) -> Pixels:
    """Return a row of an array file as (height, width, channels)."""
    row: Pixels = store.row(value["path"], value["index"], dataset)
    if not holds_pixels(row.shape):
        raise DecodeError(
            f"the row has shape {row.shape}, expected that of an image: (height, width), or "
            "(height, width, channels) with 1, 3 or 4 of them"
        )
    return with_channels(row)
