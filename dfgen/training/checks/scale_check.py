"""Are pixels scaled twice, by the Sequence and by the model, or not at all?"""

from collections.abc import Iterator
from typing import Any

import keras

from dfgen.binding.nested import leaves
from dfgen.errors import warn
from dfgen.training.layout import SequenceView

_PASSING = (
    keras.layers.InputLayer, keras.layers.Reshape, keras.layers.Flatten, keras.layers.Dropout,
    keras.layers.ZeroPadding2D, keras.layers.MaxPooling2D, keras.layers.AveragePooling2D,
    keras.layers.GlobalAveragePooling2D, keras.layers.GlobalMaxPooling2D, keras.layers.Resizing,
    keras.layers.RandomFlip, keras.layers.RandomRotation, keras.layers.RandomZoom,
    keras.layers.RandomTranslation, keras.layers.RandomCrop, keras.layers.CenterCrop, keras.Model,
)  # fmt: skip
"""Layers behind which 0..255 is that still; of models within one the layers follow."""
_WEIGHING = ("Conv2D", "SeparableConv2D", "DepthwiseConv2D", "Conv2DTranspose", "Dense")
_SMALL = ("0..1", "-1..1", "tf", "torch", "standardize")


def warn_of_scaling_twice(model: Any, view: SequenceView) -> None:
    """Warn where images of about 1 are divided by 255 again: the model would see one gray."""
    for fault in _scaled_twice(model, _scales(view)):
        warn(fault)


def range_faults(model: Any, view: SequenceView) -> list[str]:
    """Return what is wrong with the range of pixels: scaled twice, or not at all.

    `fit` does not tell the latter: some models learn to do with it.
    """
    scales = _scales(view)
    return [*_scaled_twice(model, scales), *_not_scaled(model, scales)]


def _scales(view: SequenceView) -> list[Any]:
    if view.loader.transforms_batches:
        return []  # nobody knows what comes out
    names = set(leaves(view.layout.x))
    images = (one for one in view.loader.reader.features if one.channel_arrays & names)
    return [getattr(one.feature, "scale", None) for one in images]


def _scaled_twice(model: Any, scales: list[Any]) -> Iterator[str]:
    if scales and all(map(_is_small, scales)) and (layer := _dividing(model)) is not None:
        yield (
            f"scale={scales[0]!r} makes pixels about 1 at most, and the layer {layer.name!r} of "
            f"the model, Rescaling, multiplies them by {float(layer.scale):.4g} again, so that all "
            "images would look alike: leave out scale=, or the layer"
        )


def _not_scaled(model: Any, scales: list[Any]) -> Iterator[str]:
    if None not in scales:
        return
    for one in _operations(model):
        if isinstance(one, _PASSING):
            continue
        if isinstance(one, keras.layers.Layer) and type(one).__name__ in _WEIGHING:
            yield (
                f"pixels of 0 to 255 reach the layer {one.name!r} of the model, "
                f'{type(one).__name__}, as they are: give the Sequence scale="0..1", or begin the '
                "model with keras.layers.Rescaling(1 / 255)"
            )
        return


def _is_small(scale: Any) -> bool:
    pair = isinstance(scale, tuple) and isinstance(scale[0], tuple)  # a mean and a deviation
    return pair or (isinstance(scale, str) and scale in _SMALL)


def _dividing(model: Any) -> Any:
    """Return the layer that divides pixels by 100 to 300, where none makes them larger."""
    found = list(_operations(model))
    if any(map(_may_enlarge, found)):
        return None
    scaling = (one for one in found if type(one) is keras.layers.Rescaling)
    return next((one for one in scaling if 1 / 300 < one.scale < 1 / 100), None)


def _operations(model: Any) -> Iterator[Any]:
    for one in getattr(model, "operations", getattr(model, "layers", [])):
        yield one
        if isinstance(one, keras.Model):
            yield from _operations(one)


def _may_enlarge(one: Any) -> bool:
    """Whether it may make 0..255 of 0..1 again, as some models of Keras want their pixels."""
    if type(one) is keras.layers.Rescaling:
        return not isinstance(one.scale, int | float) or one.scale > 1
    multiplies = type(one).__name__ == "Multiply" and not isinstance(one, keras.layers.Layer)
    return multiplies or isinstance(one, keras.layers.Lambda)
