"""Pairs: an image that shows what another shows, and is cropped and flipped as that is."""

from typing import Any

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.pixels.geometry import Geometry, Size, enlarged


class _Unsaid(tuple[int, int]):
    """A size that nobody has asked for, which gives way to that of the followed image."""


DEFAULT_SIZE: Size = _Unsaid((256, 256))
"""(height, width) of an image that is told no size, and follows none."""


def is_unsaid(size: Size | None) -> bool:
    """Whether a size is the default, not one that happens to be the same."""
    return isinstance(size, _Unsaid)


def check_follower(image: Any) -> None:
    """Refuse what the followed image decides, if an image is given some of that."""
    for name in ("resize", "load_size", "crop", "area", "ratio", "flip", "max_items"):
        if getattr(image, name) != getattr(type(image), name):
            raise ArgumentError(
                f"Image({image.column!r}, like=...) has {name}={getattr(image, name)!r}, which the "
                "image that it follows decides: leave it out here, and write it there"
            )


def check_followed(column: str, followed: Any) -> None:
    """Refuse an image that follows one itself, or no image."""
    if not getattr(followed, "is_image", False):
        raise ArgumentError(
            f"Image({column!r}) has like={followed!r}: expected the name of an image, or the Image "
            "itself"
        )
    if followed.follows:
        raise ArgumentError(
            f"Image({column!r}) follows Image({followed.column!r}), which follows another one: "
            "let both follow that one"
        )


def paired_size(column: str, size: Size | None, followed: Size | None) -> Size | None:
    """Return the size of a follower: that of the followed image, or a whole number of times it."""
    if is_unsaid(size):
        return followed
    if size is None or followed is None:
        if size is followed:
            return None
        raise ArgumentError(
            f"Image({column!r}) has size={size}, the image that it follows size={followed}: leave "
            "the size out here, so that it is the same"
        )
    times = size[0] // followed[0]
    if not times or size != (times * followed[0], times * followed[1]):
        raise ArgumentError(
            f"Image({column!r}) has size={size}, which is no whole number of times {followed}, the "
            "size of the image that it follows: leave it out, or let the smaller of the two be "
            "followed"
        )
    return size


def seen_size(size: Size | None, followed: Any) -> tuple[int | None, int | None]:
    """Return (height, width) of what a transform gets of a follower of a bound image."""
    height, width, _ = followed.before_transform.shape
    if size is None:
        return None, None
    times = size[0] // followed.size[0]
    return times * height, times * width


def follow(geometry: Geometry, image: Size, size: Size) -> Geometry:
    """Return the geometry of a follower's file into an array of `size`, by that of its image."""
    times = max(1, size[0] // geometry.size[0])
    wanted = (times * geometry.image[0], times * geometry.image[1])
    if image != wanted:
        turned = wanted[0] != wanted[1] and image == wanted[::-1]
        hint = ": it lies as that one does before EXIF orientation turns it" if turned else ""
        here = "" if times == 1 else f" {times} times"
        raise DecodeError(
            f"the image has {image[0]} x {image[1]} pixels (height x width), expected{here} those "
            f"of the image that it follows, {wanted[0]} x {wanted[1]}{hint}"
        )
    return enlarged(geometry, times)
