"""Class counts, image sizes and unreadable files of a frame, as frames and charts.

Also its columns of labels and predictions, and captions of them.
"""

import datetime
import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from dfgen.errors import ManifestError, MissingFileError, column_list, listed
from dfgen.explore.figures import new_figure
from dfgen.explore.tiles import content_kind, one_line, require_column, word
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import PARTS, label_columns, part_column
from dfgen.table.any_table import Table

_OF_OUTPUT = ("y_true", "y_pred", "prob", "loss", "row_weight")
SUGGESTED = "suggested"  # the column of the class that a mislabelled row likely has

_MOST_TEXTS, _MOST_NUMBERS = 1_000, 50  # different values of a column of classes
_BARS, _DOTS, _BINS = 30, 5_000, 60
_MISSING = "(missing)"
_FAR = 3  # interquartile ranges beyond a quartile (Tukey, Exploratory Data Analysis, 1977)
_FACTOR = np.log(2)  # and at least twice as large, or half


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


def problems(manifest: Path | Table) -> pd.DataFrame:
    """Return the rows whose files cannot be used, and the reasons.

    No file is read; use `dfgen.verify` to check files again.

    Args:
        manifest: a frame with the column `problem` of `dfgen.build_manifest`, or a manifest's path.

    Raises:
        ManifestError: if there is no column `problem`.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2], "problem": [None, "the file does not exist"]})
        >>> problems(df)["id"].tolist()
        [2]
    """
    frame = open_frame(manifest)
    if "problem" not in frame:
        raise ManifestError("there is no column problem: dfgen.verify(df) checks the files again")
    return frame[frame["problem"].notna()].filter(["id", "path", *PARTS, "problem"])


def classes(manifest: Path | Table, label: str | None = None) -> pd.DataFrame:
    """Count the rows of each class in each split.

    Args:
        manifest: a frame or another table, or the path of a manifest.
        label: str, the column of classes or lists of classes. Defaults to None, all of these:
            categories, booleans, text of up to 1,000 values, whole numbers of up to 50, and lists.

    Returns:
        A row for each class, and `(missing)` for unlabelled rows. A column for each split (or
        fold), then `rows` and `share`. Of several labels, their name is first in the index.

    Raises:
        ManifestError: if `label` does not exist, or no column holds classes.

    Example:
        >>> df = pd.DataFrame({"id": [1, 2, 3], "kind": ["cat", "dog", "cat"]})
        >>> classes(df)["rows"].to_dict()
        {'cat': 2, 'dog': 1}
    """
    frame = open_frame(manifest)
    if label is not None:
        require_column("label", label, frame)
    names = own_labels(frame) if label is None else [label]
    counts = {name: _counts(frame, name, label is not None) for name in names}
    tables = {name: table for name, table in counts.items() if table is not None}
    if not tables:
        raise ManifestError(
            f"columns {column_list(map(str, names))} hold no classes: values are missing, cannot "
            "be sorted, or are too many; name the column, as in label=..."
        )
    [table, *others] = tables.values()
    return pd.concat(tables, names=["label", "class"]) if others else table


def _counts(frame: pd.DataFrame, name: str, is_named: bool) -> pd.DataFrame | None:
    """Return the rows of each class, None if the column holds no classes."""
    values = frame[name].reset_index(drop=True)
    first = values.dropna().head(1).tolist()
    is_list = any(map(pd.api.types.is_list_like, first))
    is_vector = is_list and isinstance(next(iter(first[0]), ""), float | list | np.ndarray)
    if is_list and (is_named or not is_vector):
        values = values.explode().dropna()
    try:
        labels = pd.Categorical(values)
        names = sorted(labels.categories) if values.dtype == object else [*labels.categories]
    except TypeError:  # lists, dicts, or numbers and texts in one column
        return None
    texts = [name for name in names if isinstance(name, str)][:_BARS]
    is_odd = any(isinstance(name, float | datetime.date) for name in names)
    is_odd |= len(names) > (_MOST_TEXTS if texts else _MOST_NUMBERS)
    long = [one for one in texts if content_kind(one, "") != "text" or len(one.split()) > 3]
    if not names or (not is_named and (is_odd or (long and long == texts))):  # files, sentences
        return None
    part = part_column(frame)
    splits = pd.Categorical(frame[part] if part else np.zeros(len(frame)))
    shape = len(names) + 1, len(splits.categories) + 1
    rows, columns = labels.set_categories(names).codes, splits.codes[values.index]
    table = np.zeros(shape, np.int64)
    np.add.at(table, (rows, columns), 1)  # missing values have the code -1, the last place
    counts = pd.DataFrame(table, [*names, _MISSING], [*splits.categories, "(none)"])
    total = counts.sum(axis=1)
    counts = counts.iloc[:, : 0 if part is None else shape[1] - (not table[:, -1].any())]
    counts = counts.assign(rows=total, share=total / max(1, total.sum())).rename_axis(name)
    return counts.iloc[: len(counts) - (is_list or not table[-1].any())]


