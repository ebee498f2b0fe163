"""How many axes the losses of a model have beside that of the batch, to which weights must fit."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count, zip_longest
from typing import Any

import keras

from dfgen.binding.nested import leaves
from dfgen.samples.bound_feature import BoundFeature
from dfgen.training.checks.model_outputs import tensors_of
from dfgen.training.checks.pairing import by_output, has_keras_loss, steps_as_keras
from dfgen.training.keras_private import as_loss
from dfgen.training.layout import Layout

OF_THE_BATCH, ACROSS_ROWS = -1, -2
"""The axes of a loss that makes one number of a whole batch, or several, but none of one row."""
_CLASSES = 7  # of an output that is not known


def fit_to_losses(
    layout: Layout, features: Iterable[BoundFeature], model: Any, purpose: Any
) -> Layout:
    """Return a layout whose weights fit what losses make of symbols, for fit or evaluate.

    Most make (batch, height, width) of pixels, but `Dice(axis=(1, 2, 3))` makes (batch,) and
    `Dice()` one number. On torch Keras multiplies weights in place by the mask of a loss, as of
    `ignore_class`: each target has its own, with room for it.
    """
    if layout.y is None:
        return layout
    as_keras = steps_as_keras(model, purpose) and has_keras_loss(model)
    own = keras.backend.backend() == "torch" and (as_keras or len(layout.weighing) == 1)
    fills = dict.fromkeys(layout.weighing, True) if own else {}
    if not as_keras:
        return replace(layout, fills=fills)
    specs = {n: layout.turned(n, spec) for bound in features for n, spec in bound.specs.items()}
    tensors, weighing = tensors_of(model), dict(layout.weighing)
    if not tensors:  # not built yet: most make what their targets are
        tensors = dict.fromkeys(_told_by(model.loss, layout.y))
    losses, targets = (by_output(tree, [*tensors]) for tree in (model.loss, layout.y))
    for output, tensor in tensors.items():
        name = targets.get(output)
        if not isinstance(name, str) or not specs[name].shape:
            continue
        given, shape = losses.get(output), specs[name].shape
        said = shape if tensor is None else tuple(tensor.shape[1:])
        sizes = _sizes(shape, said)
        made = _made(given, *sizes)
        if made is None and tensor is None:  # as of classes and CTC, with one axis more
            made = _made(given, sizes[0], (*sizes[1], _CLASSES))
        if made is not None:
            axes = len(made) - 1 if made[:1] in ((), sizes[0][:1]) else ACROSS_ROWS
            weighing[name] = axes, weighing[name][1]
            if made != sizes[0][: len(made)]:
                fills[name] = False
            elif as_loss(given).reduction == "mean_with_sample_weight":  # divides by their sum
                fills[name] = True
    return replace(layout, weighing=weighing, fills=fills)


def _told_by(loss: Any, y: Any) -> list[str]:
    """Return names of the outputs of a model that is not built, as far as losses tell them."""
    if not isinstance(loss, Mapping | list | tuple):
        return list(leaves(y))
    if isinstance(loss, Mapping) != isinstance(y, Mapping):
        return []
    return [*loss] if isinstance(loss, Mapping) else [*map(str, range(len(loss)))]


def _sizes(
    target: tuple[Any, ...], output: tuple[Any, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of two batches of few rows, as torch may compute a loss of them.

    No other axis is as long. A size that is not known is that of the other array.
    """

    def known(shape: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[int, ...]:
        pairs = enumerate(zip_longest(shape, other[: len(shape)]))
        return tuple(a or b or 5 + place for place, (a, b) in pairs)

    one, two = known(target, output), known(output, target)
    rows = next(rows for rows in count(2) if rows not in {*one, *two, _CLASSES})
    return (rows, *one), (rows, *two)


def _made(given: Any, *sizes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape of a loss of two arrays; None where nobody knows."""
    try:
        loss = as_loss(given)
        if type(loss).__call__ is not keras.losses.Loss.__call__:
            return None
        made_of = keras.layers.Lambda(lambda both: loss.call(*both), name="loss")
        made = tuple(made_of([*map(keras.KerasTensor, sizes)]).shape)
    except Exception:  # `fit` tells what does not go together
        return None
    return made
