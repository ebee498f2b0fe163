"""The weight of each row in the loss."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.nested import Tree, leaves
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, brief, did_you_mean, listed, warn
from dfgen.loading.pending_batch import Weights
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.classes import Number
from dfgen.table.arrow_types import nulls

_MOST = float(np.finfo(np.float32).max)


def row_weights(
    columns: Columns, targets: Tree, arguments: SequenceArguments
) -> tuple[Weights | None, dict[str, Weights]]:
    """Return the weight of each row for all targets, and name of a target -> a further factor.

    `sample_weight` and `class_weight` are multiplied. None means 1.

    Args:
        columns: of the manifest.
        targets: the bound features of y, nested as y.
        arguments: with `sample_weight` and `class_weight`.
    """
    if targets is None:
        raise ArgumentError("sample_weight and class_weight weight a loss, but there is no y")
    by_column = _by_target("sample_weight", arguments.sample_weight, targets)
    by_class = _by_target("class_weight", arguments.class_weight, targets)
    shared = by_column.pop("", None)
    weights = None if shared is None else _column_weights(columns, "sample_weight", shared)
    own = dict[str, Weights]()
    for bound in leaves(targets):
        column, classes = by_column.get(bound.name), by_class.get(bound.name)
        at = "" if isinstance(targets, BoundFeature) else f"[{bound.name!r}]"
        if column is not None:
            own[bound.name] = _column_weights(columns, f"sample_weight{at}", column)
        if classes is not None:
            factor = _class_weights(bound, classes, len(columns), f"class_weight{at}")
            own[bound.name] = factor * own.get(bound.name, np.float32(1))
    if isinstance(targets, BoundFeature) and own:  # Keras takes one array
        weights, own = own[targets.name] * (np.float32(1) if weights is None else weights), {}
    return weights, own


def _by_target(argument: str, value: Any, targets: Tree) -> dict[str, Any]:
    """Return name of a target -> its part of an argument; "" stands for all targets."""
    names = [bound.name for bound in leaves(targets)]
    nested = isinstance(value, Mapping | list | tuple)
    if value is None or (argument == "sample_weight" and not nested):
        return {} if value is None else {"": value}
    if isinstance(targets, BoundFeature):
        parts = [*value.values()] if isinstance(value, Mapping) else []
        if argument == "class_weight" and not any(isinstance(one, Mapping | str) for one in parts):
            return {targets.name: value}
    elif isinstance(targets, Mapping):
        if isinstance(value, Mapping) and value.keys() <= targets.keys():
            return dict(value)
    elif isinstance(value, list | tuple) and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    stray = [key for key in value if key not in names] if isinstance(value, Mapping) else []
    raise ArgumentError(
        f"{argument}={brief(value)} does not fit y, whose targets are {listed(names)}: nest it as "
        f"y.{did_you_mean(str(stray[0]), names) if stray else ''}"
    )


def _column_weights(columns: Columns, argument: str, name: object) -> Weights:
    column = columns.check(argument, name)
    values = columns[column]
    missing = nulls(values)
    weights: Weights = np.zeros(len(columns), np.float32)
    if not missing.any():
        weights = Number(column, dtype="float32").bind(columns)
    bad = missing | ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        row = int(bad.argmax())
        raise ManifestError(
            f'{argument}="{column}" is {values[row]} in row {row}: expected finite numbers of 0 or '
            f"more in each row, but {bad.sum():,} of {len(bad):,} rows have none"
        )
    return weights


def _class_weights(target: BoundFeature, class_weight: Any, rows: int, called: str) -> Weights:
    names = target.feature.class_names if isinstance(target.values, np.ndarray) else None
    if names is None:
        raise ArgumentError(
            f"{called}={brief(class_weight)} is for one class per row, but the target "
            f"{target.name!r} is {type(target.feature).__name__}: give sample_weight, a column of "
            "weights, or make the target dfgen.Category(...)"
        )
    if not len(target.values):  # no row has a class
        return np.ones(rows, np.float32)
    labels = target.values if target.present is None else target.values[target.present]
    counts = np.bincount(labels, minlength=len(names))
    if isinstance(class_weight, str) and class_weight == "balanced":
        # Source: compute_class_weight("balanced") of scikit-learn.
        weights = len(labels) / (np.count_nonzero(counts) * counts.clip(min=1))
    else:
        by_index = _by_index(names, class_weight, called)
        weights = np.array([by_index.get(index, 1.0) for index in range(len(names))])
        if left := [name for i, name in enumerate(names) if counts[i] and i not in by_index]:
            warn(
                f"{called} has no weight for {listed(left)} of column "
                f"{target.feature.columns[0]!r}, whose rows then weigh 1: give each class a weight"
            )
    weights_of_rows: Weights = weights.astype(np.float32)[target.values]
    return weights_of_rows


def _by_index(names: tuple[Any, ...], class_weight: Any, called: str) -> dict[int, Any]:
    """Return class index -> weight. The keys are all class names, or all class indices."""
    known = f"Classes: {listed(names)}, or 0 to {len(names) - 1}"
    if not isinstance(class_weight, Mapping):
        raise ArgumentError(
            f'{called}={brief(class_weight)}: expected a dict of class -> weight, or "balanced". '
            f"{known}"
        )
    texts = [*map(str, names)]
    by_name = {key: texts.index(str(key)) for key in class_weight if str(key) in texts}
    indices = range(len(names))
    by_place = {k: int(k) for k in class_weight if isinstance(k, int | np.integer) and k in indices}
    complete = [one for one in (by_name, by_place) if len(one) == len(class_weight)]
    if not complete:
        stray = next(key for key in class_weight if key not in (by_name or by_place))
        raise ArgumentError(f"{called} has the unknown class {stray!r}. {known}")
    if complete[0] != complete[-1]:
        raise ArgumentError(
            f"{called} has the keys {[*class_weight]}, which could be names or indices of classes. "
            f"{known}. Rename the classes, or give sample_weight, a column of weights"
        )
    for key, weight in class_weight.items():
        if not (isinstance(weight, int | float | np.number) and 0 <= weight <= _MOST):
            raise ArgumentError(
                f"{called} has the weight {weight!r} for class {key!r}: expected 0 to {_MOST:.2g}"
            )
    return {complete[0][key]: weight for key, weight in class_weight.items()}
