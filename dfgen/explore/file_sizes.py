"""How large the files are: width and height, aspect, bytes, and which are far from the others."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.errors import ManifestError, column_list
from dfgen.explore.figures import new_figure
from dfgen.explore.plain_words import value_of
from dfgen.manifest.io import Path, frame_of_manifest
from dfgen.manifest.schema import PARTS
from dfgen.table.any_table import Table

_FAR = 3  # quartile ranges beyond a quartile: "far out" (Tukey, Exploratory Data Analysis, 1977)
_LEAST = np.log(2)  # and at least twice as large, or half
_DOTS = 5_000
_BINS = 60

SizeFacts = npt.NDArray[np.float64]


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
