"""The weight of each row in the loss."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from dfgen.binding.frame_columns import Columns
from dfgen.binding.nested import Tree, leaves
from dfgen.errors import ArgumentError, ManifestError, brief, did_you_mean, listed, warn
from dfgen.loading.pending_batch import Weights
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.number import Number
from dfgen.table.arrow_types import nulls

SampleWeight = str | Mapping[str, str | None] | Sequence[str | None] | None
"""The column of weights of all targets; or one for each, nested as y."""
ClassWeight = Mapping[Any, Any] | Sequence[Any] | str | None
"""Class -> weight, or `"balanced"`; or that for each target, nested as y."""

_WAYS = {"sample_weight": '"column"', "class_weight": '"balanced"'}


def row_weights(
    columns: Columns, targets: Tree, sample_weight: SampleWeight, class_weight: ClassWeight
) -> tuple[Weights | None, dict[str, Weights]]:
    """Return what each row counts in the loss: its own weight times that of its class.

    That is what it counts in the loss of every target (None: 1), and name of a target -> by what
    that is multiplied in the loss of this one. The targets are what y is bound to, nested as it is.
    """
    if sample_weight is None and class_weight is None:
        return None, {}
    if targets is None:
        raise ArgumentError("sample_weight and class_weight weigh a loss, but there is no y")
    is_one = isinstance(targets, BoundFeature)
    by_column = _by_target("sample_weight", sample_weight, targets)
    by_class = _by_target("class_weight", class_weight, targets)
    shared, own, ones = None, dict[str, Weights](), np.ones(len(columns), np.float32)
    if sample_weight is not None and by_column is None:
        shared = _own_weights(columns, columns.check("sample_weight", sample_weight))
    for bound in leaves(targets):
        column, classes = ((given or {}).get(bound.name) for given in (by_column, by_class))
        found = []
        if column is not None:
            found.append(
                _own_weights(columns, columns.check(f"sample_weight[{bound.name!r}]", column))
            )
        if classes is not None:
            called = "class_weight" if is_one else f"class_weight[{bound.name!r}]"
            with np.errstate(over="ignore"):  # told by _product
                found.append(_class_weights(bound, classes, called))
        if found:
            own[bound.name] = _product(ones, *found)
    if shared is None and not own:  # None for each target
        return None, {}
    for name in own or [""]:
        weights = _product(ones if shared is None else shared, own.get(name, ones))
        if not weights.any():
            raise ManifestError(
                f"all {len(columns):,} rows weigh 0{f' for {name!r}' * (not is_one)} by "
                f"sample_weight={brief(sample_weight)} and class_weight={brief(class_weight)}, so "
                "the model learns nothing: expected a weight above 0 in some row"
            )
    return (weights, {}) if is_one else (shared, own)


def _product(*factors: Weights) -> Weights:
    with np.errstate(over="ignore"):
        weights: Weights = reduce(np.multiply, factors)
    if not np.isfinite(weights).all():
        row = int(np.isfinite(weights).argmin())
        raise ArgumentError(
            f"class_weight makes the weight of row {row} more than float32 can hold, "
            f"{np.finfo(np.float32).max:.2g}: give smaller ones"
        )
    return weights


def _by_target(argument: str, given: Any, targets: Tree) -> dict[str, Any] | None:
    """Return name of a target -> what is given for it; None, what is given is for all."""
    way, nested = _WAYS[argument], isinstance(given, Mapping | list | tuple)
    if isinstance(targets, BoundFeature):
        of_each = [*given.values()] if isinstance(given, Mapping) else []
        if any(isinstance(one, Mapping | str) for one in of_each):
            alone = of_each[0]
            raise ArgumentError(
                f"{argument}={brief(given)} gives outputs their own, but y is one target, "
                f"{_listed(targets)}: write {argument}={brief(alone)}, or y as a dict"
            )
        return {targets.name: given} if argument == "class_weight" else None
    names = [bound.name for bound in leaves(targets)]
    if given is None or (argument == "sample_weight" and not nested):
        return None
    if isinstance(targets, Mapping):
        if isinstance(given, Mapping) and given.keys() <= targets.keys():
            return dict(given)
        example = f"{{{names[0]!r}: {way}}}"
        stray = [key for key in given if key not in targets] if isinstance(given, Mapping) else []
        wrong = f"has {listed(stray)}" if stray else f"is {brief(given)}"
        near = did_you_mean(str(stray[0]), names) if stray else ""
    else:
        if isinstance(given, list | tuple) and len(given) == len(names):
            return dict(zip(names, given, strict=True))
        example = f"[{', '.join([way, *['None'] * (len(names) - 1)])}]"
        wrong, near = f"is {brief(given)}", ""
    raise ArgumentError(
        f"{argument} {wrong}, but y has {len(names)} targets, {_listed(targets)}: give each "
        f"weighted target its own, {argument}={example}.{near}"
    )


def _listed(targets: Tree) -> str:
    """Return the names of targets, each with its column."""
    return ", ".join(
        f"{bound.name!r} (column {', '.join(map(repr, bound.feature.columns))})"
        for bound in leaves(targets)
    )


def _own_weights(columns: Columns, name: str) -> Weights:
    values = columns[name]
    lacking = nulls(values)
    if lacking.any():
        raise ManifestError(
            f'sample_weight="{name}" is missing in {lacking.sum():,} rows, the first is row '
            f"{lacking.argmax()}: give them a weight, as 0, or drop them"
        )
    weights: Weights = Number(name, dtype="float32").bind(columns)
    if not np.isfinite(weights).all():
        row = int(np.isfinite(weights).argmin())
        raise ManifestError(
            f'sample_weight="{name}" is {weights[row]} in row {row}: expected finite numbers'
        )
    if (negative := weights < 0).any():
        row = int(negative.argmax())
        raise ManifestError(
            f'sample_weight="{name}" is {weights[row]:g} in row {row}, and below 0 in '
            f"{negative.sum():,} of {len(weights):,} rows: training would make their loss larger. "
            f"Expected 0 or more: df[{name!r}] = df[{name!r}].clip(lower=0) lets them count nothing"
        )
    return weights


def _class_weights(target: BoundFeature, class_weight: Any, called: str) -> Weights:
    names = target.feature.class_names if isinstance(target.values, np.ndarray) else None
    if names is None:
        raise ArgumentError(
            f"{called}={brief(class_weight)} weighs classes, but the target {_listed(target)} is "
            f"{type(target.feature).__name__}, not one class a row: give sample_weight, a column "
            "of weights, or make it dfgen.Category(...)"
        )
    if not len(target.values):  # no row has a class
        return np.ones(1, np.float32)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return _balanced(target, len(names))
    weights = np.ones(len(names), np.float32)
    given = _numbered(names, class_weight, called)
    _warn_of_unweighted(target, given, called)
    for number, weight in given.items():
        if not (isinstance(weight, int | float | np.number) and 0 <= weight < float("inf")):
            raise ArgumentError(
                f"{called} gives class {number} the weight {weight!r}: expected a number of 0 "
                "or more"
            )
        weights[number] = weight
    found: Weights = weights[target.values]
    return found


def _warn_of_unweighted(target: BoundFeature, given: Mapping[int, Any], called: str) -> None:
    """Warn of classes that some row has, and `class_weight` no weight for."""
    names = target.feature.class_names
    there = target.values if target.present is None else target.values[target.present]
    numbers = np.flatnonzero(np.bincount(there))
    if left := [names[number] for number in numbers if number not in given]:
        whole = {name: given.get(number, 1.0) for number, name in enumerate(names[:8])}
        more = ", ..." * (len(names) > 8)
        warn(
            f"{called} has no weight for {listed(left)} of column {target.feature.columns[0]!r}, "
            "whose rows then count 1: give each class its weight, "
            f"{called}={{{str(whole)[1:-1]}{more}}}"
        )


def _balanced(target: BoundFeature, classes: int) -> Weights:
    """Return n / (classes that occur * rows of its class) for each of n rows that have a class.

    Source: `compute_class_weight("balanced")` of scikit-learn.
    """
    there = target.values if target.present is None else target.values[target.present]
    counts = np.bincount(there, minlength=classes)
    weights = len(there) / (np.count_nonzero(counts) * counts.clip(min=1))
    found: Weights = weights.astype(np.float32)[target.values]
    return found


def _numbered(class_names: tuple[Any, ...], class_weight: Any, called: str) -> dict[int, Any]:
    """Return class number -> weight, of keys that are all class names or all class numbers."""
    known = f"Classes: {', '.join(map(repr, class_names))}, or 0 to {len(class_names) - 1}"
    if not isinstance(class_weight, Mapping):
        raise ArgumentError(
            f'{called} must be class -> weight or "balanced", got {brief(class_weight)}'
            f"{_as_dict(class_weight, len(class_names))}. {known}"
        )
    number_of = {str(name): number for number, name in enumerate(class_names)}
    stray = [key for key in class_weight if str(key) not in number_of]
    names = None if stray else {number_of[str(key)]: w for key, w in class_weight.items()}
    numbers, places = None, range(len(class_names))
    if all(isinstance(key, int | np.integer) and key in places for key in class_weight):
        numbers = {int(key): weight for key, weight in class_weight.items()}
    if names is not None and numbers is not None and names != numbers:
        raise ArgumentError(
            f"{called} has the keys {list(class_weight)}, which could be names or numbers of "
            f"classes. {known}. Rename the classes, or give sample_weight, a column of weights"
        )
    found = numbers if names is None else names
    if found is None:
        if len(stray) == len(class_weight):  # numbers, of which some are of no class
            stray = [key for key in class_weight if key not in places]
        raise ArgumentError(
            f"{called} names the class {stray[0]!r}. {known}. Leave it out, or write its class"
        )
    return found


def _as_dict(given: Any, classes: int) -> str:
    """Return what to write for what is no dict of weights."""
    if isinstance(given, str):
        near = str(given).lower() in ("auto", "balance", "balanced", "inverse", "true")
        return ': write class_weight="balanced"' if near else ""
    if isinstance(given, list | tuple | np.ndarray | pd.Series) and len(given) == classes:
        is_series = isinstance(given, pd.Series)
        made = "weights.to_dict()" if is_series else "dict(enumerate(weights))"
        return f": write class_weight={made}"
    return ': write class_weight={0: 1.0, 1: 2.0}, or "balanced"'
