"""Charts of a frame: the rows of each class, in each split, and how large the files are."""

import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ManifestError, column_list
from dfgen.explore.chosen_rows import check_known, kind_of
from dfgen.explore.figures import new_figure
from dfgen.explore.plain_words import one_line, value_of
from dfgen.explore.predicted import own_labels
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import PARTS, part_column
from dfgen.table.any_table import Table
from dfgen.table.arrow_types import is_list

_MOST = 1_000  # different texts that are classes; more are names
_FEW = 50  # different numbers that are
_BARS = 30
_CHARACTERS = 25  # of the name of a bar
MISSING = "(missing)"
_FAR = 3  # quartile ranges beyond a quartile: "far out" (Tukey, Exploratory Data Analysis, 1977)
_LEAST = np.log(2)  # and at least twice as large, or half
_DOTS = 5_000
_BINS = 60

SizeFacts = npt.NDArray[np.float64]


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


def show_sizes(manifest: Path | Table) -> Any:
    """Show how large the images are, and which are far from all others.

    Width and height are those of the upright image. An image is far from the others where its
    width, height, aspect (width / height) or bytes lie, on a logarithmic scale, more than three
    times the distance of the quartiles beyond one of them, and at least a factor of two (Tukey,
    Exploratory Data Analysis, 1977).

    Args:
        manifest: a frame with the facts `width`, `height` and `bytes`, or some of them, as
            `dfgen.build_manifest` reads them from headers.

    Returns:
        A `matplotlib.figure.Figure`: a dot for each size that occurs, larger where more rows have
        it (a sample of 5,000 sizes where there are more), those far from the others as red
        crosses, and how aspect and bytes are spread. Its
        `table` has the rows that are far from the others, the farthest first, and `why`.

    Raises:
        ManifestError: the frame has none of these facts.
        MissingPackageError: matplotlib is not installed.

    Example:
        >>> df.dfgen.show_sizes().table  # doctest: +SKIP
             id              path  width  height  aspect   bytes                          why
        17   17  imgs/banner.jpg   4000     200    20.0  190000  aspect 20, of others 1.33 to 1.5
    """
    frame = frame_of_manifest(manifest)
    numbers = size_facts(frame)
    table = far_out(frame, numbers)
    figure = new_figure(11, 3.6, table)
    figure.set_layout_engine("constrained")
    drawn = {"width": _draw_sizes, "aspect": _draw_spread, "bytes": _draw_spread}
    names = [name for name in drawn if name in numbers]
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        drawn[name](axes, numbers, name)
    if "width" in numbers:
        odd = table.head(_DOTS)
        figure.axes[0].scatter(odd["width"], odd["height"], 12, color="firebrick", marker="x")
    some = f"{len(table):,} of {len(frame):,} rows are far from the others"
    figure.suptitle(some, fontsize=9, ha="left", x=0.01)
    return figure


def size_facts(frame: pd.DataFrame) -> dict[str, SizeFacts]:
    """Return the facts that there are by name, nan where they are missing."""
    known = [name for name in ("width", "height", "bytes") if name in frame]
    known = [name for name in known if pd.api.types.is_numeric_dtype(frame[name])]
    found = {name: frame[name].to_numpy(np.float64, na_value=np.nan) for name in known}
    found = {
        name: np.where((numbers > 0) & np.isfinite(numbers), numbers, np.nan)
        for name, numbers in found.items()
    }
    if {"width", "height"} <= found.keys():
        if "orientation" in frame:
            turned = frame["orientation"].to_numpy(np.float64, na_value=1) >= 5
            pair = found["width"], found["height"]
            found["width"], found["height"] = (np.where(turned, *pair[::step]) for step in (-1, 1))
        with np.errstate(divide="ignore", invalid="ignore"):
            found["aspect"] = found["width"] / found["height"]
    found = {name: numbers for name, numbers in found.items() if not np.isnan(numbers).all()}
    if "aspect" not in found:
        found = {name: numbers for name, numbers in found.items() if name == "bytes"}
    if not found:
        raise ManifestError(
            "the frame does not say how large its files are (columns: "
            f'{column_list(map(str, frame.columns))}): dfgen.build_manifest(..., facts="header") '
            "reads width, height and bytes"
        )
    return found


def size_counts(numbers: dict[str, SizeFacts]) -> pd.DataFrame:
    """Return `width`, `height` and `count` of each size that is known, the most frequent first."""
    pairs = pd.DataFrame({name: numbers[name] for name in ("width", "height")})
    return pairs.value_counts().reset_index()


def far_out(frame: pd.DataFrame, numbers: dict[str, SizeFacts]) -> pd.DataFrame:
    """Return the rows that are far from the others, the farthest first, and why."""
    distance = np.zeros(len(frame))
    why: dict[int, list[str]] = {}
    for name, values in numbers.items():
        if not (values > 0).any():
            continue
        logs = np.log(values)
        low, high = np.nanquantile(logs, (0.25, 0.75))
        beyond = np.maximum(low - logs, logs - high) / max(_FAR * (high - low), _LEAST)
        distance = np.fmax(distance, beyond)
        ends = [value_of(name, round(float(np.exp(one)), 6)) for one in (low, high)]
        for row in np.flatnonzero(beyond > 1).tolist():
            told = f"{name} {value_of(name, values[row])}, of others {' to '.join(ends)}"
            why.setdefault(row, []).append(told)
    rows = sorted(why, key=lambda row: (-distance[row], row))
    shown = [name for name in ("id", "path", *PARTS) if name in frame]
    facts = {name: values[rows] for name, values in numbers.items()}
    return frame.iloc[rows][shown].assign(**facts, why=["; ".join(why[row]) for row in rows])


def _draw_sizes(axes: Any, numbers: dict[str, SizeFacts], name: str) -> None:
    pairs = size_counts(numbers)
    some = pairs if len(pairs) <= _DOTS else pairs.sample(_DOTS, random_state=0)
    area = 8 + 400 * some["count"] / some["count"].max() if len(pairs) < 200 else 4
    axes.scatter(some["width"], some["height"], area, alpha=0.5, linewidths=0)
    axes.set(xlabel="width", ylabel="height")
    for scale, sides in ((axes.set_xscale, pairs["width"]), (axes.set_yscale, pairs["height"])):
        scale("log" if sides.max() > 10 * sides.min() else "linear")
    said = f"{len(pairs):,} sizes" + f", {_DOTS:,} of them shown" * (len(pairs) > _DOTS)
    axes.set_title(said, fontsize=9, loc="left")


def _draw_spread(axes: Any, numbers: dict[str, SizeFacts], name: str) -> None:
    values = numbers[name][numbers[name] > 0]
    low, high = values.min(), values.max()
    bins = np.geomspace(low, high, _BINS) if high > low else np.array([low * 0.9, low * 1.1])
    counts, edges = np.histogram(values, bins)
    axes.stairs(counts, edges, fill=True)
    axes.set(xscale="log" if high > 10 * low else "linear", yscale="symlog")
    axes.set(xlabel=name, ylabel="rows")
    told = f"{value_of(name, float(low))} to {value_of(name, float(high))}"
    axes.set_title(f"{name}: {told}", fontsize=9, loc="left")
