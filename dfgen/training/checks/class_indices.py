"""Compares the class indices of a Sequence with those that a model was trained on."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dfgen.binding.nested import leaves
from dfgen.errors import listed, warn
from dfgen.samples.bound_feature import BoundFeature
from dfgen.training.layout import SequenceView

_TRAINED = WeakKeyDictionary[Any, dict[object, list[str]]]()  # model -> class names in fit
_warn_once = cache(warn)


def features(view: SequenceView, what: str) -> dict[object, BoundFeature]:
    """Return the features of x or y by key or place."""
    tree = getattr(view.layout, what) or ()
    items = tree.items() if isinstance(tree, Mapping) else enumerate(leaves(tree))
    return {key: view.loader.reader.by_array[next(leaves(arrays))] for key, arrays in items}


def target_classes(view: SequenceView) -> dict[object, list[str]]:
    """Return the class names of the targets by key or place."""
    targets = features(view, "y").items()
    return {key: [*map(str, bound.feature.class_names or ())] for key, bound in targets}


def moved_class(ours: Mapping[object, list[str]], theirs: Mapping[object, list[str]]) -> str:
    """Return a sentence about the first class with another index in theirs, or ""."""
    for key in ours.keys() & theirs.keys():
        indices = {name: index for index, name in enumerate(ours[key])}
        for index, name in enumerate(theirs[key]):
            if indices.get(name, index) != index:
                return (
                    f"class {name!r} has the index {index} in {listed(theirs[key])}, but "
                    f"{indices[name]} in {listed(ours[key])} of training: give both class_names="
                )
    return ""


def warn_of_unseen(train: SequenceView, val: SequenceView, what: str) -> None:
    """Warn once about classes that rows of validation have, but no row of training."""
    ours, theirs = features(train, "y"), features(val, "y")
    for key in ours.keys() & theirs.keys():
        if unseen := [*(_occurring(theirs[key]) - _occurring(ours[key]))]:
            column = theirs[key].feature.columns[0]
            _warn_once(
                f"{what} has the class {listed(sorted(unseen))} in column {column!r}, but no "
                "training row has it, so the model cannot learn it: move rows of it to training, "
                "or split with stratify="
            )


def _occurring(bound: BoundFeature) -> set[str]:
    """Return the names of the classes that rows of a target have."""
    names, values = bound.feature.class_names or (), bound.values
    if isinstance(values, np.ndarray) and bound.present is not None:
        values = values[bound.present]
    for codes in getattr(values, "arrays", (values,)):
        if isinstance(codes, np.ndarray) and codes.ndim == 1 and codes.dtype.kind == "i":
            counts = np.bincount(codes, minlength=len(names))
            return {str(name) for name, number in zip(names, counts, strict=False) if number}
    return set()


def check_trained(model: Any, view: SequenceView, purpose: str) -> None:
    """Warn if classes have other indices than those that the model was trained on."""
    if moved := moved_class(_TRAINED.get(model, {}), target_classes(view)):
        warn(f"{purpose}: {moved}")


def note_trained(model: Any, view: SequenceView) -> None:
    """Note what the model was trained on for an epoch."""
    _TRAINED[model] = target_classes(view)
