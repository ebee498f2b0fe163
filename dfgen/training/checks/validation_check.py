"""Does what validates speak of the same classes and numbers as what trains?

Differences of measurement alone, such as size, crop or weights, are allowed.
"""

import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, listed, warn
from dfgen.samples.bound_feature import BoundFeature
from dfgen.training.checks.meanings import (
    CLASSES,
    ORDER,
    differences,
    features,
    meanings,
    pairs,
    shape_shown,
)
from dfgen.training.keras_calls import Call
from dfgen.training.layout import SequenceView

_ALIKE = (
    "Number them once for both: before splitting write "
    "df[{0!r}] = df[{0!r}].astype('category'), or for a column of lists give both class_names=[...]"
)

_COMPARED = 1024
"""Ids, evenly spaced, that are looked for in training: 5 ms among a million."""
_EACH = 16
"""The inputs of one in so many of them are compared too: ids may begin anew in another table."""


def validation_of(call: Call, sequence: type) -> Any:
    """Return the Sequence that validates, of a class; None where Keras is given something else."""
    given = call.validation
    x, *others = given if isinstance(given, list | tuple) and given else (given,)
    if isinstance(x, sequence) and all(other is None for other in others):
        return x
    parts = list(given.values()) if isinstance(given, Mapping) else [x, *others]
    held = x.values() if isinstance(x, Mapping) else parts
    if any(isinstance(one, sequence) for one in held):
        types = ", ".join(type(one).__name__ for one in parts)
        raise ArgumentError(
            f"validation_data is a {type(given).__name__} of {types}, expected one "
            "dfgen.Sequence, which has its own y and weights: validation_data=sequence"
        )
    is_frame, is_number = isinstance(given, pd.DataFrame), pd.api.types.is_numeric_dtype
    has_text = is_frame and not all(map(is_number, given.dtypes))
    if isinstance(given, type | str | os.PathLike) or has_text:
        what = "a DataFrame" if is_frame else repr(given)
        raise ArgumentError(
            f"validation_data is {what}, which Keras cannot take: expected a dfgen.Sequence of the "
            "rows that validate, made as that of training: "
            "validation_data=dfgen.Sequence(df, ..., shuffle=False)"
        )
    return None


def check_validation(call: Call, train: SequenceView, validation: SequenceView) -> None:
    """Refuse validation data that mean something else than what the model is trained on."""
    _check_arguments(call, validation)
    if isinstance(call.model, keras.Sequential):
        _check_nesting(train, validation)
    takes_both = type(call.model).test_step is keras.Model.test_step
    ours, theirs = map(meanings, (train, validation))
    for what in ("y", "x"):
        for one in differences({what: ours[what]}, {what: theirs[what]}, "validation"):
            alike = _ALIKE.format(one.pair[0].columns[-1]) if one.pair else ""
            advice = {CLASSES: f". {alike}", ORDER: ". Give both Sequences the same order"}
            raise ArgumentError(one.text + advice.get(one.kind, ""))
        if takes_both:
            _check_axes(what, train, validation)


def warn_of_same_rows(train: SequenceView, validation: SequenceView) -> None:
    """Warn of validation on the very rows that train, in any order, as ids and inputs tell.

    Weights of 0 may tell one part from the other.
    """
    one, other, bound = train.loader, validation.loader, _bound("x", train, validation)
    rows, whole = len(one.reader), one.counted.all() and other.counted.all()
    if one is not other:
        if not bound or len(other.reader) != rows or not whole:
            return
        ours, theirs = _whole(one.reader.ids), _whole(other.reader.ids)
        if ours is None or theirs is None or ours.type != theirs.type:
            return
        chosen = np.unique(np.linspace(0, rows - 1, _COMPARED).astype(int))
        some = theirs.take(pa.array(chosen))
        found = pc.indices_nonzero(pc.is_in(ours, value_set=some)).to_numpy()
        if len(found) < len(chosen):
            return
        found = found[::_EACH]
        chosen = chosen[pc.index_in(ours.take(pa.array(found)), value_set=some).to_numpy()]
        if not all(_alike(a.values, found, b.values, chosen) for a, b in bound):
            return
    warn(
        f"validation_data has the {rows:,} rows that the model is trained on, so val_loss shows "
        "how well it remembers them, not how it does on others. Keep rows back: "
        'df = dfgen.split(df, {"train": 0.8, "val": 0.2}), then dfgen.sequences(df, ...)'
    )


def _whole(values: Any) -> pa.Array | None:
    values = getattr(values, "array", values)  # of a pack
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return pa.array(values)
    return values if isinstance(values, pa.Array) else None


def _alike(ours: Any, rows: Any, theirs: Any, others: Any) -> bool:
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        return np.array_equal(ours[rows], theirs[others])
    one, other = _whole(ours), _whole(theirs)
    if one is None or other is None:
        return False
    return bool(one.take(pa.array(rows)).equals(other.take(pa.array(others))))


def _check_arguments(call: Call, validation: SequenceView) -> None:
    if call.of_validation.get("validation_batch_size") is not None:
        raise ArgumentError(
            "fit(validation_batch_size=...) does not reach a dfgen.Sequence, Keras would drop it. "
            "Give the Sequence of validation its own batch_size="
        )
    if validation.endless and call.of_validation.get("validation_steps") is None:
        raise ArgumentError(
            "validation_data=sequence.repeat() would never end: give fit validation_steps=, or the "
            "Sequence itself"
        )


def _check_nesting(train: SequenceView, validation: SequenceView) -> None:
    for what in ("x", "y"):
        ours, theirs = (getattr(side.layout, what) for side in (train, validation))
        if ours is not None and theirs is None:
            raise ArgumentError(
                "training has targets, y, and validation has none: nothing could be compared with "
                "what the model predicts. Give the Sequence of validation the same y="
            )
        if ours is not None and _form(ours) != _form(theirs):
            raise ArgumentError(
                f"{what} of validation is {_form(theirs)}, that of training {_form(ours)}, and the "
                f"model takes one of them. Give both Sequences the same {what}="
            )


def _bound(what: str, *sides: SequenceView) -> list[tuple[BoundFeature, BoundFeature]]:
    return [*pairs(*(features(side, what) for side in sides))]


def _check_axes(what: str, train: SequenceView, validation: SequenceView) -> None:
    """Refuse arrays of other axes, such as classes as numbers here and one-hot there."""
    for ours, theirs in _bound(what, train, validation):
        for key in ours.arrays.keys() & theirs.arrays.keys():
            trained = train.loader.specs[ours.arrays[key]]
            tested = validation.loader.specs[theirs.arrays[key]]
            axes = len(trained.shape), len(tested.shape)
            vectors = axes == (1, 1) and ours.feature.class_names and trained.dtype.kind == "f"
            last = vectors or (ours.channel_arrays and theirs.channel_arrays)
            if axes[0] != axes[1] or (last and trained.shape[-1] != tested.shape[-1]):
                raise ArgumentError(
                    f"{what} of validation has another shape than that of training: "
                    f"{theirs.name} {shape_shown(tested)}, made by {theirs.feature!r}; in training "
                    f"{ours.name} {shape_shown(trained)}, made by {ours.feature!r}. Give both "
                    "Sequences the same label_mode, color_mode or feature"
                )


def _form(tree: Any) -> str:
    if isinstance(tree, Mapping):
        return f"a dict with {listed(sorted(tree))}"
    if isinstance(tree, tuple):
        return f"a list of {len(tree)}"
    return "one array"
