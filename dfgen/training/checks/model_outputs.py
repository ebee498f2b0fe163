"""Losses of Keras, outputs of a model and their targets, as far as each is known.

Of a Sequential that is not built the last layers may tell its outputs. No model is run here: that
would make its variables earlier than `fit` does.
"""

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cached_property
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError, MissingFileError, listed
from dfgen.loading.loader import Loader
from dfgen.samples.albumentations import Pipeline
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Encoded
from dfgen.samples.features.multilabel import MultiLabel
from dfgen.training.keras_private import arguments_of_loss, operation_of


class LossKind(StrEnum):
    """A family of losses, whose targets and outputs go together in one way."""

    SPARSE = auto()
    CATEGORICAL = auto()
    BINARY = auto()
    REGRESSION = auto()
    MARGIN = auto()
    VECTORS = auto()


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
CHECKED = _KINDS | {
    "poisson": LossKind.REGRESSION,
    "hinge": LossKind.MARGIN,
    "squared_hinge": LossKind.MARGIN,
    "categorical_hinge": LossKind.VECTORS,
    "kl_divergence": LossKind.CATEGORICAL,
    "dice": LossKind.BINARY,
    "tversky": LossKind.BINARY,
}
"""Also losses that predictions know nothing of, but `fit` does."""


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


def known_loss(given: Any, kinds: Mapping[str, str] = _KINDS) -> KnownLoss | None:
    """Return what is known of a loss as `compile` takes it, None of one of the user's own."""
    try:
        loss = keras.losses.get(given)
    except (ValueError, TypeError):
        return None
    for name, kind in kinds.items():
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
_ANY = float("inf")
_REACH = {
    "linear": (-_ANY, _ANY),
    **dict.fromkeys(("sigmoid", "hard_sigmoid", "softmax"), (0.0, 1.0)),
    **dict.fromkeys(("tanh", "softsign"), (-1.0, 1.0)),
    "relu6": (0.0, 6.0),
    **dict.fromkeys(("relu", "softplus", "exponential"), (0.0, _ANY)),
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


_FILES = 4
"""Files of masks that are looked into, whose classes no table tells."""
_NUMBERS = 4_000_000
"""Zeros and ones that are looked through for rows of several labels."""


class Target:
    """One target of a Sequence; unknown is what a function of the user's makes of its numbers."""

    def __init__(
        self, bound: BoundFeature, array: str, loader: Loader, ignored: int | None
    ) -> None:
        feature, spec = bound.feature, loader.specs[array]
        same = loader.specs is loader.reader.specs  # without a batch_transform
        self._bound, self._loader, self._ignored = bound, loader, ignored
        self._array = array
        self._as_written = same and isinstance(loader.reader.transform, Pipeline | None)
        self.column, self.shape = ", ".join(feature.columns), spec.shape
        names = feature.class_names if same and len(bound.specs) == 1 else None
        self.class_names: tuple[object, ...] | None = names
        self.many_labels = isinstance(feature, MultiLabel)
        self.is_text = spec.dtype.hasobject
        is_image = bound.image is not None and spec.dtype == np.uint8
        self.is_bytes = self._as_written and is_image  # pixels of 0 to 255

    @property
    def _counted(self) -> Any:
        counted, present = self._loader.counted, self._bound.present
        counted = counted & (self._loader.weights_of(self._array) > 0)
        return counted if present is None else counted & present

    @cached_property
    def numbers(self) -> npt.NDArray[Any] | None:
        """The numbers in all rows that count, or in some files of a mask; None: not known."""
        if not self._as_written:
            return None
        counted, found = self._counted, self._bound.feature.label_numbers(self._bound.values)
        if found is None:
            found = self._labels_in_files(counted)
        elif len(found) == len(counted) and not counted.all():
            found = found[counted]
        return found if found is None or self._ignored is None else found[found != self._ignored]

    def _labels_in_files(self, counted: Any) -> Any:
        bound = self._bound
        whole = bound.files is not None and bound.array_rows is None and not bound.has_lists
        if not whole or not counted.any():
            return None
        rows, found = np.flatnonzero(counted), list[Any]()
        for row in rows[np.linspace(0, len(rows) - 1, min(len(rows), _FILES)).astype(int)]:
            with suppress(DecodeError, MissingFileError):  # told when the row is read
                data = self._loader.reader.store.read(bound.feature.at(bound.values, row))
                found.append(bound.feature.label_numbers(bound.values, data))
        found = [labels for labels in found if labels is not None]
        return np.unique(np.concatenate(found)) if found else None

    @property
    def of_files(self) -> bool:
        """Whether it is a mask whose classes are what its files hold."""
        feature = self._bound.feature
        return feature.follows and feature.label_numbers(self._bound.values) is None

    @property
    def has_several(self) -> bool:
        """Whether one of the rows that count has several classes."""
        shape = next(iter(self._bound.specs.values())).shape
        encoded = isinstance(self._bound.feature, Encoded)
        if not self._as_written or not encoded or len(shape) != 1:
            return False
        rows = np.flatnonzero(self._counted)
        found = self._bound.gather(rows[:: 1 + len(rows) * shape[0] // _NUMBERS])
        return bool(np.isin(found, (0, 1)).all() and (found.sum(axis=1) > 1).any())

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
        plain = self.loss.from_logits or (units == 1 and self.loss.kind == LossKind.REGRESSION)
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
