"""The section on labels: classes in each split, and how numbers lie."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from dfgen.explore.class_counts import MISSING
from dfgen.explore.html_text import Html, element, markup, short
from dfgen.explore.page_section import Section, html_table, note
from dfgen.explore.predicted import own_labels
from dfgen.explore.svg_charts import bar, histogram, number

_CLASSES, _LARGEST = 40, 30  # of a table; of more, the largest and the smallest
_LABELS = 12
_PARTS = 6
_UNEVEN = 1.5  # times as large as the smallest class, before the page says so


def class_section(frame: pd.DataFrame, counts: Mapping[str, pd.DataFrame]) -> Section:
    """Return the rows of each class in each split, as `counts_by_label` has them, and numbers."""
    names = own_labels(frame)
    numbers = [name for name in names if name not in counts and _has_numbers(frame[name])]
    told = [name for name in names if name in counts or name in numbers]
    body = [
        markup(
            [
                element("h3", short(name)),
                _class_table(counts[name]) if name in counts else _spread_of(frame[name]),
            ]
        )
        for name in told[:_LABELS]
    ]
    if len(told) > _LABELS:
        body.append(note(f"{len(told) - _LABELS} more labels are not shown."))
    return Section("classes", "Classes", markup(body or [note("No column is a label.")]))


def _has_numbers(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and bool(column.notna().any())


def _spread_of(column: pd.Series) -> Html:
    values = column.to_numpy(np.float64, na_value=np.nan)
    values = values[np.isfinite(values)]
    if not len(values):
        return note("No finite number.")
    low, high = float(values.min()), float(values.max())
    if not np.isfinite(high - low):
        return note(f"{low:g} to {high:g}")
    caption = f"{number(low)} to {number(high)}, mean {number(values.mean())}"
    chart = element("figure", element("figcaption", caption), histogram(values))
    return element("div", chart, class_="charts")


def _class_table(counted: pd.DataFrame) -> Html:
    """Return a table of rows a class, with bars that compare splits by their shares."""
    parts = counted.drop(columns=["rows", "share"])
    if not 0 < parts.shape[1] <= _PARTS:
        parts = counted[["rows"]]
    rows = parts.to_numpy()
    totals = rows.sum(axis=0)
    shares = rows / np.maximum(totals, 1)
    highest = shares.max(initial=0) or 1.0
    shown, said = _few_classes(counted)
    cells = [
        (
            short(counted.index[at]),
            *(
                _share(rows[at, part], shares[at, part], highest, part)
                for part in range(len(totals))
            ),
        )
        for at in shown
    ]
    sums = zip(parts.columns, totals.tolist(), strict=True)
    heads = ["class", *(f"{short(part)} ({total:,})" for part, total in sums)]
    return markup([html_table(heads, cells, "shares"), note(said) if said else ""])


def _few_classes(counted: pd.DataFrame) -> tuple[list[int], str]:
    """Return places of the classes that are shown, and what is said below their table."""
    known = counted["rows"].to_numpy()[counted.index != MISSING]
    said = []
    shown = [*range(len(counted))]
    if len(counted) > _CLASSES:
        order = np.argsort(-counted["rows"].to_numpy(), kind="stable")
        shown = [*order[:_LARGEST], *order[_LARGEST - _CLASSES :]]
        said.append(
            f"{len(known):,} classes: these are the {_LARGEST} largest and the "
            f"{_CLASSES - _LARGEST} smallest."
        )
    if len(known) and known.min() and known.max() > _UNEVEN * known.min():
        ratio = number(known.max() / known.min())
        said.append(f"The largest class has {ratio} times the rows of the smallest.")
    return shown, " ".join(said)


def _share(rows: int, share: float, highest: float, color: int) -> Html:
    told = element("span", f"{rows:,}", class_=None if rows else "alarm-text")
    return markup([told, " ", element("small", f"{share:.1%}"), bar(share / highest, color)])
