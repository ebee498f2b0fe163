"""Does a Sequence feed what a model asks for? Told before the first step, not in its middle."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras

from dfgen.errors import ArgumentError, did_you_mean
from dfgen.training.handover import Use


def check_model(use: Use, element_spec: tuple[Any, ...]) -> None:
    """Refuse a model with an input or output that a Sequence has nothing for.

    Names and numbers are compared, not shapes, since Keras has its own words for those. A model
    that is not functional does not tell its inputs; one with a `train_step` or `compute_loss` of
    its own may do with a batch what it likes.

    Args:
        use: what Keras does with which model.
        element_spec: of the Sequence.

    Raises:
        ArgumentError: naming the inputs or outputs.
    """
    own = type(use.model)
    if own.train_step is not keras.Model.train_step:
        return
    if keras.backend.backend() != "tensorflow":
        _refuse_strings(element_spec[0])
    inputs = getattr(use.model, "inputs", None)
    if not inputs:
        return
    struct = getattr(use.model, "input", None)
    names = list(struct) if isinstance(struct, Mapping) else [tensor.name for tensor in inputs]
    _check("input", "x", names, names, element_spec[0])
    if use.driver == "predict" or len(element_spec) == 1:
        return
    if own.compute_loss is keras.Model.compute_loss:
        names = _output_names(use.model)
        _check("output", "y", names, _with_loss(use.model, names), element_spec[1])


def _output_names(model: Any) -> list[str]:
    outputs = getattr(model, "output", None)
    return list(outputs) if isinstance(outputs, Mapping) else list(model.output_names)


def _with_loss(model: Any, names: list[str]) -> list[str]:
    """Return the outputs that have a loss, and so need a target."""
    loss = model.loss
    if isinstance(loss, Mapping):
        return [name for name in names if loss.get(name) is not None]
    if isinstance(loss, list | tuple) and len(loss) == len(names):
        return [name for name, one in zip(names, loss, strict=True) if one is not None]
    return names if loss is not None else []


def _check(what: str, argument: str, names: list[str], needed: list[str], given: Any) -> None:
    """Compare the inputs or outputs of a model with what x or y has."""
    if isinstance(given, Mapping):
        missing = [name for name in needed if name not in given]
        if missing:
            hint = did_you_mean(missing[0], given)
            raise ArgumentError(
                f"nothing feeds the model's {what} {_quoted(missing)}: {argument} has "
                f"{_quoted(given)}. Give {argument} that key, or name the model's {what} "
                f"otherwise.{hint}"
            )
        return
    count = len(given) if isinstance(given, list | tuple) else 1
    if count not in (len(names), len(needed)):
        raise ArgumentError(
            f"the model has {len(names)} {what}s, {_quoted(names)}, but {argument} gives {count}: "
            f"write {argument}={{{names[0]!r}: ..., ...}}, with a feature for each"
        )


def _refuse_strings(x: Any) -> None:
    strings = [spec.name for spec in keras.tree.flatten(x) if spec.dtype == "string"]
    if strings:
        raise ArgumentError(
            f"x has text or bytes, {_quoted(strings)}, which models on "
            f"{keras.backend.backend()} cannot take: make numbers of them before, with "
            "dfgen.Column, or train on TensorFlow (KERAS_BACKEND=tensorflow)"
        )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
