"""Charts as inline SVG, small and without a library: bars, histograms, clouds of points."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.explore.page_section import Html, element, markup
from dfgen.explore.plain_words import number

_WIDE, _HIGH = 420, 220
_LEFT, _BOTTOM, _TOP, _RIGHT = 52, 26, 8, 12
_BINS = 30
_EXACT = 2**52  # whole numbers further apart have no halves between them
_MARKS = 900  # of a cloud; more points than that are put together

_Numbers = npt.NDArray[Any]


def bar(share: float, color: int) -> Html:
    """Return a bar of a length between 0 and 1, in one of six colors."""
    back = _rect(0, 0, 100, 6, "back")
    front = _rect(0, 0, 100 * share, 6, f"f{color % 6}")
    return element(
        "svg", back, front, class_="bar", viewBox="0 0 100 6", preserveAspectRatio="none",
        aria_hidden="true",
    )  # fmt: skip


def histogram(values: _Numbers, log: bool = False, told: Callable[[float], str] = number) -> Html:
    """Return how many of the finite `values` lie where; `log`: in steps of equal ratio.

    `told` puts a value into words.
    """
    values = np.asarray(values, np.float64)
    values = values[np.isfinite(values) & ((values > 0) | (not log))]
    if log:
        counts, edges = np.histogram(np.log10(values), _BINS)
        edges = 10**edges
    else:
        counts, edges = np.histogram(values, _bins(values))
    most = int(counts.max())
    step = (_WIDE - _LEFT - _RIGHT) / len(counts)
    columns = [
        _rect(_LEFT + at * step + 0.5, _y(n / most), step - 1, _y(0) - _y(n / most), "column")
        for at, n in enumerate(counts)
    ]
    ends = values.min(), edges[len(edges) // 2], values.max()
    texts = [_x_text(at / 2, told(value)) for at, value in enumerate(ends)]
    if told(ends[0]) == told(ends[-1]):
        texts = texts[1:2]
    scale = f"{told(ends[0])} to {told(ends[-1])}"
    label = f"Histogram of {len(values):,} values from {scale}"
    return _chart(label, *columns, _y_text(1, f"{most:,}"), _y_text(0, "0"), *texts)


def cloud(x: _Numbers, y: _Numbers, counts: _Numbers) -> Html:
    """Return points in a plane, both axes from 0, with an area that grows with their counts."""
    x, y, counts = _thinned(np.asarray(x, float), np.asarray(y, float), np.asarray(counts))
    right, top = 1.05 * float(x.max()), 1.08 * float(y.max())  # marks have a radius
    sizes = 2.5 + 9 * np.sqrt(counts / counts.max())
    points = zip(x.tolist(), y.tolist(), counts.tolist(), sizes.tolist(), strict=True)
    marks = [
        element(
            "circle",
            element("title", f"{number(a)} x {number(b)}: {n:,.0f}"),
            class_="mark",
            cx=_round(_LEFT + a / right * (_WIDE - _LEFT - _RIGHT)),
            cy=_round(_y(b / top)),
            r=_round(size),
        )
        for a, b, n, size in points
    ]
    wide, high = number(float(x.max())), number(float(y.max()))
    label = f"{int(counts.sum()):,} points up to {wide} wide and {high} high"
    ticks = [_y_text(1 / 1.08, high), _y_text(0, "0"), _x_text(1 / 1.05, wide)]
    return _chart(label, *marks, *ticks)


def _bins(values: _Numbers) -> Any:
    low, high = values.min(), values.max()
    if (values != np.round(values)).any() or high - low > _EXACT:
        return _BINS
    step = np.ceil((high - low + 1) / _BINS)
    return low - 0.5 + step * np.arange(np.ceil((high - low + 1) / step) + 1)


def _thinned(x: _Numbers, y: _Numbers, counts: _Numbers) -> tuple[_Numbers, _Numbers, _Numbers]:
    """Return so few points that a page holds them: of many, those of a fine grid."""
    if len(x) <= _MARKS:
        return x, y, counts
    cells = int(np.sqrt(_MARKS))
    total, x_edges, y_edges = np.histogram2d(x, y, cells, weights=counts)
    at = np.nonzero(total)
    middles = [(edges[1:] + edges[:-1]) / 2 for edges in (x_edges, y_edges)]
    return middles[0][at[0]], middles[1][at[1]], total[at].astype(int)


def _chart(label: str, *inside: Html) -> Html:
    lines = f"M{_LEFT} {_TOP}V{_y(0):g}H{_WIDE - _RIGHT}"
    axis = element("path", class_="axis", d=lines)
    return element(
        "svg", axis, markup(inside), viewBox=f"0 0 {_WIDE} {_HIGH}", role="img", aria_label=label
    )


def _y(share: float) -> float:
    return _TOP + (1 - share) * (_HIGH - _TOP - _BOTTOM)


def _x_text(share: float, text: str) -> Html:
    x = _LEFT + share * (_WIDE - _LEFT - _RIGHT)
    anchor = "start" if share == 0 else "end" if share > 0.9 else "middle"
    return element("text", text, x=_round(x), y=_HIGH - 8, text_anchor=anchor)


def _y_text(share: float, text: str) -> Html:
    y = _y(share) + (10 if share else 0)
    return element("text", text, x=_LEFT - 6, y=_round(y), text_anchor="end")


def _rect(x: float, y: float, width: float, height: float, class_: str) -> Html:
    return element(
        "rect", class_=class_, x=_round(x), y=_round(y), width=_round(width), height=_round(height)
    )


def _round(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
