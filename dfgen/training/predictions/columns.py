"""Columns of predictions: classes, probabilities, losses and weights of rows, as Arrow."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import ArgumentError
from dfgen.spec import Present
from dfgen.table.arrow_types import lists_of, with_ends
from dfgen.training.checks.model_outputs import LossKind
from dfgen.training.predictions.heads import Floats, ModelHead
from dfgen.training.predictions.truth import truth

NO_PREDICTION = "the model gave NaN"
"""The problem of a row whose file has none."""

_BYTES = 1 << 24  # of targets and outputs that a loss gets at once


def _row_losses(loss: Any, y_true: npt.NDArray[Any], y_pred: npt.NDArray[Any]) -> Floats:
    """Return the loss of each row as a batch of one; NaN if the loss ignores all of it.

    Losses with one number per row or pixel run on many rows at once, others row by row.
    """
    rows = len(y_pred)
    if y_true.ndim + 1 == y_pred.ndim and y_pred.shape[-1] == 1:
        y_true = y_true[..., None]
    size = max(1, min(rows, _BYTES // max(1, (y_true.nbytes + y_pred.nbytes) // max(1, rows))))
    result: Floats = np.empty(rows, np.float32)
    dtype = getattr(loss, "dtype", None) or keras.config.floatx()
    for start in range(0, rows, size):
        arrays = (y_true[start : start + size], y_pred[start : start + size])
        parts = [np.resize(array, (size, *array.shape[1:])) for array in arrays]  # of one shape
        tensors = [keras.ops.convert_to_tensor(array, dtype) for array in parts]
        losses = _of_rows(loss, *tensors)
        if losses is None:
            each = (loss(*(tensor[row : row + 1] for tensor in tensors)) for row in range(size))
            losses = np.array([np.mean(keras.ops.convert_to_numpy(one)) for one in each])
        result[start : start + size] = losses[: rows - start]
    return result


def _of_rows(loss: Any, *tensors: Any) -> Floats | None:
    """Return the losses of rows, None if the loss has one number for a batch."""
    is_keras_loss = isinstance(loss, keras.losses.Loss)
    if is_keras_loss and type(loss).__call__ is not keras.losses.Loss.__call__:
        return None
    function = loss.call if is_keras_loss else loss
    losses, rows = function(*tensors), tensors[0].shape[0]
    if not len(losses.shape) or losses.shape[0] != rows:
        return None
    if tuple(function(*(tensor[:1] for tensor in tensors)).shape) != (1, *losses.shape[1:]):
        return None  # it compares rows with each other
    mask = getattr(losses, "_keras_mask", None)  # of `ignore_class`
    values = keras.ops.convert_to_numpy(losses).reshape(rows, -1)
    counts = np.ones(values.shape, values.dtype)
    if mask is not None:
        counts = keras.ops.convert_to_numpy(mask).reshape(values.shape).astype(values.dtype)
    sums: Floats = (values * counts).sum(axis=1)
    numbers = counts.sum(axis=1)
    if getattr(loss, "reduction", None) != "sum":
        sums = sums / np.maximum(numbers, 1)
    sums[numbers == 0] = np.nan
    return sums


def prediction_columns(
    heads: list[tuple[ModelHead, npt.NDArray[Any]]],
    targets: dict[str, npt.NDArray[Any]],
    rows: slice,
    problems: npt.NDArray[Any],
    weights_of: Callable[[str | None], Floats] | None,
) -> pa.Table:
    """Return the columns of some rows.

    Args:
        heads: pairs of a head and its outputs.
        targets: array name -> values of these rows.
        rows: positions in the manifest.
        problems: why a row is bad, else None; of shape (rows,), dtype object.
        weights_of: array name -> weights of all rows of the manifest; None without weights.
    """
    columns: dict[str, Any] = {}
    losses = []
    for head, outputs in heads:
        outputs = np.asarray(outputs, np.float32)
        bad = problems.astype(bool)
        lost = bad | np.isnan(outputs.reshape(len(bad), -1)).any(axis=1)
        missing = ~_present(head, rows)
        columns |= _true_column(head, rows, missing)
        columns |= _predicted_columns(head, head.probabilities(outputs), lost)
        if head.loss is not None and head.target in targets:
            target = targets[head.target]
            _check_classes(head, target, outputs)
            loss = np.where(lost | missing, np.nan, _row_losses(head.loss, target, outputs))
            losses.append(loss * head.loss_weight)
            columns[head.column("loss")] = _numbers(loss)
        if weights_of is not None and head.bound is not None:
            weights = np.where(lost | missing, 0, weights_of(head.target)[rows])
            columns[head.column("row_weight")] = pa.array(weights, pa.float32())
        problems = np.where(lost & ~bad, NO_PREDICTION, problems)
    if len(heads) > 1 and losses:
        each = np.array(losses)
        nothing = problems.astype(bool) | np.isnan(each).all(axis=0)
        columns["loss"] = _numbers(np.where(nothing, np.nan, np.nansum(each, axis=0)))
    return pa.table({**columns, "problem": pa.array(problems, pa.string())})


def _numbers(values: Floats) -> pa.Array:
    return pa.array(values, pa.float32(), mask=np.isnan(values))


def _present(head: ModelHead, rows: slice) -> Present:
    if head.bound is None or head.bound.present is None:
        return np.ones(rows.stop - rows.start, bool)
    present: Present = head.bound.present[rows]
    return present


def _true_column(head: ModelHead, rows: slice, missing: Present) -> dict[str, pa.Array]:
    bound = head.bound
    if bound is None:
        return {}
    number = len(missing)
    if bound.present is not None and not bound.present.any():  # every label is missing
        rows, missing = slice(0, 0), missing[:0]
    values = truth(bound, rows, missing)
    if isinstance(values, tuple):
        values = values[[*bound.specs].index(head.target or "")]
    if values is None:
        return {}
    values = values if len(values) == number else values.take(pa.nulls(number, pa.int64()))
    return {head.column("y_true"): values}


def _predicted_columns(head: ModelHead, outputs: Floats, lost: Present) -> dict[str, pa.Array]:
    """Return `y_pred`, and `prob` of classes; nothing for outputs with more axes."""
    if outputs.ndim > 2:
        return {}
    outputs = outputs.reshape(len(outputs), -1)
    units = outputs.shape[1]
    head.check_units(units)
    if head.has_many_labels:
        chosen = (outputs > 0.5) & ~lost[:, None]
        names = pa.array(head.class_names or ()).take(pa.array(np.nonzero(chosen)[1]))
        ends = np.append(0, np.cumsum(chosen.sum(axis=1)))
        columns = {"y_pred": with_ends(names, ends, lost), "prob": lists_of(outputs, lost)}
    elif head.is_of_classes(units):
        if units == 1:
            outputs = np.concatenate([1 - outputs, outputs], axis=1)
            numbers = outputs[:, 1] > 0.5
        else:
            numbers = outputs.argmax(axis=1)
        predicted = pa.array(numbers.astype(np.int32), mask=lost)
        if head.class_names is not None:
            predicted = pa.DictionaryArray.from_arrays(predicted, pa.array(head.class_names))
        columns = {"y_pred": predicted, "prob": lists_of(outputs, lost)}
    elif units == 1:
        columns = {"y_pred": pa.array(outputs[:, 0], mask=lost)}
    else:
        columns = {"y_pred": lists_of(outputs, lost)}
    return {head.column(name): values for name, values in columns.items()}


def _check_classes(head: ModelHead, target: npt.NDArray[Any], outputs: Floats) -> None:
    """Raise if a class index has no unit; some backends return an arbitrary loss for it."""
    known, units = head.known, outputs.shape[-1]
    if known is None or known.kind != LossKind.SPARSE or head.bound is None:
        return
    wrong = target[((target < 0) | (target >= units)) & (target != known.ignored)]
    if wrong.size:
        column = ", ".join(head.bound.feature.columns)
        raise ArgumentError(
            f"column {column!r} has the class number {wrong.flat[0]:g}, but the output "
            f"{head.name or 'of the model'!r} has {units} units, expected 0 to {units - 1}: "
            f"write y=dfgen.Category({column!r}), which numbers its values from 0, or predict "
            "without y"
        )
