"""How many rows each class has, in each split: as a frame, and as bars."""

import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ManifestError
from dfgen.explore.chosen_rows import check_known
from dfgen.explore.column_kinds import kind_of
from dfgen.explore.figures import new_figure
from dfgen.explore.plain_words import one_line
from dfgen.explore.predicted import own_labels
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import part_column
from dfgen.table.any_table import Table
from dfgen.table.arrow_types import is_list

_MOST = 1_000  # different texts that are classes; more are names
_FEW = 50  # different numbers that are
_BARS = 30
_CHARACTERS = 25  # of the name of a bar
MISSING = "(missing)"


def classes(manifest: Path | Table, label: str | None = None) -> pd.DataFrame:
    """Count the rows of each class, in each split.

    Args:
        manifest: a frame or another table, or the path of a manifest.
        label: the column of classes, or of lists of them; None: all that hold classes: categories,
            text of up to 1,000 different values that are no sentences, booleans, whole numbers of
            up to 50, and lists of those, each entry of which counts.

    Returns:
        One row a class, those that do not occur too where categories name them, and `(missing)`
        for rows without; of several columns, with their name first in the index. A column for each
        split (or fold) where there are some, then `rows`, of all of them, and `share`.

    Raises:
        ManifestError: no column holds classes, or `label` is none.

    Example:
        >>> frame = pd.DataFrame({"id": [1, 2, 3], "kind": ["cat", "dog", "cat"]})
        >>> classes(frame)["rows"].to_dict()
        {'cat': 2, 'dog': 1}
    """
    frame = frame_of_manifest(manifest)
    if label is not None:
        check_known("label", label, frame)
    found = counts_by_label(frame, label)
    if not found and label is not None:
        raise ManifestError(
            f'the column "{label}" holds no classes: it has no values, or some that cannot be '
            "sorted together, such as numbers and text"
        )
    if not found:
        raise ManifestError(
            f"no column holds classes (columns: {', '.join(map(str, frame.columns))}): name one, "
            "as in label=..."
        )
    if len(found) == 1:
        return next(iter(found.values()))
    return pd.concat(found, names=["label", "class"])


def counts_by_label(frame: pd.DataFrame, label: str | None = None) -> dict[str, pd.DataFrame]:
    """Return what `classes` does, a table a column; none where no column holds classes."""
    labels = [name for name in own_labels(frame) if isinstance(name, str)]
    labels = [name for name in labels if kind_of(frame[name]) != "text"]
    names = labels if label is None else [label]
    counted = {name: _counted(frame, name, label is not None) for name in names}
    return {name: table for name, table in counted.items() if table is not None}


def show_balance(manifest: Path | Table, label: str | None = None) -> Any:
    """Show how the classes are spread over each split: the share of its rows that each class has.

    Args:
        manifest: a frame or another table, or the path of a manifest.
        label: the column of classes; None: all that hold classes, as of `classes`.

    Returns:
        A `matplotlib.figure.Figure`, whose `table` is what `classes` returns. It shows the 30 most
        frequent classes; the table has all.

    Raises:
        ManifestError: as `classes`.
        MissingPackageError: matplotlib is not installed.

    Example:
        >>> df.dfgen.show_balance()  # doctest: +SKIP
    """
    table = classes(manifest, label)
    if table.index.nlevels > 1:
        parts = {name: table.loc[name] for name in table.index.unique(0)}
    else:
        parts = {str(table.index.name): table}
    bars = [min(len(part), _BARS) * max(1, part.shape[1] - 2) for part in parts.values()]
    heights = [1 + 0.2 * number for number in bars]
    figure = new_figure(8, sum(heights), table)
    figure.set_layout_engine("constrained")
    every = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, part) in zip(every, parts.items(), strict=True):
        _draw_bars(axes, name, part)
    return figure


