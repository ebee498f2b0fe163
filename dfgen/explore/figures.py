"""Figures with the frame that they show, and tiles laid out in lines.

The figures are not registered with pyplot, so they need not be closed.
"""

import io
import textwrap
import warnings
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import pandas as pd

from dfgen.errors import MissingPackageError
from dfgen.explore.tiles import Tile, draw_tile, one_line

_CELL, _LINE, _GAP = 1.5, 0.14, 0.08  # inches: width of a tile, height of a text line, margin
_COLUMNS = 8
_CHARACTERS, _CAPTION = 25, 300  # per line of a caption, per value
_FLATTEST, _TALLEST = 0.25, 1.5  # height / width of a tile
_DPI = 100
_PIXELS = 60_000  # per side; matplotlib draws less than 65,536

Line = tuple[str, Sequence[Tile]]  # a heading, "" for none, and the tiles below it


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

        _repr_png_ = png

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
    layout = [(heading, tiles, *_layout(tiles)) for heading, tiles in lines]
    heights = [height + _LINE * bool(heading) for heading, _, _, _, height in layout]
    height = (3 + len(red)) * _LINE + sum(heights)
    figure = new_figure(width, height, table)
    left, plain = _GAP / width, {"va": "top", "parse_math": False}
    title = one_line(title, int(width * 14))
    figure.suptitle(title, x=left, y=1 - _GAP / height, ha="left", fontsize=10, **plain)
    text, y = "\n".join(red), 1 - 2 * _LINE / height
    figure.text(left, y, text, fontsize=8, color="firebrick", **plain)
    top = sum(heights)
    for (heading, tiles, captions, cell, _), space in zip(layout, heights, strict=True):
        text = one_line(heading, int(width * 15))
        figure.text(left, top / height, text, fontsize=8, weight="bold", **plain)
        bottom = (top - _LINE * bool(heading) - _GAP - cell) / height
        for place, (tile, caption) in enumerate(zip(tiles, captions, strict=True)):
            x = (_GAP + place * (_CELL + _GAP)) / width
            axes = figure.add_axes((x, bottom, _CELL / width, cell / height), anchor="S")
            draw_tile(axes, tile)
            colour = "firebrick" if tile.is_wrong else "black"
            look = {"transform": axes.transAxes, "color": colour, "ha": "center", **plain}
            axes.text(0.5, -0.02, caption, fontsize=7, **look)
        top -= space
    return figure


def _layout(tiles: Sequence[Tile]) -> tuple[list[str], float, float]:
    """Return the captions of a line, and the height of its tiles without and with them."""
    wrap = partial(textwrap.wrap, width=_CHARACTERS, break_on_hyphens=False)
    captions = [
        "\n".join(line for text in tile.caption for line in wrap(one_line(text, _CAPTION)))
        for tile in tiles
    ]
    aspects = [tile.aspect for tile in tiles if tile.kind != "problem"] or [1.0]
    cell = _CELL * min(max(*aspects, _FLATTEST), _TALLEST)
    lines = max((1 + caption.count("\n") for caption in captions), default=0)
    return captions, cell, cell + lines * _LINE + 2 * _GAP
