"""Arguments of `predict_frame` and `evaluate_frame`, checked."""

import os
from typing import Any

import keras

from dfgen.errors import ArgumentError, brief
from dfgen.manifest.warn import warn
from dfgen.system import flag, whole
from dfgen.training.checks.meanings import meanings
from dfgen.training.checks.trained_model import check_as_before
from dfgen.training.device_division import keras_division
from dfgen.training.predictions.as_trained import Saved, check_as_trained, opened
from dfgen.training.predictions.predicted_rows import Prediction
from dfgen.training.predictions.said_arrays import LISTS
from dfgen.training.sequence import Sequence

_LOGITS = "leave it out where the loss tells it"


def checked_prediction(
    model: Any,
    sequence: Any,
    views: Any,
    logits: Any,
    saved: Saved,
    arrays: Any,
    weighs: bool = False,
) -> Prediction:
    """Return what is to be predicted.

    Args:
        model: as of `predict_frame`, and all of these.
        sequence: likewise.
        views: likewise.
        logits: as `from_logits`.
        saved: as `preprocessing`.
        arrays: likewise.
        weighs: whether the weights of rows are told.

    Raises:
        ArgumentError: one of them cannot be, or they cannot be together.
    """
    if not isinstance(model, keras.Model):
        raise ArgumentError(f"model must be a keras.Model, got {brief(model)}")
    if not isinstance(sequence, Sequence):
        raise ArgumentError(f"sequence must be a dfgen.Sequence, got {brief(sequence)}")
    if sequence._loader.transforms_batches:
        raise ArgumentError(
            "the Sequence has a batch_transform, which may mix rows, so that no prediction is of "
            "one row: make one for predictions without it"
        )
    _check_processes(model, sequence)
    views = _checked_views(sequence, views)
    logits = logits if logits is None else flag("from_logits", logits, _LOGITS)
    known = opened(saved)
    if known is not None:
        check_as_trained(known, sequence)
    layout = sequence._nested_for(model, "evaluate" if weighs else "predict")
    told = meanings(sequence._loader, layout)
    check_as_before(model, told, "evaluate_frame" if weighs else "predict_frame")
    if arrays is not None and views > 1:
        raise ArgumentError(
            f"views={views} with arrays={brief(arrays)}: each view lies otherwise on the image, so "
            "that their mean means nothing: leave out one of the two"
        )
    place = arrays if arrays in (None, LISTS) else path_of("arrays", arrays)
    return Prediction(model, sequence, views, logits, known, place, weighs)


def _checked_views(sequence: Sequence, views: int | None) -> int:
    """Return how many views there are, 1 where nobody asks; refuse several that are alike."""
    reader = sequence._loader.reader
    if views is None:
        drawn = [one.feature for one in reader.features if one.feature.is_random]
        if drawn:
            warn(
                f"the Sequence draws {drawn[0]!r}, so that predictions are of what chance has made "
                "of an image: give views=8 for the mean of eight draws, views=1 for one of them, "
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


def path_of(name: str, given: Any) -> str:
    """Return a path as it is from everywhere."""
    if not isinstance(given, str | os.PathLike):
        raise ArgumentError(f"{name} must be a path, got {brief(given)}")
    return os.path.abspath(given)


def _check_processes(model: Any, sequence: Sequence) -> None:
    """Refuse a model that several processes share, and processes without rows."""
    given = sequence._loader.given
    division = keras_division(model)
    if division.shard[1] > 1:
        raise ArgumentError(
            f"{division.by} divides each batch over {division.shard[1]} processes, expected a "
            "model that each process has to itself: predict without it, each process its part, as "
            "shard=(index, count) of the Sequence says"
        )
    batches = -(-len(sequence._loader.reader) // given.size)
    if batches < given.shard[1]:
        raise ArgumentError(
            f"{batches} batches of {given.size} rows are too few for {given.shard[1]} processes: "
            "make the batches smaller, or predict in fewer"
        )
