"""An Image whose pixels a cache keeps."""

from dataclasses import replace
from typing import Any

from dfgen.spec import Spec


def in_two_steps(image: Any, seen: Spec) -> tuple[Any, Any] | str:
    """Return the image whose pixels a cache keeps, and the one made of them; or why it keeps none.

    For crops drawn from `load_size` the whole is kept; else what `Image.read` makes before flips
    and `scale`. `seen` is what it reads into.
    """
    refusals = (
        (image.like is not None, "it follows another image"),
        (image.decode is not None, "nothing identifies the function decode="),
        (image.size is None, "size=None gives each image a size of its own"),
        (seen.dtype is None, f"dtype={image.dtype!r} keeps the depth of each file"),
        (image.crop == "random_resized", 'crop="random_resized" crops before it resizes: take '
                                         'crop="random" with load_size='),
        (image.crop == "random"
         and (image.load_size is None or image.resize not in ("stretch", "pad")),
         'crop="random" needs load_size= and resize="stretch" or "pad"'),
    )  # fmt: skip
    for holds, why in refusals:
        if holds:
            return why
    kept = replace(image, flip=None, scale=None)
    if image.crop == "random":
        kept = replace(kept, size=image.load_size, load_size=None, crop=None)
        return kept, replace(image, resize="stretch")
    size = seen.shape[:2]
    if size != image.size:  # a transform crops
        kept = replace(kept, size=size, load_size=None)
    return kept, replace(image, size=size, resize="stretch", load_size=None, crop=None)