def show_balance(manifest: Path | Table, label: str | None = None) -> Any:
    """Show the share of each class in each split as bars.

    Use it to find rare classes, and splits with different proportions.

    Args:
        manifest: a frame or another table, or the path of a manifest.
        label: str, the column of classes. Defaults to None, all columns that hold classes.

    Returns:
        A `matplotlib.figure.Figure` of the 30 most frequent classes; `table` is that of `classes`.

    Raises:
        ManifestError: as `classes`.

    Example:
        >>> df.dfgen.show_balance()  # doctest: +SKIP
    """
    table = classes(manifest, label)
    tables = {str(table.index.name): table}
    if table.index.nlevels > 1:
        tables = {str(name): table.loc[name] for name in table.index.unique(0)}
    heights = [1 + 0.2 * min(len(one), _BARS) * max(1, one.shape[1] - 2) for one in tables.values()]
    figure = new_figure(8, sum(heights), table)
    figure.set_layout_engine("constrained")
    every = figure.subplots(len(tables), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (name, counts) in zip(every, tables.items(), strict=True):
        shown = counts[counts["rows"].rank(method="first", ascending=False) <= _BARS]
        splits = [*counts.columns[:-2]] or ["rows"]
        places, height = np.arange(len(shown)), 0.8 / len(splits)
        for number, split in enumerate(splits):
            shares = shown[split] / max(1, counts[split].sum())
            y, text = places + (number + 0.5) * height - 0.4, str(split).replace("$", r"\$")
            bars = axes.barh(y, shares, height, label=text)
            axes.bar_label(bars, [f"{rows:,}" for rows in shown[split]], padding=2, fontsize=7)
        names = [one_line(one, 25) for one in shown.index]
        axes.set_yticks(places, names, fontsize=8, parse_math=False)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.xaxis.set_major_formatter("{x:.0%}")
        title = one_line(f"{name}: {len(shown)} of {len(counts):,} classes", 90)
        axes.set_title(title, fontsize=9, loc="left", parse_math=False)
        if splits != ["rows"]:
            axes.legend(fontsize=7, title="share of")
    return figure


def show_sizes(manifest: Path | Table) -> Any:
    """Show width, height, aspect and bytes of the images, and list outliers.

    An outlier is more than three interquartile ranges beyond a quartile on a logarithmic scale
    (Tukey), and at least twice or half as large. Width and height are those of the upright image.

    Args:
        manifest: a frame with `width`, `height` or `bytes` of `dfgen.build_manifest`, or its path.

    Returns:
        A `matplotlib.figure.Figure` whose `table` has the outliers, the farthest first.

    Raises:
        ManifestError: if the frame has no sizes.

    Example:
        >>> df.dfgen.show_sizes().table[["id", "why"]]  # doctest: +SKIP
            id            why
        17  17  width, aspect
    """
    frame = open_frame(manifest)
    facts: Any = frame.filter(["width", "height", "bytes"]).reset_index(drop=True)
    facts = facts.apply(pd.to_numeric, errors="coerce").astype(float)
    facts = facts.where((facts > 0) & np.isfinite(facts))
    if {"width", "height"} <= {*facts}:
        if "orientation" in frame:
            turned = frame["orientation"].to_numpy(float, na_value=1) >= 5
            facts.loc[turned, ["width", "height"]] = facts.loc[turned, ["height", "width"]].values
        facts["aspect"] = facts["width"] / facts["height"]
    facts = facts.dropna(axis=1, how="all")
    facts = facts if "aspect" in facts else facts.filter(["bytes"])
    if facts.empty:
        raise ManifestError(
            "there are no columns width and height, or bytes, with numbers above 0: "
            'dfgen.build_manifest(..., facts="header") reads them'
        )
    logs = facts.apply(np.log)
    low, high = logs.quantile(0.25), logs.quantile(0.75)
    distance = (low - logs).combine(logs - high, np.fmax) / np.fmax(_FAR * (high - low), _FACTOR)
    farthest = distance.max(axis=1).sort_values(ascending=False, kind="stable")
    places = farthest.index[farthest > 1].to_numpy()
    why = [", ".join(facts.columns[distance.loc[place] > 1]) for place in places]
    table = frame.iloc[places].filter(["id", "path", *PARTS])
    table = pd.concat([table, facts.loc[places].set_axis(table.index)], axis=1).assign(why=why)
    figure = new_figure(11, 3.6, table)
    figure.set_layout_engine("constrained")
    charts = [name for name in ("width", "aspect", "bytes") if name in facts]
    for axes, name in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
        if name == "width":
            sizes = facts[["width", "height"]].value_counts().reset_index().head(_DOTS)
            area = 8 + 100 * sizes["count"] / sizes["count"].max()
            axes.scatter(sizes["width"], sizes["height"], area, alpha=0.5, linewidths=0)
            odd = table.head(_DOTS)
            axes.scatter(odd["width"], odd["height"], 12, color="firebrick", marker="x")
            axes.set(xlabel="width", ylabel="height")
        else:
            values = facts[name].dropna()
            low, high = values.min(), values.max()
            bins = np.geomspace(low, high, _BINS) if high > low else [low * 0.9, low * 1.1]
            axes.stairs(*np.histogram(values, bins), fill=True)
            axes.set(xscale="log" if high > 10 * low else "linear", yscale="symlog")
            axes.set(xlabel=name, ylabel="rows")
            axes.set_title(f"{name}: {word(low)} to {word(high)}", fontsize=9, loc="left")
    figure.suptitle(f"{len(table):,} of {len(frame):,} rows are outliers", fontsize=9)
    return figure
