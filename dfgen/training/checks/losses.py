"""Compares losses with outputs and targets: mistakes that Keras trains in silence."""

from collections.abc import Iterator
from itertools import cycle
from typing import Any, NamedTuple

import keras
import numpy as np

from dfgen.errors import ArgumentError, listed, warn
from dfgen.samples.features.classes import MultiLabel
from dfgen.samples.reader import BoundFeature
from dfgen.samples.transforms import Pipeline
from dfgen.spec import Spec
from dfgen.training.checks.model_outputs import (
    KnownLoss,
    LossKind,
    Output,
    by_output,
    has_keras_loss,
    known_loss,
    nested,
    outputs_of,
    steps_as_keras,
)
from dfgen.training.passes import SequenceView

SPARSE, CATEGORICAL, BINARY, REGRESSION = LossKind


class _Trained(NamedTuple):
    """An output with its loss of Keras and its target."""

    name: str
    output: Output
    loss: KnownLoss
    array: str
    column: str
    bound: BoundFeature
    spec: Spec
    classes: tuple[Any, ...]  # names; empty if a function of the user can change them

    @property
    def is_number(self) -> bool:
        """Whether the target is one number for a row or pixel."""
        return not self.spec.shape or self.spec.shape[-1] == 1

    @property
    def is_vector(self) -> bool:
        """Whether the target has a number for each class."""
        return len(self.classes) > 1 and self.spec.shape == (len(self.classes),)

    @property
    def ending(self) -> str:
        units = len(self.classes) or self.spec.shape[-1]
        sparse = "" if self.is_vector else "sparse_"
        several = isinstance(self.bound.feature, MultiLabel) or not self.classes
        last, loss = ("sigmoid", "binary_") if several else ("softmax", f"{sparse}categorical_")
        return f'end the model in Dense({units}, "{last}"), with loss="{loss}crossentropy"'


def _trained(model: Any, view: SequenceView, purpose: str) -> Iterator[_Trained]:
    if view.layout.y is None or not has_keras_loss(model) or not steps_as_keras(model, purpose):
        return
    outputs, loader, transform = outputs_of(model), view.loader, view.loader.reader.transform
    losses, targets = (by_output(tree, [*outputs]) for tree in (model.loss, view.layout.y))
    for name, output in outputs.items():
        loss, array = known_loss(losses.get(name)), targets.get(name)
        if loss is not None and isinstance(array, str):
            bound, spec = loader.reader.by_array[array], loader.specs[array]
            changes = loader.batch_transform is not None or not isinstance(
                transform, Pipeline | None
            )
            classes = () if changes or len(bound.specs) > 1 else bound.feature.class_names or ()
            column = ", ".join(bound.feature.columns)
            if view.layout.turned(array, spec) is spec:  # else the last axis is not that of classes
                yield _Trained(name, output, loss, array, column, bound, spec, tuple(classes))


def check_losses(model: Any, view: SequenceView, purpose: str, where: str = "") -> None:
    """Raise if the losses of a model cannot learn the targets; warn in fit about doubtful ones."""
    if view.layout.y is None and has_keras_loss(model) and steps_as_keras(model, purpose):
        raise ArgumentError(
            f"{where}the loss needs targets, but the Sequence has no y: give it y=, a column"
        )
    for trained in _trained(model, view, purpose):
        for error in _errors(trained):
            raise ArgumentError(where + error)
        for message in _doubts(trained) if purpose == "fit" else ():
            warn(message)


def _errors(trained: _Trained) -> Iterator[str]:
    loss, column, units = trained.loss, trained.column, trained.output.units
    if trained.spec.dtype.hasobject:
        yield f"column {column!r} is text: for classes write y=dfgen.Category({column!r})"
    if units == 1 and trained.output.activation == "softmax":
        yield f'the softmax of the single unit of {trained.name!r} is always 1: write "sigmoid"'
    if loss.kind == SPARSE and trained.is_vector:
        yield (
            f"column {column!r} gives vectors, but the loss {loss.name} takes class indices: write "
            f'label_mode="int", or {trained.ending}'
        )
    most = 2 if loss.kind == BINARY and units == 1 else units
    if loss.kind != REGRESSION and most is not None and len(trained.classes) > most:
        yield (
            f"the output {trained.name!r} of the model has {units} units, but column {column!r} "
            f"has {len(trained.classes)} classes ({listed(trained.classes)}): {trained.ending}"
        )
    broadcasts = loss.kind == REGRESSION and not trained.classes and trained.spec.shape
    takes_numbers = loss.kind == SPARSE or broadcasts or units in (None, 1)
    if trained.is_number and not takes_numbers:
        yield (
            f"column {column!r} gives one number, but the output {trained.name!r} of the model has "
            f'{units} units: write y=dfgen.Category({column!r}, label_mode="categorical"), or '
            'loss="sparse_categorical_crossentropy"'
        )


