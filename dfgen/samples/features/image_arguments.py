"""Arguments of Image that contradict one another, or that nothing would use; and those of pairs.

The one of a pair that follows is cropped and flipped as the other is: a mask, boxes, an image.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, brief, did_you_mean, warn
from dfgen.samples.features.base import Feature
from dfgen.samples.pixels.geometry import Geometry, Size, checked_limits, enlarged

_OF_RESIZING = ("resize", "load_size", "crop", "interpolation", "antialias")


def refuse_sizes(image: Any) -> None:
    """Refuse a size as `crop` or `resize`, where torchvision and fastai have it."""
    for name in ("crop", "resize"):
        given = getattr(image, name)
        if isinstance(given, int | list | tuple) and not isinstance(given, bool):
            size = (given, given) if isinstance(given, int) else tuple(given)
            whole = f'size={size}, and for crops of a larger load_size= crop="random" or "center"'
            raise ArgumentError(
                f"{name}={given!r} is a size, expected how to {name}: write "
                + (whole if name == "crop" else f"load_size={size} to crop from, or size={size}")
            )


def check_use(image: Any) -> None:
    """Refuse what contradicts itself, and what nothing would use."""
    if image.size is None:
        _check_unresized(image)
    elif image.extra is not None and not (is_unsaid(image.size) and image.follows):
        raise ArgumentError(
            f"extra={image.extra!r} is for images of different sizes, size=None: with "
            f"size={image.size} there is no padding to tell"
        )
    elif image.load_size is not None and min(np.subtract(image.load_size, image.size)) < 0:
        raise ArgumentError(
            f"size={image.size} is cropped from load_size={image.load_size}, which is smaller: "
            "load_size must be at least as high and as wide"
        )
    if (
        image.crop in ("center", "random")
        and image.load_size is None
        and image.resize not in ("crop", "crop_or_pad")
    ):
        raise ArgumentError(
            f"crop={image.crop!r}, but resize={image.resize!r} crops nothing: give load_size=, "
            'a size larger than size= to crop from, or resize="crop"'
        )
    if image.dtype in ("uint8", "uint16") and image.scale is not None:
        raise ArgumentError(
            f"scale={image.scale!r} gives fractions, which dtype={image.dtype!r} cannot hold: "
            'leave one of them out, or give dtype="float32"'
        )


def check_crop(image: Any) -> None:
    """Refuse what is no area or ratio, and what has no use beside `"random_resized"`, or it of."""
    for name, most in (("area", 1), ("ratio", np.inf)):
        given = getattr(image, name)
        if given is not None and image.crop != "random_resized":
            raise ArgumentError(
                f'{name}={given!r} is for crop="random_resized", but crop={image.crop!r}: leave '
                "one of them out, or change crop"
            )
        if given is not None:
            object.__setattr__(image, name, checked_limits(name, given, most))
    for name in ("load_size", "resize"):
        given = getattr(image, name)
        if image.crop == "random_resized" and given != getattr(type(image), name):
            raise ArgumentError(
                'crop="random_resized" crops the whole image and stretches that to size, so there '
                f"is no use for {name}={given!r}: leave it out"
            )


def _check_unresized(image: Any) -> None:
    if image.missing == "ignore" and not image.follows:
        raise ArgumentError(
            'missing="ignore" with size=None: a row without a file tells no size, so give one'
        )
    for name in _OF_RESIZING:
        if getattr(image, name) != getattr(type(image), name):
            raise ArgumentError(
                f"size=None leaves every image as large as it is, so there is no use for "
                f"{name}={getattr(image, name)!r}: leave it out, or give a size"
            )


def own_size(image: Any) -> Size | None:
    """Return the size of an image; one that follows another has that of this, once it knows it."""
    given = image.size
    size = given if is_unsaid(given) else checked_size("size", given)
    if not image.follows:
        return size
    check_follower(image)
    if isinstance(image.like, str):
        return size
    check_followed(image.column, image.like)
    return paired_size(image.column, size, image.like.size)


def checked_size(name: str, given: object) -> Size | None:
    """Return (height, width) as plain numbers, or None; refuse what is neither."""
    if given is None:
        return None
    size = tuple(given) if isinstance(given, tuple | list) else ()
    if len(size) != 2 or not all(map(_is_length, size)):
        raise ArgumentError(
            f"{name} must be (height, width) in pixels, got {brief(given)}{_meant(name, given)}"
        )
    return int(size[0]), int(size[1])


def _is_length(number: object) -> bool:
    is_int = isinstance(number, int | np.integer) and not isinstance(number, bool)
    return is_int and number > 0  # type: ignore[operator]


def _meant(name: str, given: Any) -> str:
    """Return how a size is written, where it can be told which."""
    parts = [*given] if isinstance(given, tuple | list | np.ndarray) else [given]
    texts = [str(part).removesuffix(".0") for part in parts]
    if len(texts) not in (1, 2, 3) or not all(text.isdecimal() and int(text) for text in texts):
        return ""
    channels = ". Channels are color_mode=" if len(texts) == 3 else ""
    return f": write {name}=({texts[0]}, {(texts * 2)[1]}){channels}"


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
    if getattr(followed, "pixel_kind", None) != "image":
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
    height, width, _ = followed.read_spec(True).shape
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


def followed_image(named: Mapping[str, Feature], name: str) -> str | None:
    """Return the name of the image that one of all features follows, None if it follows none."""
    feature = named[name]
    if not feature.follows:
        return None
    what = f"{type(feature).__name__}({feature.column!r})"
    is_image = feature.pixel_kind == "image"
    verb = "follows" if is_image else "lies on"
    images = {name: image for name, image in named.items() if image.pixel_kind == "image"}
    leaders = {name: image for name, image in images.items() if not image.follows}
    if not leaders and not is_image:
        raise ArgumentError(
            f"{what} lies on an image, but x and y have none: give x=dfgen.Image(...) as well"
        )
    given = feature.like
    found = [
        name
        for name, image in leaders.items()
        if given is None or given in (name, image.column, image)
    ]
    if len(found) == 1 and images[found[0]].missing == "ignore":
        raise ArgumentError(
            f"{what} lies on the image {found[0]!r}, which rows may lack: leave out "
            'missing="ignore" there'
        )
    if len(found) == 1:
        return found[0]
    if given is None or found:
        raise ArgumentError(
            f"{what} {verb} one of several images: name it, like={next(iter(leaders))!r}. "
            f"Images: {', '.join(leaders)}"
        )
    raise _no_leader(what, name, given, images, leaders)


def _no_leader(
    what: str,
    name: str,
    given: object,
    images: Mapping[str, Feature],
    leaders: Mapping[str, Feature],
) -> ArgumentError:
    """Return why what was given is no image to follow: itself, one that follows, or none at all."""
    for other, image in images.items():
        if given not in (other, image.column, image):
            continue
        if other == name:
            return ArgumentError(f"{what} has like={given!r}, which is itself: name another image")
        return ArgumentError(
            f"{what} has like={given!r}, which itself follows like={image.like!r}: name the image "
            "that follows no other"
        )
    known = [*leaders, *(image.column for image in leaders.values())]
    hint = did_you_mean(given, known) if isinstance(given, str) else ""
    listed = ", ".join(leaders) or "none that follows no other"
    return ArgumentError(
        f"{what} has like={given!r}, which is no image here. Images: {listed}.{hint}"
    )


def warn_of_two_draws(inputs: Iterable[Any], targets: Iterable[Any]) -> None:
    """Warn where an image of x and one of y look like a pair, but are cropped each by its own."""
    inputs, targets = (
        [image for image in side if image.pixel_kind == "image" and image.is_random]
        for side in (inputs, targets)
    )
    for one, other in product(inputs, targets):
        if (one.size, one.load_size) == (other.size, other.load_size):
            kind, columns = type(other).__name__, (one.column, other.column)
            warn(
                f"the images of {columns[0]!r} in x and {columns[1]!r} in y are cropped and "
                "flipped by chance, each by its own. For a pair of the same crop and flip write "
                f"y=dfgen.{kind}({columns[1]!r}, like={columns[0]!r})"
            )
            return
