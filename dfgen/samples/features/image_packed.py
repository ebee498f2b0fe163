"""An Image whose files were packed as pixels, or as smaller files."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dfgen.errors import ArgumentError
from dfgen.samples.features.image_arguments import is_unsaid
from dfgen.spec import Spec


def in_two_steps(image: Any, seen: Spec) -> tuple[Any, Any] | str:
    """Return the image that may be kept, and the one that is made of it; or why none may.

    For crops drawn from `load_size` the whole is kept; else what `Image.read` makes before flips
    and `scale`. `seen` is what it reads into.
    """
    if image.follows:
        return "it follows another image"
    if image.decode is not None:
        return "decode= is a function, and nothing tells whether it is the one that filled a cache"
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


_HOW = ("resize", "interpolation", "antialias")


def image_of_pack(image: Any, spec: Spec | None, packed: Mapping[str, Any]) -> Any:
    """Return an Image that is made of what a pack holds, or refuse one that cannot be.

    By default it has the size of the packed pixels, resized as the pack says; another size is made
    of them.

    Args:
        image: the `Image`.
        spec: of the packed pixels, None for lengths that differ; None: whole files were packed.
        packed: the arguments that they were packed by.
    """
    mode = packed.get("color_mode")
    if image.follows or mode is None:
        return image
    if image.color_mode != mode and (spec is not None or mode == "grayscale"):
        raise ArgumentError(
            f"{image!r} asks for color_mode={image.color_mode!r}, but the images were packed with "
            f"color_mode={mode!r}: write color_mode={mode!r}, or pack again"
        )
    if spec is None:
        return image
    if image.dtype == "uint16":
        raise ArgumentError(
            f'{image!r} asks for dtype="uint16", but packed pixels have 8 bits: leave it out, or '
            'pack with format="original"'
        )
    size = spec.shape[:2]
    if None in size or image.size is None:
        return image
    if is_unsaid(image.size) and image.load_size is None:
        image = replace(image, size=size)
    if (image.load_size or image.size) != size or image.crop == "random_resized":
        return image
    return replace(image, **_as_packed(image, packed))


def _as_packed(image: Any, packed: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the images were resized, which nobody can ask for otherwise any more."""
    found = {name: packed[name] for name in _HOW if packed.get(name) is not None}
    for name, value in found.items():
        given = getattr(image, name)
        if given not in (value, getattr(type(image), name)):
            raise ArgumentError(
                f"{image!r} asks for {name}={given!r}, but the images were packed with "
                f"{name}={value!r}: write {name}={value!r}, or pack again"
            )
    return found
