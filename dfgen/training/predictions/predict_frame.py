"""predict_frame: the predictions of a model next to the rows of the manifest."""

import json
import os
import re
from collections.abc import Iterator
from functools import partial
from hashlib import blake2b
from math import prod
from operator import itemgetter
from pathlib import Path
from typing import Any, Never

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError, ManifestError, WriteError, brief, listed, warn
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.loading.order.plan import Plan
from dfgen.loading.state import ids_digest
from dfgen.manifest.fingerprint import columns_digest
from dfgen.progress_bars import progress
from dfgen.system import flag, write_whole
from dfgen.table.any_table import arrow_table
from dfgen.table.file_columns import are_files
from dfgen.training.checks.class_indices import check_trained
from dfgen.training.checks.model_outputs import nested
from dfgen.training.keras_data import view_of
from dfgen.training.layout import SequenceView
from dfgen.training.predictions.columns import prediction_columns
from dfgen.training.predictions.heads import heads_of
from dfgen.training.processes import keras_division
from dfgen.training.sequence import Sequence

_BYTES = 1 << 27  # of inputs that `model.predict` gets at once
_PART = 1 << 14  # rows of a file of predictions
_RUN = "_run.json"


def predict_frame(
    model: keras.Model,
    sequence: Sequence,
    *,
    from_logits: bool | None = None,
    out: str | os.PathLike[str] | None = None,
    **unknown: Never,
) -> pd.DataFrame | str:
    """Return the rows of a Sequence with the predictions of a model.

    Use it to find out what a model gets wrong. Each row of the manifest comes once, in the order
    and with the index of the manifest, whatever `shuffle`, `balance` and `drop_remainder` are. The
    epochs of the Sequence do not change. With `shard=(index, count)` it is a part of the rows.

    These columns follow those of the manifest, named `y_true_<output>` and so on if the model has
    several outputs:

    - `y_true`: the value of the manifest: a class name, a list of names, a number, a list of
      numbers, the path of a mask. Absent without y; missing if a row has no label.
    - `y_pred`: the prediction, of the same type: the most likely class, or the classes above 0.5.
      Classes are categoricals with all class names. Absent for outputs with more than two axes.
    - `prob`: the probability of each class, float32 of shape (classes,); of two classes with a
      single unit p it is (1 - p, p). Only for classes.
    - `loss`: float32, the loss of a batch of this row alone, without weights. For several outputs
      it is their sum by `loss_weights`. Absent without y, without a loss, or if the model has its
      own `compute_loss` or `predict_step`.
    - `row_weight`: float32, the weight of the row in the loss, if the Sequence has
      `sample_weight` or `class_weight`, or labels are missing. The sum of `loss * row_weight`
      divided by the number of rows is the loss of `evaluate`.
    - `problem`: why a row has no prediction: it was skipped (`on_error="skip"`) or the model gave
      NaN. `y_pred`, `prob` and `loss` of such rows are missing.

    Args:
        model: a Keras model; it need not be compiled.
        sequence: a `dfgen.Sequence`.
        from_logits: whether the outputs of classes are logits. Default: what the loss says; without
            a loss, whether the last layer has no activation.
        out: a folder for files `part-*.parquet` with up to 16,384 rows each, which
            `pd.read_parquet(out)` reads, for more rows than memory holds. All processes write into
            one folder. A second call continues after an error: it keeps the files that are
            finished if rows, model and arguments are the same. Columns of bytes and the index are
            left out.
        **unknown: raises an error that names the argument of dfgen.

    Returns:
        The frame, or `out`.

    Raises:
        ArgumentError: outputs and y do not fit, outputs are no probabilities, or `out` is no local
            folder or has predictions of other rows, another model or other arguments.
        WriteError: `out` cannot be written.
        ManifestError: the manifest already has a column of one of these names.

    Example:
        >>> frame = dfgen.predict_frame(model, val)  # doctest: +SKIP
        >>> frame[frame.y_true != frame.y_pred].sort_values("loss")
    """
    refuse_unknown(predict_frame, unknown)
    if not isinstance(model, keras.Model):
        raise ArgumentError(f"model must be a keras.Model, got {brief(model)}")
    if not isinstance(sequence, Sequence):
        raise ArgumentError(f"sequence must be a dfgen.Sequence, got {brief(sequence)}")
    if from_logits is not None:
        from_logits = flag("from_logits", from_logits)
    view = view_of(sequence)
    _check(model, view)
    check_trained(model, view, "predict_frame")
    if out is None:
        return _frame(model, sequence, view, from_logits)
    if not isinstance(out, str | os.PathLike) or not os.fspath(out) or "://" in os.fspath(out):
        raise ArgumentError(f"out must be a local folder, got {brief(out)}")
    folder = os.path.abspath(out)
    _write_parts(model, view, from_logits, folder)
    return folder


