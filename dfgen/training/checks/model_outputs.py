"""Losses of Keras, outputs of a model and their targets, as far as each is known.

Of a Sequential that is not built the last layers may tell its outputs. No model is run here: that
would make its variables earlier than `fit` does.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

import keras

from dfgen.training.keras_private import arguments_of_loss, operation_of


class LossKind(StrEnum):
    """A family of losses, whose targets and outputs go together in one way."""

    SPARSE = auto()
    CATEGORICAL = auto()
    BINARY = auto()
    REGRESSION = auto()


_KINDS = {
    "sparse_categorical_crossentropy": LossKind.SPARSE,
    "categorical_crossentropy": LossKind.CATEGORICAL,
    "categorical_focal_crossentropy": LossKind.CATEGORICAL,
    "binary_crossentropy": LossKind.BINARY,
    "binary_focal_crossentropy": LossKind.BINARY,
    "mean_squared_error": LossKind.REGRESSION,
    "mean_absolute_error": LossKind.REGRESSION,
    "mean_absolute_percentage_error": LossKind.REGRESSION,
    "mean_squared_logarithmic_error": LossKind.REGRESSION,
    "huber": LossKind.REGRESSION,
    "log_cosh": LossKind.REGRESSION,
}


@dataclass(frozen=True)
class KnownLoss:
    """A loss of Keras's own, by the name of its function; it may leave out a class, `ignored`.

    It makes numbers of its `dtype` of targets.
    """

    kind: str
    name: str
    from_logits: bool = False
    ignored: int | None = None
    dtype: str = "float32"

    def named(self, name: str) -> str:
        """Return another loss of its sort as it is written, with logits where it has them."""
        if not self.from_logits:
            return f'loss="{name}"'
        return f"loss=keras.losses.{class_of(name)}(from_logits=True)"


def class_of(name: str) -> str:
    """Return the name of the class in `keras.losses` that goes with the name of a function."""
    return "".join(part.capitalize() for part in name.split("_")).replace("Kl", "KL")


def known_loss(given: Any) -> KnownLoss | None:
    """Return what is known of a loss as `compile` takes it, None of one of the user's own."""
    try:
        loss = keras.losses.get(given)
    except (ValueError, TypeError):
        return None
    for name, kind in _KINDS.items():
        if loss is getattr(keras.losses, name):
            return KnownLoss(kind, name, dtype=keras.config.floatx())
        if type(loss) is getattr(keras.losses, class_of(name)):
            arguments = arguments_of_loss(loss)
            if arguments is None or arguments.get("axis") not in (None, -1):
                return None
            logits, ignored = arguments.get("from_logits", False), arguments.get("ignore_class")
            return KnownLoss(kind, name, bool(logits), ignored, loss.dtype)
    return None


_CONVOLUTIONS = tuple(
    getattr(keras.layers, f"Conv{axes}D{kind}") for axes in (1, 2, 3) for kind in ("", "Transpose")
)
_KEEP_UNITS = (
    keras.layers.Activation, keras.layers.BatchNormalization, keras.layers.Dropout,
    keras.layers.LayerNormalization, keras.layers.Softmax,
)  # fmt: skip
_ACTIVATIONS = (
    "linear", "sigmoid", "hard_sigmoid", "softmax", "tanh", "softsign", "relu6", "relu", "softplus",
    "exponential",
)  # fmt: skip


@dataclass(frozen=True)
class Output:
    """One output of a model: the length of its last axis, and its last layer, where known."""

    name: str
    units: int | None
    layer: Any

    @property
    def activation(self) -> str | None:
        """The activation that the last layer ends in, such as softmax; None if unknown."""
        return _activation(self.layer)


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
    known = (name for name in _ACTIVATIONS if layer.activation is getattr(keras.activations, name))
    name = next(known, None)
    # an Activation that is linear only casts what a layer before it has made
    return None if name == "linear" and kind is keras.layers.Activation else name


def outputs_of(model: Any) -> dict[str, Output]:
    """Return the outputs of a model by the names that y and a dict of losses have for them."""
    if calls_as_keras(model) and not getattr(model, "outputs", None):
        output = _unbuilt(model)
        return {} if output is None else {output.name: output}
    return {name: _of_tensor(tensor) for name, tensor in tensors_of(model).items()}


def tensors_of(model: Any) -> dict[str, Any]:
    """Return the symbols of what a model makes by those names; none of one that is not built."""
    tensors = getattr(model, "outputs", None)
    if not tensors or not calls_as_keras(model):
        return {}
    if isinstance(keyed := getattr(model, "output", None), Mapping):  # a Sequential has none
        found = {name: keyed[name] for name in keras_order(keyed)}  # some may be nested further
        return {name: one for name, one in found.items() if hasattr(one, "shape")}
    names = list(getattr(model, "output_names", ()))
    names = names if len(names) == len(tensors) else [_of_tensor(one).name for one in tensors]
    return dict(zip(names, tensors, strict=True)) if len({*names}) == len(tensors) else {}


def calls_as_keras(model: Any) -> bool:
    """Whether it does not do with its layers what it likes."""
    return bool(type(model).call.__module__.startswith("keras."))


def outputs_made(model: Any, made: Any) -> dict[str, Output]:
    """Return the outputs of a model by what it makes: one tensor, or a dict of them."""
    tensors = made if isinstance(made, Mapping) else {model.name: made}
    known = {name: tensors[name] for name in keras_order(tensors)}
    return {
        name: Output(name, _last_axis(one), None)
        for name, one in known.items()
        if hasattr(one, "shape")
    }


def _last_axis(tensor: Any) -> int | None:
    return tensor.shape[-1] if len(tensor.shape) > 1 else None


def keras_order(keyed: Mapping[str, Any]) -> list[str]:
    """Return the keys of a dict in the order in which Keras takes a list for it: sorted."""
    return list(keyed) if isinstance(keyed, OrderedDict) else sorted(keyed)


def _of_tensor(tensor: Any) -> Output:
    layer = operation_of(tensor)
    return Output(getattr(layer, "name", tensor.name), _last_axis(tensor), _last(layer))


def _last(layer: Any) -> Any:
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
    for layer in reversed(layers):
        if type(layer) is keras.layers.Dense:
            return int(layer.units)
        if type(layer) in _CONVOLUTIONS:
            return int(layer.filters) if layer.data_format == "channels_last" else None
        if type(layer) not in _KEEP_UNITS:
            break
    return None
