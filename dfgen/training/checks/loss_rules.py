"""What the losses of Keras ask of a target and of the units of an output: pure rules.

Each returns in words what is wrong with one output, its loss and its target, or None. Told is only
what cannot train as it stands, or what Keras would refuse in words of arrays.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.training.checks.known_losses import BINARY, CATEGORICAL, REGRESSION, SPARSE, KnownLoss
from dfgen.training.checks.trained_outputs import Target, Trained


def mismatch(trained: Trained) -> str | None:
    """Return what is wrong in words, None where nothing is known to be."""
    if trained.output.units is None:
        return None
    rules = (_constant, *_RULES[trained.loss.kind])
    return next((told for told in (rule(trained) for rule in rules) if told), None)


def doubt(trained: Trained) -> str | None:
    """Return what is wrong but trains nevertheless, None where nothing is known."""
    loss, name = trained.loss, trained.output.name
    if loss.kind == REGRESSION:
        return _numbers_of_numbers(trained.target, loss)
    wanted = "sigmoid" if loss.kind == BINARY else "softmax"
    if trained.output.activation not in ("linear", wanted):
        return None
    if trained.output.activation == "linear" and not loss.from_logits:
        called = type(trained.output.layer).__name__
        logits = replace(loss, from_logits=True).named(loss.name)
        return (
            f"the last layer {name!r} of the model has no activation, so that it gives logits, any "
            f"numbers, but the loss {loss.name} takes probabilities: write "
            f'{called}(..., activation="{wanted}"), or {logits}'
        )
    if trained.output.activation == wanted and loss.from_logits:
        return (
            f"the last layer {name!r} of the model gives probabilities, by {wanted}, but the loss "
            f"{loss.name} takes logits, as from_logits=True says: leave out one of the two"
        )
    return None


def _numbers_of_numbers(target: Target, loss: KnownLoss) -> str | None:
    """Numbers that were made classes, of which a regression would learn the order alone."""
    for number, name in enumerate(target.class_names or ()):
        try:
            value = float(str(name))
        except ValueError:
            return None
        if value != number:
            return (
                f"{target.classes}, of which {name!r} is number {number} in batches, and the loss "
                f"{loss.name} learns that number, not {name}: write "
                f"df[{target.column!r}] = df[{target.column!r}].astype(float) for the numbers "
                "themselves"
            )
    return None


def _constant(trained: Trained) -> str | None:
    """A softmax over one unit."""
    softmax, kind = trained.output.activation == "softmax", trained.loss.kind
    if trained.output.units != 1 or not (softmax or kind in (SPARSE, CATEGORICAL)):
        return None
    reason = f"but the loss {trained.loss.name} needs one for each class"
    if softmax:
        reason = "and a softmax over one is 1 whatever comes in, so that nothing is learnt"
    two = trained.ending(1, "sigmoid", "binary_crossentropy")
    remedy = f"for two classes {two}; for more, a unit for each"
    if trained.target.class_names is not None:
        remedy = trained.remedy
    elif kind == REGRESSION:
        remedy = f"leave out the activation, {trained.output.layer_class}(1)"
    return f"{trained.shown}, {reason}: {remedy}"


def _vectors_for_numbers(trained: Trained) -> str | None:
    """One-hot classes where class numbers are wanted."""
    target = trained.target
    if not target.is_vector_of_classes:
        return None
    held, remedy = "one-hot vectors", 'label_mode="int", or loss="categorical_crossentropy"'
    if target.many_labels:
        held = "vectors of zeros and ones, as a row may have several of them"
        remedy = trained.remedy
    return (
        f"{target.classes}, in batches {held}, but the loss "
        f"{trained.loss.name} takes class numbers: {remedy}"
    )


def _numbers_for_vectors(trained: Trained) -> str | None:
    """One number where each unit wants its own."""
    target, loss = trained.target, trained.loss
    if not target.is_one_number or trained.output.units == 1:
        return None
    if target.class_names is None and loss.kind == REGRESSION and target.shape != ():
        return None  # broadcast on purpose
    held = f"column {target.column!r} gives" if target.class_names is None else target.classes + ","
    sparse = loss.named("sparse_categorical_crossentropy")
    if loss.kind == CATEGORICAL and target.class_names is None:
        remedy = f"y=dfgen.Category({target.column!r}, label_mode='categorical'), or {sparse}"
    elif loss.kind == CATEGORICAL:
        remedy = f'label_mode="categorical", or {sparse}'
    elif target.class_names is not None:
        remedy = trained.remedy
    else:
        remedy = f"end it in {trained.layer(1, 'sigmoid')}, or for class numbers {sparse}"
    return (
        f"{held} in batches one number for each row, but {trained.shown}, and the loss {loss.name} "
        f"takes a number for each unit: {remedy}"
    )


def _other_length(trained: Trained) -> str | None:
    """One place for each class in the target, and another number of units."""
    target, units = trained.target, trained.output.units
    if target.is_one_number or target.shape[-1] in (units, None):
        return None
    if target.is_vector_of_classes:
        return (
            f"{trained.shown}, but {target.classes}, and the loss {trained.loss.name} needs a unit "
            f"for each: {trained.remedy}"
        )
    if units == 1 or trained.loss.kind == REGRESSION:
        return None  # y may have an axis less than the output, or be broadcast on purpose
    return (
        f"{trained.shown}, but column {target.column!r} gives {target.shape[-1]} numbers (shape "
        f"{target.shape}), and the loss {trained.loss.name} needs a unit for each: "
        f"{trained.layer(target.shape[-1] or 0, 'sigmoid')}"
    )


def _doubtful(target: Target, most: int) -> npt.NDArray[Any] | None:
    """Return the numbers of all rows that count, None without any, or of few enough classes."""
    names = target.class_names  # which are numbered from 0
    if names is not None and len(names) <= most:
        return None
    return None if target.numbers is None or not target.numbers.size else target.numbers


def _beyond_units(trained: Trained) -> str | None:
    """Class numbers that have no unit."""
    target, units = trained.target, trained.output.units or 0
    numbers = _doubtful(target, units)
    if numbers is None:
        return None
    if numbers.dtype.kind == "f" and (fractions := numbers != np.trunc(numbers)).any():
        example = numbers[fractions][0]
        return (
            f"column {target.column!r} holds fractions such as {example:g}, but the loss "
            f"{trained.loss.name} takes class numbers, and would cut them to whole ones: to learn "
            'the numbers end the model in Dense(1), with loss="mse"'
        )
    low, high = int(numbers.min()), int(numbers.max())
    if low >= 0 and high < units:
        return None
    if target.class_names is not None:
        return (
            f"{trained.shown}, but {target.classes}, and the loss {trained.loss.name} needs a unit "
            f"for each: {trained.layer(len(target.class_names), 'softmax')}"
        )
    return (
        f"column {target.column!r} holds the numbers {low} to {high}, but {trained.shown}, which "
        f"the loss {trained.loss.name} takes for the classes 0 to {units - 1}: "
        f"{_numbered(trained, low, high)}"
    )


def _numbered(trained: Trained, low: int, high: int) -> str:
    """Return how to make class numbers of other numbers."""
    column = trained.target.column
    found = [f"write y=dfgen.Category({column!r}), which numbers its values from 0"]
    if trained.target.of_files:
        found = [_palette(trained.target)]
        if high == 255:
            return f"{found[0]}, or to leave 255 out of the loss, ignore_class=255"
    elif low == 1:
        found.append(f"df[{column!r}] - 1")
    if low < 0:
        found.append(f"to leave {low} out of the loss, ignore_class={low}")
    elif trained.output.units != high - low + 1:
        found.append(trained.layer(high + 1, "softmax"))
    return ", or ".join(found)


def _palette(target: Target) -> str:
    """Return how the gray levels of a mask become classes from 0."""
    levels = [] if target.numbers is None else target.numbers[:8].tolist()
    levels = [0, *levels] if len(levels) == 1 else levels
    pairs = ", ".join(f"{level:g}: {number}" for number, level in enumerate(levels))
    return f"write y=dfgen.Mask({target.column!r}, palette={{{pairs}}})"


def _beyond_two(trained: Trained) -> str | None:
    """Numbers that are no probabilities."""
    target, numbers = trained.target, _doubtful(trained.target, 2)
    if numbers is None:
        return None
    low, high = numbers.min(), numbers.max()
    if low >= 0 and high <= 1:
        return None
    if target.class_names is not None:
        return (
            f"{target.classes}, but {trained.shown}, with which the loss {trained.loss.name} tells "
            f"two classes apart: {trained.remedy}"
        )
    remedy = [f"for two classes write y=dfgen.Category({target.column!r}, label_mode='binary')"]
    if (low, high) == (1, 2):
        remedy.append(f"df[{target.column!r}] - 1")
    remedy.append('for numbers end the model in Dense(1), with loss="mse"')
    if target.of_files:
        soft = f'dfgen.Image({target.column!r}, like=..., color_mode="grayscale", scale="0..1")'
        remedy = [_palette(target) if len(numbers) <= 2 else f"for soft masks write y={soft}"]
    return (
        f"column {target.column!r} holds the numbers {low:g} to {high:g}, but the loss "
        f"{trained.loss.name} takes 0 and 1, or what lies between: {', or '.join(remedy)}"
    )


_RULES: dict[str, tuple[Callable[[Trained], str | None], ...]] = {
    SPARSE: (_vectors_for_numbers, _beyond_units),
    CATEGORICAL: (_numbers_for_vectors, _other_length),
    BINARY: (_numbers_for_vectors, _other_length, _beyond_two),
    REGRESSION: (_numbers_for_vectors, _other_length),
}