def _check(model: Any, view: SequenceView) -> None:
    loader = view.loader
    if loader.transforms_batches:
        raise ArgumentError(
            "the Sequence has a batch_transform, which can mix rows, so that no prediction belongs "
            "to one row: make a Sequence without it"
        )
    texts = [
        one.name for one in keras.tree.flatten(view.element_spec[1:2]) if one.dtype == "string"
    ]
    if texts:
        raise ArgumentError(
            f"y has text, {listed(texts)}, expected numbers: write y=dfgen.Category(...), or leave "
            "y out: the columns of the manifest stand next to the predictions anyway"
        )
    if (division := keras_division(model)).shard[1] > 1:
        raise ArgumentError(
            f"{division.by} divides each batch over {division.shard[1]} processes, expected a "
            "model of each process. Give the Sequence shard=(index, count) instead"
        )
    if random := [one.feature for one in loader.reader.features if one.feature.is_random]:
        warn(
            f"the Sequence draws {random[0]!r} at random, so predictions differ from call to call: "
            "make a Sequence without random crops and flips"
        )


def _steps(loader: Any) -> range:
    """Return the batches of this process."""
    index, count = loader.given.shard
    batches = -(-len(loader.reader) // loader.given.size)
    return range(batches * index // count, batches * (index + 1) // count)


def _frame(
    model: Any, sequence: Sequence, view: SequenceView, from_logits: bool | None
) -> pd.DataFrame:
    steps, size = _steps(view.loader), view.loader.given.size
    first, stop = steps.start * size, min(steps.stop * size, len(view.loader.reader))
    frame = sequence.manifest.iloc[first:stop].drop(columns="problem", errors="ignore")
    tables = []
    with progress(len(frame), "Predicting", " rows") as bar:
        for table in _tables(model, view, steps, from_logits):
            _check_names([*frame.columns], table)
            tables.append(table)
            bar.update(len(table))
    if tables:
        table = pa.concat_tables(tables)
        for name in table.column_names:
            frame[name] = _series(table[name]).array
    return frame


def _series(column: pa.ChunkedArray) -> "pd.Series[Any]":
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    series: pd.Series[Any] = column.to_pandas()
    is_text = pa.types.is_string(column.type)
    return series.astype(object).where(series.notna(), None) if is_text else series


def _tables(
    model: Any, view: SequenceView, steps: range, from_logits: bool | None
) -> Iterator[pa.Table]:
    """Yield the columns of the rows of some batches, some batches at a time."""
    loader, binding = view.loader, view.binding
    layout = nested(view.layout, loader, model, "evaluate")
    if not len(steps):
        return
    size, rows = loader.given.size, min(len(loader.reader), steps.stop * loader.given.size)
    tail = "short" if keras_division(model).devices == 1 else "pad"
    ordered = loader.in_order(Plan(rows, size, tail=tail))
    has_weights = (
        loader.weights is not None
        or loader.own_weights
        or any(
            present is not None and not present.all() for present in loader.reader.present.values()
        )
    )
    weights_of = loader.weights_of if has_weights else None
    batches, step = ordered.stream(0, steps.start), steps.start
    at_once = _at_once(loader, size)
    try:
        while step < steps.stop:
            few = [layout.batch(next(batches)) for _ in range(min(at_once, steps.stop - step))]
            x, *y = keras.tree.map_structure(lambda *each: np.concatenate(each), *few)[:2]
            part = slice(step * size, min((step + len(few)) * size, rows))
            number = part.stop - part.start  # without rows that fill up the last batch
            outputs = model.predict(x, batch_size=size, verbose=0)
            outputs = keras.tree.map_structure(itemgetter(slice(number)), outputs)
            names = keras.tree.flatten(layout.y) if y else []
            arrays = keras.tree.flatten(y[0]) if y else []
            targets = {name: array[:number] for name, array in zip(names, arrays, strict=True)}
            problems = np.full(number, None, object)
            for row in loader.problems:
                if part.start <= row < part.stop:
                    problems[row - part.start] = loader.problems[row].reason
            heads = heads_of(model, outputs, layout.y, binding, from_logits)
            yield prediction_columns(heads, targets, part, problems, weights_of)
            step += len(few)
    finally:
        ordered.park(None)
        batches.close()


def _at_once(loader: Any, size: int) -> int:
    """Return how many batches `model.predict` gets at once; one if their shapes can differ."""
    shapes = [spec.shape for spec in loader.specs.values()]
    if any(None in shape for shape in shapes):
        return 1
    nbytes = sum(prod(spec.shape) * spec.dtype.itemsize for spec in loader.specs.values())
    return int(max(1, _BYTES // max(1, size * nbytes)))


def _write_parts(model: Any, view: SequenceView, from_logits: bool | None, folder: str) -> None:
    """Write the missing part files."""
    loader = view.loader
    steps, size = _steps(loader), loader.given.size
    source = view.binding.columns.source
    manifest = source if isinstance(source, pa.Table) else arrow_table(source)
    left_out = [one.name for one in manifest.schema if one.name == "problem" or are_files(one.type)]
    manifest = manifest.drop_columns(left_out).replace_schema_metadata()
    columns = sorted(name for name in manifest.column_names if name != "path")
    features = [(bound.name, bound.feature) for bound in loader.reader.features]
    run = {
        "ids": ids_digest(loader.order.ids_at(np.arange(len(loader.reader)))),
        "columns": columns_digest(manifest, columns),
        "model": _model_digest(model),
        "features": _digest(_plain([*features, loader.reader.transform])),
        "loss": _digest(_plain([model.loss, from_logits])),
        "batch_size": size,
    }
    _claim(folder, run)
    each = max(1, _PART // size)
    parts = [steps[first : first + each] for first in range(0, len(steps), each)]
    paths = [os.path.join(folder, f"part-{part.start * size:012}.parquet") for part in parts]
    rows = [min(part.stop * size, len(loader.reader)) - part.start * size for part in parts]
    with progress(sum(rows), "Predicting", " rows") as bar:
        for part, path, number in zip(parts, paths, rows, strict=True):
            if not os.path.exists(path):
                table = pa.concat_tables(_tables(model, view, part, from_logits))
                beside = manifest.slice(part.start * size, number)
                _check_names(beside.column_names, table)
                for name in table.column_names:
                    beside = beside.append_column(name, table[name])
                write_whole(path, partial(pq.write_table, beside))
            bar.update(number)


def _claim(folder: str, run: dict[str, Any]) -> None:
    """Record what the parts of a folder are predictions of; raise if it has others."""
    path = Path(folder, _RUN)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise WriteError(f"out={folder!r} cannot be made a folder: {error.strerror}") from error
    if not path.exists():
        if any(os.scandir(folder)):
            raise ArgumentError(f"out={folder!r} has other files, expected a new or empty folder")
        write_whole(str(path), lambda file: file.write(json.dumps(run).encode()))
    try:
        other = dict(json.loads(path.read_text()))
    except (ValueError, TypeError) as error:
        raise ArgumentError(f"{path} is damaged: remove the folder") from error
    if differing := [name for name, value in run.items() if other.get(name) != value]:
        raise ArgumentError(
            f"out={folder!r} has predictions with another value of {listed(differing)}: give "
            "another folder, or remove it"
        )


def _model_digest(model: Any) -> str:
    """Return a digest of the layers and weights of a model, whatever the layers are called."""
    layers = [(type(layer).__name__, _config(layer)) for layer in model.layers]
    return _digest(_plain(layers), *map(np.ascontiguousarray, model.get_weights()))


def _config(layer: Any) -> Any:
    try:
        return layer.get_config()
    except Exception:  # a layer of the user without one
        return None


def _plain(value: Any) -> str:
    """Return the text of a value without names of layers and addresses in memory."""
    value = [one.get_config() if isinstance(one, keras.losses.Loss) else one for one in value]
    return re.sub(r"'name': '[^']*'| at 0x[0-9a-f]+", "", repr(value))


def _digest(text: str, *arrays: Any) -> str:
    digest = blake2b(text.encode(), digest_size=16)
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()


def _check_names(known: list[str], table: pa.Table) -> None:
    if taken := [name for name in table.column_names if name in known]:
        raise ManifestError(
            f"the manifest already has the columns {taken}, the names of predictions: leave them "
            f"out, df.drop(columns={taken})"
        )
