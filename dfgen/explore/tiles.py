"""Tiles: a row of a frame or of a batch as a small picture.

Rows of a frame are bound and read like those of a batch, so both look the same.
"""

import datetime
import io
import os
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError, ManifestError, legible, reason
from dfgen.explain.missing import not_a_column
from dfgen.loading.metrics import Stopwatch
from dfgen.loading.workers.chunks import Chunk, ChunkMaker
from dfgen.machine import usable_cpus
from dfgen.samples.features.annotations import Boxes
from dfgen.samples.features.arrays import Bytes
from dfgen.samples.features.image import Image
from dfgen.samples.features.masks import Mask
from dfgen.samples.pixels.formats import BY_SUFFIX, FORMATS, sniff
from dfgen.samples.pixels.sounds import load_soundfile
from dfgen.samples.reader import BoundFeature, SampleReader
from dfgen.stores.stores import Stores
from dfgen.table.arrow_types import content_parts

_Array = npt.NDArray[Any]
Arrays = Mapping[str, _Array]

_SIDE = 160  # pixels
_SECONDS = 20  # of a sound file
_MOST_BOXES = 10_000  # of an image
_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))  # black and white: the first that fits, if any
_WINDOW, _LOUDNESS = 512, 1e-8  # samples of a spectrum; its lowest power relative to the highest
_CHARACTERS = 25  # of a line of text
_TINT = 0.5  # opacity of a mask; class 0 is transparent


@dataclass(frozen=True)
class Tile:
    """A small picture: what it shows, what is drawn over it, and its caption, red if wrong.

    `content` is uint8 RGB of an "image", samples (frames, channels) of a "sound", numbers of a
    "curve", a "text", or the reason of a "problem". Boxes are xyxy in pixels.
    """

    kind: str
    content: Any
    caption: Sequence[str] = ()
    is_wrong: bool = False
    rate: int = 1
    boxes: Any = ()
    labels: Sequence[str] = ()
    mask: _Array | None = None
    points: Any = ()

    @property
    def aspect(self) -> float:
        """Height / width of the space that it needs."""
        if self.kind == "image":
            return float(self.content.shape[0] / max(1, self.content.shape[1]))
        if self.kind == "text":
            return 0.1 + len(self.content) / 250
        return 5 / 8


def row_tiles(
    rows: pd.DataFrame, image: Any = None, boxes: Any = None, masks: Any = None, root: Any = None,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Tile]:  # fmt: skip
    """Return a tile for each row. If a row cannot be read, its tile shows the reason."""
    x: dict[str, Any] = {"image": "path" if image is None else image}
    if masks:
        x["mask"] = replace(Mask(masks) if isinstance(masks, str) else masks, like="image")
    if boxes:
        feature = Boxes(boxes) if isinstance(boxes, str) else boxes
        x["boxes"] = replace(feature, like="image", format="xyxy", max_items=_MOST_BOXES)
    for argument, feature in x.items():
        for name in getattr(feature, "columns", (feature,)):
            require_column(argument, name, rows)
    pack = rows.attrs.get("dfgen", {}).get("pack")
    rows = rows.drop(columns="problem", errors="ignore")
    rows = rows.assign(id=range(len(rows))) if pack is None else rows
    how = {"root": root, "storage_options": storage_options, "pack": pack}
    with warnings.catch_warnings(), ThreadPoolExecutor(usable_cpus()) as pool:
        warnings.simplefilter("ignore")  # they are about training
        return [*pool.map(partial(_row_tile, rows, x, how), range(len(rows)))]


