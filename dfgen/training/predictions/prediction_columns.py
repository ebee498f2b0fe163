"""Predictions for rows as columns of Arrow: names of classes, probabilities, losses, arrays."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import keras
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import ArgumentError, listed
from dfgen.manifest.verify import NO_PREDICTION
from dfgen.samples.features.boxes import PADDING
from dfgen.samples.pixels.png_files import png_of
from dfgen.spec import Present
from dfgen.table.arrow_types import lists_of, with_ends
from dfgen.training.checks.model_outputs import LossKind
from dfgen.training.predictions.heads import ARRAY, CLASSES, DETECTIONS, LABELS, ModelHead

_BYTES = 1 << 24  # of targets and outputs that a loss takes at once
_MOST = 1 << 15  # rows of them

Losses = npt.NDArray[np.float32]


def row_losses(loss: Any, y_true: npt.NDArray[Any], y_pred: npt.NDArray[Any]) -> Losses:
    """Return the loss of each row: what it would be of a batch of that row alone.

    A loss that gives a number for each row, or for each pixel of it, is asked for many rows at
    once; one that gives a single number, for one row after the other. Of a row of which nothing
    counts, by `ignore_class`, it is NaN.
    """
    rows = len(y_pred)
    found: Losses = np.empty(rows, np.float32)
    width = max(1, (y_true.nbytes + y_pred.nbytes) // max(1, rows))
    size = max(1, min(_MOST, _BYTES // width, 1 << (rows - 1).bit_length()))
    for start in range(0, rows, size):
        part = slice(start, min(start + size, rows))
        filled = [np.resize(one[part], (size, *one.shape[1:])) for one in (y_true, y_pred)]
        several = _of_rows(loss, *filled)
        if several is None:
            each = (loss(y_true[n][None], y_pred[n][None]) for n in range(start, part.stop))
            several = np.array([np.mean(keras.ops.convert_to_numpy(one)) for one in each])
        found[part] = several[: part.stop - start]
    return found


def _of_rows(loss: Any, y_true: npt.NDArray[Any], y_pred: npt.NDArray[Any]) -> Losses | None:
    if type(loss).__call__ is not keras.losses.Loss.__call__:
        return None
    tensors = [keras.ops.convert_to_tensor(one, loss.dtype) for one in (y_true, y_pred)]
    made = loss.call(*tensors)
    if not len(made.shape) or made.shape[0] != len(y_pred):
        return None
    if tuple(loss.call(*(one[:1] for one in tensors)).shape) != (1, *made.shape[1:]):
        return None  # a row is compared with the others, as (rows,) with (rows, 1) is
    counts = getattr(made, "_keras_mask", None)
    values = keras.ops.convert_to_numpy(made).reshape(len(y_pred), -1)
    counted = np.ones(values.shape, values.dtype)
    if counts is not None:
        counted = keras.ops.convert_to_numpy(counts).reshape(values.shape).astype(values.dtype)
    found: Losses = (values * counted).sum(axis=1)
    numbers = counted.sum(axis=1)
    found = found if loss.reduction == "sum" else found / np.maximum(numbers, 1)
    found[numbers == 0] = np.nan
    return found


_Floats = npt.NDArray[np.float32]
_OfArrays = Callable[[ModelHead, _Floats, Present], pa.Array] | None


@dataclass(frozen=True, eq=False)
class HeadValues:
    """The predictions of one head for some rows: probabilities or other numbers, (rows, ...)."""

    head: ModelHead
    numbers: _Floats
    losses: _Floats | None

    def __add__(self, other: "HeadValues") -> "HeadValues":
        losses = None if self.losses is None or other.losses is None else self.losses + other.losses
        return replace(self, numbers=self.numbers + other.numbers, losses=losses)

    def mean(self, views: int) -> "HeadValues":
        """Return the mean of what was added up of so many views."""
        share = np.float32(1 / views)
        losses = None if self.losses is None else self.losses * share
        return replace(self, numbers=self.numbers * share, losses=losses)


def table_of(
    outputs: list[HeadValues],
    rows: slice,
    reasons: npt.NDArray[Any],
    weights: Callable[[str | None], _Floats] | None = None,
    arrays: _OfArrays = None,
) -> pa.Table:
    """Return the columns of some rows; `weights` tells what these weigh in the loss of a target."""
    bad = reasons.astype(bool)
    columns: dict[str, Any] = {}
    losses = []
    for one in outputs:
        head, lacking = one.head, _lacking(one.head, rows)
        columns |= _truth(head, rows, lacking)
        lost = bad | np.isnan(one.numbers.reshape(len(bad), -1)).any(axis=1)
        reasons[lost & ~bad] = NO_PREDICTION
        columns |= _predicted(head, one.numbers, lost, arrays)
        if one.losses is not None:
            losses.append(np.where(lost | lacking, np.nan, one.losses))
            columns[head.column("loss")] = _numbers(losses[-1])
        if weights is not None and head.bound is not None:
            weighs = np.where(lost | lacking, 0, weights(head.target))
            columns[head.column("row_weight")] = pa.array(weighs)
    if len(outputs) > 1 and losses:
        factors = [one.head.loss_weight for one in outputs if one.losses is not None]
        each = np.array([one * factor for one, factor in zip(losses, factors, strict=True)])
        lacks = reasons.astype(bool) | np.isnan(each).all(axis=0)
        columns["loss"] = _numbers(np.where(lacks, np.nan, np.nansum(each, axis=0)))
    return pa.table({**columns, "problem": pa.array(reasons, pa.string())})


def _numbers(values: _Floats) -> pa.Array:
    return pa.array(values, pa.float32(), mask=np.isnan(values))


def _lacking(head: ModelHead, rows: slice) -> Present:
    if head.bound is None or head.bound.present is None:
        return np.zeros(rows.stop - rows.start, bool)
    found: Present = ~head.bound.present[rows]
    return found


def _truth(head: ModelHead, rows: slice, lacking: Present) -> dict[str, pa.Array]:
    bound = head.bound
    if bound is None:
        return {}
    count = len(lacking)
    if lacking.all() and bound.present is not None and not bound.present.any():
        rows, lacking = slice(0, 0), lacking[:0]  # of a label that no row has there are no values
    found = bound.feature.truth(bound.values, rows, lacking)
    if isinstance(found, tuple):
        found = found[list(bound.specs).index(head.target or "")]
    if found is None:
        return {}
    found = found if len(found) == count else found.take(pa.nulls(count, pa.int64()))
    return {head.column("y_true"): found}


def _predicted(
    head: ModelHead, outputs: _Floats, lost: Present, arrays: _OfArrays
) -> dict[str, pa.Array]:
    """Return `y_pred`, and `prob` of classes."""
    kind = head.kind(outputs)
    if kind == ARRAY:
        return {} if arrays is None else {head.column("y_pred"): arrays(head, outputs, lost)}
    if kind == DETECTIONS:
        return {head.column("y_pred"): _detections(head, outputs, lost)}
    outputs = outputs.reshape(len(outputs), -1)
    if kind in (CLASSES, LABELS):
        made = (_of_class if kind == CLASSES else _of_labels)(head, outputs, lost)
    elif outputs.shape[1] == 1:
        made = {"y_pred": pa.array(outputs[:, 0], mask=lost)}
    else:
        made = {"y_pred": lists_of(outputs, lost)}
    return {head.column(name): values for name, values in made.items()}


def _of_class(head: ModelHead, outputs: _Floats, lost: Present) -> dict[str, pa.Array]:
    names = head.class_names
    if names is not None:
        _check_units(head, outputs.shape[1], len(names))
    if outputs.shape[1] == 1:
        outputs = np.concatenate([1 - outputs, outputs], axis=1)
        numbers = outputs[:, 1] > 0.5
    else:
        numbers = outputs.argmax(axis=1)
    prob = lists_of(outputs, lost)
    if names is None:
        return {"y_pred": pa.array(numbers.astype(np.int64), mask=lost), "prob": prob}
    codes = pa.array(numbers.astype(np.int32), mask=lost)
    return {"y_pred": pa.DictionaryArray.from_arrays(codes, pa.array(names)), "prob": prob}


def _of_labels(head: ModelHead, outputs: _Floats, lost: Present) -> dict[str, pa.Array]:
    names = head.class_names or ()
    _check_units(head, outputs.shape[1], len(names), alone=False)
    chosen = (outputs > 0.5) & ~lost[:, None]
    labels = pa.array(names).take(pa.array(np.nonzero(chosen)[1]))
    ends = np.append(0, np.cumsum(chosen.sum(axis=1)))
    return {"y_pred": with_ends(labels, ends, lost), "prob": lists_of(outputs, lost)}


def _detections(head: ModelHead, outputs: _Floats, lost: Present) -> pa.Array:
    """Return lists of boxes, of their classes or confidence, without the -1 that fill them up."""
    found = (outputs.reshape(*outputs.shape[:2], -1) != PADDING).any(axis=2) & ~lost[:, None]
    each = outputs[found]
    values = lists_of(each, np.zeros(len(each), bool)) if each.ndim == 2 else pa.array(each)
    if head.name == "labels":
        numbers, names = each.astype(np.int64), head.class_names
        if names is not None and len(numbers) and numbers.max() >= len(names):
            raise ArgumentError(
                f"the model has found the class {numbers.max()}, but y has {len(names)} classes, "
                f"{listed(names)}: expected classes 0 to {len(names) - 1}"
            )
        values = pa.array(numbers) if names is None else pa.array(names).take(pa.array(numbers))
    return with_ends(values, np.append(0, np.cumsum(found.sum(axis=1))), lost)


def _check_units(head: ModelHead, units: int, classes: int, alone: bool = True) -> None:
    if units == classes or (alone and (units, classes) == (1, 2)):
        return
    raise ArgumentError(
        f"the output {head.name or 'of the model'!r} has {units} unit{'s' * (units != 1)}, but y "
        f"has {classes} classes, {listed(head.class_names or ())}: expected a unit for each"
        f"{', or one alone for two classes' * alone}"
    )


LISTS = "lists"
"""The value that asks for lists; all else is the path of a folder."""

_LONGEST = 200  # characters of a name of a file


def array_values(head: ModelHead, outputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what an output says: classes of pixels as numbers (height, width), or as it is."""
    if head.has_pixels and keras.config.image_data_format() == "channels_first":
        outputs = np.moveaxis(outputs, 1, -1)
    if outputs.shape[-1] == 1 and (
        head.loss_kind == LossKind.BINARY or head.activation == "sigmoid"
    ):
        return (outputs[..., 0] > 0.5).astype(np.uint8)
    of_classes = (
        head.loss_kind in (LossKind.SPARSE, LossKind.CATEGORICAL) or head.activation == "softmax"
    )
    if outputs.shape[-1] > 1 and of_classes:
        dtype = np.uint8 if outputs.shape[-1] <= 256 else np.uint16
        classes: npt.NDArray[Any] = outputs.argmax(axis=-1).astype(dtype)
        return classes
    return outputs


