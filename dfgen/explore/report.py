"""A manifest as one HTML file: the figures and tables of `dfgen.explore`."""

import base64
import contextlib
import html
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd

from dfgen import __version__
from dfgen.errors import ArgumentError, ManifestError, whole
from dfgen.explore.charts import (
    open_frame,
    problems,
    show_balance,
    show_sizes,
    suffixes_of,
    with_predictions,
)
from dfgen.explore.mistakes import mistakes
from dfgen.explore.show import show, show_duplicates, show_leaks
from dfgen.explore.tiles import one_line, word
from dfgen.files import check_writable, refuse_others, write_whole
from dfgen.manifest.io import Path, read_manifest
from dfgen.table.any_table import Table

_LARGEST = 15_000_000  # bytes of a page
_ROWS, _COLUMNS, _CHARACTERS = 40, 20, 60  # of a table, of a cell
_MADE_BY = "Made by dfgen"
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'unsafe-inline'"><style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }}
body {{ max-width: 84rem; margin: 2rem auto; padding: 0 1rem }} div {{ overflow-x: auto }}
img {{ max-width: 100%; background: white }}
td, th {{ padding: .2rem .7rem; text-align: left; white-space: nowrap }}</style>
<h1>{title}</h1><p>{about}</p>{sections}</html>
"""


def report(
    manifest: Path | Table, out: Path, *, predictions: Path | Table | None = None, rows: int = 48,
    root: Path | None = None,
) -> None:  # fmt: skip
    """Write figures and tables of a manifest as one HTML file of at most 15 MB.

    Use it to show a data set to somebody without Python; images are embedded.

    Args:
        manifest: the path of a manifest, or a frame or another table.
        out: the .html file.
        predictions: a frame of `dfgen.predict_frame`, or its Parquet file; adds the mistakes of the
            model. Defaults to None.
        rows: number of rows shown as pictures, at most 2,000. Defaults to 48.
        root: folder of relative paths. Defaults to None, the folder that the manifest names.

    Raises:
        ArgumentError: if `rows` is out of range, or `out` is no .html file.
        ManifestError: if `manifest` or `predictions` cannot be used.
        WriteError: if `out` cannot be written, or is a file of another kind.

    Example:
        >>> dfgen.explore.report("pets.parquet", "pets.html")  # doctest: +SKIP
    """
    whole("rows", rows, least=1, most=2_000)
    if not isinstance(out, str | os.PathLike) or not os.fspath(out).endswith(".html"):
        raise ArgumentError(f"out={out!r}: expected the path of an .html file, such as pets.html")
    path, title = os.path.abspath(out), "Manifest"
    check_writable(path)
    refuse_others(path, "report of dfgen", lambda file: _MADE_BY.encode() in file.read(8_000))
    if isinstance(manifest, str | os.PathLike):
        title = os.path.basename(manifest)
        manifest, root = read_manifest(manifest, root), None
    frame = open_frame(manifest)
    if predictions is not None:
        frame = with_predictions(frame, predictions)
    sections = [*_sections(frame, rows, root)]
    room, parts = _LARGEST - 10_000, []
    for number, (name, make) in enumerate(sections):
        part = f"<h2>{_escaped(name, 120)}</h2>"
        part += _rendered(make, room // (len(sections) - number) - len(part.encode()))
        room -= len(part.encode())
        parts += [part] * (room > 0)
    about = f"{len(frame):,} rows. {_MADE_BY} {__version__}."
    page = _PAGE.format(title=_escaped(title, 120), about=about, sections="".join(parts))
    write_whole(path, lambda file: file.write(page.encode()))


def _sections(frame: pd.DataFrame, rows: int, root: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    columns = frame.dtypes.astype(str).to_frame("type").assign(missing=frame.isna().sum())
    columns["example"] = [word(frame[name].head(1).tolist()) for name in frame]
    yield "Columns", columns.copy
    yield "Classes", partial(show_balance, frame)
    yield "Sizes", partial(show_sizes, frame)
    yield "Problems", partial(problems, frame)
    yield "Duplicates", partial(show_duplicates, frame, root=root)
    yield "Leaks", partial(show_leaks, frame, root=root)
    for suffix in suffixes_of(frame):
        with contextlib.suppress(ManifestError):  # an output without classes or labels
            wrong = mistakes(frame, head=suffix[1:] or None)
            name = f"{suffix[1:]} ".lstrip()
            yield f"{name}Scores: {wrong.summary}", wrong.classes.copy
            yield f"{name}Confusion", wrong.show_confusion
            yield f"{name}Worst rows", partial(wrong.show, root=root)
            yield f"{name}Likely mislabels", partial(wrong.show_mislabels, root=root)
    if "loss" in frame:
        yield "Highest loss", partial(show, frame, sort="-loss", root=root)
    yield "Rows", partial(show, frame, rows, root=root)


def _rendered(make: Callable[[], Any], most: int) -> str:
    """Return a figure or table as HTML of at most `most` bytes, or a sentence."""
    try:
        result = make()
    except ManifestError as error:
        return f"<p>{_escaped(str(error), 500)}</p>"
    if isinstance(result, pd.DataFrame):
        short = partial(one_line, most=_CHARACTERS)
        shown = result.iloc[:_ROWS, :_COLUMNS].astype(object).map(lambda value: short(word(value)))
        table = shown.rename(index=short, columns=short).to_html(border=0)
        body = f"<p>{len(result):,} rows</p><div>{table}</div>"
        return body if len(body.encode()) <= most else "<p>Too large for this page.</p>"
    dpi = 100.0
    while dpi > 20:
        data = base64.b64encode(result.png(dpi)).decode()
        if len(data) + 50 <= most:
            return f'<img alt="" src="data:image/png;base64,{data}">'
        dpi *= min(0.9, 0.95 * (max(0, most) / len(data)) ** 0.5)
    return "<p>Too large for this page.</p>"


def _escaped(text: str, most: int) -> str:
    return html.escape(one_line(text, most))
