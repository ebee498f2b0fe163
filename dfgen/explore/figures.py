"""Figures with the frame that they show, and tiles laid out in lines.

The figures are not registered with pyplot, so they need not be closed.
"""

import io
import textwrap
import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import pandas as pd

from dfgen.errors import MissingPackageError
from dfgen.explore.tiles import Tile, draw_tile
from dfgen.explore.words import one_line

_CELL, _LINE, _GAP = 1.5, 0.14, 0.08  # inches: width of a tile, height of a text line, margin
_COLUMNS = 8
_CHARACTERS, _CAPTION = 25, 300  # per line of a caption, per value
_FLATTEST, _TALLEST = 0.25, 1.5  # height / width of a tile
_DPI = 100
_PIXELS = 60_000  # per side; matplotlib draws less than 65,536

Line = tuple[str, Sequence[Tile]]
"""A heading, "" for none, and the tiles below it."""


def in_lines(tiles: Sequence[Tile], heading: str = "") -> list[Line]:
    """Return tiles in lines of eight, the first below a heading."""
    starts = range(0, len(tiles), _COLUMNS)
    return [("" if at else heading, tiles[at : at + _COLUMNS]) for at in starts]


def new_figure(width: float, height: float, table: pd.DataFrame) -> Any:
    """Return an empty `Figure` of a size in inches, with `table` as an attribute."""
    return _figure_class()(table, figsize=(width, height), dpi=_DPI)


@cache
def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure  # late: half a second, and an extra
    except ImportError as error:
        raise MissingPackageError(
            'figures need matplotlib, which is not installed: pip install "keras-dfgen[explore]"'
        ) from error

    class TableFigure(Figure):  # type: ignore[misc]
        """A figure, and the frame that it shows: `figure.table`."""

        def __init__(self, table: pd.DataFrame, **options: Any) -> None:
            super().__init__(**options)
            self.table = table

        def png(self, dpi: float = _DPI) -> bytes:
            """Return the figure as a PNG file, of at most 60,000 pixels per side."""
            file = io.BytesIO()
            dpi = min(dpi, _PIXELS / max(self.get_size_inches()))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph .* missing from")
                self.savefig(file, format="png", dpi=dpi)
            return file.getvalue()

        def _repr_png_(self) -> bytes:
            return self.png()

        def __repr__(self) -> str:
            lines = [self.get_suptitle(), self.table, "[a figure: .savefig(file), .table]"]
            return "\n".join(map(str, filter(len, lines)))

        __str__ = __repr__

    return TableFigure


def picture_figure(
    lines: Sequence[Line], table: pd.DataFrame, title: str, faults: Sequence[str] = ()
) -> Any:
    """Return a figure of lines of captioned tiles; `faults` are red lines below the title."""
    width = max(5, _GAP + max((len(tiles) for _, tiles in lines), default=1) * (_CELL + _GAP))
    red = [part for fault in faults for part in textwrap.wrap(fault, int(width * 14))]
    top = (3 + len(red)) * _LINE
    height = top + sum(map(_height, lines))
    figure = new_figure(width, height, table)
    left, plain = _GAP / width, {"va": "top", "parse_math": False}
    title = one_line(title, int(width * 14))
    figure.suptitle(title, x=left, y=1 - _GAP / height, ha="left", fontsize=10, **plain)
    y = 1 - 2 * _LINE / height
    figure.text(left, y, "\n".join(red), fontsize=8, color="firebrick", **plain)
    top = height - top
    for line in lines:
        _draw_line(figure, line, top, width, height)
        top -= _height(line)
    return figure


def _caption(tile: Tile) -> list[str]:
    texts = [one_line(text, _CAPTION) for text in tile.caption]
    return [
        line for text in texts for line in textwrap.wrap(text, _CHARACTERS, break_on_hyphens=False)
    ]


def _cell_height(tiles: Sequence[Tile]) -> float:
    aspects = [tile.aspect for tile in tiles if tile.kind != "problem"] or [1.0]
    return _CELL * min(max(*aspects, _FLATTEST), _TALLEST)


def _height(line: Line) -> float:
    heading, tiles = line
    texts = max((len(_caption(tile)) for tile in tiles), default=0)
    return _cell_height(tiles) + (texts + bool(heading)) * _LINE + 2 * _GAP


def _draw_line(figure: Any, line: Line, top: float, width: float, height: float) -> None:
    heading, tiles = line
    plain: Any = {"va": "top", "parse_math": False}
    if heading:
        heading = one_line(heading, int(width * 15))
        figure.text(_GAP / width, top / height, heading, fontsize=8, weight="bold", **plain)
        top -= _LINE
    cell = _cell_height(tiles)
    for place, tile in enumerate(tiles):
        left, bottom = _GAP + place * (_CELL + _GAP), top - _GAP - cell
        space = (left / width, bottom / height, _CELL / width, cell / height)
        axes = figure.add_axes(space, anchor="S")
        draw_tile(axes, tile)
        plain |= {"transform": axes.transAxes, "color": "firebrick" if tile.is_wrong else "black"}
        axes.text(0.5, -0.02, "\n".join(_caption(tile)), ha="center", fontsize=7, **plain)
