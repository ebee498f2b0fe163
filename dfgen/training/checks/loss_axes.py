"""How many axes the losses of a model have beside that of the batch, to which weights must fit."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import keras

from dfgen.binding.nested import leaves
from dfgen.samples.bound_feature import BoundFeature
from dfgen.training.checks.model_outputs import tensors_of
from dfgen.training.checks.pairing import by_output, has_keras_loss, steps_as_keras
from dfgen.training.keras_private import as_loss
from dfgen.training.layout import Layout

OF_THE_BATCH = -1
"""The axes of a loss that makes one number of a whole batch, of which no row can be weighed."""


def fit_to_losses(
    layout: Layout, features: Iterable[BoundFeature], model: Any, purpose: Any
) -> Layout:
    """Return a layout whose weights fit what losses make of symbols, for fit or evaluate.

    Of pixels most make (batch, height, width), but `Dice(axis=(1, 2, 3))` makes (batch,) and
    `Dice()` one number.
    """
    if layout.y is None or not (steps_as_keras(model, purpose) and has_keras_loss(model)):
        return layout
    specs = {name: spec for bound in features for name, spec in bound.specs.items()}
    tensors, weighing = tensors_of(model), dict(layout.weighing)
    if not tensors and not isinstance(model.loss, Mapping | list | tuple):
        tensors = dict.fromkeys(leaves(layout.y))  # not built yet: most make what their targets are
    losses, targets = (by_output(tree, [*tensors]) for tree in (model.loss, layout.y))
    for output, tensor in tensors.items():
        name = targets.get(output)
        if not isinstance(name, str) or layout.turns(name) or not weighing[name][0]:
            continue
        shape = specs[name].shape
        axes = _axes(losses.get(output), shape, shape if tensor is None else tensor.shape[1:])
        if axes is not None:
            weighing[name] = axes, weighing[name][1]
    return replace(layout, weighing=weighing)


class _Made(keras.Layer):  # type: ignore[misc]
    """What a loss makes of targets and outputs, of symbols too."""

    def __init__(self, loss: Any) -> None:
        super().__init__()
        self.loss = loss

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.loss.call(y_true, y_pred)


def _axes(given: Any, *shapes: tuple[int | None, ...]) -> int | None:
    """Return the axes of a loss of two arrays of such rows; None where nobody knows."""
    try:
        loss = as_loss(given)
        if type(loss).__call__ is not keras.losses.Loss.__call__:
            return None
        made = _Made(loss)(*(keras.KerasTensor((2, *shape)) for shape in shapes)).shape
    except Exception:  # `fit` tells what does not go together
        return None
    if not made:
        return OF_THE_BATCH
    return len(made) - 1 if made[0] == 2 else None
