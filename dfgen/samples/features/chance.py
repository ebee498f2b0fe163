"""Features of validation, which leave nothing to chance."""

from dataclasses import replace

from dfgen.samples.features.audio import Audio
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image


def without_chance(feature: Feature) -> Feature:
    """Return an Image or a sound cut in the centre; an own feature stays as it is."""
    if not isinstance(feature, Image | Audio) or not feature.is_random:
        return feature
    if isinstance(feature, Audio):
        return replace(feature, start="center")
    if feature.crop == "random_resized":
        return replace(feature, resize="crop", crop=None, area=None, ratio=None, flip=None)
    return replace(feature, crop=feature.crop and "center", flip=None)
