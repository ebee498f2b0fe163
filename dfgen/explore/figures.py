"""Figures of matplotlib that know the numbers they show, and pictures laid out in rows.

They belong to no window and no list of open figures: nothing has to be closed.
"""

import io
import textwrap
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from zlib import crc32

import pandas as pd

from dfgen.errors import MissingPackageError, legible
from dfgen.explore.plain_words import one_line
from dfgen.explore.visible_pixels import Thumbnail, mask_layer

_CELL, _LINE, _GAP = 1.5, 0.14, 0.08  # inches: of a picture, of a line of text, between pictures
_COLUMNS = 8
_CHARACTERS = 25  # of a line below a picture
_CAPTION = 12  # lines of one of its texts, which lose their middle beyond
_FLATTEST, _TALLEST = 0.25, 1.5  # height of the space for a picture: its width
_LINES, _TEXT_LINES = 5, 13  # of a reason on a tile, of a text
_DPI = 100
_PLAIN = {"parse_math": False}  # a $ is a $


@dataclass(frozen=True)
class Captioned:
    """A picture, the lines below it, and whether these are in red."""

    thumbnail: Thumbnail
    caption: tuple[str, ...] = ()
    is_wrong: bool = False


@dataclass(frozen=True)
class PictureRow:
    """Pictures side by side below a heading; "": none."""

    pictures: Sequence[Captioned]
    heading: str = ""


def in_rows(pictures: Sequence[Captioned], heading: str) -> list[PictureRow]:
    """Return pictures in rows of eight, the first below a heading."""
    starts = range(0, len(pictures), _COLUMNS)
    return [PictureRow(pictures[at : at + _COLUMNS], heading if not at else "") for at in starts]


def new_figure(width: float, height: float, table: pd.DataFrame) -> Any:
    """Return an empty `Figure`, in inches, with the frame that it shows as `table`."""
    return _figure_class()(table, figsize=(width, height), dpi=_DPI)


@cache
def _figure_class() -> Any:
    try:
        from matplotlib.figure import Figure  # late: half a second, and an extra
    except ImportError as error:
        raise MissingPackageError(
            "pictures need matplotlib, which is not installed. It is in the extra named explore: "
            'pip install "keras-dfgen[explore]"'
        ) from error

    class TableFigure(Figure):  # type: ignore[misc]
        """A figure, and the frame that it shows: `figure.table`."""

        def __init__(self, table: pd.DataFrame, **how: Any) -> None:
            super().__init__(**how)
            self.table = table

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            with warnings.catch_warnings():  # of letters that the font lacks
                warnings.filterwarnings("ignore", "Glyph .* missing from")
                self.savefig(file, format="png")
            return file.getvalue()

        def __repr__(self) -> str:
            titles = [self.get_suptitle(), *(axes.get_title("left") for axes in self.axes)]
            said = "\n".join(filter(None, titles))
            return f"{said}\n{self.table}\n[a figure of matplotlib: .savefig(file), .table]"

        __str__ = __repr__

    return TableFigure


def picture_figure(
    rows: Sequence[PictureRow], table: pd.DataFrame, title: str = "", faults: Sequence[str] = ()
) -> Any:
    """Return a figure of rows of pictures, each with its caption below it.

    Rows need not be of one length; `faults` stand below the title in red.
    """
    columns = max((len(row.pictures) for row in rows), default=1)
    heights = [_height(row) for row in rows]
    width = max(columns * (_CELL + _GAP) + _GAP, 5)
    warned = [line for fault in faults for line in textwrap.wrap(fault, int(width * 14))]
    height = sum(heights) + (3 + len(warned)) * _LINE
    figure = new_figure(width, height, table)
    figure.suptitle(
        one_line(title, int(width * 14)), x=_GAP / width, y=1 - _GAP / height, ha="left", va="top",
        fontsize=10, **_PLAIN,
    )  # fmt: skip
    if warned:
        figure.text(
            _GAP / width, 1 - 2 * _LINE / height, "\n".join(warned), va="top", fontsize=8,
            color="firebrick", **_PLAIN,
        )  # fmt: skip
    top = height - (3 + len(warned)) * _LINE
    for row, space in zip(rows, heights, strict=True):
        _draw_row(figure, row, top, (width, height))
        top -= space
    return figure


