"""Predictions of `dfgen.predict_frame`: its columns by heads, and in words."""

from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError
from dfgen.manifest.schema import label_columns

_OF_HEAD = ("y_true", "y_pred", "prob", "loss", "row_weight")
"""The columns of each head: of one alone as they are, of several with `_` and its name."""


def heads_of(frame: pd.DataFrame) -> list[str]:
    """Return what ends the columns of each head: "" of one alone, `_name` of several."""
    names = [name for name in frame if isinstance(name, str)]
    return [n[6:] for n in names if n == "y_pred" or n.startswith("y_pred_")]


def columns_of_model(frame: pd.DataFrame) -> list[str]:
    """Return the columns of predictions; of several heads `loss`, of all of them, is one too."""
    heads = heads_of(frame)
    names = [f"{kind}{head}" for head in heads for kind in _OF_HEAD]
    return [name for name in dict.fromkeys([*names, "loss"]) if heads and name in frame]


def own_labels(frame: pd.DataFrame) -> list[str]:
    """Return the label columns that say nothing of a model's."""
    of_model = columns_of_model(frame)
    return [name for name in label_columns([*frame.columns]) if name not in of_model]


def with_predictions(frame: pd.DataFrame, predictions: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with the columns of its predictions, by their ids; missing where none are."""
    if not isinstance(predictions, pd.DataFrame):
        raise ManifestError(
            f"predictions must be a frame of dfgen.predict_frame, got {type(predictions).__name__}"
        )
    wanted = columns_of_model(predictions)
    key = next((name for name in ("id", "path") if name in frame and name in predictions), None)
    if not wanted or key is None:
        raise ManifestError(
            "predictions must be a frame of dfgen.predict_frame with the ids of the manifest, got "
            f"one with the columns {', '.join(map(str, predictions.columns))}"
        )
    names = pd.Index(predictions[key])
    if not names.is_unique:
        twice = names[names.duplicated()].tolist()[0]
        raise ManifestError(f"predictions have several rows of {key} {twice!r}, expected one")
    places = names.get_indexer(pd.Index(frame[key]))
    if len(frame) and not (places >= 0).any():
        raise ManifestError(
            f"predictions are of other rows: none of {len(names):,} has the {key} of a row, such "
            f"as {frame[key].iloc[:1].tolist()[0]!r}; they have {names[:3].tolist()}"
        )
    found = predictions[wanted].reset_index(drop=True).reindex(places).set_axis(frame.index)
    return pd.concat([frame.drop(columns=wanted, errors="ignore"), found], axis=1)


def prediction_lines(row: "pd.Series[Any]", heads: list[str]) -> tuple[list[str], bool]:
    """Return what a model says of one row, a line a head, and whether it is wrong of one."""
    lines, is_wrong = [], False
    for head in heads:
        said, true = row[f"y_pred{head}"], row.get(f"y_true{head}")
        if not _is_told(said):
            continue
        name = f"{head[1:]} " if head else ""
        true_said = f"{word(true)} " if _is_told(true) else ""
        share = "" if pd.api.types.is_list_like(said) else _share(row.get(f"prob{head}"))
        lines.append(f"{name}{true_said}→ {word(said)}{share}")
        is_wrong |= _is_told(true) and not isinstance(said, float) and word(true) != word(said)
    loss = row.get("loss")
    if lines and isinstance(loss, float | np.floating) and np.isfinite(loss):
        lines.append(f"loss {loss:.3g}")
    return lines, is_wrong


def word(value: Any) -> str:
    """Return a label or a prediction as text."""
    if isinstance(value, list | tuple | np.ndarray):
        return ", ".join(map(word, value)) or "none"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _is_told(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray) or not pd.isna(value)


def _share(prob: Any) -> str:
    return f" {np.max(prob):.0%}" if isinstance(prob, np.ndarray) and prob.size else ""
