"""Columns of a frame: its labels, the predictions of `dfgen.predict_frame`, and captions."""

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError, MissingFileError, column_list, listed
from dfgen.explore.tiles import content_kind, require_column, word
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import label_columns
from dfgen.table.any_table import Table

_OF_OUTPUT = ("y_true", "y_pred", "prob", "loss", "row_weight")
SUGGESTED = "suggested"  # the column of the class that a mislabelled row likely has


def open_frame(manifest: Path | Table) -> pd.DataFrame:
    """Return a manifest as a frame; raise a ManifestError if two columns have one name."""
    frame = frame_of_manifest(manifest)
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        advice = "df.loc[:, ~df.columns.duplicated()] keeps the first"
        raise ManifestError(f"the frame has several columns {name!r}, expected one: {advice}")
    return frame


def suffixes_of(columns: Iterable[Any]) -> list[str]:
    """Return the suffix of the columns of each model output: "" for one, else `_name`."""
    return [name[6:] for name in map(str, columns) if f"{name}_".startswith("y_pred_")]


def own_labels(frame: pd.DataFrame) -> list[str]:
    """Return the label columns, without those of predictions and masks."""
    predicted = {"mask", *_prediction_columns(frame)}
    return [name for name in label_columns([*frame.columns]) if name not in predicted]


def _prediction_columns(frame: pd.DataFrame) -> list[str]:
    names = [f"{kind}{suffix}" for suffix in suffixes_of(frame) for kind in _OF_OUTPUT]
    return [name for name in dict.fromkeys([*names, "loss"]) if names and name in frame]


def with_predictions(frame: pd.DataFrame, predictions: Path | Table) -> pd.DataFrame:
    """Return the frame with columns of predictions, joined by `id`, else by `path`."""
    if isinstance(predictions, str | os.PathLike):
        path = os.fspath(predictions)
        try:
            predictions = pd.read_parquet(path)
        except FileNotFoundError as error:
            raise MissingFileError(f"predictions={path!r} does not exist") from error
        except (OSError, ValueError) as error:
            raise ManifestError(f"predictions={path!r} is not readable: {error}") from error
    predictions = open_frame(predictions)
    columns = _prediction_columns(predictions)
    key = next((one for one in ("id", "path") if one in frame and one in predictions), "")
    keys = pd.Index(predictions[key] if columns and key else [])
    is_usable = keys.is_unique and len(keys)
    places = keys.get_indexer(pd.Index(frame[key])) if is_usable else np.empty(0, int)
    if not (places >= 0).any():
        raise ManifestError(
            f"expected a frame of dfgen.predict_frame with unique ids of the manifest, got columns "
            f"{column_list(predictions.columns)}, {key} {listed(keys[:3])}: predict the rows again"
        )
    joined = predictions[columns].reset_index(drop=True).reindex(places)
    return frame.assign(**{name: joined[name].array for name in columns})


def caption_columns(rows: pd.DataFrame, caption: str | Iterable[str] | None = None) -> list[str]:
    """Return the columns of a caption: those of `caption`, or the id and up to three labels.

    Without `caption`, labels that are drawn, long or equal to `y_true` are left out.
    """
    if caption is not None:
        is_one = isinstance(caption, str) or not isinstance(caption, Iterable)
        names: list[Any] = [caption] if is_one else [*caption]
        for name in names:
            require_column("caption", name, rows)
        return names
    hidden = {"loss", "prob_own", *["labels"] * ("boxes" in rows)}
    true = [rows[f"y_true{one}"].map(word) for one in suffixes_of(rows) if f"y_true{one}" in rows]
    names = [name for name in own_labels(rows) if name not in hidden]
    names = [name for name in names if not any(map(_is_long, rows[name]))]
    names = [name for name in names if not any(rows[name].map(word).equals(one) for one in true)]
    return [*[name for name in ("id", "path") if name in rows][:1], *names[:3]]


def _is_long(value: Any) -> bool:
    """Whether a value is a file, a dict, or a list of anything but words."""
    if pd.api.types.is_list_like(value):
        return isinstance(value, dict) or not all(isinstance(one, str) for one in value)
    return content_kind(value, "") not in ("text", "missing")


def captions(row: "pd.Series[Any]", names: list[str]) -> tuple[list[str], bool]:
    """Return the caption of a row, with its predictions, and whether one of these is wrong."""
    labels = [name for name in names if name not in ("id", "path")]
    unnamed = {"id", "path", *labels * (len(labels) == 1 and labels != [SUGGESTED])}
    lines = [f"{'' if name in unnamed else name} {word(row[name])}" for name in names]
    is_wrong, suffixes = False, suffixes_of(row.index)
    for suffix in suffixes:
        predicted, true = row[f"y_pred{suffix}"], row.get(f"y_true{suffix}")
        if not _is_known(predicted):
            continue
        prob: Any = row.get(f"prob{suffix}")
        is_class = isinstance(prob, np.ndarray) and not pd.api.types.is_list_like(predicted)
        share = f" {prob.max():.0%}" if is_class and prob.size else ""
        shown = f"{word(true)} " if _is_known(true) else ""
        lines.append(f"{suffix[1:]} {shown}→ {word(predicted)}{share}")
        is_number = isinstance(predicted, float)
        is_wrong |= bool(shown) and not is_number and word(true) != word(predicted)
    if suffixes and isinstance(loss := row.get("loss"), float | np.floating) and np.isfinite(loss):
        lines.append(f"loss {loss:.3g}")
    return [line.strip() for line in lines], is_wrong


def _is_known(value: Any) -> bool:
    return bool(pd.api.types.is_list_like(value) or not pd.isna(value))
