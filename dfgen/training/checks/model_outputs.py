"""The outputs of a model: how many units each has, and what its last layer does.

A functional model tells its outputs, and so does a Sequential that is built. Of a Sequential that
is not, the last layers may tell them. Of any other model nothing is known before it has run, and
nothing is run here: that would make its variables earlier than `fit` does.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras

from dfgen.training.keras_private import operation_of

_CONVOLUTIONS = (
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
)
_KEEP_UNITS = (
    keras.layers.Activation,
    keras.layers.BatchNormalization,
    keras.layers.Dropout,
    keras.layers.LayerNormalization,
    keras.layers.Softmax,
)
_ANY = float("inf")
_REACH = {
    "linear": (-_ANY, _ANY),
    "sigmoid": (0.0, 1.0),
    "hard_sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "softsign": (-1.0, 1.0),
    "relu": (0.0, _ANY),
    "relu6": (0.0, 6.0),
    "softplus": (0.0, _ANY),
    "exponential": (0.0, _ANY),
}
"""The least and the largest number that an activation of Keras gives."""


@dataclass(frozen=True)
class Output:
    """One output of a model.

    Args:
        name: of the layer that makes it.
        units: the length of its last axis; None where that is not known.
        layer: the last layer; None where it is none of Keras.
    """

    name: str
    units: int | None
    layer: Any

    @property
    def layer_class(self) -> str:
        """The class of the layer that has its units, for messages."""
        has_units = type(self.layer) in (keras.layers.Dense, *_CONVOLUTIONS)
        return type(self.layer).__name__ if has_units else "Dense"

    @property
    def activation(self) -> str | None:
        """The activation that the last layer ends in, such as linear or softmax; None if unknown.

        An Activation that is linear only casts what a layer before it has made.
        """
        return _activation(self.layer)

    @property
    def reach(self) -> tuple[float, float]:
        """The least and the largest number that it gives, as far as that is known."""
        return _REACH[self.activation or "linear"]


def _activation(layer: Any) -> str | None:
    kind = type(layer)
    if kind is keras.layers.Softmax:
        return "softmax" if layer.axis == -1 else None
    if kind is keras.layers.ReLU:
        plain = not layer.negative_slope and not layer.threshold
        return {None: "relu", 6: "relu6"}.get(layer.max_value) if plain else None
    if kind not in (keras.layers.Dense, keras.layers.Activation, *_CONVOLUTIONS):
        return None
    if isinstance(layer.activation, keras.layers.Layer):
        return _activation(layer.activation)
    known = (name for name in _REACH if layer.activation is getattr(keras.activations, name))
    name = next(known, None)
    return None if name == "linear" and kind is keras.layers.Activation else name


def outputs_of(model: Any) -> dict[str, Output]:
    """Return the outputs of a model by the names that y and a dict of losses have for them."""
    if not type(model).call.__module__.startswith("keras."):
        return {}  # it may do with its layers what it likes
    tensors = getattr(model, "outputs", None)
    if not tensors:
        output = _unbuilt(model)
        return {} if output is None else {output.name: output}
    if isinstance(keyed := getattr(model, "output", None), Mapping):  # a Sequential has none
        tensors = {name: keyed[name] for name in keras_order(keyed)}  # some may be nested further
        return {name: _of_tensor(one) for name, one in tensors.items() if hasattr(one, "shape")}
    found = [_of_tensor(tensor) for tensor in tensors]
    names = list(getattr(model, "output_names", ()))
    names = names if len(names) == len(found) else [output.name for output in found]
    return dict(zip(names, found, strict=True)) if len({*names}) == len(found) else {}


def outputs_made(model: Any, made: Any) -> dict[str, Output]:
    """Return the outputs of a model by what it makes: one tensor, or a dict of them."""
    tensors = made if isinstance(made, Mapping) else {model.name: made}
    return {
        name: Output(name, tensors[name].shape[-1] if len(tensors[name].shape) > 1 else None, None)
        for name in keras_order(tensors)
        if hasattr(tensors[name], "shape")
    }


def keras_order(keyed: Mapping[str, Any]) -> list[str]:
    """Return the keys of a dict in the order in which Keras takes a list for it: sorted."""
    return list(keyed) if isinstance(keyed, OrderedDict) else sorted(keyed)


def _of_tensor(tensor: Any) -> Output:
    layer, shape = operation_of(tensor), tensor.shape
    name = getattr(layer, "name", tensor.name)
    return Output(name, shape[-1] if len(shape) > 1 else None, _last(layer))


def _last(layer: Any) -> Any:
    """Return the last layer of a model with one output that is a layer itself, or the layer."""
    inner = getattr(layer, "outputs", None)
    if isinstance(layer, keras.Model):
        return _last(operation_of(inner[0])) if inner and len(inner) == 1 else None
    return layer


def _unbuilt(model: Any) -> Output | None:
    """Return the output of a Sequential without a shape of its input."""
    if type(model) is not keras.Sequential or not model.layers:
        return None
    last = model.layers[-1]
    if isinstance(last, keras.Model):
        inner = list(outputs_of(last).values())
        return inner[0] if len(inner) == 1 else None
    return Output(last.name, _units(model.layers), last)


def _units(layers: list[Any]) -> int | None:
    """Return the length of the last axis of what layers in a row make, by the last of them."""
    for layer in reversed(layers):
        if type(layer) is keras.layers.Dense:
            return int(layer.units)
        if type(layer) in _CONVOLUTIONS:
            return int(layer.filters) if layer.data_format == "channels_last" else None
        if type(layer) not in _KEEP_UNITS:
            break
    return None