def _draw_bars(axes: Any, name: str, part: pd.DataFrame) -> None:
    most = part.nlargest(_BARS, "rows")
    part = part[part.index.isin(most.index)]
    splits = [one for one in part.columns if one not in ("rows", "share")] or ["rows"]
    places = np.arange(len(part))
    for number, split in enumerate(splits):
        shares = part[split] / max(1, part[split].sum())
        thick = 0.8 / len(splits)
        bars = axes.barh(places + (number + 0.5) * thick - 0.4, shares, thick, label=str(split))
        axes.bar_label(bars, [f"{rows:,}" for rows in part[split]], padding=2, fontsize=7)
    axes.set_yticks(
        places, [one_line(name, _CHARACTERS) for name in part.index], fontsize=8, parse_math=False
    )
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.set_title(one_line(_spread(name, part), 90), fontsize=9, loc="left", parse_math=False)
    if splits != ["rows"]:
        for text in axes.legend(fontsize=7, title="share of").get_texts():
            text.set_parse_math(False)


def _spread(name: str, part: pd.DataFrame) -> str:
    known = part.drop(index=MISSING, errors="ignore")["rows"]
    said = f"{name}: {len(known):,} classes"
    if known.nunique() > 1 and known.min() > 0:
        said += (
            f", {known.idxmax()} {known.max() / known.min():.3g} times as often as {known.idxmin()}"
        )
    return said + (f", {known.idxmin()} without any row" if len(known) and not known.min() else "")


def _counted(frame: pd.DataFrame, name: str, is_asked: bool) -> pd.DataFrame | None:
    """Return the rows of each class in each split; None of what holds no classes."""
    rows, codes, values = _coded(frame, name)
    odd = len(values) > (_FEW if all(isinstance(one, int) for one in values) else _MOST)
    odd = odd or any(isinstance(one, float | datetime.date) for one in values)
    if not values or (odd and not is_asked):
        return None
    part = part_column(frame)
    splits, names = _splits(frame, part)
    lacks = codes < 0
    codes = np.where(lacks, len(values), codes)
    shape = len(values) + 1, len(names)
    table = np.bincount(codes * len(names) + splits[rows], minlength=shape[0] * shape[1])
    counts = pd.DataFrame(table.reshape(shape), [*values, MISSING], names)
    counts.index.name = name
    counts = counts if lacks.any() else counts.iloc[:-1]
    total = counts.sum(axis=1)
    counts = counts if part is not None else counts[[]]
    return counts.assign(rows=total, share=total / max(1, total.sum()))


def _splits(frame: pd.DataFrame, part: str | None) -> tuple[npt.NDArray[np.int64], list[Any]]:
    if part is None:
        return np.zeros(len(frame), np.int64), ["rows"]
    codes, values = _numbers(frame[part])
    return np.where(codes < 0, len(values), codes), [*values, *["(none)"] * bool((codes < 0).any())]


def _coded(frame: pd.DataFrame, name: str) -> tuple[Any, npt.NDArray[np.int64], list[Any]]:
    """Return of each label its row and the number of its class, and the classes in order."""
    column = frame[name]
    first = column.iloc[:100].dropna()
    if len(first) and pd.api.types.is_list_like(first.iloc[0]):
        lists = Columns(frame[[name]])[name]
        if not is_list(lists.type):
            return slice(None), np.empty(0, np.int64), []
        rows = pc.list_parent_indices(lists).to_numpy()
        return rows, *_numbers(pc.list_flatten(lists).to_pandas())
    return slice(None), *_numbers(column)


def _numbers(column: "pd.Series[Any]") -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Return the number of each value, -1 of missing ones, and the values in their order."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64), column.cat.categories.tolist()
    try:
        codes, found = pd.factorize(column)
        values = np.asarray(found, object)
        order = sorted(range(len(values)), key=values.__getitem__)
    except TypeError:  # of values that are not alike, or no values of a table
        return np.empty(0, np.int64), []
    numbers = np.append(np.argsort(order), -1)  # of missing ones last, where -1 finds it
    return numbers[codes], values[order].tolist()
