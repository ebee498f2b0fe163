"""Which image a mask or boxes belong to."""

from collections.abc import Mapping
from dataclasses import replace

from dfgen.errors import ArgumentError, did_you_mean
from dfgen.samples.features import Boxes, Feature, Image, ImageFollower


def like(named: Mapping[str, Feature], feature: Feature) -> str | None:
    """Return the name of the image that a feature follows, None if it follows none.

    Args:
        named: name -> feature, all of x and y.
        feature: one of them.

    Raises:
        ArgumentError: no image, or several and none of them named.
    """
    if not isinstance(feature, ImageFollower):
        return None
    images = {name: image for name, image in named.items() if isinstance(image, Image)}
    what = f"{type(feature).__name__}({feature.column!r})"
    if not images:
        raise ArgumentError(
            f"{what} lies on an image, but x and y have none: give x=dfgen.Image(...) as well"
        )
    given = feature.like
    found = [
        name
        for name, image in images.items()
        if given is None or given in (name, image.column, image)
    ]
    if len(found) == 1:
        return found[0]
    if given is None or found:
        raise ArgumentError(
            f"{what} lies on one of several images: name it, like={next(iter(images))!r}. "
            f"Images: {', '.join(images)}"
        )
    hint = did_you_mean(given, images) if isinstance(given, str) else ""
    raise ArgumentError(
        f"{what} has like={given!r}, which is no image here. Images: {', '.join(images)}.{hint}"
    )


def placed(feature: Feature, image: Feature | None) -> Feature:
    """Return a feature that knows its image."""
    relative = isinstance(feature, Boxes) and feature.format == "rel_xyxy"
    if relative and isinstance(image, Image) and image.size is None:
        raise ArgumentError(
            f"{feature!r}: with size=None the size that boxes would be relative to differs by "
            'batch. Take format="xyxy", or give the image a size'
        )
    if isinstance(feature, ImageFollower) and isinstance(image, Image):
        return replace(feature, like=image)
    return feature