def _lines(caption: Sequence[str]) -> list[str]:
    """Return a caption in lines as wide as a picture: all of it, as its end may tell two apart."""
    return [
        line
        for text in caption
        for line in textwrap.wrap(
            one_line(text, _CAPTION * _CHARACTERS), _CHARACTERS, break_on_hyphens=False
        )
    ]


def _cell(row: PictureRow) -> float:
    """Return the height of the pictures of a row: the space that the tallest of them needs."""
    shapes = [one.thumbnail.pixels.shape for one in row.pictures if not one.thumbnail.problem]
    tallest = max((height / width for height, width, _ in shapes), default=1.0)
    return _CELL * min(max(tallest, _FLATTEST), _TALLEST)


def _height(row: PictureRow) -> float:
    lines = max((len(_lines(one.caption)) for one in row.pictures), default=0)
    return _cell(row) + (lines + bool(row.heading)) * _LINE + 2 * _GAP


def _draw_row(figure: Any, row: PictureRow, top: float, size: tuple[float, float]) -> None:
    width, height = size
    if row.heading:
        figure.text(
            _GAP / width, top / height, one_line(row.heading, int(width * 15)), va="top",
            fontsize=8, weight="bold", **_PLAIN,
        )  # fmt: skip
        top -= _LINE
    cell = _cell(row)
    for place, one in enumerate(row.pictures):
        left, bottom = _GAP + place * (_CELL + _GAP), top - _GAP - cell
        axes = figure.add_axes(
            (left / width, bottom / height, _CELL / width, cell / height), anchor="S"
        )
        draw_picture(axes, one.thumbnail)
        text = "\n".join(_lines(one.caption))
        colour = "firebrick" if one.is_wrong else "black"
        axes.text(
            0.5, -0.02, text, transform=axes.transAxes, ha="center", va="top", fontsize=7,
            color=colour, **_PLAIN,
        )  # fmt: skip


def draw_picture(axes: Any, thumbnail: Thumbnail) -> None:
    """Draw a thumbnail with mask, points and labelled boxes; or text, or why it lacks one."""
    from matplotlib.patches import Rectangle

    axes.imshow(thumbnail.pixels, interpolation="nearest")
    axes.axis("off")
    said = thumbnail.text if thumbnail.problem is None else thumbnail.problem
    if said is not None:
        most = _LINES if thumbnail.problem is not None else _TEXT_LINES
        lines = textwrap.wrap(legible(said, 2 * most * _CHARACTERS), _CHARACTERS)
        text = "\n".join(lines[:most] + ["…"] * (len(lines) > most))
        axes.text(
            0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=6.5,
            bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none"}, **_PLAIN,
        )  # fmt: skip
    if thumbnail.mask is not None:
        axes.imshow(mask_layer(thumbnail.mask), interpolation="nearest")
    if len(thumbnail.points):
        x, y = thumbnail.points.T - 0.5  # of pixels, whose centres matplotlib counts by
        axes.plot(x, y, "o", markersize=2.5, color="lime", markeredgecolor="black", mew=0.4)
    for (left, top, right, bottom), label in zip(thumbnail.boxes, thumbnail.labels, strict=True):
        colour = f"C{crc32(label.encode()) % 10}"  # one label, one colour in all pictures
        corner = (left - 0.5, top - 0.5)
        axes.add_patch(
            Rectangle(corner, right - left, bottom - top, fill=False, edgecolor=colour, linewidth=1)
        )
        place = "bottom" if top > thumbnail.pixels.shape[0] / 8 else "top"  # above it, or within
        axes.text(
            left, top, one_line(label, 12), fontsize=5.5, color="white", va=place, clip_on=True,
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.5}, **_PLAIN,
        )  # fmt: skip
