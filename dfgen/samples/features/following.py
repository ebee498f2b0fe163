"""What lies on an image follows its geometry: which image that is, in a batch and by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dfgen.errors import ArgumentError
from dfgen.samples.features.by_hand import naming_path
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.formats import read_header
from dfgen.samples.pixels.geometry import STILL, Geometry


def image_of(feature: Any) -> Image:
    """Return the image of a `Mask` or `Boxes`, which a Sequence has put into its `like`."""
    if isinstance(feature.like, Image):
        return feature.like
    raise ArgumentError(
        f"{type(feature).__name__}({feature.column!r}) by itself does not know its image: write "
        "like=dfgen.Image(...)"
    )


def geometry_by_hand(
    image: Image, row: Mapping[str, Any], rng: np.random.Generator | None
) -> Geometry:
    """Return the geometry of the image of one row; nothing is decoded."""
    with naming_path(row, image.column) as path:
        size = read_header(path).size
    return image.place(size, image.size or size, STILL if rng is None else image.draw(rng))
