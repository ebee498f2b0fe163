"""Predictions of a model that Keras has saved, on a manifest: what the command does."""

import os
import warnings
from typing import Any

import keras
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dfgen.binding.preprocessing import load_preprocessing
from dfgen.errors import ArgumentError, ManifestError, MissingFileError, listed, reason
from dfgen.limits import Limits
from dfgen.manifest.io import read_manifest
from dfgen.training.predictions.predict_frame import predict_frame
from dfgen.training.predictions.saved_preprocessing import sequence_as_trained


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
    if not os.path.exists(model):
        raise MissingFileError(f"there is no model {model}")
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
