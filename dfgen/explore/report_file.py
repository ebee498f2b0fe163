"""`dfgen.explore.report`: a manifest as one HTML file that a colleague opens in a browser."""

import base64
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from string import Template
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from dfgen import __version__
from dfgen.errors import ArgumentError, ManifestError, MissingFileError, WriteError, legible, quote
from dfgen.explore.frame_charts import counts_by_label
from dfgen.explore.frame_sections import (
    class_section,
    copies_sections,
    problem_section,
    size_section,
    summary_section,
)
from dfgen.explore.mistake_section import mistake_section
from dfgen.explore.page_section import (
    Html,
    Section,
    cards,
    escaped,
    json_block,
    markup,
    sampled,
    short,
    source_hash,
)
from dfgen.explore.predicted import caption_columns, heads_of, with_predictions
from dfgen.explore.thumbnails import thumbnails
from dfgen.explore.visible_pixels import Thumbnail, tinted
from dfgen.limits import Limits
from dfgen.manifest.io import Path, read_manifest
from dfgen.progress_bars import progress
from dfgen.system import check_writable, refuse_others, threads, usable_cpus, whole, write_whole
from dfgen.table.any_table import Table, data_frame
from dfgen.table.parquet import read_foreign_parquet

_QUALITIES = (80, 50, 20)
_SMALL = 48  # pixels; no larger pictures are shown pixel by pixel, and cost little as they are
_LOSSLESS = 101  # any quality above 100, of OpenCV's WebP


def as_webp(pictures: list[npt.NDArray[np.uint8]], longest: int) -> list[str]:
    """Return each picture, RGB (height, width, 3), as WebP in base64 of at most `longest` letters.

    Pictures that do not fit are compressed more, then made smaller.
    """
    texts = list[str]()
    with (
        threads(usable_cpus()) as pool,
        progress(len(pictures), "Writing pictures", " files") as bar,
    ):
        for text in pool.map(partial(_encoded, longest=longest), pictures):
            texts.append(text)
            bar.update()
    return texts


