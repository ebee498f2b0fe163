"""predict_frame, evaluate_frame, and the command: what a model says of each row, as columns."""

import os
import warnings
from typing import Any, Never

import keras
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dfgen.binding.preprocessing import load_preprocessing
from dfgen.errors import (
    ArgumentError,
    ManifestError,
    MissingFileError,
    brief,
    did_you_mean,
    listed,
    quote,
    reason,
    warn,
)
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits
from dfgen.manifest.io import read_manifest
from dfgen.manifest.not_a_manifest import check_place, is_manifest
from dfgen.progress_bars import progress
from dfgen.system import flag, only_writer, whole
from dfgen.table.any_table import arrow_table
from dfgen.table.file_columns import are_files
from dfgen.training.checks.meanings import check_as_before, meanings
from dfgen.training.checks.pairing import has_keras_loss
from dfgen.training.data_adapter import view_of
from dfgen.training.device_division import keras_division
from dfgen.training.layout import SequenceView
from dfgen.training.predictions.heads import makes_own_outputs
from dfgen.training.predictions.predicted_rows import Prediction, is_task
from dfgen.training.predictions.prediction_columns import LISTS
from dfgen.training.predictions.predictions_file import (
    PREDICTIONS,
    PartsFolder,
    check_rows,
    frame_of_columns,
    run_of_file,
    write_joined,
)
from dfgen.training.predictions.run_identity import refuse_other
from dfgen.training.predictions.saved_preprocessing import (
    Saved,
    check_as_trained,
    opened,
    sequence_as_trained,
)
from dfgen.training.sequence import Sequence


def _checked(
    model: Any,
    sequence: Any,
    views: Any,
    logits: Any,
    saved: Saved,
    arrays: Any,
    weighs: bool = False,
) -> Prediction:
    if not isinstance(model, keras.Model):
        raise ArgumentError(f"model must be a keras.Model, got {brief(model)}")
    if not isinstance(sequence, Sequence):
        raise ArgumentError(f"sequence must be a dfgen.Sequence, got {brief(sequence)}")
    view = view_of(sequence)
    if view.loader.transforms_batches:
        raise ArgumentError(
            "the Sequence has a batch_transform, which may mix rows, so that no prediction is of "
            "one row: make one for predictions without it"
        )
    _refuse_text(model, view)
    _check_processes(model, view)
    views = _checked_views(view, views)
    if logits is not None:
        logits = flag("from_logits", logits, "leave it out where the loss tells it")
    known = opened(saved)
    if known is not None:
        check_as_trained(known, sequence)
    purpose = "evaluate" if weighs else "predict"
    check_as_before(model, meanings(view_of(sequence, model, purpose)), f"{purpose}_frame")
    if arrays is not None and views > 1:
        raise ArgumentError(
            f"views={views} with arrays={brief(arrays)}: each view lies otherwise on the image, so "
            "that their mean means nothing: leave out one of the two"
        )
    place = arrays if arrays in (None, LISTS) else _path_of("arrays", arrays)
    return Prediction(model, sequence, views, logits, known, place, weighs)


def _refuse_text(model: Any, view: SequenceView) -> None:
    """Refuse targets that are text, which no backend compares with an output."""
    specs = view.element_spec[1:2]
    texts = [one.name for one in keras.tree.flatten(specs) if one.dtype == "string"]
    if texts and not is_task(model):
        raise ArgumentError(
            f"y has text or bytes, {listed(texts)}, which no output is compared with: for classes "
            "write y=dfgen.Category(...); else leave y out, label_mode=None, as the columns of "
            "the manifest are beside the predictions anyhow"
        )


def _checked_views(view: SequenceView, views: int | None) -> int:
    """Return how many views there are, 1 where nobody asks; refuse several that are alike."""
    reader = view.loader.reader
    if views is None:
        drawn = [one.feature for one in reader.features if one.feature.is_random]
        if drawn:
            warn(
                f"the Sequence draws {drawn[0]!r}, so predictions depend on "
                "chance: give views=8 for the mean of eight draws, views=1 for one of them, "
                "or a Sequence without chance"
            )
        return 1
    views = whole("views", views, least=1)
    if views > 1 and not reader.is_random:
        raise ArgumentError(
            f"views={views} would be alike, as the Sequence leaves nothing to chance: give it an "
            'Image(crop="random", flip="horizontal", ...) or a transform, or leave out views'
        )
    return views


def _path_of(name: str, given: Any) -> str:
    if not isinstance(given, str | os.PathLike):
        raise ArgumentError(f"{name} must be a path, got {brief(given)}")
    return os.path.abspath(given)


