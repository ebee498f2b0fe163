"""The weight of each row in the loss."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.binding.frame_columns import Columns
from dfgen.binding.nested import Tree
from dfgen.errors import ArgumentError, ManifestError, brief, listed, warn
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.number import Number
from dfgen.table.arrow_types import nulls


def row_weights(
    columns: Columns,
    targets: Tree,
    sample_weight: str | None,
    class_weight: Mapping[Any, float] | str | None,
) -> npt.NDArray[np.float32] | None:
    """Return what each row counts in the loss: its own weight times that of its class.

    The targets are what y is bound to, nested as it is.
    """
    if sample_weight is None and class_weight is None:
        return None
    if targets is None:
        raise ArgumentError("sample_weight and class_weight weigh a loss, but there is no y")
    weights = np.ones(len(columns), np.float32)
    if sample_weight is not None:
        weights *= _own_weights(columns, columns.check("sample_weight", sample_weight))
    if class_weight is not None:
        with np.errstate(over="ignore"):
            weights *= _class_weights(targets, class_weight)
        if not np.isfinite(weights).all():
            row = int(np.isfinite(weights).argmin())
            raise ArgumentError(
                f"class_weight makes the weight of row {row} more than float32 can hold, "
                f"{np.finfo(np.float32).max:.2g}: give smaller ones"
            )
    if not weights.any():
        raise ManifestError(
            f"all {len(columns):,} rows weigh 0 by sample_weight={sample_weight!r} and "
            f"class_weight={brief(class_weight)}, so that nothing is learnt: expected a weight "
            "above 0 in some row"
        )
    return weights


def _own_weights(columns: Columns, name: str) -> npt.NDArray[np.float32]:
    values = columns[name]
    lacking = nulls(values)
    if lacking.any():
        raise ManifestError(
            f'sample_weight="{name}" is missing in {lacking.sum():,} rows, the first is row '
            f"{lacking.argmax()}: give them a weight, as 0, or drop them"
        )
    weights: npt.NDArray[np.float32] = Number(name, dtype="float32").encode(values)
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


def _class_weights(
    targets: Tree, class_weight: Mapping[Any, float] | str
) -> npt.NDArray[np.float32]:
    is_one = isinstance(targets, BoundFeature) and isinstance(targets.values, np.ndarray)
    names = targets.feature.class_names if is_one else None
    if names is None:
        raise ArgumentError(
            "class_weight needs y to be one column of classes. For other targets give "
            "sample_weight, a column of weights"
        )
    if not len(targets.values):  # no row has a class
        return np.ones(1, np.float32)
    if isinstance(class_weight, str) and class_weight == "balanced":
        return _balanced(targets, len(names))
    weights = np.ones(len(names), np.float32)
    given = _numbered(names, class_weight)
    _warn_of_unweighted(targets, given)
    for number, weight in given.items():
        if not (isinstance(weight, int | float | np.number) and 0 <= weight < float("inf")):
            raise ArgumentError(
                f"class_weight gives class {number} the weight {weight!r}: expected a number of 0 "
                "or more"
            )
        weights[number] = weight
    found: npt.NDArray[np.float32] = weights[targets.values]
    return found


def _warn_of_unweighted(target: BoundFeature, given: Mapping[int, Any]) -> None:
    """Warn of classes that some row has, and `class_weight` no weight for."""
    names = target.feature.class_names
    there = target.values if target.present is None else target.values[target.present]
    numbers = np.flatnonzero(np.bincount(there))
    if left := [names[number] for number in numbers if number not in given]:
        whole = {name: given.get(number, 1.0) for number, name in enumerate(names[:8])}
        more = ", ..." * (len(names) > 8)
        warn(
            f"class_weight has no weight for {listed(left)} of column {target.feature.column!r}, "
            "whose rows then count 1: give each class its weight, "
            f"class_weight={{{str(whole)[1:-1]}{more}}}"
        )


def _balanced(target: BoundFeature, classes: int) -> npt.NDArray[np.float32]:
    """Return n / (classes that occur * rows of its class) for each of n rows that have a class.

    Source: `compute_class_weight("balanced")` of scikit-learn.
    """
    there = target.values if target.present is None else target.values[target.present]
    counts = np.bincount(there, minlength=classes)
    weights = len(there) / (np.count_nonzero(counts) * counts.clip(min=1))
    found: npt.NDArray[np.float32] = weights.astype(np.float32)[target.values]
    return found


def _numbered(class_names: tuple[Any, ...], class_weight: Any) -> dict[int, Any]:
    """Return class number -> weight, of keys that are all class names or all class numbers."""
    known = f"Classes: {', '.join(map(repr, class_names))}, or 0 to {len(class_names) - 1}"
    if not isinstance(class_weight, Mapping):
        raise ArgumentError(
            f'class_weight must be class -> weight or "balanced", got {brief(class_weight)}'
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
            f"class_weight has the keys {list(class_weight)}, which could be names or numbers of "
            f"classes. {known}. Rename the classes, or give sample_weight, a column of weights"
        )
    found = numbers if names is None else names
    if found is None:
        if len(stray) == len(class_weight):  # numbers, of which some are of no class
            stray = [key for key in class_weight if key not in places]
        raise ArgumentError(
            f"class_weight names the class {stray[0]!r}. {known}. Leave it out, or write its class"
        )
    return found


def _as_dict(given: Any, classes: int) -> str:
    """Return what to write for what is no dict of weights."""
    if isinstance(given, str):
        near = str(given).lower() in ("auto", "balance", "balanced", "inverse", "true")
        return ': write class_weight="balanced"' if near else ""
    if isinstance(given, list | tuple | np.ndarray | pd.Series) and len(given) == classes:
        named = "to_dict()" if isinstance(given, pd.Series) else ""
        return (
            f": write class_weight=weights.{named}"
            if named
            else (": write class_weight=dict(enumerate(weights))")
        )
    return ': write class_weight={0: 1.0, 1: 2.0}, or "balanced"'
