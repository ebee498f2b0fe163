"""Compares the class indices of a Sequence with those that a model was trained on."""

import weakref
from collections.abc import Mapping
from typing import Any

import keras

from dfgen.errors import listed, warn
from dfgen.samples.bound_feature import BoundFeature
from dfgen.training.layout import SequenceView

_TRAINED: weakref.WeakKeyDictionary[Any, dict[object, list[str]]] = weakref.WeakKeyDictionary()
"""Model -> the class names of the targets that `fit` trained it on, in this process."""


def features(view: SequenceView, what: str) -> dict[object, BoundFeature]:
    """Return the features of x or y by their keys, or by their places in a list."""
    tree = getattr(view.layout, what)
    by_array = {next(iter(bound.arrays.values())): bound for bound in view.loader.reader.features}
    bound = [by_array[name] for name in keras.tree.flatten(tree or ()) if name in by_array]
    if not isinstance(tree, Mapping):
        return dict(enumerate(bound))
    keys = {name: key for key, name in tree.items() if isinstance(name, str)}
    return {keys.get(next(iter(one.arrays.values())), one.name): one for one in bound}


def target_classes(view: SequenceView) -> dict[object, list[str]]:
    """Return the class names of the targets that have some, by key or place."""
    targets = {key: bound.feature.class_names for key, bound in features(view, "y").items()}
    return {key: [*map(str, names)] for key, names in targets.items() if names}


def moved_class(ours: Mapping[object, list[str]], theirs: Mapping[object, list[str]]) -> str:
    """Return a sentence about the first class with another index in theirs, or "".

    New and missing names are fine.
    """
    for key in ours.keys() & theirs.keys():
        indices = {name: index for index, name in enumerate(ours[key])}
        for index, name in enumerate(theirs[key]):
            if indices.get(name, index) != index:
                return (
                    f"class {name!r} had the index {indices[name]} in training and has {index} "
                    f"here: {listed(ours[key])} in training, {listed(theirs[key])} here. Give both "
                    "Sequences the same class_names="
                )
    return ""


def check_trained(model: Any, view: SequenceView, purpose: str) -> None:
    """Warn if classes have other indices than those that the model was trained on."""
    if moved := moved_class(_TRAINED.get(model, {}), target_classes(view)):
        warn(f"{purpose}: {moved}")


def note_trained(model: Any, view: SequenceView) -> None:
    """Note what the model was trained on for an epoch."""
    _TRAINED[model] = target_classes(view)