def _doubts(trained: _Trained) -> Iterator[str]:
    """Yield what trains, but is probably wrong."""
    loss, column, made = trained.loss, trained.column, trained.output.activation
    classes, is_binary = [*map(str, trained.classes)], loss.kind == BINARY
    end = f"the output {trained.name!r} of the model"
    usual = ("sigmoid", "hard_sigmoid", "softmax") if is_binary else ("softmax",)
    takes = ("linear",) if loss.from_logits else usual
    if loss.kind != REGRESSION and made is not None and made not in takes:
        yield (
            f"{end} has the activation {made!r}, but the loss {loss.name} has "
            f'from_logits={loss.from_logits}: write activation="{usual[0]}" with '
            "from_logits=False, or no activation with from_logits=True"
        )
    numbered = [name.removesuffix(".0") for name in classes] == [*map(str, range(len(classes)))]
    if loss.kind == REGRESSION and trained.is_number and len(classes) > 2 and not numbered:
        yield (
            f"column {column!r} has the classes {listed(classes)}, and the loss {loss.name} learns "
            f"their indices: {trained.ending}, or make the column numeric"
        )
    is_small = is_binary or made in ("sigmoid", "hard_sigmoid", "tanh")
    if trained.bound.feature.kind == "image" and trained.spec.dtype == np.uint8 and is_small:
        yield (
            f"column {column!r} gives pixels of 0 to 255, but {end} gives 0 to 1: write "
            f'y=dfgen.Image({column!r}, scale="0..1"), or y=dfgen.Mask({column!r}) for classes'
        )


def check_first_batch(model: Any, view: SequenceView, purpose: str, batch: tuple[Any, ...]) -> None:
    """Raise if class indices of the first batch, after transforms, are fractions or have no unit.

    Args:
        model: that `fit` or `evaluate` is about to run.
        view: the Sequence, nested for the model.
        purpose: "fit" or "evaluate".
        batch: of NumPy arrays, nested for the model.
    """
    nested(view.layout, view.loader, model, purpose)  # TensorFlow has built a subclassed model now
    names, arrays = keras.tree.flatten(view.layout.y), keras.tree.flatten(batch[1:2])
    weights = keras.tree.flatten(batch[2:]) or [np.ones(len(array)) for array in arrays]
    targets = {name: pair for name, *pair in zip(names, arrays, cycle(weights), strict=False)}
    for trained in _trained(model, view, purpose):
        target, weight = targets[trained.array]
        target = target[weight.reshape(len(weight), -1)[:, 0] > 0]
        loss, column, (units, made, _) = trained.loss, trained.column, trained.output
        are_labels = target.ndim == 2 and np.isin(target, (0, 1)).all()
        shares = purpose == "fit" and (loss.kind == CATEGORICAL or made == "softmax")
        if shares and are_labels and (target.sum(axis=1) > 1).any():
            warn(f"column {column!r} has rows of several labels under a softmax: {trained.ending}")
        target = target[target != loss.ignored]
        has_indices = loss.kind == SPARSE or (loss.kind == BINARY and units == 1)
        is_image = trained.bound.feature.kind == "image"
        if units is None or not has_indices or not target.size or is_image:
            continue
        low, high, limit = target.min(), target.max(), units if loss.kind == SPARSE else 2
        fractions = loss.kind == SPARSE and (target != np.trunc(target)).any()
        if fractions or low < 0 or high >= limit:
            kind = "Mask" if trained.bound.feature.of_files else "Category"
            raise ArgumentError(
                f"column {column!r} holds {'fractions' if fractions else 'numbers'} from {low:g} "
                f"to {high:g}, but the output {trained.name!r} of the model has {units} units, and "
                f"the loss {loss.name} takes 0 to {limit - 1}: "
                + (trained.ending if trained.classes else f"write y=dfgen.{kind}({column!r})")
            )