def _row_tile(rows: pd.DataFrame, x: Any, how: Any, place: int) -> Tile:
    row = rows.iloc[place : place + 1]
    try:
        column = x["image"]
        if not isinstance(column, str):
            return _read(row, x, how)[0]
        kind = content_kind(value := row[column].iloc[0], column)
        if kind == "missing":
            return Tile("problem", f"the row has no {column}")
        if kind == "text":
            return Tile("text", str(value))
        if kind == "numbers":
            return _array_tile(np.array([*value], float))
        if kind == "image":
            return _image_tile(row, x, how)
        if column == "path" and "index" in row:
            folder = os.path.abspath(how["root"] or "")
            store = Stores(options=how["storage_options"], folder=folder)
            return _array_tile(store.row(value, int(row["index"].iloc[0])))
        file = io.BytesIO(_read(row, {"image": Bytes(column)}, how)[1]["image"][0])
        if kind == "array":
            return _array_tile(np.load(file, allow_pickle=False))
        with load_soundfile().SoundFile(file) as sound:
            rate, seconds = sound.samplerate, sound.frames / sound.samplerate
            samples = sound.read(_SECONDS * rate, dtype="float32", always_2d=True)
        some = f"the first {_SECONDS} of " if seconds > _SECONDS else ""
        return Tile("sound", samples, [f"{some}{word(seconds)} s, {rate:,} Hz"], rate=rate)
    except Exception as error:  # corrupt files, stores and functions of users raise anything
        return Tile("problem", reason(error))


def require_column(argument: str, name: Any, frame: pd.DataFrame) -> None:
    """Raise a ManifestError unless `name` is a column of the frame."""
    if not isinstance(name, str) or name not in frame:
        raise ManifestError(not_a_column(argument, name, [*frame.columns], frame))


def content_kind(value: Any, column: str) -> str:
    """Return "image" (also for unknown files), "sound", "array", "numbers", "text" or "missing"."""
    data, path = content_parts(value)
    if data is None and pd.api.types.is_list_like(path):
        return "numbers"
    if data is None and (path is None or pd.isna(path)):
        return "missing"
    try:
        suffix = os.path.splitext(str(path).partition("?")[0])[1].lower()
        return FORMATS[sniff(data[:16]) if data is not None else BY_SUFFIX[suffix]].holds
    except (DecodeError, KeyError):
        is_file = data is not None or column == "path"
        return "array" if suffix in (".h5", ".hdf5") else "image" if is_file else "text"


def _read(row: pd.DataFrame, x: Any, how: Any, **options: Any) -> tuple[Tile, dict[str, _Array]]:
    """Return the tile and the arrays of a row."""
    binding = bind(SequenceArguments(row, x, label_mode=None, **options, **how))
    arrays, skipped = read_row(binding.reader, 0)
    return batch_tiles(binding, binding["image"], arrays, [()], skipped)[0], arrays


def read_row(
    reader: SampleReader, row: int, seed: int = 0, epoch: int = 0
) -> tuple[dict[str, _Array], dict[int, str]]:
    """Return the arrays of a batch of one row, and the reason at place 0 if it cannot be read."""
    rows = np.array([row])
    specs = reader.padding.specs(rows, reader.specs)
    arrays = {name: np.zeros((1, *spec.shape), spec.dtype) for name, spec in specs.items()}
    chunk, maker = Chunk(seed, epoch, rows, np.zeros(1, np.int64)), ChunkMaker(reader, skip=True)
    blanks = maker.fill(chunk, arrays, Stopwatch(), lambda: False)
    return arrays, {place: failure.reason for place, failure in blanks.items() if failure}


def _image_tile(row: pd.DataFrame, x: Any, how: Any, mode: str = "rgb") -> Tile:
    """Return an image file in its own proportions, with its range if it is not of 8 bits."""
    image = Image(x["image"], None, color_mode=mode)
    try:
        sized = bind(
            SequenceArguments(row, {"image": image}, label_mode=None, on_error="skip", **how)
        )
    except ArgumentError:  # a pack has one mode
        if mode == "rgba":
            raise
        return _image_tile(row, x, how, "grayscale" if mode == "rgb" else "rgba")
    sample: dict[str, Any] = {}
    how = {**how, "transform": lambda arrays, rng: sample.update(arrays) or arrays}
    if sized.problems:
        return Tile("problem", sized.problems[0])
    own = sized.reader.sizes["image"][0]
    size: Any = tuple(np.ceil(own * min(1, _SIDE / own.max())).astype(int).tolist())
    image = replace(image, size=size, dtype="float32")  # keeps the numbers of the file
    tile, arrays = _read(row, {**x, "image": image}, how)
    if tile.kind == "problem":
        return tile
    pixels = arrays["image"][0].astype(sample["image"].dtype)  # that of the file
    low, high = limits(pixels)
    caption = [f"{pixels.dtype}, {word(low)} to {word(high)}"] * (pixels.dtype != np.uint8)
    return replace(tile, content=_as_rgb(pixels, low, high), caption=caption)


