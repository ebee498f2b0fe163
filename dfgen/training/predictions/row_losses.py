"""The loss of each row by itself, by the loss that a model was compiled with."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

_BYTES = 1 << 24  # of targets and outputs that a loss takes at once
_MOST = 1 << 15  # rows of them

Losses = npt.NDArray[np.float32]


def row_losses(loss: Any, y_true: npt.NDArray[Any], y_pred: npt.NDArray[Any]) -> Losses:
    """Return the loss of each row: what it would be of a batch of that row alone.

    A loss that gives a number for each row, or for each pixel of it, is asked for many rows at
    once; one that gives a single number, for one row after the other. Of a row of which nothing
    counts, by `ignore_class`, it is NaN.

    Args:
        loss: a `keras.Loss`.
        y_true: the targets, (rows, ...).
        y_pred: the outputs, (rows, ...).
    """
    rows = len(y_pred)
    found: Losses = np.empty(rows, np.float32)
    width = max(1, (y_true.nbytes + y_pred.nbytes) // max(1, rows))
    size = max(1, min(_MOST, _BYTES // width, 1 << (rows - 1).bit_length()))
    for start in range(0, rows, size):
        part = slice(start, min(start + size, rows))
        count = part.stop - start
        filled = [np.resize(one[part], (size, *one.shape[1:])) for one in (y_true, y_pred)]
        several = _of_rows(loss, *filled)
        if several is None:
            several = np.array(
                [_alone(loss, y_true[n], y_pred[n]) for n in range(start, part.stop)]
            )
        found[part] = several[:count]
    return found


def _of_rows(loss: Any, y_true: npt.NDArray[Any], y_pred: npt.NDArray[Any]) -> Losses | None:
    """Return the losses of several rows, None where the loss does not tell them apart."""
    if type(loss).__call__ is not keras.losses.Loss.__call__:
        return None
    tensors = (keras.ops.convert_to_tensor(one, loss.dtype) for one in (y_true, y_pred))
    made = loss.call(*tensors)
    if not len(made.shape) or made.shape[0] != len(y_pred):
        return None
    counts = getattr(made, "_keras_mask", None)
    values = keras.ops.convert_to_numpy(made).reshape(len(y_pred), -1)
    if counts is None:
        counted = np.ones(values.shape, values.dtype)
    else:
        counted = keras.ops.convert_to_numpy(counts).reshape(values.shape).astype(values.dtype)
    found: Losses = (values * counted).sum(axis=1)
    numbers = counted.sum(axis=1)
    found = found if loss.reduction == "sum" else found / np.maximum(numbers, 1)
    found[numbers == 0] = np.nan
    return found


def _alone(loss: Any, y_true: npt.NDArray[Any], y_pred: npt.NDArray[Any]) -> float:
    return float(np.mean(keras.ops.convert_to_numpy(loss(y_true[None], y_pred[None]))))
