"""Finds pixels that the Sequence and the model both scale, or neither."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from dfgen.training.checks.class_indices import features
from dfgen.training.layout import SequenceView

_KEEP_RANGE = (
    "Input", "Reshape", "Flatten", "Dropout", "ZeroPadding", "MaxPooling", "AveragePooling",
    "GlobalAverage", "GlobalMax", "Resizing", "Random", "CenterCrop", "Functional", "Sequential",
)  # fmt: skip
"""Layers that keep 0..255, by the beginning of their names; the layers of a model follow it."""
_WEIGH = "Conv2D", "SeparableConv2D", "DepthwiseConv2D", "Conv2DTranspose", "Dense"


def range_faults(model: Any, view: SequenceView) -> Iterator[str]:
    """Yield faults in the range of pixels: scaled twice, or not at all, which suits some models."""
    yield from scaled_twice(model, view)
    for layer in _layers(model) if None in _scales(view) else ():
        if type(layer).__name__ in _WEIGH:
            yield (
                f"pixels of 0 to 255 reach the layer {layer.name!r} of the model: give the "
                'Sequence scale="0..1", or begin the model with keras.layers.Rescaling(1 / 255)'
            )
        if not type(layer).__name__.startswith(_KEEP_RANGE):
            return


def scaled_twice(model: Any, view: SequenceView) -> Iterator[str]:
    """Yield a fault if images of about 1 are divided by 255 again: all would look alike."""
    scales, layers = _scales(view), list(_layers(model))
    enlarges = any(type(layer).__name__ in ("Lambda", "Multiply") for layer in layers)
    rescaling = [layer for layer in layers if type(layer) is keras.layers.Rescaling]
    enlarges |= any(np.max(layer.scale) > 1 for layer in rescaling)
    if enlarges or not scales or any(scale in (None, "caffe") for scale in scales):
        return
    for layer in rescaling:
        if np.max(layer.scale) < 1 / 100:
            yield (
                f"scale={scales[0]!r} divides pixels by 255, and so does the layer {layer.name!r} "
                "of the model: leave out scale= or the layer"
            )


def _scales(view: SequenceView) -> list[Any]:
    if view.loader.transforms_batches:
        return []  # a function of the user can scale them
    inputs = features(view, "x").values()
    return [getattr(bound.feature, "scale", None) for bound in inputs if bound.channel_arrays]


def _layers(model: Any) -> Iterator[Any]:
    for layer in getattr(model, "operations", getattr(model, "layers", [])):
        yield layer
        if isinstance(layer, keras.Model):
            yield from _layers(layer)
