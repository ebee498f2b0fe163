"""Do the targets of a Sequence suit the losses and the outputs of a model?

Told before the first step. Known are the losses of Keras, by name, class or function; of those of
the user's own, of classes derived from Keras's, and of models with a step of their own nothing is
guessed. So it is with labels that a `transform` or `batch_transform` may have changed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np

from dfgen.binding.nested import leaves
from dfgen.binding.warn import warn
from dfgen.errors import ArgumentError
from dfgen.loading.loader import Loader
from dfgen.samples.albumentations import Augmentation
from dfgen.samples.bound_feature import BoundFeature
from dfgen.training.keras_private import Call, when_losses_are_built
from dfgen.training.known_losses import KnownLoss, known_loss
from dfgen.training.layout import Layout
from dfgen.training.loss_rules import Target, Trained, doubt, mismatch
from dfgen.training.model_outputs import Output, outputs_made, outputs_of

_STEPS = {"fit": "train_step", "evaluate": "test_step"}


def check_loss(call: Call, loader: Loader, layout: Layout, where: str = "") -> None:
    """Refuse targets that a model's losses cannot learn from, and warn of logits taken for others.

    Args:
        call: of `fit` or `evaluate`.
        loader: of the Sequence.
        layout: of the Sequence.
        where: what messages begin with.

    Raises:
        ArgumentError: there are no targets, or classes, numbers and units do not go together.
    """
    model, own, step = call.model, type(call.model), _STEPS.get(call.purpose or "")
    loss = getattr(model, "loss", None)
    if step is None or getattr(own, step) is not getattr(keras.Model, step):
        return
    if own.compute_loss is not keras.Model.compute_loss:
        return
    losses = [one for one in keras.tree.flatten(loss) if one is not None]
    if layout.y is None:
        if any(map(_needs_targets, losses)):
            raise ArgumentError(where + _no_targets(losses))
        return
    outputs = outputs_of(model)

    def check(outputs: dict[str, Output]) -> None:
        for trained in _trained(outputs, loss, loader, layout):
            told = mismatch(trained)
            if told is not None:
                raise ArgumentError(where + told)
            if call.purpose == "fit":
                _warn_of_logits(trained)

    keyed = len(outputs) > 1 and isinstance(getattr(model, "output", None), Mapping)
    if keyed and not (isinstance(layout.y, Mapping) and not isinstance(loss, list | tuple)):
        return  # in an order of Keras's own
    check(outputs)
    if losses and (not outputs or any(output.units is None for output in outputs.values())):
        when_losses_are_built(call, lambda made: check(outputs_made(model, made)))


def _warn_of_logits(trained: Trained) -> None:
    told = doubt(trained)
    said = trained.loss.from_logits and keras.backend.backend() == "tensorflow"
    if told is not None and not said:  # by Keras, which puts it right there
        warn(told)


def _trained(
    outputs: dict[str, Output], loss: Any, loader: Loader, layout: Layout
) -> Iterator[Trained]:
    """Yield each output that has a known loss, and a target."""
    losses, targets = _by_output(loss, list(outputs)), _by_output(layout.y, list(outputs))
    bound = {name: one for one in loader.reader.features for name in one.specs}
    for name, output in outputs.items():
        known, array = known_loss(losses.get(name)), targets.get(name)
        if known is not None and isinstance(array, str) and not layout.turns(array):
            yield Trained(output, known, _target(bound[array], array, loader, known))


def _by_output(tree: Any, names: list[str]) -> dict[str, Any]:
    """Return what `loss` or y has for each output, where that is plain."""
    if isinstance(tree, Mapping) and names and set(names) >= set(tree):
        return dict(tree)
    if isinstance(tree, Mapping | list | tuple):
        found = list(leaves(tree))
        in_order = len(found) == len(names) and (len(names) == 1 or not isinstance(tree, Mapping))
        return dict(zip(names, found, strict=True)) if in_order else {}
    return dict.fromkeys(names, tree)


def _target(bound: BoundFeature, array: str, loader: Loader, loss: KnownLoss) -> Target:
    """Return a target as far as it is known; what a function of the user's makes of it is not."""
    feature, reader = bound.feature, loader.reader
    same = loader.specs is reader.specs  # without a batch_transform
    as_written = same and isinstance(reader.transform, Augmentation | None)
    names = feature.class_names if same and len(bound.specs) == 1 else None

    def numbers() -> Any:
        found = feature.label_numbers(bound.values) if as_written else None
        return None if found is None else _counted(found, bound, loader, loss.ignored)

    column = ", ".join(feature.columns)
    return Target(column, loader.specs[array].shape, names, feature.many_labels, numbers)


def _counted(numbers: Any, bound: BoundFeature, loader: Loader, ignored: int | None) -> Any:
    """Return the numbers of rows that have any weight in the loss, less those that it ignores."""
    drawn_by = loader.row_order.proportions
    weights = loader.weights, None if drawn_by is None else drawn_by.weights, bound.present
    counts = [one > 0 for one in weights if one is not None]
    if counts and len(numbers) == len(loader.reader):
        numbers = numbers[np.logical_and.reduce(counts)]
    return numbers if ignored is None else numbers[numbers != ignored]


def _needs_targets(given: Any) -> bool:
    """Whether a loss fails without targets: all do but classes that are called otherwise."""
    kind = given if isinstance(given, type) else type(given)
    return not issubclass(kind, keras.losses.Loss) or kind.__call__ is keras.losses.Loss.__call__


def _no_targets(losses: list[Any]) -> str:
    names = [getattr(one, "name", getattr(one, "__name__", one)) for one in losses]
    return (
        f"the loss {', '.join(map(str, names))} of the model needs targets, but the Sequence has "
        "inputs alone: give it y=, the column of the labels, and no label_mode=None; for an "
        'autoencoder y=dfgen.Image("path"). A model that makes its own loss is compiled with '
        "loss=None"
    )
