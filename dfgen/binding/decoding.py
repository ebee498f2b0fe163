"""Class names for the predictions of a model."""

from typing import Any

import numpy as np

from dfgen.errors import ArgumentError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.category import Category
from dfgen.samples.features.multilabel import MultiLabel


def meaning(feature: Feature | None, predictions: Any) -> Any:
    """Return the most likely class of each row, or the classes above 0.5.

    Predictions of other targets are returned unchanged.

    Raises:
        ArgumentError: the shape or range does not fit the classes.
    """
    if not isinstance(feature, Category | MultiLabel):
        return predictions
    names, scores = feature.class_names or (), np.asarray(predictions)
    is_binary = isinstance(feature, Category) and feature.label_mode == "binary"
    shapes = ((), (1,)) if is_binary else ((len(names),),)
    if scores.ndim == 0 or scores.shape[1:] not in shapes or np.isnan(scores).any():
        raise ArgumentError(
            f"predictions of {feature.column!r} have the shape {scores.shape}, expected numbers of "
            f"shape (rows, {shapes[-1][0]}), without NaN"
        )
    if isinstance(feature, Category) and not is_binary:
        return [names[index] for index in scores.argmax(axis=1).tolist()]
    if scores.size and not (scores.min() >= 0 and scores.max() <= 1):
        raise ArgumentError(
            f"predictions of {feature.column!r} are from {scores.min():g} to {scores.max():g}, "
            "expected probabilities from 0 to 1: convert logits by keras.ops.sigmoid"
        )
    if is_binary:
        return [names[index] for index in (scores.reshape(-1) > 0.5).astype(int).tolist()]
    return [[names[index] for index in np.flatnonzero(row > 0.5)] for row in scores]