def batch_tiles(
    binding: Any, bound: BoundFeature, arrays: Arrays, captions: Sequence[Sequence[str]],
    skipped: Mapping[int, str],
) -> list[Tile]:  # fmt: skip
    """Return the tiles of a feature in the first rows of a batch, one for each caption."""
    feature: Any = bound.feature
    array = arrays[bound.name]
    low, high = limits(array) if feature.kind == "image" else (0, 1)
    low, high = next((pair for pair in _RANGES if pair[0] <= low and high <= pair[1]), (low, high))
    tiles = []
    for place, (value, caption) in enumerate(zip(array, captions, strict=False)):
        if place in skipped:
            tile = Tile("problem", skipped[place])
        elif feature.kind == "image":
            step = -1 if getattr(feature, "scale", None) == "caffe" else 1  # it makes BGR
            pixels = value.reshape(-1, *value.shape[-3:])[0, ..., ::step]  # the first of a list
            over: dict[str, Any] = {}
            for other in binding.reader.features:
                if other.like == bound.name:
                    over |= _overlay(other, arrays, place, pixels.shape)
            tile = Tile("image", _as_rgb(pixels, low, high), **over)
        elif feature.kind == "audio":
            tile = Tile("sound", value, rate=feature.sample_rate)
        else:
            tile = Tile("text", str(value)) if array.dtype == object else _array_tile(value)
        tiles.append(replace(tile, caption=[*caption, *tile.caption]))
    return tiles


def _overlay(
    bound: BoundFeature, arrays: Arrays, place: int, shape: tuple[int, ...]
) -> dict[str, Any]:
    """Return the mask, points, or boxes and labels of a row, as arguments of a Tile."""
    feature: Any = bound.feature
    values, *others = (arrays[name][place] for name in bound.arrays.values())
    if feature.kind == "mask":
        return {"mask": values.reshape(-1, *values.shape[-3:])[0, ..., 0]}
    if feature.kind == "masks":  # one for each object
        masks = values[..., 0] > 0
        return {"mask": (masks * np.arange(1, len(masks) + 1)[:, None, None]).max(axis=0)}
    if feature.kind == "keypoints":
        points = values.reshape(-1, 3)
        return {"points": points[points[:, 2] > 0, :2]}
    if feature.kind != "boxes":
        return {}
    boxes, indices = values[others[0] >= 0].astype(np.float32), others[0][others[0] >= 0].tolist()
    if feature.format == "rel_xyxy":
        boxes *= np.array([shape[1], shape[0]] * 2, np.float32)
    elif feature.format == "xywh":
        boxes[:, 2:] += boxes[:, :2]
    names = feature.class_names or range(max(indices, default=0) + 1)
    return {"boxes": boxes, "labels": [str(names[index]) for index in indices]}


