"""Heads: each output of a model with its target and its loss."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from dfgen.binding.bind import Binding
from dfgen.binding.nested import leaves
from dfgen.errors import ArgumentError, listed
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.multilabel import MultiLabel
from dfgen.training.checks.model_outputs import (
    KnownLoss,
    LossKind,
    by_output,
    has_keras_loss,
    known_loss,
    outputs_of,
    steps_as_keras,
)
from dfgen.training.keras_private import loss_weights

Floats = npt.NDArray[np.float32]
_CROSSENTROPIES = (LossKind.SPARSE, LossKind.CATEGORICAL, LossKind.BINARY)


@dataclass(frozen=True, eq=False)
class ModelHead:
    """A model output with its target and loss.

    Args:
        name: of the output; "" if it is the only one.
        target: the name of its array in y, None without.
        bound: the feature of the target with its rows.
        loss: a function or a `keras.Loss`, as `keras.losses.get` returns it.
        known: kind and settings of a Keras loss, None for others.
        activation: of the last layer, None if unknown.
        from_logits: as of `predict_frame`.
        loss_weight: of the output in the sum of losses.
    """

    name: str
    target: str | None = None
    bound: BoundFeature | None = None
    loss: Any = None
    known: KnownLoss | None = None
    activation: str | None = None
    from_logits: bool | None = None
    loss_weight: float = 1.0

    def column(self, name: str) -> str:
        """Return the name of a column of this head."""
        return f"{name}_{self.name}" if self.name else name

    @property
    def class_names(self) -> tuple[Any, ...] | None:
        """The class names in the order of their numbers, None if unknown."""
        return getattr(self.bound and self.bound.feature, "class_names", None)

    @property
    def has_many_labels(self) -> bool:
        """Whether a row can have several classes."""
        return self.bound is not None and isinstance(self.bound.feature, MultiLabel)

    def is_of_classes(self, units: int) -> bool:
        """Whether the output predicts classes, not numbers."""
        kind = self.known and self.known.kind
        if self.class_names is not None or kind == LossKind.SPARSE:
            return True
        if self.bound is None:
            return kind == LossKind.CATEGORICAL or (kind is None and self.activation == "softmax")
        whole = self.bound.specs[self.target or ""].dtype.kind in "biu"
        return kind == LossKind.BINARY and units == 1 and whole

    def probabilities(self, outputs: Floats) -> Floats:
        """Return the softmax or sigmoid of logits, and other outputs as they are."""
        units = outputs.shape[-1] if outputs.ndim > 1 else 1
        kind = self.known and self.known.kind
        if not (self.is_of_classes(units) or kind in _CROSSENTROPIES) or not outputs.size:
            return outputs
        if self._are_logits():
            alone = self.has_many_labels or kind == LossKind.BINARY or units == 1
            return _sigmoid(outputs) if alone else _softmax(outputs)
        low, high = np.fmin.reduce(outputs, axis=None), np.fmax.reduce(outputs, axis=None)
        if low < -1e-3 or high > 1 + 1e-3:
            raise ArgumentError(
                f"the output {self.name or 'of the model'!r} goes from {low:g} to {high:g}, "
                "expected probabilities. Give from_logits=True if these are logits, or end the "
                "model in a softmax or sigmoid"
            )
        return outputs

    def _are_logits(self) -> bool:
        if self.from_logits is not None:
            return self.from_logits
        if self.known is not None:
            return self.known.from_logits
        return self.activation == "linear"

    def check_units(self, units: int) -> None:
        """Raise unless there is a unit per class, or a single unit for two classes."""
        names = self.class_names
        one_of_two = units == 1 and not self.has_many_labels and names and len(names) == 2
        if names is not None and units != len(names) and not one_of_two:
            raise ArgumentError(
                f"the output {self.name or 'of the model'!r} has {units} units, but y has "
                f"{len(names)} classes, {listed(names)}: expected a unit for each, or a single one "
                "for two classes"
            )


def heads_of(
    model: Any, outputs: Any, y: Any, binding: Binding, from_logits: bool | None
) -> list[tuple[ModelHead, npt.NDArray[Any]]]:
    """Return each output of a model with its head.

    Args:
        model: that made the outputs.
        outputs: an array, or a flat list or dict of arrays.
        y: the names of the arrays of the targets, nested as y; None without.
        binding: of the Sequence.
        from_logits: as of `predict_frame`.
    """
    named = _named(outputs, getattr(model, "output_names", None))
    targets = {} if y is None else _named(y, None if isinstance(outputs, Mapping) else [*named])
    if len(targets) == len(named) == 1:
        targets = dict(zip(named, targets.values(), strict=True))
    trains_as_keras = has_keras_loss(model) and steps_as_keras(model, "predict")
    losses = by_output(model.loss, [*named]) if trains_as_keras and model.compiled else {}
    unknown = [name for name in targets if name not in named]
    if targets and not unknown:
        unknown = [name for name in named if name not in targets and losses.get(name) is not None]
    if unknown:
        raise ArgumentError(
            f"the model has the outputs {listed(named)}, and y has {listed(targets)}: "
            f"{listed(unknown)} has no partner. Write y={{{next(iter(named))!r}: ..., ...}}"
        )
    weights = by_output(loss_weights(model), [*named])
    layers = outputs_of(model) if steps_as_keras(model, "predict") else {}
    bound = {} if y is None else _bound(binding)
    heads = []
    for name, array in named.items():
        loss, target = losses.get(name), targets.get(name)
        layer = next(iter(layers.values())) if len(named) == len(layers) == 1 else layers.get(name)
        head = ModelHead(
            "" if len(named) == 1 else name,
            target,
            None if target is None else bound[target],
            None if loss is None else keras.losses.get(loss),
            None if loss is None else known_loss(loss),
            None if layer is None else layer.activation,
            from_logits,
            1.0 if weights.get(name) is None else float(weights[name]),
        )
        heads.append((head, np.asarray(array)))
    return heads


def _bound(binding: Binding) -> dict[str, BoundFeature]:
    """Return array name -> feature of y."""
    return {array: binding[name] for name in leaves(binding.y) for array in binding[name].specs}


def _named(tree: Any, names: list[str] | None) -> dict[str, Any]:
    """Return a flat list or dict as a dict; the items of a list get `names`, or their positions."""
    if isinstance(tree, list | tuple):
        names = names if names and len(names) == len(tree) else [*map(str, range(len(tree)))]
        tree = dict(zip(names, tree, strict=True))
    elif not isinstance(tree, Mapping):
        tree = {"": tree}
    nested = next((name for name, one in tree.items() if isinstance(one, Mapping | list)), None)
    if nested is not None:
        raise ArgumentError(
            f"{nested!r} holds several arrays, expected one. Predict with a model of flat outputs: "
            "keras.Model(model.inputs, {...})"
        )
    return dict(tree)


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    result: Floats = powers / powers.sum(axis=-1, keepdims=True)
    return result


def _sigmoid(logits: Floats) -> Floats:
    powers = np.exp(-np.abs(logits))  # cannot overflow
    result: Floats = np.where(logits >= 0, 1, powers) / (1 + powers)
    return result
