"""Which column is for which input or output of a model, where either side is a list.

Keras takes a list for a dict in the order of its sorted keys, and two lists by their places: how
columns are called plays no part there. Here names decide; where they do not, nobody guesses.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import keras

from dfgen.binding.nested import leaves
from dfgen.errors import ArgumentError, listed
from dfgen.samples.bound_feature import BoundFeature
from dfgen.training.checks.model_outputs import calls_as_keras, keras_order
from dfgen.training.keras_private import built_outputs
from dfgen.training.layout import Layout

_STEPS = {"fit": "train_step", "evaluate": "test_step", "predict": "predict_step"}

ColumnNames = Mapping[str, str]
"""Name of an array -> the column that it is of; without those of several columns."""


@dataclass(frozen=True)
class Ends:
    """The inputs or the outputs of a model, some of which must be fed; `keyed`: they are a dict."""

    what: str
    argument: str  # of Sequence, which feeds them
    names: list[str]
    needed: list[str]
    keyed: bool

    def nest(self, tree: Any, columns: ColumnNames) -> Any:
        """Return names of arrays nested as these are, where that is not plain to Keras."""
        if isinstance(tree, Mapping):
            if self.keyed or tree.keys() != {*self.names}:
                return tree
            if len(tree) == 1:  # of x Keras takes a dict, too
                return tree if self.argument == "x" else tree[self.names[0]]
            return tuple(map(tree.__getitem__, self.names))
        given = list(leaves(tree))
        if len(self.names) == 1 or len(given) not in (len(self.names), len(self.needed)):
            return tree
        known = _known(tree, columns)
        if self.keyed:
            return self._by_names(given, known)
        places = self.names if len(given) == len(self.names) else self.needed
        pairs = [*zip(known, places, strict=True)]
        if any(n != to and n in self.names and (n, n) not in pairs for n, to in pairs):
            exchanged = len({*known} & {*self.names}) == len(given)
            instead = f"write {self.argument}=[{listed(places)}], or for this order " * exchanged
            raise self._refusal(known, "which Keras takes one after the other", instead or "write ")
        return tree

    def _by_names(self, given: list[Any], known: list[str | None]) -> dict[str, Any]:
        found = {name: one for name, one in zip(known, given, strict=True) if name in self.names}
        others = [one for name, one in zip(known, given, strict=True) if name not in self.names]
        left = [name for name in self.needed if name not in found]
        if len(found) + len(others) == len(given) and len(others) == len(left) <= 1:
            return {**found, **dict(zip(left, others, strict=True))}
        raise self._refusal(known, "and names do not tell which is for which")

    def refuse_late(self, tree: Any, columns: ColumnNames, order: list[str]) -> None:
        """Refuse a list that these, known only now, are not fed with in the order of Keras."""
        nested = self.nest(tree, columns)
        found = [nested[name] for name in order if name in nested]
        if not isinstance(tree, Mapping) and found != list(leaves(tree)):
            raise self._refusal(_known(tree, columns), f"which Keras takes as {listed(order)}")

    def _refusal(self, known: list[str | None], why: str, instead: str = "write ") -> ArgumentError:
        first = next(name for name in self.names if name in self.needed)
        shown = ", ".join("several columns" if name is None else repr(name) for name in known)
        return ArgumentError(
            f"{self.argument} is {'a list of ' * (len(known) > 1)}{shown}, but the {self.what}s of "
            f"the model are a {'dict' if self.keyed else 'list'} of {listed(self.names)}, {why}: "
            f"{instead}{self.argument}={{{first!r}: ..., ...}}, a feature for each by its name"
        )


def paired(layout: Layout, features: Iterable[BoundFeature], model: Any, purpose: Any) -> Layout:
    """Return a layout nested as a model is, for fit, evaluate or predict; refuse as `nest` does."""
    columns, inputs = columns_of(features), inputs_of(model)
    alike = all(steps_as_keras(model, one) for one in _STEPS)  # which predict as they train
    if alike and inputs is not None and calls_as_keras(model):
        layout = replace(layout, x=inputs.nest(layout.x, columns))
    if purpose == "predict" or layout.y is None or not steps_as_keras(model, purpose):
        return layout
    outputs = outputs_of_loss(model)
    return layout if outputs is None else replace(layout, y=outputs.nest(layout.y, columns))


def _known(tree: Any, columns: ColumnNames) -> list[str | None]:
    return [columns.get(next(leaves(one))) for one in leaves(tree)]


def columns_of(features: Iterable[BoundFeature]) -> ColumnNames:
    """Return the columns of the arrays of features."""
    alone = (one for one in features if len(one.feature.columns) == 1)
    return {array: one.feature.columns[0] for one in alone for array in one.arrays.values()}


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
