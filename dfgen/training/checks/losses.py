"""Checks losses against targets: mistakes that Keras trains in silence."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, DecodeError, MissingFileError, listed, warn
from dfgen.loading.loader import Loader
from dfgen.samples.albumentations import Pipeline
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Encoded
from dfgen.samples.features.multilabel import MultiLabel
from dfgen.training.checks.model_outputs import (
    KnownLoss,
    LossKind,
    Output,
    known_loss,
    outputs_made,
    outputs_of,
)
from dfgen.training.checks.pairing import by_output, has_keras_loss, steps_as_keras
from dfgen.training.keras_calls import when_losses_are_built
from dfgen.training.keras_loop import Loop as Call
from dfgen.training.layout import SequenceView

_MASKS = 4  # files that are read for their classes, which no table has
_LABELS = 4_000_000  # zeros and ones that are searched for rows of several labels
_CROSSENTROPIES = (LossKind.SPARSE, LossKind.CATEGORICAL)
_ACTIVATIONS = {
    LossKind.SPARSE: ("softmax",),
    LossKind.CATEGORICAL: ("softmax",),
    LossKind.BINARY: ("sigmoid", "hard_sigmoid", "softmax"),
}
"""The activations whose outputs a crossentropy takes, the usual one first."""


@dataclass(frozen=True, eq=False)
class Trained:
    """An output with its loss and its target.

    Args:
        output: of the model.
        loss: what is known of it.
        bound: the feature of the target with its rows.
        array: the name of the target.
        loader: of the Sequence.
    """

    output: Output
    loss: KnownLoss
    bound: BoundFeature
    array: str
    loader: Loader

    @property
    def column(self) -> str:
        """The columns of the target."""
        return ", ".join(self.bound.feature.columns)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The shape of the target of a row."""
        return self.loader.specs[self.array].shape

    @property
    def names(self) -> tuple[Any, ...]:
        """The class names, if no batch_transform can change the classes; else none."""
        plain = self.loader.specs is self.loader.reader.specs and len(self.bound.specs) == 1
        return tuple(self.bound.feature.class_names or ()) if plain else ()

    @property
    def is_number(self) -> bool:
        """Whether the target is one number for a row or pixel."""
        return not self.shape or self.shape[-1] == 1

    @property
    def is_vector(self) -> bool:
        """Whether the target has a number for each class."""
        return len(self.names) > 1 and self.shape == (len(self.names),)

    @property
    def is_as_written(self) -> bool:
        """Whether no function of the user can change the numbers of the target."""
        reader = self.loader.reader
        return self.loader.specs is reader.specs and isinstance(reader.transform, Pipeline | None)

    def numbers(self) -> npt.NDArray[Any]:
        """Return the numbers of all rows that count, or of some mask files; empty if unknown."""
        feature, bound = self.bound.feature, self.bound
        if not self.is_as_written:
            return np.empty(0)
        counted = self.loader.counted & (self.loader.weights_of(self.array) > 0)
        counted = counted if bound.present is None else counted & bound.present
        numbers = feature.label_numbers(bound.values)
        if numbers is None:
            numbers = self._of_masks(np.flatnonzero(counted))
        elif len(numbers) == len(counted):
            numbers = numbers[counted]
        kept: npt.NDArray[Any] = numbers[numbers != self.loss.ignored]
        return kept

    def _of_masks(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        bound, store = self.bound, self.loader.reader.store
        numbers = [np.empty(0)]
        if bound.files is not None and bound.array_rows is None and not bound.has_lists:
            places = np.linspace(0, len(rows) - 1, min(len(rows), _MASKS)).astype(int)
            for row in rows[places]:
                with suppress(DecodeError, MissingFileError):  # raised when the row is read
                    data = store.read(bound.feature.at(bound.values, row))
                    mask = bound.feature.label_numbers(bound.values, data)
                    numbers += [] if mask is None else [np.unique(mask)]
        return np.concatenate(numbers)

    def has_several(self) -> bool:
        """Return whether a row has several labels."""
        shape, feature = next(iter(self.bound.specs.values())).shape, self.bound.feature
        if not self.is_as_written or not isinstance(feature, Encoded) or len(shape) != 1:
            return False
        counted = self.loader.counted & (self.loader.weights_of(self.array) > 0)
        rows = np.flatnonzero(counted)
        labels = self.bound.gather(rows[:: 1 + len(rows) * shape[0] // _LABELS])
        return bool(np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) > 1).any())


def check_loss(call: Call, view: SequenceView, where: str = "") -> None:
    """Raise for targets that the losses of a model cannot learn from, and warn about doubtful ones.

    Args:
        call: of fit or evaluate.
        view: the Sequence.
        where: the beginning of messages.
    """
    model, loss = call.model, getattr(call.model, "loss", None)
    as_keras = steps_as_keras(model, call.purpose) and has_keras_loss(model)
    if call.purpose not in ("fit", "evaluate") or not as_keras:
        return
    losses = [one for one in keras.tree.flatten(loss) if one is not None]
    if view.layout.y is None:
        if any(map(_needs_targets, losses)):
            names = [getattr(one, "name", getattr(one, "__name__", one)) for one in losses]
            raise ArgumentError(
                f"{where}the loss {', '.join(map(str, names))} of the model needs targets, but the "
                "Sequence has no y: give it the column of the labels, y=; for an autoencoder "
                'y=dfgen.Image("path"); for a model that adds its own loss compile(loss=None)'
            )
        return
    is_fit, shown = call.purpose == "fit", set[str]()

    def check(outputs: dict[str, Output]) -> None:
        for trained in _trained(outputs, loss, view):
            for error in _errors(trained):
                raise ArgumentError(where + error)
            message = next(_doubts(trained), None) if is_fit else None
            if message is not None and message not in shown:
                shown.add(message)
                warn(message)

    outputs = outputs_of(model)
    check(outputs)
    if losses and (not outputs or any(output.units is None for output in outputs.values())):
        when_losses_are_built(call, lambda made: check(outputs_made(model, made)))


def _trained(outputs: dict[str, Output], loss: Any, view: SequenceView) -> Iterator[Trained]:
    loader, layout = view.loader, view.layout
    losses, targets = by_output(loss, [*outputs]), by_output(layout.y, [*outputs])
    bound = {name: one for one in loader.reader.features for name in one.specs}
    for name, output in outputs.items():
        known, array = known_loss(losses.get(name)), targets.get(name)
        if known is not None and isinstance(array, str) and not layout.turns(array):
            yield Trained(output, known, bound[array], array, loader)


def _needs_targets(given: Any) -> bool:
    kind = given if isinstance(given, type) else type(given)
    return not issubclass(kind, keras.losses.Loss) or kind.__call__ is keras.losses.Loss.__call__


def _errors(trained: Trained) -> Iterator[str]:
    """Yield what cannot be learned."""
    output, loss, names, column = trained.output, trained.loss, trained.names, trained.column
    units, classes = output.units, f"column {column!r} has {len(names)} classes ({listed(names)})"
    if trained.loader.specs[trained.array].dtype.hasobject:
        yield (
            f"column {column!r} is text, but the loss {loss.name} takes numbers: for classes write "
            f"y=dfgen.Category({column!r})"
        )
    if units is None:
        return
    ends = f"the output {output.name!r} of the model has {units} unit{'s' * (units != 1)}"
    if units == 1 and output.activation == "softmax":
        yield f"{ends}, and a softmax over one is always 1: {_end(trained)}"
    if units == 1 and loss.kind in _CROSSENTROPIES:
        yield f"{ends}, but the loss {loss.name} needs one for each class: {_end(trained)}"
    if loss.kind == LossKind.SPARSE and trained.is_vector:
        hot = 'label_mode="int", or loss="categorical_crossentropy"'
        several = isinstance(trained.bound.feature, MultiLabel)
        fix = _end(trained) if several else hot
        yield f"{classes}, as vectors, but the loss {loss.name} takes class numbers: {fix}"
    is_broadcast = loss.kind == LossKind.REGRESSION and not names and trained.shape != ()
    if loss.kind != LossKind.SPARSE and trained.is_number and units > 1 and not is_broadcast:
        hot = f'dfgen.Category({column!r}, label_mode="categorical")'
        yield (
            f"column {column!r} gives one number, but {ends}, and the loss {loss.name} takes one "
            f"for each unit: write y={hot}, or loss={_sparse(loss)}"
        )
    if trained.is_vector and trained.shape[-1] != units:
        each = f"the loss {loss.name} needs a unit for each: {_end(trained)}"
        yield f"{ends}, but {classes}, and {each}"
    wide = len(trained.shape) == 1 and not trained.is_number and units > 1
    if wide and loss.kind in (LossKind.CATEGORICAL, LossKind.BINARY) and trained.shape[-1] != units:
        yield (
            f"{ends}, but column {column!r} gives {trained.shape[-1]} numbers, and the loss "
            f"{loss.name} needs a unit for each"
        )
    limit = units if loss.kind == LossKind.SPARSE else 2
    if loss.kind in (LossKind.SPARSE, LossKind.BINARY) and (not names or len(names) > limit):
        yield from _number_errors(trained, limit, ends, classes)


def _number_errors(trained: Trained, limit: int, ends: str, classes: str) -> Iterator[str]:
    """Yield what is wrong with the numbers of a target."""
    numbers, column, loss = trained.numbers(), trained.column, trained.loss
    if not numbers.size:
        return
    low, high = numbers.min(), numbers.max()
    if loss.kind == LossKind.SPARSE and (numbers != np.trunc(numbers)).any():
        yield (
            f"column {column!r} has fractions, but the loss {loss.name} takes class numbers: to "
            'learn the numbers end the model in Dense(1), with loss="mse"'
        )
    if low >= 0 and high <= limit - 1:
        return
    if trained.names:
        apart = f"the loss {loss.name} tells {limit} apart: {_end(trained)}"
        yield f"{ends}, but {classes}, and {apart}"
    feature = trained.bound.feature
    fix = f"y=dfgen.Category({column!r}), which numbers its values from 0"
    if feature.follows and feature.label_numbers(trained.bound.values) is None:
        fix = f"y=dfgen.Mask({column!r}, palette={{value: class}})"
    elif low == 1:
        fix += f", or df[{column!r}] - 1"
    if loss.kind == LossKind.SPARSE and (low < 0 or high == 255):
        out = low if low < 0 else high
        fix += f", or to leave {out:g} out of the loss, ignore_class={out:g}"
    yield (
        f"column {column!r} holds the numbers {low:g} to {high:g}, but {ends}, and the loss "
        f"{loss.name} takes 0 to {limit - 1}: write {fix}"
    )


def _doubts(trained: Trained) -> Iterator[str]:
    """Yield what trains, but is hardly meant."""
    output, loss, names, column = trained.output, trained.loss, trained.names, trained.column
    made, last = output.activation, f"the last layer {output.name!r} of the model"
    shares = loss.kind == LossKind.CATEGORICAL or made == "softmax"
    if shares and not trained.is_number and trained.has_several():
        yield (
            f"some rows of column {column!r} have several labels, but a softmax and the loss "
            f"{loss.name} share 1 among them: {_end(trained)}"
        )
    suited = _ACTIVATIONS.get(LossKind(loss.kind))
    if suited and made is not None and loss.from_logits and made != "linear":
        is_undone = keras.backend.backend() == "tensorflow" and made == suited[0]  # by Keras
        if not is_undone:
            yield (
                f"{last} ends in {made}, but the loss {loss.name} takes logits, as "
                "from_logits=True says: leave out one of the two"
            )
    elif suited and made is not None and not loss.from_logits and made not in suited:
        logits = KnownLoss(loss.kind, loss.name, True).named(loss.name)
        ending = "has no activation" if made == "linear" else f"ends in {made}"
        yield (
            f"{last} {ending}, but the loss {loss.name} takes probabilities: write "
            f'activation="{suited[0]}", or {logits} without an activation (from_logits)'
        )
    if loss.kind == LossKind.REGRESSION and trained.is_number and names and not _is_index(names):
        yield (
            f"column {column!r} has the classes {listed(names)}, and the loss {loss.name} learns "
            f"their indices as numbers: {_end(trained)}; for numbers make the column numeric"
        )
    is_bytes = trained.is_as_written and trained.loader.specs[trained.array].dtype == np.uint8
    is_small = loss.kind == LossKind.BINARY or made in ("sigmoid", "hard_sigmoid", "tanh")
    if trained.bound.image is not None and is_bytes and is_small:
        yield (
            f"column {column!r} gives pixels of 0 to 255, but the output {output.name!r} gives 0 "
            f'to 1: write y=dfgen.Image({column!r}, scale="0..1"), or for classes '
            f"y=dfgen.Mask({column!r})"
        )


def _is_index(names: tuple[Any, ...]) -> bool:
    """Return whether class names are their own indices, or those of two classes."""
    try:
        return [float(str(name)) for name in names] == [*range(len(names))]
    except ValueError:
        return len(names) < 3


def _sparse(loss: KnownLoss) -> str:
    return loss.named("sparse_categorical_crossentropy").removeprefix("loss=")


def _end(trained: Trained) -> str:
    """Return how the model should end."""
    names, is_list = trained.names, len(trained.shape) == 1
    if isinstance(trained.bound.feature, MultiLabel) or (is_list and not names):
        units = len(names) or trained.shape[-1]
        last, loss = f'Dense({units}, activation="sigmoid")', "binary_crossentropy"
    elif len(names) > 2:
        last = f'Dense({len(names)}, activation="softmax")'
        loss = f"{'' if trained.is_vector else 'sparse_'}categorical_crossentropy"
    else:
        last, loss = 'Dense(1, activation="sigmoid") for two classes', "binary_crossentropy"
    return f'end the model in {last}, with loss="{loss}"'
