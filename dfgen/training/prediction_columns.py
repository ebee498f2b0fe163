"""Columns of predictions: classes, probabilities, losses and weights of rows, as Arrow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.errors import ArgumentError, listed
from dfgen.samples.features.classes import Category, MultiLabel, Number
from dfgen.samples.reader import BoundFeature
from dfgen.spec import Present
from dfgen.table.arrow_types import TEXT, lists_of, with_ends
from dfgen.training.checks.model_outputs import (
    KnownLoss,
    LossKind,
    by_output,
    has_keras_loss,
    known_loss,
    outputs_of,
    steps_as_keras,
)
from dfgen.training.passes import SequenceView

Floats = npt.NDArray[np.float32]
NO_PREDICTION = "the model gave NaN"  # the problem of a row whose file has none
_BYTES = 1 << 24  # of targets and outputs that a loss gets at once


def prediction_columns(
    model: Any, view: SequenceView, batch: Any, outputs: Any, rows: slice, from_logits: bool | None
) -> pa.Table:
    """Return the columns of some rows of the manifest, from x, y and outputs of these rows."""
    loader, columns, losses = view.loader, dict[str, Any](), []
    problems = np.full(rows.stop - rows.start, None, object)
    for row in loader.problems:
        if rows.start <= row < rows.stop:
            problems[row - rows.start] = loader.problems[row].reason
    trees = (view.layout.y, batch[1]) if batch[1:] else ([], [])
    targets = dict(zip(*map(keras.tree.flatten, trees), strict=True))
    for head in _heads(model, view, outputs, from_logits):
        bad, bound, ending = problems.astype(bool), head.bound, f"_{head.name}" * bool(head.name)
        lost = bad | np.isnan(head.outputs.reshape(len(bad), -1)).any(axis=1)
        problems = np.where(lost & ~bad, NO_PREDICTION, problems)
        missing = np.zeros(len(bad), bool)
        if bound is not None:
            missing = missing if bound.present is None else ~bound.present[rows]
            values = _true_column(bound, rows, missing)
            if values is not None:
                columns["y_true" + ending] = values
        if head.outputs.ndim < 3:
            columns |= {f"{name}{ending}": part for name, part in head.predicted(lost).items()}
        if head.loss is not None and head.target in targets:
            loss = _row_losses(head, targets[head.target])
            loss = np.where(lost | missing, np.nan, loss)
            losses.append(loss * head.loss_weight)
            columns["loss" + ending] = pa.array(loss, pa.float32(), from_pandas=True)
        if view.binding.weighted and bound is not None:
            weights = np.where(lost | missing, 0, loader.weights_of(head.target)[rows])
            columns["row_weight" + ending] = pa.array(weights, pa.float32())
    if len(losses) > 1:
        is_without = problems.astype(bool) | np.isnan(losses).all(axis=0)
        loss = np.where(is_without, np.nan, np.nansum(losses, axis=0))
        columns["loss"] = pa.array(loss, pa.float32(), from_pandas=True)
    return pa.table({**columns, "problem": pa.array(problems, pa.string())})


def _true_column(bound: BoundFeature, rows: slice, missing: Present) -> Any:
    """Return names, numbers or paths of some rows, null for missing targets.

    None if only arrays could hold them.
    """
    if bound.present is not None and not bound.present.any():
        return pa.nulls(len(missing))
    feature, values = bound.feature, bound.values
    names = pa.array(feature.class_names or ())
    if isinstance(feature, Category):
        return pa.DictionaryArray.from_arrays(pa.array(values[rows], mask=missing), names)
    if isinstance(feature, Number):
        found = values[rows]
        return pa.array(found, mask=missing) if found.ndim == 1 else lists_of(found, missing)
    if isinstance(feature, MultiLabel):
        ends = values.offsets[rows.start : rows.stop + 1]
        labels = names.take(pa.array(values.arrays[0][ends[0] : ends[-1]]))
        return with_ends(labels, ends - ends[0], missing)
    files = bound.files
    if not isinstance(files, pa.Array) or files.type not in TEXT:
        return None
    return files.take(pa.array(np.arange(len(files))[rows], mask=missing))


@dataclass(frozen=True, eq=False)
class _Head:
    """An output of a model with its target and loss."""

    name: str  # "" for the only output
    outputs: Floats
    target: str | None  # the array of y
    bound: BoundFeature | None  # the feature of the target
    loss: Any  # a function or a keras.Loss
    known: KnownLoss | None
    loss_weight: float
    activation: str | None  # of the last layer
    from_logits: bool | None  # as of predict_frame

    def predicted(self, lost: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
        """Return `y_pred`, and `prob` of classes."""
        outputs = self.outputs.reshape(len(lost), -1)
        units, kind = outputs.shape[1], self.known and self.known.kind
        class_names = getattr(self.bound and self.bound.feature, "class_names", None)
        has_many = self.bound is not None and isinstance(self.bound.feature, MultiLabel)
        count = units if class_names is None else len(class_names)
        if units != count and (units, count, has_many) != (1, 2, False):
            raise ArgumentError(
                f"output {self.name!r} of the model has {units} units, but y has {count} classes, "
                f"{listed(class_names or ())}: expected a unit for each, or a single one for two"
            )
        are_classes = class_names is not None or kind == LossKind.SPARSE
        if self.bound is None:
            are_classes |= kind == LossKind.CATEGORICAL
            are_classes |= kind is None and self.activation == "softmax"
        elif kind == LossKind.BINARY and units == 1:
            are_classes |= self.bound.specs[self.target or ""].dtype.kind in "biu"
        if are_classes or kind not in (None, LossKind.REGRESSION):
            outputs = self._probabilities(outputs, has_many or kind == LossKind.BINARY)
        lists = lists_of(outputs, lost)
        if has_many:
            chosen = (outputs > 0.5) & ~lost[:, None]
            names = pa.array(class_names).take(pa.array(np.nonzero(chosen)[1]))
            ends = np.append(0, np.cumsum(chosen.sum(axis=1)))
            return {"y_pred": with_ends(names, ends, lost), "prob": lists}
        if not are_classes:
            return {"y_pred": pa.array(outputs[:, 0], mask=lost) if units == 1 else lists}
        if units == 1:
            outputs = np.hstack([1 - outputs, outputs])
        indices = outputs[:, 1] > 0.5 if units == 1 else outputs.argmax(axis=1)
        predicted = pa.array(indices.astype(np.int32), mask=lost)
        if class_names is not None:
            predicted = pa.DictionaryArray.from_arrays(predicted, pa.array(class_names))
        return {"y_pred": predicted, "prob": lists_of(outputs, lost)}

    def _probabilities(self, outputs: Floats, are_alone: bool) -> Floats:
        """Return the softmax of logits, or their sigmoid if each is `alone`."""
        are_logits = self.from_logits
        if are_logits is None:
            are_logits = self.known.from_logits if self.known else self.activation == "linear"
        if are_logits:
            are_alone |= outputs.shape[1] == 1
            function = keras.ops.sigmoid if are_alone else keras.ops.softmax
            return np.asarray(keras.ops.convert_to_numpy(function(outputs)))
        wrong = outputs[(outputs < -1e-3) | (outputs > 1 + 1e-3)]
        if wrong.size:
            raise ArgumentError(
                f"output {self.name!r} of the model has {wrong[0]:g}, expected probabilities: pass "
                "from_logits=True if these are logits, or end the model in a softmax or sigmoid"
            )
        return outputs


def _heads(model: Any, view: SequenceView, outputs: Any, from_logits: bool | None) -> list[_Head]:
    arrays = _named(outputs, getattr(model, "output_names", []))
    names = [*arrays]
    targets = {} if view.layout.y is None else _named(view.layout.y, names)
    if len(targets) == len(names) == 1:
        targets = dict(zip(names, targets.values(), strict=True))
    is_of_keras = steps_as_keras(model, "predict")
    losses = by_output(model.loss, names) if is_of_keras and has_keras_loss(model) else {}
    needed = {name for name in names if losses.get(name) is not None}
    if targets and (alone := ({*targets} - {*names}) | (needed - {*targets})):
        raise ArgumentError(
            f"the model has the outputs {listed(names)}, and y has {listed(targets)}: "
            f"{listed(alone)} has no partner. Write y={{{names[0]!r}: ..., ...}}"
        )
    compiled = getattr(model, "_compile_loss", None)
    weights = by_output(getattr(compiled, "_user_loss_weights", None), names)
    layers = outputs_of(model) if is_of_keras else {}
    if len(names) == len(layers) == 1:
        layers = dict(zip(names, layers.values(), strict=True))
    return [
        _Head(
            name="" if len(names) == 1 else name,
            outputs=np.asarray(array, np.float32),
            target=targets.get(name),
            bound=view.loader.reader.by_array.get(targets.get(name, "")),
            loss=keras.losses.get(losses[name]) if name in needed else None,
            known=known_loss(losses[name]) if name in needed else None,
            loss_weight=1.0 if weights.get(name) is None else float(weights[name]),
            activation=layers[name].activation if name in layers else None,
            from_logits=from_logits,
        )
        for name, array in arrays.items()
    ]


def _named(tree: Any, names: list[str]) -> dict[str, Any]:
    """Return a flat list or dict as a dict; the items of a list get `names`, or their positions."""
    if isinstance(tree, list | tuple):
        names = names if len(names) == len(tree) else [*map(str, range(len(tree)))]
        tree = dict(zip(names, tree, strict=True))
    return dict(tree) if isinstance(tree, Mapping) else {"": tree}


def _row_losses(head: _Head, y_true: npt.NDArray[Any]) -> Floats:
    """Return the loss of each row as a batch of one; NaN if the loss ignores all of it."""
    loss, known, y_pred, rows = head.loss, head.known, head.outputs, len(head.outputs)
    if known is not None and known.kind == LossKind.SPARSE:
        wrong = y_true[((y_true < 0) | (y_true >= y_pred.shape[-1])) & (y_true != known.ignored)]
        if wrong.size:  # some backends return an arbitrary loss for it
            raise ArgumentError(
                f"{head.target!r} has the class number {wrong.flat[0]:g}, expected 0 to "
                f"{y_pred.shape[-1] - 1} for the units of the model: write y=dfgen.Category(...)"
            )
    if y_true.ndim + 1 == y_pred.ndim and y_pred.shape[-1] == 1:
        y_true = y_true[..., None]
    dtype = getattr(loss, "dtype", None) or keras.config.floatx()
    size = max(1, _BYTES * rows // max(1, y_true.nbytes + y_pred.nbytes))
    parts = [slice(start, start + size) for start in range(0, rows, size)]
    pairs = ((y_true[part], y_pred[part]) for part in parts)
    tensors = ([keras.ops.convert_to_tensor(array, dtype) for array in pair] for pair in pairs)
    return np.concatenate([_at_once(loss, *pair) for pair in tensors])


def _at_once(loss: Any, *tensors: Any) -> Floats:
    def array(tensor: Any) -> npt.NDArray[Any]:
        return np.asarray(keras.ops.convert_to_numpy(tensor))

    rows, first = len(tensors[0]), [tensor[:1] for tensor in tensors]
    is_keras_loss = isinstance(loss, keras.losses.Loss)
    is_plain = is_keras_loss and type(loss).__call__ is keras.losses.Loss.__call__
    function = loss.call if is_plain else loss
    losses, single = function(*tensors), function(*first)
    if (*losses.shape[:1], *single.shape) != (rows, 1, *losses.shape[1:]):  # it compares rows
        every = ([tensor[row : row + 1] for tensor in tensors] for row in range(rows))
        return np.array([array(loss(*row)).mean() for row in every])
    values, mask = array(losses).reshape(rows, -1), getattr(losses, "_keras_mask", None)
    counts = np.ones_like(values) if mask is None else array(mask).reshape(values.shape) * 1.0
    sums, numbers = (values * counts).sum(axis=1), counts.sum(axis=1)
    if getattr(loss, "reduction", None) != "sum":
        sums = sums / np.maximum(numbers, 1)
    return np.asarray(np.where(numbers == 0, np.nan, sums))  # NaN where `ignore_class` ignores all
