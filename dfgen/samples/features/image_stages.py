"""Reading an image in two steps: what is fixed, and may be kept, and what chance decides."""

import numpy as np

from dfgen.samples.features.image import Image
from dfgen.samples.pixels.geometry import (
    STILL,
    Draw,
    Geometry,
    Size,
    before_resizing,
    place,
    uncropped,
)
from dfgen.samples.pixels.resizing import reduction, resize
from dfgen.samples.pixels.upright import decode_reduced
from dfgen.samples.stores.embedded import Content
from dfgen.samples.stores.store import Store
from dfgen.spec import Values, Watch, unwatched


def load(
    image: Image, path: Content, store: Store, watch: Watch = unwatched
) -> tuple[Values, Size]:
    """Return what chance has no part in: the pixels of one file, resized but not cropped.

    And (height, width) of the upright image that they are made of.
    """
    watch("read")
    data = store.read(path)
    watch("decode", len(data))
    pixels, size, reduced = decode_reduced(
        data,
        image.color_mode,
        lambda size: reduction(_whole(image, size), image.interpolation, image.antialias),
        image.dtype,
        store.limits,
    )
    watch("resize")
    geometry = _whole(image, size)
    out = np.empty((*geometry.size, pixels.shape[2]), pixels.dtype)
    resize(pixels, geometry, out, image.interpolation, image.antialias, reduced=reduced)
    return out, size


def crop_and_flip(
    image: Image, pixels: Values, size: Size, out: Values, draw: Draw = STILL
) -> Geometry:
    """Fill `out`, as `Image.read` does, with what `load` returned; nothing is scaled any more.

    The crop is whole pixels of the resized image, that of `Image.read` of the file: the two are
    the same where nothing is cropped, or what is cropped was not made smaller.
    """
    cropped = image.place(pixels.shape[:2], out.shape[:2], draw)
    resize(pixels, cropped, out, image.interpolation, image.antialias)
    if pixels.shape[:2] == size:
        return cropped
    return before_resizing(cropped, size)


def _whole(image: Image, size: Size) -> Geometry:
    """Return the geometry of an image of a size that is resized, but not cropped."""
    if image.crop == "random_resized":
        resized = size
    else:
        resized = uncropped(size, image.load_size or image.size or size, image.resize)
    return place(size, resized, resized, "stretch")
