"""predict_frame: the predictions of a model next to the rows of the manifest."""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from math import prod
from operator import itemgetter
from typing import Any

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dfgen.errors import ArgumentError, ManifestError, brief, listed, warn
from dfgen.files import write_whole
from dfgen.loading.order.epochs import Plan
from dfgen.loading.receipts import ids_digest
from dfgen.manifest.metadata import columns_digest
from dfgen.progress_bars import progress
from dfgen.table.arrow_types import are_files
from dfgen.training.checks.check import check_trained
from dfgen.training.checks.model_outputs import nested
from dfgen.training.keras_data import view_of
from dfgen.training.passes import SequenceView
from dfgen.training.prediction_columns import prediction_columns
from dfgen.training.processes import keras_division, settings
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
) -> pd.DataFrame | str:
    """Return the rows of a Sequence with the predictions of a model.

    Each row comes once, in the order and with the index of the manifest, whatever `shuffle`,
    `balance` and `drop_remainder` are; with `shard=(index, count)` a part of the rows. These
    columns follow, named `y_true_<output>` and so on if the model has several outputs:

    - `y_true`: the value of the manifest: a class name, a list of names, a number, a list of
      numbers, the path of a mask. Absent without y; missing if a row has no label.
    - `y_pred`: the prediction, of the same type: the most likely class, or the classes above 0.5.
      Classes are categoricals with all class names. Absent for outputs with more than two axes.
    - `prob`: the probability of each class; of two classes with a single unit p it is (1 - p, p).
    - `loss`: the loss of a batch of this row alone, without weights. For several outputs it is
      their sum by `loss_weights`. Absent without y, without a loss, or if the model has its own
      `compute_loss` or `predict_step`.
    - `row_weight`: the weight of the row in the loss, if the Sequence has `sample_weight` or
      `class_weight`, or labels are missing. The mean of `loss * row_weight` is that of `evaluate`.
    - `problem`: why a row has no prediction: it was skipped (`on_error="skip"`) or the model gave
      NaN. `y_pred`, `prob` and `loss` of such rows are missing.

    Args:
        model: a Keras model; it need not be compiled.
        sequence: a `dfgen.Sequence`.
        from_logits: whether the outputs of classes are logits. Default: what the loss says; without
            a loss, whether the last layer has no activation.
        out: a folder for files `part-*.parquet`, which `pd.read_parquet(out)` reads. All processes
            write into one folder. A second call keeps the finished files if rows, model and
            arguments are the same. Columns of bytes and the index are left out.

    Returns:
        The frame, or the folder.

    Raises:
        ArgumentError: outputs and y do not fit, outputs are no probabilities, or `out` is no local
            folder or has predictions of other rows, another model or other arguments.
        ManifestError: the manifest already has a column with such a name.

    Example:
        >>> frame = dfgen.predict_frame(model, val)  # doctest: +SKIP
        >>> frame[frame.y_true != frame.y_pred].sort_values("loss")
    """
    if not isinstance(sequence, Sequence):
        raise ArgumentError(f"sequence must be a dfgen.Sequence, got {brief(sequence)}")
    view = view_of(sequence)
    _check(model, view)
    check_trained(model, view, "predict_frame")
    (index, count), size = view.loader.given.shard, view.loader.given.size
    batches = -(-len(view.loader.reader) // size)
    steps = range(batches * index // count, batches * (index + 1) // count)
    if out is not None:
        return _write_parts(model, view, steps, from_logits, os.fspath(out))
    frame = sequence.manifest.iloc[steps.start * size : steps.stop * size]
    frame = frame.drop(columns="problem", errors="ignore")
    tables = []
    with progress(len(frame), "Predicting", " rows") as bar:
        for table in _tables(model, view, steps, from_logits, [*frame]):
            tables.append(table)
            bar.update(len(table))
    columns = pa.concat_tables(tables).unify_dictionaries().to_pandas() if tables else {}
    for name, values in columns.items():
        frame[name] = values.array
    return frame


def _check(model: Any, view: SequenceView) -> None:
    if view.loader.batch_transform is not None:
        raise ArgumentError(
            "the Sequence has a batch_transform, which can mix rows, so that no prediction belongs "
            "to one row: make a Sequence without it"
        )
    if (division := keras_division(model)).shard[1] > 1:
        raise ArgumentError(
            f"{division.by} divides each batch over {division.shard[1]} processes, expected a "
            "model of each process. Give the Sequence shard=(index, count) instead"
        )
    for bound in view.loader.reader.features:
        if bound.feature.is_random:
            warn(f"predictions differ between calls: the Sequence draws {bound.feature} at random")


def _tables(
    model: Any, view: SequenceView, steps: range, from_logits: bool | None, known: list[str]
) -> Iterator[pa.Table]:
    """Yield the columns of the rows of some batches, next to the `known` columns."""
    loader, size = view.loader, view.loader.given.size
    layout = nested(view.layout, loader, model, "evaluate")
    view = replace(view, layout=layout)
    rows = min(len(loader.reader), steps.stop * size)
    tail = "short" if keras_division(model).devices == 1 else "pad"
    ordered = loader.in_order(Plan(rows, size, tail=tail))
    specs, at_once = [*loader.specs.values()], 1
    if not any(None in spec.shape for spec in specs):
        nbytes = sum(prod(spec.shape) * spec.dtype.itemsize for spec in specs)
        at_once = max(1, _BYTES // max(1, size * nbytes))
    batches = ordered.stream(0, steps.start)
    try:
        for few in (steps[first:][:at_once] for first in range(0, len(steps), at_once)):
            part = slice(few.start * size, min(few.stop * size, rows))
            count = part.stop - part.start  # without rows that fill up the last batch
            parts = [layout.batch(next(batches))[:2] for _ in few]
            batch = keras.tree.map_structure(lambda *arrays: np.concatenate(arrays), *parts)
            outputs = model.predict(batch[0], batch_size=size, verbose=0)
            batch, outputs = keras.tree.map_structure(itemgetter(slice(count)), (batch, outputs))
            table = prediction_columns(model, view, batch, outputs, part, from_logits)
            if taken := {*table.column_names} & {*known}:
                raise ManifestError(
                    f"the manifest already has the columns {listed(taken)}, the names of "
                    "predictions: leave them out, df.drop(columns=[...])"
                )
            yield table
    finally:
        ordered.park(None)
        batches.close()


def _write_parts(
    model: Any, view: SequenceView, steps: range, from_logits: bool | None, out: str
) -> str:
    """Write the missing part files; return the folder."""
    if "://" in out:
        raise ArgumentError(f"out={out!r} is a URL, expected a local folder")
    manifest, size = view.binding.columns.table(), view.loader.given.size
    left_out = [one.name for one in manifest.schema if one.name == "problem" or are_files(one.type)]
    manifest = manifest.drop_columns(left_out).replace_schema_metadata()
    folder, count = os.path.abspath(out), max(1, _PART // size)
    _claim(folder, model, view, from_logits, manifest)
    with progress(len(steps) * size, "Predicting", " rows") as bar:
        for part in (steps[first:][:count] for first in range(0, len(steps), count)):
            path = os.path.join(folder, f"part-{part.start * size:012}.parquet")
            if not os.path.exists(path):
                tables = _tables(model, view, part, from_logits, manifest.column_names)
                table = pa.concat_tables(tables)
                rows = manifest.slice(part.start * size, len(table))
                for name in table.column_names:
                    rows = rows.append_column(name, table[name])
                write_whole(path, partial(pq.write_table, rows))
            bar.update(len(part) * size)
    return folder


def _claim(
    folder: str, model: Any, view: SequenceView, from_logits: bool | None, manifest: pa.Table
) -> None:
    """Record what the parts of a folder are predictions of; raise if it has others."""
    loader, weights = view.loader, blake2b(digest_size=16)
    for array in model.get_weights():
        weights.update(array.tobytes())
    layers = [(type(layer).__name__, getattr(layer, "activation", "")) for layer in model.layers]
    run = {
        "ids": ids_digest(loader.ids_at(np.arange(len(loader.reader)))),
        "columns": columns_digest(manifest, sorted({*manifest.column_names} - {"path"})),
        "weights": weights.hexdigest(),
        "layers": re.sub(" at 0x[0-9a-f]+", "", str(layers)),
        "from_logits": from_logits,
        "batch_size": loader.given.size,
        **settings(loader),
    }
    path = os.path.join(folder, _RUN)
    os.makedirs(folder, exist_ok=True)
    names = os.listdir(folder)
    if _RUN not in names:
        if not all(name.startswith(("_", ".")) for name in names):
            raise ArgumentError(f"out={folder!r} has other files, expected a new or empty folder")
        write_whole(path, lambda file: file.write(json.dumps(run).encode()))
    with open(path) as file:
        others = json.load(file)
    if differing := [name for name in {**run, **others} if run.get(name) != others.get(name)]:
        raise ArgumentError(
            f"out={folder!r} has predictions with another value of {listed(differing)}: pass "
            "another folder, or remove it"
        )
