"""Class names of predictions."""

from typing import Any

import numpy as np

from dfgen.errors import ArgumentError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.category import Category
from dfgen.samples.features.multilabel import MultiLabel


def meaning(feature: Feature | None, predictions: Any) -> Any:
    """Return the names of classes: the most likely one, or those above 0.5.

    Predictions of other targets stay as they are.

    Raises:
        ArgumentError: shape or values do not fit the classes.
    """
    if not isinstance(feature, Category | MultiLabel):
        return predictions
    names, found = feature.class_names or (), np.asarray(predictions)
    is_binary = isinstance(feature, Category) and feature.label_mode == "binary"
    shapes = ((), (1,)) if is_binary else ((len(names),),)
    if found.ndim == 0 or found.shape[1:] not in shapes or np.isnan(found).any():
        raise ArgumentError(
            f"predictions of {feature.column!r} have the shape {found.shape}, expected numbers of "
            f"shape (rows, {shapes[-1][0]}), without NaN"
        )
    if isinstance(feature, Category) and not is_binary:
        return [names[number] for number in found.argmax(axis=1).tolist()]
    if found.size and not (found.min() >= 0 and found.max() <= 1):
        raise ArgumentError(
            f"predictions of {feature.column!r} go from {found.min():g} to {found.max():g}, "
            "expected probabilities from 0 to 1: of logits take keras.ops.sigmoid first"
        )
    if is_binary:
        return [names[number] for number in (found.reshape(-1) > 0.5).astype(int).tolist()]
    return [[names[number] for number in np.flatnonzero(row > 0.5)] for row in found]
