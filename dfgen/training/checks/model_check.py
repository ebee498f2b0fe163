"""Does a Sequence feed what a model asks for, get what `fit` is given, and suit the losses?

Nothing is guessed of losses, steps and transforms of the user's own.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np

from dfgen.binding.nested import leaves
from dfgen.errors import ArgumentError, did_you_mean, listed, warn
from dfgen.loading.order.plan import Plan
from dfgen.training.checks.loss_axes import ACROSS_ROWS, OF_THE_BATCH
from dfgen.training.checks.pairing import (
    Ends,
    ends_made,
    has_keras_loss,
    inputs_of,
    outputs_of_loss,
    steps_as_keras,
)
from dfgen.training.keras_calls import DROPPED, when_losses_are_built
from dfgen.training.keras_loop import Loop as Call
from dfgen.training.keras_private import has_lost_variables, unweighted_metrics
from dfgen.training.layout import SequenceView


def check_shapes(model: Any, x: Any, where: str) -> None:
    """Refuse images of another size or other channels than a model can take.

    A Sequential may take others than it was built for, where its layers do: that is tried, without
    numbers. Height and width exchanged are never meant.
    """
    for given, expected in filter(lambda pair: _differ(*pair), _pairs(model, x)):
        sizes = _sizes(given), _sizes(expected)
        turned = sizes[0] != sizes[1] and sizes[0] == sizes[1][::-1]
        if isinstance(model, keras.Sequential) and not turned and _takes(model, given):
            continue
        raise ArgumentError(
            f"{where}x gives {given.name!r} as {_shown(given)}, but the model takes "
            f"{_shown(expected)}{', height and width exchanged' if turned else ''}: "
            f"{_advice(given, expected)}"
        )


def _pairs(model: Any, x: Any) -> Iterator[tuple[Any, Any]]:
    inputs = getattr(model, "inputs", None) or []
    keyed = None if isinstance(model, keras.Sequential) or not inputs else model.input
    if isinstance(x, Mapping):
        named = keyed if isinstance(keyed, Mapping) else {one.name: one for one in inputs}
        for name in filter(x.__contains__, named):  # each may be a dict itself, as with a mask
            given, expected = keras.tree.flatten(x[name]), keras.tree.flatten(named[name])
            if len(given) == len(expected):
                yield from zip(given, expected, strict=True)
    elif len(given := keras.tree.flatten(x)) == len(inputs):
        yield from zip(given, inputs, strict=True)


def _differ(given: Any, expected: Any) -> bool:
    if len(given.shape) != len(expected.shape):
        return False  # Keras may add an axis, or take one away
    sizes = zip(given.shape[1:], expected.shape[1:], strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in sizes)


def _takes(sequential: Any, tensor: Any) -> bool:
    """Whether the layers take it one after another; of symbols, so that nothing is computed."""
    try:
        for layer in sequential.layers:
            other = [pair for pair in _pairs(layer, tensor) if _differ(*pair)]
            if other and not (isinstance(layer, keras.Sequential) and _takes(layer, tensor)):
                return False
            axes = getattr(layer.input_spec, "axes", None) or {}
            if any(tensor.shape[axis] not in (None, size) for axis, size in axes.items()):
                return False
            tensor = layer.compute_output_spec(tensor)
    except Exception:  # of any layer, of the user's own too
        return False
    return True


def _advice(given: Any, expected: Any) -> str:
    begin = f"let the model begin with keras.Input({tuple(given.shape[1:])})"
    if len(given.shape) != 4:
        return begin
    axis = -1 if keras.config.image_data_format() == "channels_last" else 1
    if given.shape[axis] != (channels := expected.shape[axis]):
        mode = {1: "grayscale", 3: "rgb", 4: "rgba"}.get(channels)
        return begin if mode is None else f'write color_mode="{mode}", or {begin}'
    sizes = _sizes(expected)
    return begin if None in sizes else f"write image_size={sizes}, or {begin}"


def _sizes(image: Any) -> tuple[Any, ...]:
    last = keras.config.image_data_format() == "channels_last"
    return tuple(image.shape[1:-1] if last else image.shape[2:])


def _shown(tensor: Any) -> str:
    return str(("batch", *tensor.shape[1:])).replace("'", "").replace("None", "any")


def check_model(call: Call, view: SequenceView, where: str = "") -> None:
    """Refuse a model with an input or output that a Sequence has nothing for, or not one for one.

    A model that is not functional does not tell its inputs, and its outputs when it is first run.
    """
    model, element_spec = call.model, view.element_spec
    if not steps_as_keras(model, call.purpose):
        return
    strings = [one.name for one in keras.tree.flatten(element_spec[0]) if one.dtype == "string"]
    if strings and (backend := keras.backend.backend()) != "tensorflow":
        raise ArgumentError(
            f"x has text or bytes, {listed(strings)}, which models on {backend} cannot take: make "
            "numbers of them before, with dfgen.Column, or train on TensorFlow "
            "(KERAS_BACKEND=tensorflow)"
        )
    if isinstance(model, keras.Sequential):
        _check_single(call, element_spec)
    check_shapes(model, element_spec[0], where)
    if (inputs := inputs_of(model)) is not None:
        _check(inputs, element_spec[0], inputs.keyed)
    if call.purpose == "predict" or len(element_spec) == 1 or model.loss is None:
        return
    if (outputs := outputs_of_loss(model)) is not None:
        _check(outputs, element_spec[1])
        _check_weights(element_spec[2:], outputs)
    elif has_keras_loss(model):
        when_losses_are_built(call, partial(_check_made, model, view))


def _check_made(model: Any, view: SequenceView, made: Any) -> None:
    outputs, element_spec = ends_made(model, made), view.element_spec
    if outputs.keyed:
        outputs.nest(view.layout.y, view.loader.reader.features)
        _check(outputs, element_spec[1])
        _check_weights(element_spec[2:], outputs)


def _check_single(call: Call, element_spec: tuple[Any, ...]) -> None:
    told = [("input", "x", element_spec[0])] if getattr(call.model, "inputs", None) else []
    if call.purpose != "predict" and call.model.loss is not None and has_keras_loss(call.model):
        told += [("output", "y", target) for target in element_spec[1:2]]
    for what, argument, given in told:
        if isinstance(given, Mapping | tuple) and len(given) > 1:
            raise ArgumentError(_one_for_several(what, argument, len(given)))


def _one_for_several(what: str, argument: str, count: int) -> str:
    return (
        f"the model has one {what}, but {argument} gives {count}: columns of numbers, one-hot ones "
        f"too, are one vector as {argument}=dfgen.Number([...]); for {count} arrays build "
        f"keras.Model(inputs, outputs) with {count} {what}s"
    )


def check_dropped(given: Mapping[str, Any], caller: str | None) -> None:
    """Refuse arguments of fit, evaluate and predict that never reach a DataAdapter."""
    name = next((name for name in DROPPED if given.get(name) is not None), None)
    if name is not None:
        column = ", a column of the manifest" if name in ("y", "sample_weight") else ""
        raise ArgumentError(
            f"{caller}({name}=...) does not reach a dfgen.Sequence, Keras would drop it. "
            f"Give the Sequence its own {name}={column}"
        )


def check_arguments(call: Call, shuffle: bool, endless: bool) -> None:
    """Refuse arguments of fit, evaluate and predict that never reach a Sequence, or cannot be."""
    given, caller = call.arguments, call.purpose
    check_dropped(given, caller)
    name = "steps_per_epoch" if caller == "fit" else "steps"
    if isinstance(steps := given.get("steps_per_epoch"), float | np.floating):
        raise ArgumentError(
            f"{caller}({name}={steps:g}) is a fraction or a float, expected a whole number: leave "
            f"it out, then each row comes once, or write {name}={int(steps)}"
        )
    if endless and call.steps is None:
        raise ArgumentError(
            f"{caller} on repeat() would never end: give it {name}=, or the Sequence itself"
        )
    if caller == "predict" and shuffle:
        raise ArgumentError(
            "predict on a Sequence that shuffles: the predictions could not be matched with the "
            "rows. Make one with shuffle=False"
        )
    if call.purpose == "fit" and shuffle and given.get("shuffle") is False:
        raise ArgumentError(
            "fit(shuffle=False) does not reach a dfgen.Sequence, Keras would drop it. "
            "Give the Sequence its own shuffle=False"
        )


def check_variables(model: Any) -> None:
    """Refuse a model without weights, of which Keras would say that NoneType is not callable."""
    if has_lost_variables(model):
        raise ArgumentError(
            "the model has lost its weights: on JAX Keras takes them out for its steps, and does "
            "not put them back where evaluate, predict or the first step of fit is cut off. Make "
            "the model anew, and load weights that were saved"
        )


def check_whole(plan: Plan) -> None:
    """Refuse to predict where the last rows would have no prediction."""
    if plan.left_out:
        raise ArgumentError(
            f"predict with drop_remainder=True would leave out the last {plan.left_out} of "
            f"{plan.rows:,} rows, which fill no batch of batch_size={plan.batch_size}: expected a "
            "prediction for each row. Make the Sequence without drop_remainder"
        )


def _check_weights(weights: Iterable[Any], outputs: Ends) -> None:
    keyed, count = outputs.keyed, len(outputs.names)
    for tree in weights:
        nested = isinstance(tree, Mapping | tuple)
        if nested and (isinstance(tree, Mapping) != keyed or not (keyed or len(tree) == count)):
            raise ArgumentError(
                "each target has weights of its own here, as pixels and rows weigh in different "
                'shapes, or missing="ignore" weighs labels, and Keras finds them only where y and '
                "the outputs of the model are both dicts, or lists of as many: the outputs are a "
                f"{'dict' if keyed else 'list'} of {count}, y has {len(tree)}"
            )


def _check(ends: Ends, given: Any, exact: bool = True) -> None:
    # exact: Keras would take a dict with more keys in alphabetical order, so each for another
    what, argument, names, needed = ends.what, ends.argument, ends.names, ends.needed
    if not isinstance(given, Mapping):
        count = len(given) if isinstance(given, list | tuple) else 1
        if len(names) == 1 < count:
            raise ArgumentError(_one_for_several(what, argument, count))
        if count not in (len(names), len(needed)):
            raise ArgumentError(
                f"the model has {len(names)} {what}s, {listed(names)}, but {argument} gives "
                f"{count}: write {argument}={{{names[0]!r}: ..., ...}}, a feature for each"
            )
        return
    missing = [name for name in needed if name not in given]
    extra = [name for name in given if name not in names]
    if missing:
        near = (did_you_mean(name, missing) for name in extra)
        raise ArgumentError(
            f"nothing feeds the {what} {listed(missing)} of the model: {argument} has "
            f"{listed(given)}. Rename the key or the {what}, or add a feature to {argument}."
            f"{next(filter(None, near), '')}"
        )
    if extra and exact:
        raise ArgumentError(
            f"{argument} has {listed(extra)}, which the model has no {what} for: its {what}s are "
            f"{listed(names)}. Leave it out of {argument}.{did_you_mean(extra[0], names)}"
        )


def warn_of_metrics(model: Any, view: SequenceView, padded: bool) -> None:
    """Warn of metrics that will count rows which hold blanks, or fill up the last batch."""
    metrics = unweighted_metrics(model)
    left_out = list(_left_out(metrics, view, padded)) if metrics else []
    if left_out:
        warn(
            f"Keras's metrics= ignore weights, and so count rows of weight 0: "
            f"{'; '.join(left_out)}. For metrics of the other rows alone compile the model with "
            "weighted_metrics= instead of metrics="
        )


def check_weighing(view: SequenceView, padded: bool) -> None:
    """Warn of losses that are one number of a batch, where some of its rows weigh otherwise.

    It refuses those that are several, which weights do not even fit.
    """
    loader, weighing = view.loader, view.layout.weighing
    across = [name for name, (axes, _) in weighing.items() if axes == ACROSS_ROWS]
    if across and view.layout.weighted:
        raise ArgumentError(
            f"the loss of {across[0]!r} reduces the axis of the batch, so that Keras cannot weigh "
            "the rows in it: let it reduce other axes, as BinaryCrossentropy(axis=-1) does, or "
            'leave out what weighs rows, sample_weight=, class_weight= and on_error="skip"'
        )
    for name in (name for name, (axes, _) in weighing.items() if axes == OF_THE_BATCH):
        alike = [*_left_out({name: None}, view, padded)]
        if loader.weights is not None or name in loader.own_weights:
            alike.append("those with another sample_weight= or class_weight=")
        if alike:
            every = tuple(range(1, len(loader.specs[name].shape) + 1))
            warn(
                f"the loss of {name!r} makes one number of a whole batch, and Keras cannot weigh "
                f"the rows in it: {'; '.join(alike)} count as the others do. For one number a row "
                f"let the loss reduce the axes {every} alone, as Dice(axis={every}) does"
            )


def _left_out(metrics: Any, view: SequenceView, padded: bool) -> Iterator[str]:
    loader, asked = view.loader, metrics.keys() if isinstance(metrics, Mapping) else None
    for name in leaves(view.layout.y):
        there = loader.reader.present.get(name) if isinstance(name, str) else None
        if there is not None and not there.all() and (asked is None or name in asked):
            yield f"{np.count_nonzero(~there):,} without a label, as blanks in {name!r}"
    if loader.problems:
        yield f'{len(loader.problems):,} that cannot be read, as zeros (on_error="skip")'
    if padded:
        yield "those that fill up the last batch, which processes or devices share"
