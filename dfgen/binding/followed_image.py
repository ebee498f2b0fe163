"""Which image a mask or boxes follow."""

from collections.abc import Mapping

from dfgen.errors import ArgumentError, did_you_mean
from dfgen.samples.features.base import Feature


def followed_image(named: Mapping[str, Feature], feature: Feature) -> str | None:
    """Return the name of the image that one of all features follows, None if it follows none."""
    if not feature.follows:
        return None
    images = {name: image for name, image in named.items() if image.has_geometry}
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
        if images[found[0]].missing == "ignore":
            raise ArgumentError(
                f"{what} lies on the image {found[0]!r}, which rows may lack: leave out "
                'missing="ignore" there'
            )
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