def _check_processes(model: Any, view: SequenceView) -> None:
    division, loader = keras_division(model), view.loader
    if division.shard[1] > 1:
        raise ArgumentError(
            f"{division.by} divides each batch over {division.shard[1]} processes, expected a "
            "model that each process has to itself: predict without it, each process its part, as "
            "shard=(index, count) of the Sequence says"
        )
    given, batches = loader.given, -(-len(loader.reader) // loader.given.size)
    if batches < given.shard[1]:
        raise ArgumentError(
            f"{batches} batches of {given.size} rows are too few for {given.shard[1]} processes: "
            "make the batches smaller, or predict in fewer"
        )


def predict_frame(
    model: keras.Model,
    sequence: Sequence,
    *,
    views: int | None = None,
    from_logits: bool | None = None,
    preprocessing: Saved = None,
    arrays: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    **unknown: Never,
) -> pd.DataFrame | str:
    """Return the rows of a Sequence with what a model says of each, to find out why it is wrong.

    Each row of the manifest comes once, in the order of the manifest and with its index, whatever
    `shuffle`, `balance` and `drop_remainder` of the Sequence, whose epochs are left alone. With
    `shard=(index, count)` it is a part of the rows, those of one process after those of the other.

    These columns follow those of the manifest, as `y_true_<head>` and so on where the model has
    several outputs:

    - `y_true`: what the manifest says: the name of a class, a list of names, a number, a list of
      numbers, the path of a mask. Absent where the Sequence has no y; missing where a row has no
      label.
    - `y_pred`: the same, as the model says: the most likely class, or classes above 0.5. Classes
      are a categorical with all class names, in the order of their numbers, in both columns; those
      without names are numbers. Absent for outputs of more axes, as masks are. Of a detector of
      KerasHub `y_pred_boxes`, `y_pred_labels` and `y_pred_confidence` are lists of what is found,
      in the pixels that the model has seen; `y_true_boxes` are as the manifest has them.
    - `prob`: the probability of each class, a float32 array of shape (classes,) in each row; of two
      classes told by one unit p it is (1 - p, p). Absent where there are no classes.
    - `loss`: by the loss of the model, float32: what it would be of a batch of this row alone,
      without the weights of rows. So a loss of pixels is their mean. Missing where nothing counts.
      For several outputs, `loss` is their sum by `loss_weights`, beside `loss_<head>` of each.
      Absent without y, and where the model was not compiled with a loss, or has a `compute_loss`
      or a `predict_step` of its own.
    - `problem`: why a row has no prediction, where `on_error="skip"` or the model gave NaN; else
      missing. It takes the place of a column of that name. y_pred, prob and loss of such rows are
      missing; where one of several outputs is NaN, those of that output and the sum of losses.

    Outputs are logits where `from_logits` of the loss says so, or, if nothing is known of the loss,
    where the last layer has no activation. Of them the softmax is taken, or the sigmoid, where the
    loss is binary crossentropy, there is one unit, or a row may have several labels.

    Args:
        model: of Keras. It need not be compiled.
        sequence: whose rows.
        views: how many times each row is predicted, each with another random crop, flip and
            `transform`, by the seed of the Sequence. Probabilities, numbers and losses are
            averaged. None: once; of a Sequence that crops or flips by chance a warning tells it.
        from_logits: whether outputs of classes are logits, where nothing tells it, or wrongly.
        preprocessing: what `SavePreprocessing` has saved beside the model, or the path of its file:
            a Sequence that makes other inputs, or numbers classes otherwise, is refused, and where
            it has no y, the classes have their names nevertheless. None: nothing is compared.
        arrays: what `y_pred` holds of outputs of more axes than one, as masks, boxes and maps:
            `"lists"`, or the path of a folder for a file a row, called by its id, in a folder for
            each of several outputs. Classes of pixels, which the loss or a softmax or sigmoid at
            the end tells, become their numbers, (height, width) as the model has seen the image, in
            PNG files; all else is as it is, in NPY files. None: there is no such column.
        out: the Parquet file to write instead, for more rows than memory holds; neither the index
            nor columns of bytes are in it, and classes that are numbers are no categorical. It is
            written part by part: called again after a kill, with the same arguments, it goes on
            where it was. Until it is there, the folder `<out>.parts` holds the parts. None: a
            frame.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        The frame, whose `attrs["dfgen_predictions"]["heads"]` tells kind and class names of each
        output; with `out` the path of the file, whose schema metadata has them.

    Raises:
        ArgumentError: outputs and y do not go together, classes are told by numbers that are no
            probabilities, the Sequence is not that of `preprocessing`, or `out` holds predictions
            of another run: of other rows, another model.
        ManifestError: the manifest has a column that is called as one of these.
        WriteError: the file cannot be written, or another process is writing it.

    Example:
        >>> frame = dfgen.predict_frame(model, val)  # doctest: +SKIP
        >>> frame[frame.y_true != frame.y_pred].sort_values("loss")
    """
    refuse_unknown(predict_frame, unknown)
    return _told(_checked(model, sequence, views, from_logits, preprocessing, arrays), out)


def evaluate_frame(
    model: keras.Model,
    sequence: Sequence,
    *,
    views: int | None = None,
    from_logits: bool | None = None,
    preprocessing: Saved = None,
    arrays: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    **unknown: Never,
) -> pd.DataFrame | str:
    """Return what `predict_frame` does, of which each row has a loss, and what it weighs.

    The column `row_weight`, or `row_weight_<head>`, is what the row counts in the loss: its
    `sample_weight` times that of its class, 1 without, 0 where it has no label or no prediction.
    The sum of `loss * row_weight` by the number of rows is what `model.evaluate` calls the loss,
    where no row is bad, the loss is a mean over rows that ignores no class, a single output has no
    `loss_weights`, and no layer adds to it, as regularizers do. With `reduction="sum"`, or
    `"mean_with_sample_weight"` and weights, what `evaluate` says depends on the batches, and no
    sum of rows is it. Of a softmax that is all but sure TensorFlow's `evaluate` knows the logits:
    its losses may go above 16, those here end there.

    Args:
        model: of Keras, compiled with a loss.
        sequence: whose rows, with y.
        views: as of `predict_frame`, as are those that follow.
        from_logits: likewise.
        preprocessing: likewise.
        arrays: likewise.
        out: likewise.
        **unknown: none, likewise.

    Raises:
        ArgumentError: there are no labels, no loss, or as of `predict_frame`.

    Example:
        >>> frame = dfgen.evaluate_frame(model, val)  # doctest: +SKIP
        >>> frame.groupby("y_true", observed=True).loss.mean()
    """
    refuse_unknown(evaluate_frame, unknown)
    prediction = _checked(model, sequence, views, from_logits, preprocessing, arrays, weighs=True)
    if makes_own_outputs(model):
        raise ArgumentError(
            "evaluate_frame needs the outputs that the loss gets, but the model makes its own "
            "(predict_step): take predict_frame"
        )
    if prediction.view.layout.y is None:
        raise ArgumentError(
            "evaluate_frame needs labels, but the Sequence has inputs alone: give it y=, the "
            "column of the labels, or take predict_frame"
        )
    if model.loss is None or not has_keras_loss(model):
        lack = "computes its own (compute_loss): take predict_frame"
        if model.loss is None:
            lack = "is not compiled with one: model.compile(loss=...)"
        raise ArgumentError(
            f"evaluate_frame needs a loss that tells rows apart, but the model {lack}"
        )
    return _told(prediction, out)


def _told(prediction: Prediction, out: Any) -> pd.DataFrame | str:
    return _framed(prediction) if out is None else _written(prediction, _path_of("out", out))


def _framed(prediction: Prediction) -> pd.DataFrame:
    prediction.claim_arrays()
    rows = prediction.rows(prediction.steps)
    frame = prediction.sequence.manifest.iloc[rows].drop(columns="problem", errors="ignore")
    tables = []
    with _bar(len(frame)) as bar:
        for _, table in prediction.tables(prediction.steps.start):
            _check_columns(list(frame.columns), table.column_names)
            tables.append(table)
            bar.update(len(table))
    found = frame_of_columns(pa.concat_tables(tables))
    for name in found.columns:
        frame[name] = found[name].array
    frame.attrs[PREDICTIONS] = prediction.described(whole=False)
    return frame


def _written(prediction: Prediction, out: str) -> str:
    check_place(out, "file of predictions")
    run, steps = prediction.run, prediction.steps
    with only_writer(out):
        if os.path.exists(out):
            advice = f"Give another out=, or remove {out}"
            told = run_of_file(out)
            refuse_other(told, run, f"{out} holds predictions", advice)
            check_rows(out, told, out, f"it was edited since. {advice}")
            PartsFolder(out, run).remove()  # which a kill has left
            return out
        prediction.claim_arrays()
        folder, manifest = PartsFolder(out, run), _manifest(prediction.sequence)
        known = [*folder.files(steps)]
        first = known[-1][0] if known else steps.start
        paths = [path for _, path in known]
        done = prediction.rows(range(steps.start, first))
        with _bar(prediction.plan.rows - done.start, done.stop - done.start) as bar:
            for part, table in prediction.tables(first):
                _check_columns(manifest.column_names, table.column_names)
                rows = prediction.rows(part)
                beside = manifest.slice(rows.start, len(table))
                for name in table.column_names:
                    beside = beside.append_column(name, table[name])
                paths.append(folder.add(part, beside, prediction.heads))
                bar.update(len(table))
        prediction.heads.update(run_of_file(paths[0]))
        write_joined(out, paths, prediction.described(whole=True))
        folder.remove()
    return out


def _manifest(sequence: Sequence) -> pa.Table:
    source = view_of(sequence).binding.columns.source
    table = source if isinstance(source, pa.Table) else arrow_table(source)
    left_out = [f.name for f in table.schema if f.name == "problem" or are_files(f.type)]
    return table.drop_columns(left_out).replace_schema_metadata()


def _bar(rows: int, done: int = 0) -> Any:
    return progress(rows, "Predicting", " rows", initial=done)


def _check_columns(known: list[str], made: list[str]) -> None:
    taken = [name for name in made if name in known]
    if taken:
        raise ManifestError(
            f"the manifest has the columns {taken} already, which predictions would be called: "
            f"rename them, or leave them out, df.drop(columns={taken})"
        )


_MODELS = (".keras", ".h5", ".hdf5")


def predict_saved(
    model: str,
    manifest: str,
    out: str,
    *,
    preprocessing: str | None = None,
    split: str | None = None,
    views: int | None = None,
    arrays: str | None = None,
    allow_functions: bool = False,
    root: str | None = None,
    **options: Any,
) -> dict[str, int]:
    """Write what a saved model says of the rows of a manifest, made as in training."""
    _check_model(model, manifest)
    path = preprocessing or f"{model}.json"
    if preprocessing is None and not os.path.exists(path):
        raise MissingFileError(
            f"there is no {path}, which tells how rows were made in training, and the names of "
            f'classes: fit with dfgen.SavePreprocessing("{path}", sequence), or name the file, '
            "--preprocessing FILE"
        )
    saved = load_preprocessing(path, allow_functions)
    keras.config.set_image_data_format(saved.data_format)
    rows: Any = manifest if split is None else _of_split(manifest, split, root)
    chance = views is not None
    if options.get("on_error") == "skip":
        options["limits"] = Limits(problems=1.0)  # all are told
    with sequence_as_trained(saved, rows, chance, root=None if split else root, **options) as seq:
        written = predict_frame(
            _loaded(model), seq, views=views, preprocessing=saved, arrays=arrays, out=out
        )
    problems = pq.read_table(written, columns=["problem"])["problem"]
    return {"rows": len(problems), "problems": pc.count(problems).as_py()}


def _check_model(path: str, manifest: str) -> None:
    """Refuse what no model was saved as, before rows are read; Keras reads the rest."""
    folder, name = os.path.split(os.path.abspath(path))
    if not os.path.exists(path):
        near = did_you_mean(name, os.listdir(folder)) if os.path.isdir(folder) else ""
        near = near and f".{near}"
        raise MissingFileError(f"there is no model {path or quote(path)}. Looked in {folder}{near}")
    if is_manifest(path):
        other = manifest if manifest.endswith(".keras") else "model.keras"
        raise ArgumentError(
            f"{path} is a manifest, expected a model saved by Keras: it comes first, dfgen predict "
            f"{other} {path}"
        )
    if not (os.path.exists(os.path.join(path, "config.json")) or name.endswith(_MODELS)):
        what = "is a folder" if os.path.isdir(path) else f"is no {' or '.join(_MODELS)}"
        raise ArgumentError(
            f'{path} {what}, expected a model saved by Keras: model.save("model.keras")'
        )


def _of_split(manifest: str, split: str, root: str | None) -> Any:
    frame = read_manifest(manifest, root)
    if "split" not in frame:
        raise ManifestError(f"{manifest} has no column split: leave out --split {split}")
    found = frame[frame.split == split]
    if not len(found):
        known = frame.split.dropna().unique().tolist()
        raise ManifestError(f"no row of {manifest} has the split {split!r}, but {listed(known)}")
    return found


def _loaded(path: str) -> Any:
    of_optimizer = r"(?s).*Skipping variable loading for optimizer"  # which predicts nothing
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", of_optimizer)
            return keras.saving.load_model(path)
    except Exception as error:  # of a file that may be anything
        raise ArgumentError(
            f"{path} cannot be loaded as a model of Keras: {reason(error)}"
        ) from error