def _array_tile(array: _Array) -> Tile:
    """Return an array as an image or a curve; of more axes the middle of the shortest."""
    shape = " x ".join(map(str, array.shape)) or "scalar"
    if not array.size or array.dtype.kind not in "biuf":
        return Tile("problem", f"{array.dtype} {shape}: no numbers to draw")
    low, high = limits(array)
    caption = [f"{array.dtype} {shape}, {word(low)} to {word(high)}"]
    while array.ndim > 3 or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        axis = int(np.argmin(array.shape))
        array = array.take(array.shape[axis] // 2, axis)
    if array.ndim < 2:
        return Tile("curve", np.where(np.isfinite(array), array, np.nan).reshape(-1), caption)
    array = array if array.ndim == 3 else array[..., None]
    return Tile("image", _as_rgb(array, low, high), caption)


def limits(array: _Array) -> tuple[float, float]:
    """Return the lowest and highest finite number, NaN if there is none."""
    numbers = array[np.isfinite(array)]
    return (float(numbers.min()), float(numbers.max())) if numbers.size else (np.nan, np.nan)


def _as_rgb(pixels: _Array, low: float, high: float) -> npt.NDArray[np.uint8]:
    pixels = pixels[..., :3] if pixels.shape[-1] >= 3 else pixels[..., :1].repeat(3, axis=-1)
    if pixels.dtype == np.uint8:
        return pixels
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.clip((pixels.astype(float) - low) / ((high - low) or 1), 0, 1)
    return np.rint(np.nan_to_num(share * 255)).astype(np.uint8)


def draw_tile(axes: Any, tile: Tile) -> None:
    """Draw a tile with its mask, points and labelled boxes."""
    axes.axis("off")
    if tile.kind == "image":
        _draw_image(axes, tile)
    elif tile.kind == "curve":
        axes.plot(tile.content, linewidth=0.8)
    elif tile.kind == "sound":
        from matplotlib.mlab import specgram  # late: an extra

        mono = np.nan_to_num(tile.content.mean(axis=1))
        mono = np.pad(mono, (0, max(0, _WINDOW + 1 - len(mono))))
        power, _, _ = specgram(mono, _WINDOW, tile.rate, noverlap=_WINDOW // 2)
        decibels = 10 * np.log10(np.maximum(power, max(power.max() * _LOUDNESS, 1e-20)))
        axes.imshow(decibels, "magma", aspect="auto", origin="lower", interpolation="nearest")
    else:
        most = 5 if tile.kind == "problem" else 13
        lines = textwrap.wrap(legible(tile.content, 2 * most * _CHARACTERS), _CHARACTERS)
        text = "\n".join(lines[:most] + ["…"] * (len(lines) > most))
        axes.text(
            0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", fontsize=6.5,
            color="firebrick" if tile.kind == "problem" else "black", parse_math=False,
        )  # fmt: skip


def _draw_image(axes: Any, tile: Tile) -> None:
    from matplotlib import colormaps  # late: an extra
    from matplotlib.patches import Rectangle

    axes.imshow(tile.content, interpolation="nearest")
    if tile.mask is not None:
        layer = colormaps["tab10"](tile.mask.astype(np.int64) % 10)
        layer[..., 3] = _TINT * (tile.mask != 0)
        axes.imshow(layer, interpolation="nearest")
    if len(tile.points):
        x, y = tile.points.T
        axes.plot(x, y, "o", markersize=2.5, color="lime", markeredgecolor="black", mew=0.4)
    for (left, top, right, bottom), label in zip(tile.boxes, tile.labels, strict=True):
        colour = f"C{crc32(label.encode()) % 10}"  # the same in all pictures
        corner, side = (left - 0.5, top - 0.5), (right - left, bottom - top)
        axes.add_patch(Rectangle(corner, *side, fill=False, edgecolor=colour, linewidth=1))
        place = "bottom" if top > tile.content.shape[0] / 8 else "top"  # above the box, or within
        axes.text(
            left, top, one_line(label, 12), fontsize=5.5, color="white", va=place, clip_on=True,
            bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.5}, parse_math=False,
        )  # fmt: skip


def word(value: Any) -> str:
    """Return a number, date, label or list of these as text, "none" if it is missing or empty."""
    if pd.api.types.is_list_like(value):
        return ", ".join(map(word, value)) or "none"
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if pd.isna(value):
        return "none"
    if isinstance(value, datetime.date):
        return str(value).removesuffix(" 00:00:00")
    if isinstance(value, float | np.floating):
        return f"{value:,.0f}" if 1e4 <= abs(float(value)) < 1e15 else f"{value:.4g}"
    return str(value)


def one_line(text: object, most: int) -> str:
    """Return a text as one line of at most `most` characters; a longer one loses its middle."""
    line = " ".join(legible(str(text)).split())
    end = (most - 1) // 2
    return line if len(line) <= most else f"{line[: most - 1 - end]}…{line[len(line) - end :]}"
