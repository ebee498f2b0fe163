"""Inputs and outputs of a model, and x and y nested as they are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import keras

from dfgen.binding.nested import leaves
from dfgen.errors import ArgumentError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.training.checks.model_outputs import calls_as_keras, keras_order
from dfgen.training.keras_private import built_outputs
from dfgen.training.layout import Layout

_STEPS = {"fit": "train_step", "evaluate": "test_step", "predict": "predict_step"}


@dataclass(frozen=True)
class Ends:
    """The inputs or the outputs of a model, some of which must be fed; `keyed`: they are a dict."""

    what: str
    argument: str  # of Sequence, which feeds them
    names: list[str]
    needed: list[str]
    keyed: bool

    def nest(self, tree: Any, features: Iterable[BoundFeature]) -> Any:
        """Return names of arrays nested as these are: dicts match by name, lists by place.

        Raises:
            ArgumentError: it is a list, and these are a dict, which Keras would sort.
        """
        if isinstance(tree, Mapping):
            if self.keyed or tree.keys() != {*self.names}:
                return tree
            if len(tree) == 1:  # of x Keras takes a dict, too
                return tree if self.argument == "x" else tree[self.names[0]]
            return tuple(map(tree.__getitem__, self.names))
        given = [*leaves(tree)]
        if self.keyed and len(self.names) > 1 and len(given) in (len(self.names), len(self.needed)):
            names = self.names if len(given) == len(self.names) else self.needed
            columns = {
                array: ", ".join(bound.feature.columns)
                for bound in features
                for array in bound.specs
            }
            shown = [columns.get(next(leaves(one)), "...") for one in given]
            shown = names if {*shown} == {*names} else shown
            pairs = zip(names, shown, strict=True)
            raise ArgumentError(
                f"{self.argument} is a list, but the {self.what}s of the model are a dict, for "
                f"which Keras would sort the names: write {self.argument}={{"
                + ", ".join(f"{name!r}: {column!r}" for name, column in pairs)
                + "}, a feature for each by its name"
            )
        return tree


def paired(layout: Layout, features: Iterable[BoundFeature], model: Any, purpose: Any) -> Layout:
    """Return a layout nested as a model is, for fit, evaluate or predict; see `Ends.nest`."""
    inputs = inputs_of(model)
    alike = all(steps_as_keras(model, one) for one in _STEPS)  # which predict as they train
    if alike and inputs is not None and calls_as_keras(model):
        layout = replace(layout, x=inputs.nest(layout.x, features))
    if purpose == "predict" or layout.y is None or not steps_as_keras(model, purpose):
        return layout
    outputs = outputs_of_loss(model)
    return layout if outputs is None else replace(layout, y=outputs.nest(layout.y, features))


def steps_as_keras(model: Any, purpose: Any) -> bool:
    """Whether a model takes a batch as Keras does, not by a step of its own."""
    step = _STEPS.get(purpose, "call")
    own, of_keras = (getattr(one, step, None) for one in (type(model), keras.Model))
    return own is of_keras  # None of both: NumPy trains nothing


def has_keras_loss(model: Any) -> bool:
    """Whether the losses that a model was compiled with are compared as Keras does."""
    return type(model).compute_loss is keras.Model.compute_loss


def by_output(tree: Any, names: list[str]) -> dict[str, Any]:
    """Return the losses, weights or targets of outputs by name, as far as names or places tell."""
    if not isinstance(tree, Mapping | list | tuple):
        return dict.fromkeys(names, tree)
    found = list(leaves(tree))
    if isinstance(tree, Mapping) and not len(found) == len(names) == 1:
        return {name: tree[name] for name in names if name in tree}
    return dict(zip(names, found, strict=True)) if len(found) == len(names) else {}


def inputs_of(model: Any) -> Ends | None:
    """Return the inputs of a functional model; None of any other, which does not tell them."""
    if not getattr(model, "inputs", None) or isinstance(model, keras.Sequential):
        return None
    keyed = isinstance(model.input, Mapping)
    names = list(model.input) if keyed else [tensor.name for tensor in model.inputs]
    return Ends("input", "x", names, names, keyed)


def outputs_of_loss(model: Any) -> Ends | None:
    """Return the outputs that the losses of a model compare; None where they are not known yet."""
    if not has_keras_loss(model) or model.loss is None:
        return None
    if isinstance(model, keras.Sequential):
        last = model.layers[-1:]
        names = [layer.name for layer in last if not isinstance(layer, keras.Model)]
        return Ends("output", "y", names, names, False) if names else None
    functional = getattr(model, "inputs", None) and calls_as_keras(model)
    made = model.output if functional else built_outputs(model)
    return None if made is None else ends_made(model, made)


def ends_made(model: Any, made: Any) -> Ends:
    """Return the outputs of a model, by what it makes."""
    if keyed := isinstance(made, Mapping):
        order = keras_order(made)
        is_own = made is getattr(model, "output", None)
        names = list(made) if is_own else order
    else:
        places = [*map(str, range(len(keras.tree.flatten(made))))]
        order = names = list(getattr(model, "output_names", places))
    loss, needed = model.loss, order
    if not isinstance(loss, list | tuple) or len(loss) == len(order):
        losses = by_output(loss, order)
        needed = [name for name in order if losses.get(name) is not None]
    return Ends("output", "y", names, needed, keyed)
