"""Which image a mask, boxes or another image follow."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from dfgen.errors import ArgumentError, did_you_mean, warn
from dfgen.samples.features.base import Feature


def followed_image(named: Mapping[str, Feature], name: str) -> str | None:
    """Return the name of the image that one of all features follows, None if it follows none."""
    feature = named[name]
    if not feature.follows:
        return None
    what = f"{type(feature).__name__}({feature.column!r})"
    verb = "follows" if feature.is_image else "lies on"
    images = {name: image for name, image in named.items() if image.is_image}
    leaders = {name: image for name, image in images.items() if not image.follows}
    if not leaders and not feature.is_image:
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
        [image for image in side if image.is_image and image.is_random]
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
