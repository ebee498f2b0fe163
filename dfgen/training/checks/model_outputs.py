"""The inputs, outputs and losses of a model, and a batch nested for them. No model is run here."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

import keras

from dfgen.errors import ArgumentError, listed
from dfgen.loading.loader import Loader
from dfgen.spec import leaves
from dfgen.training.passes import Layout

LossKind = StrEnum("LossKind", ["SPARSE", "CATEGORICAL", "BINARY", "REGRESSION"])
"""The families of losses that take the same targets and outputs."""

_LOSSES = (
    "sparse_categorical_crossentropy", "categorical_crossentropy", "categorical_focal_crossentropy",
    "binary_crossentropy", "binary_focal_crossentropy", "mean_squared_error", "huber", "log_cosh",
    "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_logarithmic_error",
)  # fmt: skip
"""Functions of losses, which begin with their kind. Classes have the same names in capitals."""


class KnownLoss(NamedTuple):
    """A loss of Keras. Class indices equal to `ignored` do not count."""

    kind: LossKind
    name: str
    from_logits: bool = False
    ignored: int | None = None


def known_loss(loss: Any) -> KnownLoss | None:
    """Return what is known of a loss, as `compile` takes it; None if it is the user's own."""
    with suppress(ValueError, TypeError):
        loss = keras.losses.get(loss)
    for name in _LOSSES:
        kind = next((kind for kind in LossKind if name.startswith(kind)), LossKind.REGRESSION)
        if loss is getattr(keras.losses, name):
            return KnownLoss(kind, name)
        if type(loss) is getattr(keras.losses, name.title().replace("_", "")):
            # Keras 3.15 leaves the axis of a sparse loss out of get_config
            config = loss.get_config() | getattr(loss, "_fn_kwargs", {})
            if config.get("axis", -1) == -1:
                return KnownLoss(
                    kind, name, config.get("from_logits", False), config.get("ignore_class")
                )
    return None


class Output(NamedTuple):
    """An output of a model: the length of its last axis, its last activation and its shape."""

    units: int | None
    activation: str | None
    shape: tuple[int | None, ...] | None


def outputs_of(model: Any) -> dict[str, Output]:
    """Return outputs by the names of y and losses, in the order of Keras; none if subclassed."""
    if not _is_of_keras(type(model).call) or not getattr(model, "layers", None):
        return {}
    tensors, layers = getattr(model, "outputs", None), model.layers
    if isinstance(model, keras.Sequential):
        return {layers[-1].name: _output(layers[-1], tensors[0].shape if tensors else None)}
    outputs = {}
    for tensor, name in zip(tensors or (), getattr(model, "output_names", ()), strict=False):
        last = next((layer for layer in layers if layer.name == name), None)
        if isinstance(model.output, Mapping):
            name = next((key for key in model.output if model.output[key] is tensor), None)
        if name is not None:  # unless it is in a dict within the dict
            outputs[name] = _output(last, tensor.shape)
    return outputs


def _output(last: Any, shape: tuple[int | None, ...] | None) -> Output:
    inner = [*outputs_of(last).values()] if isinstance(last, keras.Model) else []
    units, activation = inner[0][:2] if len(inner) == 1 else (None, _activation(last))
    if shape is not None:
        units = shape[-1] if len(shape) > 1 else None
    elif not inner and _is_of_keras(type(last)):
        units = getattr(last, "units", getattr(last, "filters", None))
    return Output(units, activation, shape)


def _activation(layer: Any) -> str | None:
    """Return the name of the activation that a layer ends in; None if it is not known."""
    kind, activation = type(layer), getattr(layer, "activation", None)
    if kind is keras.layers.Softmax and layer.axis == -1:
        return "softmax"
    name = getattr(activation, "__name__", "")
    is_cast = kind is keras.layers.Activation and name == "linear"
    if not _is_of_keras(kind) or isinstance(layer, keras.layers.RNN) or is_cast:
        return None
    return name if activation is getattr(keras.activations, name, layer) else None


def _is_of_keras(defined: Any) -> bool:
    return bool(defined.__module__.startswith("keras."))


def steps_as_keras(model: Any, purpose: str) -> bool:
    """Whether a model has the train_step, test_step or predict_step of Keras."""
    step = {"fit": "train_step", "evaluate": "test_step", "predict": "predict_step"}[purpose]
    return getattr(type(model), step, None) is getattr(keras.Model, step, None)


def has_keras_loss(model: Any) -> bool:
    """Whether a model has losses and computes them as Keras does."""
    return model.loss is not None and type(model).compute_loss is keras.Model.compute_loss


def by_output(tree: Any, names: list[str]) -> dict[str, Any]:
    """Return the losses, weights or targets of outputs by name, as far as they are known."""
    if not isinstance(tree, Mapping | list | tuple):
        return dict.fromkeys(names, tree)
    items = list(leaves(tree))
    if isinstance(tree, Mapping) and not len(items) == len(names) == 1:
        return {name: tree[name] for name in names if name in tree}
    return dict(zip(names, items, strict=True)) if len(items) == len(names) else {}


