"""Rules for what the losses of Keras ask of a target and of the units of an output.

Each returns in words what is wrong with one output, its loss and its target, or None. Told is only
what cannot train as it stands, or what Keras would refuse in words of arrays.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.training.checks.model_outputs import LossKind, Target, Trained

_ANY = float("inf")
_SUM = "probabilities that sum to 1"
_SUITED: dict[str, tuple[tuple[str, ...], str]] = {
    LossKind.SPARSE: (("softmax",), _SUM),
    LossKind.CATEGORICAL: (("softmax",), _SUM),
    LossKind.BINARY: (("sigmoid", "hard_sigmoid", "softmax"), "probabilities"),
    LossKind.MARGIN: (("linear", "tanh", "softsign"), "numbers of either sign"),
}
"""The activations whose numbers a loss takes, that of tutorials first; and these in words."""


def mismatch(trained: Trained, training: bool) -> str | None:
    """Return what is wrong in words, None where nothing is known to be."""
    if trained.target.is_text:
        return _text(trained)
    if trained.output.units is None:
        return None
    rules: tuple[_Rule, ...] = (_constant, *_RULES[trained.loss.kind], *(_beyond_reach,) * training)
    return _first(rules, trained)


def doubt(trained: Trained, on_tensorflow: bool) -> str | None:
    """Return what is wrong but trains nevertheless, None where nothing is known."""
    loss, rules = trained.loss, _DOUBTS[trained.loss.kind]
    if on_tensorflow and loss.from_logits:  # which undoes the activation
        suited = _SUITED.get(loss.kind, (("",), ""))[0]
        if trained.output.activation == suited[0]:
            rules = tuple(rule for rule in rules if rule is not _other_activation)
    return _first(rules, trained)


def _first(rules: Iterable["_Rule"], trained: Trained) -> str | None:
    return next(filter(None, (rule(trained) for rule in rules)), None)


def _other_activation(trained: Trained) -> str | None:
    loss, made = trained.loss, trained.output.activation
    (suited, taken), name = _SUITED[loss.kind], trained.output.name
    if made is None or made in (("linear",) if loss.from_logits else suited):
        return None
    last = f"the last layer {name!r} of the model"
    if loss.from_logits:
        given = f"gives probabilities, by {made}" if made in suited else _given(trained)
        return (
            f"{last} {given}, but the loss {loss.name} takes logits, as from_logits=True says: "
            f"leave out {'one of the two' if made in suited else 'the activation'}"
        )
    layer = f'{trained.output.layer_class}(..., activation="{suited[0]}")'
    if made == "linear" and "crossentropy" in loss.name:
        logits = replace(loss, from_logits=True).named(loss.name)
        return (
            f"{last} has no activation, so that it gives logits, any numbers, but the loss "
            f"{loss.name} takes probabilities: write {layer}, or {logits}"
        )
    remedy = "leave out the activation" if suited[0] == "linear" else f"write {layer}"
    return f"{last} {_given(trained)}, but the loss {loss.name} takes {taken}: {remedy}"


def _given(trained: Trained) -> str:
    made, (low, high) = trained.output.activation, trained.output.reach
    if made == "linear":
        return "has no activation, so that it gives any numbers"
    alone = trained.loss.kind in (LossKind.SPARSE, LossKind.CATEGORICAL) and made == "sigmoid"
    span = f"{low:g} or more" if high == _ANY else f"{low:g} to {high:g}"
    return f"ends in {made}, which gives {span}{' for each class by itself' * alone}"


def _several_labels(trained: Trained) -> str | None:
    """Rows of several classes, under a loss or an activation that shares 1 among them."""
    target, loss = trained.target, trained.loss
    shares = loss.kind in (LossKind.CATEGORICAL, LossKind.VECTORS)
    if not (shares or trained.output.activation == "softmax") or target.is_one_number:
        return None
    if not target.has_several:
        return None
    held = target.classes + ", of which some rows have"
    if target.class_names is None:
        held = f"the columns {target.column} hold zeros and ones, and some rows"
    reason = (
        f"the output {trained.output.name!r} of the model ends in softmax, whose numbers sum to 1"
    )
    if shares:
        reason = f"the loss {loss.name} takes one class a row, or shares of it that sum to 1"
    remedy = trained.ending(target.shape[-1] or 0, "sigmoid", "binary_crossentropy")
    return f"{held} several, but {reason}: {remedy}"


def _numbers_of_classes(trained: Trained) -> str | None:
    target, loss = trained.target, trained.loss
    names = target.class_names or ()
    try:
        values = [float(str(name)) for name in names]
    except ValueError:
        if len(names) < 3 or not target.is_one_number:
            return None
        codes = f"df[{target.column!r}].astype('category').cat.codes"
        return (
            f"{target.classes}, and the loss {loss.name} learns their numbers, 0 to "
            f"{len(names) - 1}, as if {names[1]!r} lay between {names[0]!r} and {names[2]!r}: "
            f"{trained.remedy}; if their order is meant, write df[{target.column!r}] = {codes}"
        )
    number = next((i for i, value in enumerate(values) if value != i), None)
    if number is None:
        return None
    return (
        f"{target.classes}, of which {names[number]!r} is number {number} in batches, and the loss "
        f"{loss.name} learns that number, not {names[number]}: write df[{target.column!r}] = "
        f"df[{target.column!r}].astype(float) for the numbers themselves"
    )


def _beyond_reach(trained: Trained) -> str | None:
    """One number in twenty beyond what the last layer gives, or the loss takes, but for noise."""
    target, loss, output = trained.target, trained.loss, trained.output
    positive = loss.name in ("poisson", "mean_squared_logarithmic_error")
    least, most = max(output.reach[0], 0.0 if positive else -_ANY), output.reach[1]
    numbers = target.numbers if (least, most) != (-_ANY, _ANY) else None
    if loss.kind != LossKind.REGRESSION or numbers is None or not numbers.size:
        return None
    low, high = float(numbers.min()), float(numbers.max())
    slack = (high - low) / 100
    beyond = np.count_nonzero((numbers < least - slack) | (numbers > most + slack))
    if not beyond or beyond * 20 < numbers.size:
        return None
    outside = f"below {least:g}" if most == _ANY else f"outside {least:g} to {most:g}"
    reason = f"the loss {loss.name} takes no numbers"
    remedy = 'for numbers of either sign loss="mean_squared_error"'
    if not (positive and low < -slack):
        ends = f"the output {output.name!r} of the model, which ends in {output.activation},"
        reason = f"{ends} never is"
        remedy = f"leave out the activation, {trained.layer(output.units or 1)}"
    if most == 1 and low >= 0 and target.shape == () and target.class_names is None:
        remedy += f", or write df[{target.column!r}] = df[{target.column!r}] / {high:g}"
    return (
        f"column {target.column!r} holds the numbers {low:g} to {high:g}, {beyond:,} of "
        f"{numbers.size:,} of them {outside}, where {reason}: {remedy}"
    )


def _bytes(trained: Trained) -> str | None:
    output, column = trained.output, trained.target.column
    if not trained.target.is_bytes or (
        trained.loss.kind == LossKind.REGRESSION and output.reach[1] == _ANY
    ):
        return None
    needs = f"the loss {trained.loss.name} takes 0 to 1"
    if output.reach[1] != _ANY:
        needs = f"the output {output.name!r} of the model {_given(trained)}"
    scale = "-1..1" if output.reach[0] < 0 and output.reach[1] == 1 else "0..1"
    return (
        f"column {column!r} gives pixels of 0 to 255, but {needs}: write "
        f'y=dfgen.Image({column!r}, scale="{scale}"), or for classes y=dfgen.Mask({column!r})'
    )


def _text(trained: Trained) -> str:
    column = trained.target.column
    return (
        f"column {column!r} is text or bytes, but the loss {trained.loss.name} takes numbers: for "
        f"classes write y=dfgen.Category({column!r}); for words make them numbers first, as a "
        "keras.layers.TextVectorization does, a list of them in each row of a column"
    )


def _constant(trained: Trained) -> str | None:
    softmax, kind = trained.output.activation == "softmax", trained.loss.kind
    classes = kind == LossKind.SPARSE or (
        kind == LossKind.CATEGORICAL and trained.loss.name != "kl_divergence"
    )
    if trained.output.units != 1 or not (softmax or classes):
        return None
    reason = f"but the loss {trained.loss.name} needs one for each class"
    if softmax:
        reason = "and a softmax over one is always 1, so the model learns nothing"
    two = trained.ending(1, "sigmoid", "binary_crossentropy")
    remedy = f"for two classes {two}; for more, a unit for each"
    if trained.target.class_names is not None:
        remedy = trained.remedy
    elif kind == LossKind.REGRESSION:
        remedy = f"leave out the activation, {trained.output.layer_class}(1)"
    return f"{trained.shown}, {reason}: {remedy}"


def _vectors_for_numbers(trained: Trained) -> str | None:
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
    target, loss, named = trained.target, trained.loss, trained.target.class_names is not None
    if not target.is_one_number or trained.output.units == 1:
        return None
    if not named and loss.kind == LossKind.REGRESSION and target.shape != ():
        return None  # broadcast on purpose
    sparse = loss.named("sparse_categorical_crossentropy")
    if loss.kind in (LossKind.CATEGORICAL, LossKind.VECTORS):
        hot = 'label_mode="categorical"'
        if not named:
            hot = f"y=dfgen.Category({target.column!r}, label_mode='categorical')"
        remedy = f"{hot}, or {sparse}"
    elif named:
        remedy = trained.remedy
    else:
        layer = trained.layer(1, None if loss.kind == LossKind.MARGIN else "sigmoid")
        remedy = f"end it in {layer}, or for class numbers {sparse}"
    held = target.classes + "," if named else f"column {target.column!r} gives"
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
        return _unit_for_each(trained, trained.remedy)
    if units == 1 or trained.loss.kind == LossKind.REGRESSION:
        return None  # y may have an axis less than the output, or be broadcast on purpose
    return (
        f"{trained.shown}, but column {target.column!r} gives {target.shape[-1]} numbers (shape "
        f"{target.shape}), and the loss {trained.loss.name} needs a unit for each: "
        f"{trained.layer(target.shape[-1] or 0, 'sigmoid')}"
    )


def _unit_for_each(trained: Trained, remedy: str) -> str:
    return (
        f"{trained.shown}, but {trained.target.classes}, and the loss {trained.loss.name} needs a "
        f"unit for each: {remedy}"
    )


def _doubtful(target: Target, most: int) -> npt.NDArray[Any] | None:
    """Return the numbers of all rows that count, None without any, or of few enough classes."""
    names = target.class_names  # which are numbered from 0
    if names is not None and len(names) <= most:
        return None
    return None if target.numbers is None or not target.numbers.size else target.numbers


def _beyond_units(trained: Trained) -> str | None:
    target, units = trained.target, trained.output.units or 0
    numbers = _doubtful(target, units)
    if numbers is None:
        return None
    if numbers.dtype.kind == "f" and (fractions := numbers != np.trunc(numbers)).any():
        return (
            f"column {target.column!r} holds fractions such as {numbers[fractions][0]:g}, but the "
            f"loss {trained.loss.name} takes class numbers, and would cut them to whole ones: to "
            'learn the numbers end the model in Dense(1), with loss="mse"'
        )
    low, high = int(numbers.min()), int(numbers.max())
    if low >= 0 and high < units:
        return None
    if target.class_names is not None:
        return _unit_for_each(trained, trained.layer(len(target.class_names), "softmax"))
    return (
        f"column {target.column!r} holds the numbers {low} to {high}, but {trained.shown}, which "
        f"the loss {trained.loss.name} takes for the classes 0 to {units - 1}: "
        f"{_numbered(trained, low, high)}"
    )


_EXACT = {"bfloat16": 2**8, "float16": 2**11}  # up to which a dtype has all whole numbers


def _rounded(trained: Trained) -> str | None:
    """Tell of class numbers that a loss rounds to other ones, as Keras makes floats of them."""
    target, exact = trained.target, _EXACT.get(trained.loss.dtype, _ANY)
    most = len(target.class_names or ()) - 1
    if most < 0 and exact < _ANY and target.numbers is not None:
        most = target.numbers.max(initial=0)
    if most <= exact:
        return None
    return (
        f"column {target.column!r} has class numbers up to {most:g}, but the loss "
        f"{trained.loss.name} makes {trained.loss.dtype} of them, which rounds those above {exact} "
        'to other ones: leave keras.config.set_floatx("float32"), and to train in half precision '
        'write keras.config.set_dtype_policy("mixed_bfloat16")'
    )


def _numbered(trained: Trained, low: int, high: int) -> str:
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
    levels = [] if target.numbers is None else target.numbers[:8].tolist()
    levels = [0, *levels] if len(levels) == 1 else levels
    pairs = ", ".join(f"{level:g}: {number}" for number, level in enumerate(levels))
    return f"write y=dfgen.Mask({target.column!r}, palette={{{pairs}}})"


def _beyond_two(trained: Trained) -> str | None:
    target, numbers = trained.target, _doubtful(trained.target, 2)
    if numbers is None:
        return None
    low, high = numbers.min(), numbers.max()
    signed = trained.loss.kind == LossKind.MARGIN
    if low >= -signed and high <= 1:
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
        f"{trained.loss.name} takes {'-1' if signed else '0'} and 1, or what lies between: "
        f"{', or '.join(remedy)}"
    )


def _more_units(trained: Trained) -> str | None:
    names, units = trained.target.class_names, trained.output.units or 0
    if names is None or units <= len(names):
        return None
    more = units - len(names)
    return (
        f"{trained.shown}, but {trained.target.classes}, and none for the last "
        f"{'unit' if more == 1 else f'{more} units'}: {trained.layer(len(names), 'softmax')}, or "
        "name all classes that are to come, class_names=[...]"
    )


def _not_positive(trained: Trained) -> str | None:
    """Tell of an activation below 0 before poisson, whose loss is then NaN."""
    output = trained.output
    if trained.loss.name != "poisson" or output.activation is None or output.reach[0] >= 0:
        return None
    return (
        f"the last layer {output.name!r} of the model {_given(trained)}, but the loss poisson "
        f"takes the logarithm, of numbers above 0 alone: write {output.layer_class}(..., "
        'activation="exponential")'
    )


_Rule = Callable[[Trained], str | None]
_RULES: dict[str, tuple[_Rule, ...]] = {
    LossKind.SPARSE: (_vectors_for_numbers, _beyond_units, _rounded),
    LossKind.CATEGORICAL: (_numbers_for_vectors, _other_length),
    LossKind.BINARY: (_numbers_for_vectors, _other_length, _beyond_two, _several_labels),
    LossKind.REGRESSION: (_numbers_for_vectors, _other_length, _several_labels),
    LossKind.MARGIN: (_numbers_for_vectors, _other_length, _beyond_two),
    LossKind.VECTORS: (_numbers_for_vectors, _other_length),
}
_DOUBTS: dict[str, tuple[_Rule, ...]] = {
    LossKind.SPARSE: (_other_activation, _more_units),
    LossKind.CATEGORICAL: (_several_labels, _other_activation),
    LossKind.BINARY: (_other_activation, _bytes),
    LossKind.REGRESSION: (_numbers_of_classes, _not_positive, _bytes),
    LossKind.MARGIN: (_other_activation,),
    LossKind.VECTORS: (_several_labels,),
}
