"""Does a Sequence feed what a model asks for, and does it get what `fit` is given?

Told before the first step, not in its middle.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError, did_you_mean, listed
from dfgen.loading.order.plan import Plan
from dfgen.training.checks.model_outputs import keras_order
from dfgen.training.checks.pairing import (
    Ends,
    columns_of,
    ends_made,
    inputs_of,
    outputs_of_loss,
    steps_as_keras,
)
from dfgen.training.keras_calls import DROPPED, Call, when_losses_are_built
from dfgen.training.keras_private import has_lost_variables
from dfgen.training.layout import SequenceView


def check_shapes(model: Any, x: Any, where: str) -> None:
    """Refuse images of another size or other channels than a model can take.

    A functional model insists on the shapes of its inputs. A Sequential may take others, where its
    layers do: that is tried, without numbers. Height and width exchanged are never meant, and
    where a Flatten follows nobody else would tell.
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
        yield from ((x[name], named[name]) for name in named if name in x)
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
    shape = ", ".join("None" if size is None else str(size) for size in given.shape[1:])
    found = [f"the model begin with keras.Input(({shape}{',' * (len(given.shape) == 2)}))"]
    if len(given.shape) == 4:
        if _channels(given) != _channels(expected):
            names = {1: "grayscale", 3: "rgb", 4: "rgba"}
            if (mode := names.get(_channels(expected))) is not None:
                found.insert(0, f'color_mode="{mode}"')
        elif None not in _sizes(expected):
            found.insert(0, f"image_size={_sizes(expected)}")
    return f"write {found[0]}, or let {found[-1]}" if len(found) > 1 else f"let {found[0]}"


def _sizes(image: Any) -> tuple[Any, ...]:
    last = keras.config.image_data_format() == "channels_last"
    return tuple(image.shape[1:-1] if last else image.shape[2:])


def _channels(image: Any) -> Any:
    return image.shape[-1 if keras.config.image_data_format() == "channels_last" else 1]


def _shown(tensor: Any) -> str:
    return str(("batch", *tensor.shape[1:])).replace("'", "").replace("None", "any")


def check_model(call: Call, view: SequenceView, where: str = "") -> None:
    """Refuse a model with an input or output that a Sequence has nothing for, or not one for one.

    Names, numbers and shapes are compared. A model that is not functional does not tell its
    inputs, and its outputs only when it is first run; one with a step or `compute_loss` of its own
    may do with a batch what it likes.
    """
    model, element_spec = call.model, view.element_spec
    if not steps_as_keras(model, call.purpose):
        return
    if keras.backend.backend() != "tensorflow":
        _refuse_strings(element_spec[0])
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
    elif type(model).compute_loss is keras.Model.compute_loss:
        when_losses_are_built(call, partial(_check_made, model, view))


def _check_made(model: Any, view: SequenceView, made: Any) -> None:
    outputs, element_spec = ends_made(model, made), view.element_spec
    if outputs.keyed:
        columns = columns_of(view.loader.reader.features)
        outputs.refuse_late(view.layout.y, columns, keras_order(made))
        _check(outputs, element_spec[1])
        _check_weights(element_spec[2:], outputs)


def _check_single(call: Call, element_spec: tuple[Any, ...]) -> None:
    told = [("input", "x", element_spec[0])] if getattr(call.model, "inputs", None) else []
    default = type(call.model).compute_loss is keras.Model.compute_loss
    if call.purpose != "predict" and call.model.loss is not None and default:
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
    for name in DROPPED:
        if given.get(name) is not None:
            column = ", a column of the manifest" if name in ("y", "sample_weight") else ""
            raise ArgumentError(
                f"{caller}({name}=...) does not reach a dfgen.Sequence, Keras would drop it. "
                f"Give the Sequence its own {name}={column}"
            )


def check_arguments(call: Call, shuffle: bool, endless: bool) -> None:
    """Refuse arguments of fit, evaluate and predict that never reach a Sequence, or cannot be."""
    given, caller = call.arguments, call.caller
    check_dropped(given, caller)
    if isinstance(steps := given.get("steps_per_epoch"), float | np.floating):
        name = "steps_per_epoch" if caller == "fit" else "steps"
        raise ArgumentError(
            f"{caller}({name}={steps:g}) is a fraction or a float, expected a whole number: leave "
            f"it out, then each row comes once, or write {name}={int(steps)}"
        )
    if endless and call.steps is None:
        raise ArgumentError(
            f"{caller} on repeat() would never end: give it "
            f"{'steps_per_epoch' if caller == 'fit' else 'steps'}=, or the Sequence itself"
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
            "the model has lost its weights: on JAX Keras takes them out of a model for its steps, "
            "and where an error or an interruption ends evaluate, predict or the first step of "
            "fit, it does not put them back. Make the model anew, and load weights that were saved"
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
    if missing:
        raise ArgumentError(
            f"nothing feeds the {what} {listed(missing)} of the model: {argument} has "
            f"{listed(given)}. Rename the key or the {what}, or add a feature to {argument}."
            f"{did_you_mean(missing[0], given)}"
        )
    extra = [name for name in given if name not in names]
    if extra and exact:
        raise ArgumentError(
            f"{argument} has {listed(extra)}, which the model has no {what} for: its {what}s are "
            f"{listed(names)}. Leave it out of {argument}.{did_you_mean(extra[0], names)}"
        )


def _refuse_strings(x: Any) -> None:
    strings = [spec.name for spec in keras.tree.flatten(x) if spec.dtype == "string"]
    if strings:
        raise ArgumentError(
            f"x has text or bytes, {listed(strings)}, which models on "
            f"{keras.backend.backend()} cannot take: make numbers of them before, with "
            "dfgen.Column, or train on TensorFlow (KERAS_BACKEND=tensorflow)"
        )
