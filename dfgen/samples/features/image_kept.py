"""The fixed part of an image, which a cache may keep, and what is left to do with it."""

from dataclasses import replace
from typing import Any

from dfgen.samples.features.spec import Spec


def in_two_steps(image: Any, seen: Spec) -> tuple[Any, Any] | str:
    """Return the image that may be kept, and the one that is made of it; or why none may.

    For crops drawn from `load_size` that is the whole of it: then a crop is whole pixels of the
    resized image. All else is what `Image.read` makes, pixel for pixel, before flips and `scale`.

    Args:
        image: the `Image`.
        seen: what it reads into: `sample_spec` or `made_spec`.
    """
    if image.follows:
        return "it follows another image"
    if image.size is None:
        return "size=None gives each image a size of its own, a cache has slots of one size"
    if seen.dtype is None:
        return f"dtype={image.dtype!r} has the depth of each file, a cache has slots of one"
    if image.crop == "random_resized":
        return (
            'crop="random_resized" crops the image before it is resized: take crop="random" with '
            "load_size="
        )
    kept = replace(image, flip=None, scale=None)
    if image.crop != "random":
        size = seen.shape[:2]
        if size != image.size:  # a transform crops
            kept = replace(kept, size=size, load_size=None)
        return kept, replace(image, size=size, resize="stretch", load_size=None, crop=None)
    if image.load_size is None or image.resize not in ("stretch", "pad"):
        return (
            f'crop="random" with resize={image.resize!r} crops images of sizes of their own: take '
            'resize="stretch" or "pad", and load_size='
        )
    kept = replace(kept, size=image.load_size, load_size=None, crop=None)
    return kept, replace(image, resize="stretch")