def nested_lists(values: npt.NDArray[Any], lost: Present) -> pa.Array:
    """Return arrays (rows, ...) as lists of lists."""
    found = pa.array(values.ravel())
    for axis in range(values.ndim - 1, 0, -1):
        ends = np.arange(0, len(found) + 1, values.shape[axis], dtype=np.int64)
        lacking = lost if axis == 1 else np.zeros(len(ends) - 1, bool)
        found = with_ends(found, ends, lacking)
    return found


def files_of_rows(
    values: npt.NDArray[Any], lost: Present, folder: str, ids: Sequence[object]
) -> pa.Array:
    """Write arrays (rows, ...) into a folder, a file each, and return their paths.

    Classes of pixels become PNG files, whose values they are; all else becomes NPY.
    """
    os.makedirs(folder, exist_ok=True)
    of_classes = values.dtype in (np.uint8, np.uint16) and values.ndim == 3
    paths: list[str | None] = []
    for value, gone, name in zip(values, lost, ids, strict=True):
        path = os.path.join(folder, _name(name) + (".png" if of_classes else ".npy"))
        if not gone:
            with open(path, "wb") as file:
                if of_classes:
                    file.write(png_of(value))
                else:
                    np.save(file, value)
        paths.append(None if gone else path)
    return pa.array(paths, pa.string())


def _name(id: object) -> str:
    """Return the name of a file of a row, without what is no name of a file."""
    name = quote(str(id), safe=" ")
    if len(name) <= _LONGEST and not name.startswith("."):
        return name
    return blake2b(str(id).encode(), digest_size=16).hexdigest()