def _encoded(pixels: npt.NDArray[np.uint8], longest: int) -> str:
    while True:
        small = max(pixels.shape[:2]) <= _SMALL
        for quality in (_LOSSLESS,) * small + _QUALITIES:
            bgr = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR)
            _, encoded = cv2.imencode(".webp", bgr, (cv2.IMWRITE_WEBP_QUALITY, quality))
            text = base64.b64encode(encoded).decode()
            if len(text) <= longest or max(pixels.shape) <= 3:
                return text
        height, width = (max(1, side // 2) for side in pixels.shape[:2])
        pixels = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)


LARGEST = 10_000_000
"""Bytes of a page."""
_MOST_ROWS = 2000
_SIDE = 224
_ASPECTS = (0.6, 2.5)  # width : height of the tiles, which is that of most pictures
_AFTER = ("duplicates", "leaks")  # sections after the gallery
_TEXT = 1000  # letters of a text in place of a picture
_BOXES = 20  # drawn in a picture, if
_BOX_BYTES = 1000  # of JSON have room for them and their names
_PREDICTED = "the Parquet file that dfgen predict, or predict_frame(out=), writes"
_MADE_BY = "The content of a manifest. Made by dfgen"
_HEAD = 1 << 20  # bytes of a page in which that stands
_AROUND = 80  # bytes of JSON around a picture


def report(
    manifest: Path | Table,
    out: Path,
    *,
    predictions: Path | Table | None = None,
    caption: str | Iterable[str] | None = None,
    rows: int = 600,
    seed: int = 0,
    root: Path | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
) -> None:
    """Write a page that shows what is in a manifest: one file, which needs no network.

    Use it to look at data before training on it, and to send others what you saw. It has figures of
    all rows, and pictures of some: of problems, of the ends of sizes, of copies, and a gallery to
    filter and sort. It is at most 10 MB: the gallery of a large manifest holds a sample,
    drawn in turn from each class, and says so. The same manifest makes the same file.

    Args:
        manifest: a manifest's path, or a frame or another table with absolute paths.
        out: the HTML file; an older report is replaced.
        predictions: what a model says of the rows, as `dfgen.predict_frame` returns it, or the path
            of the Parquet file of it: the page shows where the model is wrong.
        caption: the column whose values stand below each picture, beside its id, or several. None:
            the first two columns of classes.
        rows: most rows that are drawn for the gallery, 1 to 2,000; more have smaller pictures.
        seed: another seed draws others.
        root: folder where the stored paths start, if not the one that the manifest names.
        limits: `dfgen.Limits`: what one file may ask for. A file that asks for more is a tile that
            says so, as is a missing or damaged one.
        storage_options: what opens URLs, as `{"region": "eu-central-1"}`; see `Sequence`.
        workers: threads that read and decode; None: as many as this process may use CPUs.

    Raises:
        ArgumentError: a value that cannot be.
        ManifestError: it is not a manifest, or has no rows.
        WriteError: the file cannot be written, is not called .html, or is there and no report.

    Example:
        >>> report("manifests/pets.parquet", "pets.html")  # doctest: +SKIP
    """
    whole("rows", rows, least=1)
    whole("seed", seed, least=0)
    if rows > _MOST_ROWS:
        raise ArgumentError(
            f"rows={rows}: a page has room for the pictures of {_MOST_ROWS}. Its figures are of "
            "all rows, however few are drawn"
        )
    out = os.path.abspath(_html_name(out))
    check_writable(out)
    refuse_others(out, "report of dfgen", lambda file: _MADE_BY.encode() in file.read(_HEAD))
    is_path = isinstance(manifest, str | os.PathLike)
    frame, title = _opened(manifest, is_path, root, limits, storage_options)
    if predictions is not None:
        frame = with_predictions(frame, _predicted(predictions))
    below = None if caption is None else caption_columns(frame, caption)
    counts = counts_by_label(frame)
    sections = _sections(frame, counts)
    drawn = sampled(frame, rows, seed, [*counts])
    shown = {*drawn, *(row for one in sections for row in one.rows)}
    marks = {word: said for one in sections for word, said in one.marks.items()}
    data = cards(frame, shown, [*counts], marks, below)
    of_frame = None if is_path or root is None else os.fspath(root)
    small = thumbnails(
        frame.iloc[[*data["rows"]]], side=_SIDE, root=of_frame, limits=limits,
        storage_options=storage_options, workers=workers,
        boxes="boxes" if {"boxes", "labels"} <= {*frame.columns} else None,
        masks="mask" if "mask" in frame else None,
    )  # fmt: skip
    said = _said_of_sample(len(drawn), len(frame), len(shown), seed)
    made = _with_pictures(data, small, lambda: _page(title, said, sections, data))
    write_whole(out, lambda file: file.write(made))


def _html_name(out: Path) -> str:
    if not isinstance(out, str | os.PathLike):
        raise ArgumentError(f"out={out!r}: expected the path of the page, such as pets.html")
    path = os.fspath(out)
    if not path.lower().endswith((".html", ".htm")):
        raise WriteError(f"{path}: a report is a page, name it {os.path.splitext(path)[0]}.html")
    return path


def _opened(
    manifest: Any, is_path: bool, root: Path | None, limits: Limits | None, options: Any
) -> tuple[pd.DataFrame, str]:
    """Return a frame whose index counts its rows, and what it is called."""
    if is_path:
        frame = read_manifest(manifest, root, limits, options)
        return frame.reset_index(drop=True), os.path.basename(os.fspath(manifest).rstrip("/"))
    frame = data_frame(manifest)
    kept = frame.reset_index(drop=True)
    kept.attrs = frame.attrs
    return kept, "Manifest"


def _predicted(predictions: Path | Table) -> pd.DataFrame:
    if not isinstance(predictions, str | os.PathLike):
        return data_frame(predictions)
    path = os.path.abspath(predictions)
    if not os.path.isfile(path):
        what = "is a folder" if os.path.isdir(path) else "is not there"
        raise MissingFileError(f"predictions={quote(path)} {what}: expected {_PREDICTED}")
    try:
        return data_frame(read_foreign_parquet(path))
    except (pa.ArrowException, OSError) as error:
        raise ManifestError(f"{path} cannot be read, expected {_PREDICTED}: {error}") from error


def _sections(frame: pd.DataFrame, counts: Mapping[str, pd.DataFrame]) -> list[Section]:
    found = [class_section(frame, counts), size_section(frame), problem_section(frame),
             *copies_sections(frame)]  # fmt: skip
    if heads_of(frame):
        found.append(mistake_section(frame))
    told = [one for one in found if one is not None]
    return [summary_section(frame, counts, told), *told]


def _said_of_sample(drawn: int, total: int, shown: int, seed: int) -> str:
    if drawn == total:
        return f"All {total:,} rows."
    more = f", and the {shown - drawn:,} that are pictured above" * (shown > drawn)
    sample = f"A sample: {drawn:,} of {total:,} rows, drawn with seed {seed}{more}"
    return f"{sample}. All figures above are of all rows."


def _with_pictures(
    data: dict[str, Any], small: Sequence[Thumbnail], page: Callable[[], str]
) -> bytes:
    cells = [*data["rows"].values()]
    for cell, one in zip(cells, small, strict=True):
        if one.problem is not None:
            cell["reason"] = short(one.problem)
            continue
        if one.text is not None:
            cell["text"] = legible(one.text, _TEXT)
            continue
        cell["size"] = one.pixels.shape[1::-1]
        if len(one.boxes):
            cell["boxes"], cell["labels"], room = [], [], _BOX_BYTES
            for box, label in zip(one.boxes[:_BOXES].round(1).tolist(), one.labels, strict=False):
                room -= len(json_block([box, short(label)]).encode())
                if room >= 0:
                    cell["boxes"].append(box)
                    cell["labels"].append(short(label))
        if one.note:
            cell["note"] = short(one.note)
    pictured = [(cell, one) for cell, one in zip(cells, small, strict=True) if "size" in cell]
    room = LARGEST - len(page().encode())
    longest = room // max(1, len(pictured)) - _AROUND
    aspects = [one.pixels.shape[1] / one.pixels.shape[0] for _, one in pictured]
    data["aspect"] = round(float(np.clip(np.median(aspects or [1]), *_ASPECTS)), 2)
    texts = as_webp([tinted(one) for _, one in pictured], longest)
    for (cell, _), text in zip(pictured, texts, strict=True):
        cell["picture"] = text
    return page().encode()


def _page(title: str, said: str, sections: Sequence[Section], data: dict[str, Any]) -> Html:
    template = files("dfgen.explore") / "template"
    style, script = ((template / f"report.{kind}").read_text("utf-8") for kind in ("css", "js"))
    copies = [one for one in sections if one.name in _AFTER]
    first = [one for one in sections if one.name not in _AFTER]
    gallery = Html('<a href="#gallery">Gallery</a>')
    links = [*(one.link() for one in first), gallery, *(one.link() for one in copies)]
    parts = {
        "title": escaped(short(title)),
        "about": escaped(f"{_MADE_BY} {__version__}"),
        "links": markup(links),
        "sections": markup([one.html() for one in first]),
        "copies": markup([one.html() for one in copies]),
        "sampled": escaped(said),
        "footer": Html("One file: nothing is loaded from elsewhere, nothing is sent."),
        "data": json_block(data | {"gallery": sorted(data["rows"])}),
        "style": style,
        "style_hash": source_hash(style),
        "script": script,
        "script_hash": source_hash(script),
    }
    return Html(Template((template / "report.html").read_text("utf-8")).substitute(parts))
