"""Losses of Keras, outputs of a model and their targets, as far as each is known.

A functional model tells its outputs, and so does a Sequential that is built. Of a Sequential that
is not, the last layers may tell them. Of any other model nothing is known before it has run, and
nothing is run here: that would make its variables earlier than `fit` does.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy.typing as npt

from dfgen.errors import listed
from dfgen.training.keras_private import arguments_of_loss, operation_of

SPARSE, CATEGORICAL, BINARY, REGRESSION = "sparse", "categorical", "binary", "regression"
COUNTS, MARGIN, VECTORS, SHARES, OVERLAP = "counts", "margin", "vectors", "shares", "overlap"
_KINDS = {
    "sparse_categorical_crossentropy": SPARSE,
    "categorical_crossentropy": CATEGORICAL,
    "categorical_focal_crossentropy": CATEGORICAL,
    "binary_crossentropy": BINARY,
    "binary_focal_crossentropy": BINARY,
    "mean_squared_error": REGRESSION,
    "mean_absolute_error": REGRESSION,
    "mean_absolute_percentage_error": REGRESSION,
    "mean_squared_logarithmic_error": REGRESSION,
    "huber": REGRESSION,
    "log_cosh": REGRESSION,
}
CHECKED = _KINDS | {
    "poisson": COUNTS,
    "hinge": MARGIN,
    "squared_hinge": MARGIN,
    "categorical_hinge": VECTORS,
    "kl_divergence": SHARES,
    "dice": OVERLAP,
    "tversky": OVERLAP,
}
"""Also losses that predictions know nothing of, but `fit` does."""


@dataclass(frozen=True)
class KnownLoss:
    """A loss of Keras's own, by the name of its function; it may leave out a class, `ignored`."""

    kind: str
    name: str
    from_logits: bool = False
    ignored: int | None = None

    def named(self, name: str) -> str:
        """Return another loss of its sort as it is written, with logits where it has them."""
        if not self.from_logits:
            return f'loss="{name}"'
        return f"loss=keras.losses.{class_of(name)}(from_logits=True)"


def class_of(name: str) -> str:
    """Return the name of the class in `keras.losses` that goes with the name of a function."""
    return "".join(part.capitalize() for part in name.split("_")).replace("Kl", "KL")


def known_loss(given: Any, kinds: Mapping[str, str] = _KINDS) -> KnownLoss | None:
    """Return what is known of a loss as `compile` takes it, None of one of the user's own."""
    try:
        loss = keras.losses.get(given)
    except (ValueError, TypeError):
        return None
    for name, kind in kinds.items():
        if loss is getattr(keras.losses, name):
            return KnownLoss(kind, name)
        if type(loss) is getattr(keras.losses, class_of(name)):
            arguments = arguments_of_loss(loss)
            if arguments is None or arguments.get("axis") not in (None, -1):
                return None
            logits, ignored = arguments.get("from_logits", False), arguments.get("ignore_class")
            return KnownLoss(kind, name, bool(logits), ignored)
    return None


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
    """One output of a model: the length of its last axis, and its last layer, where known."""

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
        """The activation that the last layer ends in, such as softmax; None if unknown."""
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
    # an Activation that is linear only casts what a layer before it has made
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


@dataclass(frozen=True)
class Target:
    """One target: a column of the manifest, and the shape of one sample of it.

    Args:
        many_labels: whether a row may have several classes.
        has_several: tells whether one of the rows that count has, of many at least one in 50,000.
        is_bytes: whether it is pixels of 0 to 255.
        of_files: whether it is a mask whose classes are what its files hold.
        find_numbers: returns the numbers in all rows, or in some files of a mask.
    """

    column: str
    shape: tuple[int | None, ...]
    class_names: tuple[object, ...] | None
    many_labels: bool
    has_several: Callable[[], bool]
    is_bytes: bool
    of_files: bool
    find_numbers: Callable[[], npt.NDArray[Any] | None]

    @cached_property
    def numbers(self) -> npt.NDArray[Any] | None:
        """The numbers in all rows that count, None where they are not known."""
        return self.find_numbers()

    @property
    def is_one_number(self) -> bool:
        """Whether it is one number for each row, or for each pixel."""
        return self.shape == () or self.shape[-1] == 1

    @property
    def is_vector_of_classes(self) -> bool:
        """Whether it has a place for each class."""
        names = self.class_names or ()
        return len(names) > 1 and self.shape == (len(names),)

    @property
    def classes(self) -> str:
        """Its classes, for messages."""
        names = self.class_names or ()
        return f"column {self.column!r} has {len(names)} classes ({listed(names)})"


@dataclass(frozen=True)
class Trained:
    """An output that a loss compares with a target."""

    output: Output
    loss: KnownLoss
    target: Target

    @property
    def shown(self) -> str:
        """The output and its units, for messages."""
        units = self.output.units
        return f"the output {self.output.name!r} of the model has {units} unit{'s' * (units != 1)}"

    def layer(self, units: int, activation: str | None = None) -> str:
        """Return the last layer as it should be written."""
        called = self.output.layer_class
        more = "" if called == "Dense" else ", ..."
        plain = self.loss.from_logits or (units == 1 and self.loss.kind == REGRESSION)
        given = "" if plain or activation is None else f', activation="{activation}"'
        return f"{called}({units}{more}{given})"

    @property
    def remedy(self) -> str:
        """Which last layer and loss the classes want, for messages."""
        count, hot = len(self.target.class_names or ()), self.target.is_vector_of_classes
        if self.target.many_labels:
            return self.ending(count, "sigmoid", "binary_crossentropy")
        if count > 2:
            loss = f"{'' if hot else 'sparse_'}categorical_crossentropy"
            return self.ending(count, "softmax", loss)
        mode = ' and label_mode="binary"' if hot else ""
        return f"for two classes {self.ending(1, 'sigmoid', 'binary_crossentropy')}{mode}"

    def ending(self, units: int, activation: str, loss: str) -> str:
        """Return how a model ends, and its loss, as they should be written."""
        return f"end the model in {self.layer(units, activation)}, with {self.loss.named(loss)}"
