"""Predictions of `dfgen.predict_frame`: its columns by heads, and in words."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError
from dfgen.explore.chosen_rows import FILE_KINDS, check_known, kind_of
from dfgen.explore.plain_words import value_of, word
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
    """Return the label columns that say nothing of a model's, and name no files."""
    hidden = {*columns_of_model(frame), "mask"}
    names = [name for name in label_columns([*frame.columns]) if name not in hidden]
    return [name for name in names if kind_of(frame[name]) not in FILE_KINDS]


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


SUGGESTED = "suggested"
"""The column of the class that a row likely is of, which no caption leaves unnamed."""
_NAMES = ("id", "path")  # of rows, the better one first
_NO_CAPTIONS = ("loss", "prob_own")
_LABELS = 3


def caption_columns(frame: pd.DataFrame, caption: str | Iterable[str] | None = None) -> list[str]:
    """Return the columns whose values stand below a picture.

    They are those that `caption` names. If it names none, they are the id, or the path, and up to
    three labels, without those that predictions repeat as `y_true`.
    """
    if caption is not None:
        is_one = isinstance(caption, str) or not isinstance(caption, Iterable)
        names: list[Any] = [caption] if is_one else [*caption]
        for name in names:
            check_known("caption", name, frame)
        return names
    heads = [f"y_true{head}" for head in heads_of(frame)]
    true = [frame[name].map(word) for name in heads if name in frame]
    labels = [name for name in own_labels(frame) if name not in _NO_CAPTIONS]
    hidden = ("labels",) if "boxes" in frame else ()  # which are drawn
    labels = [name for name in labels if name not in hidden and _is_short(frame[name])]
    labels = [name for name in labels if not any(frame[name].map(word).equals(one) for one in true)]
    return [*[name for name in _NAMES if name in frame][:1], *labels[:_LABELS]]


def _is_short(column: "pd.Series[Any]") -> bool:
    return not any(_is_long(one) for one in column if not isinstance(one, str))


def _is_long(value: Any) -> bool:
    """Whether a value is a dict, or a list of something else than words."""
    if isinstance(value, dict):
        return True
    is_list = pd.api.types.is_list_like(value)
    return is_list and not all(isinstance(one, str) for one in value)


def caption_lines(row: "pd.Series[Any]", names: list[str]) -> list[str]:
    """Return what stands below the picture of a row: its id, then its labels, by name if several.

    Example:
        >>> caption_lines(pd.Series({"id": 7, "kind": "cat"}), ["id", "kind"])
        ['7', 'cat']
    """
    told = [(name, value_of(name, row[name])) for name in names]
    first = [value for name, value in told[:1] if name in _NAMES]
    rest = told[len(first) :]
    alone = len(rest) == 1 and rest[0][0] != SUGGESTED
    return first + [value if alone else f"{name} {value}" for name, value in rest]


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


def _is_told(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray) or not pd.isna(value)


def _share(prob: Any) -> str:
    return f" {np.max(prob):.0%}" if isinstance(prob, np.ndarray) and prob.size else ""
