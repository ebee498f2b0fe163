"""`like=`: the image that a mask, boxes or a second image follow."""

from collections.abc import Mapping

from dfgen.errors import ArgumentError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image


def followed_image(named: Mapping[str, Feature], name: str) -> str:
    """Return the name of the image that a feature of x or y follows."""
    feature = named[name]
    like, what = feature.like, f"{type(feature).__name__}({feature.columns[0]!r})"
    leaders = {
        key: image
        for key, image in named.items()
        if isinstance(image, Image) and image.like is None
    }
    names = [
        key for key, image in leaders.items() if like == "" or like in (key, image.column, image)
    ]
    if len(names) != 1:
        write = f"like={next(iter(leaders))!r}" if leaders else "x=dfgen.Image(...) as well"
        raise ArgumentError(
            f"{what} has like={like!r}, expected the name of one image that follows no other, of "
            f"{', '.join(leaders) or 'none'} in x and y: write {write}"
        )
    if leaders[names[0]].missing == "ignore":
        raise ArgumentError(
            f"{what} follows the image {names[0]!r}, which rows may lack: leave out "
            'missing="ignore" there'
        )
    return names[0]
