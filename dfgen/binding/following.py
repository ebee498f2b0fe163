"""`like=`: the image that a mask, boxes or a second image follow."""

from collections.abc import Mapping

from dfgen.errors import ArgumentError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image


def followed_image(named: Mapping[str, Feature], name: str) -> str | None:
    """Return the name of the image that a feature of x or y follows, None if it follows none."""
    feature = named[name]
    given = feature.like
    if given is None:
        return None
    images = {name: image for name, image in named.items() if isinstance(image, Image)}
    leaders = {name: image for name, image in images.items() if image.like is None}
    found = [
        one for one, image in leaders.items() if given == "" or given in (one, image.column, image)
    ]
    what = f"{type(feature).__name__}({feature.columns[0]!r})"
    if len(found) != 1:
        write = f"like={next(iter(leaders))!r}" if leaders else "x=dfgen.Image(...) as well"
        raise ArgumentError(
            f"{what} has like={given!r}, expected the name of one image that follows no other, of "
            f"{', '.join(leaders) or 'none'} in x and y: write {write}"
        )
    if leaders[found[0]].missing == "ignore":
        raise ArgumentError(
            f"{what} follows the image {found[0]!r}, which rows may lack: leave out "
            'missing="ignore" there'
        )
    return found[0]
