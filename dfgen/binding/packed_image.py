"""An Image whose files were packed as pixels."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dfgen.errors import ArgumentError
from dfgen.samples.features.image_checks import is_unsaid
from dfgen.spec import Spec


def image_of_pack(image: Any, spec: Spec | None, packed: Mapping[str, Any]) -> Any:
    """Return an Image that reads packed values.

    By default it has the size of the packed pixels. Another size is resized from them.

    Args:
        image: the `Image`.
        spec: of the packed pixels, None for lengths that differ; None: whole files were packed.
        packed: the arguments of `dfgen.pack`.

    Raises:
        ArgumentError: the pack cannot make this image.
    """
    mode = packed.get("color_mode")
    if image.like is not None or mode is None:
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
    asked = ("resize", "interpolation", "antialias")
    how = {name: packed[name] for name in asked if packed.get(name) is not None}
    for name, value in how.items():
        if getattr(image, name) not in (value, getattr(type(image), name)):
            raise ArgumentError(
                f"{image!r} asks for {name}={getattr(image, name)!r}, but the images were packed "
                f"with {name}={value!r}: write {name}={value!r}, or pack again"
            )
    return replace(image, **how)
