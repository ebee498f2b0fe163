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
from dfgen.samples.pixels.scaling import rescale
from dfgen.training.checks.class_indices import features, moved_class, target_classes
from dfgen.training.keras_loop import Loop as Call
from dfgen.training.layout import SequenceView

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
    """Raise if validation data have other class indices, scales or nesting than training data."""
    if call.of_validation.get("validation_batch_size") is not None:
        raise ArgumentError(
            "fit(validation_batch_size=...) does not reach a dfgen.Sequence: give the Sequence of "
            "validation its own batch_size="
        )
    if validation.endless and call.of_validation.get("validation_steps") is None:
        raise ArgumentError(
            "validation_data=sequence.repeat() would never end: give fit validation_steps=, or the "
            "Sequence itself"
        )
    if moved := moved_class(target_classes(train), target_classes(validation)):
        raise ArgumentError(f"validation_data: {moved}")
    if type(call.model).test_step is not keras.Model.test_step:
        return
    if train.layout.y is not None and validation.layout.y is None:
        raise ArgumentError(
            "training has targets, y, and validation has none: give the Sequence of validation the "
            "same y="
        )
    for what in ("x", "y"):
        ours, theirs = features(train, what), features(validation, what)
        if isinstance(call.model, keras.Sequential) and ours.keys() != theirs.keys():
            raise ArgumentError(
                f"{what} of validation is {listed(theirs)}, that of training {listed(ours)}: give "
                f"both Sequences the same {what}="
            )
        for key in ours.keys() & theirs.keys():
            _check_array(what, (train, ours[key]), (validation, theirs[key]))


def _check_array(what: str, *sides: tuple[SequenceView, BoundFeature]) -> None:
    """Raise if arrays have another number of axes, other channels, or pixels of another scale."""
    specs = [view.loader.specs[next(iter(bound.arrays.values()))] for view, bound in sides]
    shapes = [spec.shape for spec in specs]
    is_image = all(bound.channel_arrays for _, bound in sides)
    has_classes = (
        len(shapes[0]) == 1 and specs[0].dtype.kind == "f" and sides[0][1].feature.class_names
    )
    differ = len(shapes[0]) != len(shapes[1])
    if differ or ((is_image or has_classes) and shapes[0][-1] != shapes[1][-1]):
        shown = [f"({', '.join(map(str, ('batch', *spec.shape)))}) {spec.dtype}" for spec in specs]
        raise ArgumentError(
            f"{what} of validation has the shape {shown[1]}, that of training {shown[0]}: give "
            "both Sequences the same label_mode, color_mode or feature"
        )
    if any(_own_range(view, bound) for view, bound in sides):
        return
    ours, theirs = (getattr(bound.feature, "scale", None) for _, bound in sides)
    if is_image and ours != theirs and not _alike_scales(ours, theirs, shapes[0][-1]):
        raise ArgumentError(
            f"{what} of validation has scale={theirs!r}, that of training scale={ours!r}: the "
            "model would see other numbers. Give both Sequences the same scale="
        )


def _own_range(view: SequenceView, bound: BoundFeature) -> bool:
    """Whether a function of the user can change the range of the numbers."""
    reader, feature = view.loader.reader, bound.feature
    if feature.pixel_kind is None or view.loader.transforms_batches:
        return True
    return reader.transform is not None and feature.read_spec(False).dtype is None


def _alike_scales(one: Any, other: Any, channels: int) -> bool:
    pixels = (np.arange(256 * channels) * 7 % 256).astype(np.uint8).reshape(16, 16, channels)
    scaled = [np.zeros(pixels.shape, np.float32) for _ in range(2)]
    rescale(pixels, one, scaled[0])
    rescale(pixels, other, scaled[1])
    return np.allclose(scaled[0], scaled[1], atol=1e-3, rtol=1e-3)


def warn_of_same_rows(train: SequenceView, validation: SequenceView) -> None:
    """Warn of validation on the very rows that train, in any order, as ids and inputs tell.

    Weights of 0 may tell one part from the other.
    """
    one, other, bound = train.loader, validation.loader, _inputs(train, validation)
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


def _inputs(*sides: SequenceView) -> list[tuple[BoundFeature, BoundFeature]]:
    ours, theirs = (features(side, "x") for side in sides)
    return [(ours[key], theirs[key]) for key in ours.keys() & theirs.keys()]


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
