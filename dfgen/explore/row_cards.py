"""Rows of a manifest for its page: which are shown, and what is told of each."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dfgen.explore.page_section import json_block, short
from dfgen.explore.predicted import heads_of
from dfgen.manifest.schema import FACTS, PARTS, label_columns

_HIDDEN = ("mtime_ns", "index", "shard", "row")
_OF_MODEL = ("prob", "row_weight")  # not told of a row, beside y_true, y_pred and loss
_COLUMNS = 40  # told of each row
_BYTES = 3000  # of JSON told of a row
_CHOICES = 200  # of a filter
_FILTERS = 4
_EXACT = 2**53  # JavaScript's numbers are whole up to here


def sampled(frame: pd.DataFrame, most: int, seed: int, labels: list[str]) -> list[int]:
    """Return positions of at most so many rows, in their order.

    They are drawn by `seed`, in turn from each class of the first of `labels` that has one class a
    row, so that rare classes are seen.
    """
    if len(frame) <= most:
        return list(range(len(frame)))
    drawn = np.random.default_rng(seed).permutation(len(frame))
    label = next((name for name in labels if not _has_lists(frame[name])), None)
    if label is not None:
        codes = pd.Series(pd.factorize(frame[label])[0][drawn])
        drawn = drawn[np.argsort(codes.groupby(codes).cumcount().to_numpy(), kind="stable")]
    return sorted(drawn[:most].tolist())


def _has_lists(column: pd.Series) -> bool:
    return any(pd.api.types.is_list_like(value) for value in column.dropna().iloc[:1])


def shown_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns told of a row: its name, its part, labels, then facts of its file."""
    names = [*frame.columns]
    first = [name for name in ("id", "path", *PARTS) if name in names]
    hidden = {*_HIDDEN, *(f"{kind}{head}" for head in heads_of(frame) for kind in _OF_MODEL)}
    labels = [name for name in label_columns(names) if name not in hidden]
    facts = [name for name in FACTS if name in names and name not in _HIDDEN]
    return [*first, *labels[: max(0, _COLUMNS - len(first) - len(facts))], *facts]


def cards(
    frame: pd.DataFrame,
    positions: Iterable[int],
    classes_of: list[str],
    marks: Mapping[str, Iterable[int]],
) -> dict[str, Any]:
    """Return what the page knows of rows, in JSON types; rows are called by their position.

    `classes_of` are the columns of classes; `marks` words, such as duplicate, and the rows they are
    said of.
    """
    names = shown_columns(frame)
    wanted = sorted(set(positions))
    few = frame.iloc[wanted]
    root = frame.attrs.get("dfgen", {}).get("root")
    if "path" in few:
        few = few.assign(path=[relative(path, root) for path in few["path"]])
    columns = [[_plain(value) for value in few[name].astype(object)] for name in names]
    rows = {position: _card([*values]) for position, *values in zip(wanted, *columns, strict=True)}
    for word, said_of in marks.items():
        for position in set(said_of) & rows.keys():
            rows[position].setdefault("marks", []).append(word)
    titles = [name for name in classes_of if name in names]
    return {
        "columns": [{"name": short(name)} for name in names],
        "name": names.index("id") if "id" in names else 0,
        "path": names.index("path") if "path" in names else -1,
        "caption": [names.index(name) for name in titles[:2]],
        "filters": [*_filters(few, names, columns, titles)],
        "marks": [word for word, said_of in marks.items() if set(said_of) & rows.keys()],
        "rows": rows,
    }


def _filters(
    few: pd.DataFrame, names: list[str], columns: list[list[Any]], titles: list[str]
) -> Iterator[dict[str, Any]]:
    single = [name for name in titles if not _has_lists(few[name])]
    asked = [name for name in [*PARTS, *single, "format"] if name in names]
    found = 0
    for name in asked:
        place = names.index(name)
        values = {value for value in columns[place] if value is not None}
        if 1 < len(values) <= _CHOICES and found < _FILTERS:
            found += 1
            order = _in_order(few[name], values)
            yield {"column": place, "values": order + [None] * (None in columns[place])}


def _in_order(column: pd.Series, values: set[Any]) -> list[Any]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = dict.fromkeys(_plain(value) for value in column.cat.categories)
        return [value for value in known if value in values]
    return sorted(values, key=lambda value: (str(type(value)), value))


def relative(path: Any, root: str | None) -> Any:
    """Return a path without the folder that all files of a manifest are in."""
    return path.removeprefix(f"{root}/") if root and isinstance(path, str) else path


def _card(values: list[Any]) -> dict[str, Any]:
    card: dict[str, Any] = {"values": values}
    used = 0
    for place, value in enumerate(values):
        used += len(json_block(value).encode())
        if used > _BYTES:
            card["values"] = [*values[:place], *[None] * (len(values) - place)]
            card["more"] = f"{len(values) - place} more columns, for which there is no room here"
            break
    return card


def _plain(value: Any) -> Any:
    """Return a value of any column as a number, a short text, or None where there is none."""
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, dict):
        return short(", ".join(f"{key}: {_plain(one)}" for key, one in value.items()))
    if isinstance(value, list | tuple | set | np.ndarray):
        return short(", ".join(str(_plain(one)) for one in [*value][:20]))
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return int(value) if abs(int(value)) <= _EXACT else str(value)
    if isinstance(value, float | np.floating):
        if math.isfinite(value):
            return float(f"{value:.6g}")
        return None if math.isnan(value) else str(value)
    return short(value)