def nested(layout: Layout, loader: Loader, model: Any, purpose: str) -> Layout:
    """Return the layout with y and weights nested as the outputs and losses of a model.

    Raises:
        ArgumentError: x or y is a list, but the model has a dict, whose names Keras would sort; or
            names or numbers differ.
    """
    as_keras, outputs = steps_as_keras(model, purpose), outputs_of(model)
    is_functional = bool(outputs) and not isinstance(model, keras.Sequential)
    # a task of KerasHub makes the inputs of its model itself
    converts = getattr(model, "preprocessor", None) is not None and any(
        one.__module__.startswith("keras_hub.") for one in type(model).__mro__
    )
    if as_keras and outputs and getattr(model, "inputs", None) and not converts:
        is_dict = is_functional and isinstance(model.input, Mapping)
        names = [*model.input] if is_dict else [tensor.name for tensor in model.inputs]
        _matched("x", layout.x, names, names, is_dict, loader)
    if purpose == "predict" or layout.y is None or not has_keras_loss(model):
        return layout
    if as_keras:
        made = model.output if is_functional else _symbolic_outputs(model, layout, loader)
        is_dict = isinstance(made, Mapping)
        names = [*made] if is_dict else [*outputs]
        losses = by_output(model.loss, [*outputs] or sorted(names))
        needed = [name for name in names if not losses or losses.get(name) is not None]
        if names:
            layout = replace(layout, y=_matched("y", layout.y, names, needed, is_dict, loader))
    return _weighed(layout, loader, model) if as_keras or len(layout.weighing) == 1 else layout


def _symbolic_outputs(model: Any, layout: Layout, loader: Loader) -> Any:
    """Return the outputs of a subclassed model as symbols; None if they are not known."""
    if isinstance(layout.y, str) or outputs_of(model) or not model.built:
        return None
    return _tried(model.compute_output_spec, layout.element_spec(loader.specs)[0])


def _tried(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of the user returns; None if it raises, as it will do in Keras."""
    with suppress(Exception):
        return function(*arguments)
    return None


def _matched(
    argument: str, tree: Any, names: list[str], needed: list[str], is_dict: bool, loader: Loader
) -> Any:
    parts, arrays = {"x": "inputs", "y": "outputs"}[argument], [*leaves(tree)]
    if isinstance(tree, Mapping):
        differing = [name for name in tree if name not in names]
        differing += [name for name in needed if name not in tree]
        if argument == "x" and not is_dict:
            return tree  # Keras matches the names
        if differing:
            raise ArgumentError(
                f"{argument} has the keys {listed(tree)}, but the {parts} of the model are "
                f"{listed(names)}: give {argument} a feature for each of them"
            )
        if is_dict or len(tree) < len(names):
            return tree
        return tuple(tree[name] for name in names) if len(names) > 1 else tree[names[0]]
    if len(names) == 1 < len(arrays):
        raise ArgumentError(
            f"the model has one {parts[:-1]}, but {argument} gives {len(arrays)} arrays: write "
            f"{argument}=dfgen.Number([...]) for one vector of several columns"
        )
    if is_dict and len(names) > 1:
        features = (loader.reader.by_array[next(leaves(array))].feature for array in arrays)
        columns = [", ".join(feature.columns) for feature in features]
        keys = needed if len(columns) == len(needed) else names
        pairs = dict(zip(keys, keys if {*columns} == {*keys} else columns, strict=False))
        raise ArgumentError(
            f"{argument} is a list, but the {parts} of the model are a dict, whose names Keras "
            f"would sort: write {argument}={pairs}, a feature for each name"
        )
    return tree


def _weighed(layout: Layout, loader: Loader, model: Any) -> Layout:
    """Return the layout with weights that broadcast to the losses of a model.

    On torch, Keras multiplies weights in place by a mask of the loss, such as that of
    `ignore_class`. Each target then has weights of its own, of the full shape.
    """
    outputs, weighing, filled = outputs_of(model), dict(layout.weighing), set[str]()
    keys = layout.y if isinstance(layout.y, Mapping) else map(str, range(len([*leaves(layout.y)])))
    names = [*(outputs or keys)]
    losses, targets = by_output(model.loss, names), by_output(layout.y, names)
    for name in names:
        loss, array = keras.losses.get(losses.get(name)), targets.get(name)
        if loss is None or not isinstance(array, str):
            continue
        target = layout.turned(array, loader.specs[array]).shape
        output = (name in outputs and outputs[name].shape) or (None, *target)
        zeros = (keras.ops.zeros((2, *_small(side))) for side in (target, output[1:]))
        value = _tried(getattr(loss, "call", loss), *zeros) if weighing[array][0] else None
        shape = None if value is None else list(value.shape)[1:]  # Dice returns a number a row
        if shape is not None:
            weighing[array] = len(shape), weighing[array][1]
        by_sum = getattr(loss, "reduction", None) == "mean_with_sample_weight"
        fits = shape is None or shape == _small(target)[: len(shape)]
        if fits and (keras.backend.backend() == "torch" or by_sum):
            filled.add(array)
    return replace(layout, weighing=weighing, filled=frozenset(filled))


def _small(shape: tuple[int | None, ...]) -> list[int]:
    """Return the shape of a few pixels, with as many channels."""
    return [size or 3 if axis > 1 else min(size or 3, 8) for axis, size in enumerate(shape)]
