"""Sounds, arrays, curves, numbers and text as pictures: of a batch, or of a row of a frame."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any

import cv2
import numpy as np
import numpy.typing as npt
import pandas as pd

from dfgen.binding.frame_columns import Columns
from dfgen.errors import DecodeError, ManifestError, column_list, count, reason
from dfgen.explore.chosen_rows import kind_of
from dfgen.explore.plain_words import number
from dfgen.explore.visible_pixels import Picture, Thumbnail, crossed, in_8_bits, visible
from dfgen.limits import Limits
from dfgen.samples.features.array import Array
from dfgen.samples.features.audio import Audio
from dfgen.samples.features.base import Feature
from dfgen.samples.features.text import Text
from dfgen.samples.pixels.formats import FORMATS, read_known
from dfgen.samples.pixels.sound_files import open_sound, read_frames, sound_source
from dfgen.samples.stores.npy import decode_array
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_of
from dfgen.samples.stores.store import Store

_Numbers = npt.NDArray[Any]

_FLAT = 5 / 8  # height of a sketch: its width
_FLATTEST, _TALLEST = 0.3, 1.4  # of a text
_LINE = 0.1 / 25  # of its width, for each letter
_INK, _PAPER = (44, 95, 143), (255, 255, 255)
_WAVE = 3 / 8  # of the height of a sound; the rest is its spectrogram
_WINDOW = 512  # frames
_RANGE = 80  # dB below the loudest that are told apart
_SECONDS = 20  # of a sound, from its start
_KINDS = {Audio: "sound", Array: "array", Text: "text"}


def sound_sketch(frames: _Numbers, rate: int, side: int, note: str = "") -> Thumbnail:
    """Return the waveform of a sound above its spectrogram, from 0 Hz at the bottom to `rate / 2`.

    `frames` are float (frames, channels); of several channels the mean is drawn.
    """
    mono = np.nan_to_num(frames.mean(axis=1)) if frames.size else np.zeros(1)
    height = max(2, round(side * _FLAT))
    high = max(1, round(height * _WAVE))
    pixels = np.concatenate([curve(mono, high, side), spectrogram(mono, height - high, side)])
    said = f"{number(round(len(frames) / rate, 2))} s, {rate:,} Hz"
    return Thumbnail(pixels, note=note or said)


def spectrogram(mono: _Numbers, height: int, width: int) -> Picture:
    """Return how loud each frequency is at each time, in 80 dB from dark to bright."""
    window = min(_WINDOW, max(2, len(mono)))
    padded = np.pad(mono, (0, max(0, window - len(mono))))
    starts = np.linspace(0, len(padded) - window, 2 * width).astype(np.int64)
    pieces = padded[starts[:, None] + np.arange(window)] * np.hanning(window)
    power = np.abs(np.fft.rfft(pieces, axis=1)).T[::-1] ** 2
    decibels = 10 * np.log10(np.maximum(power, 1e-20))
    loudest = max(float(decibels.max()), -100)
    shades = in_8_bits(decibels, loudest - _RANGE, loudest)
    small = cv2.resize(shades, (width, height), interpolation=cv2.INTER_AREA)
    colours: Picture = np.ascontiguousarray(cv2.applyColorMap(small, cv2.COLORMAP_MAGMA)[..., ::-1])
    return colours


def curve(values: _Numbers, height: int, width: int) -> Picture:
    """Return numbers as a curve from left to right; all of them, however many a pixel holds."""
    values = np.abs(values) if np.iscomplexobj(values) else values.astype(np.float64)
    is_known = np.isfinite(values)
    low, high = (values[is_known].min(), values[is_known].max()) if is_known.any() else (0, 0)
    values = np.where(is_known, values, low)
    if len(values) < width:
        places = np.linspace(0, len(values) - 1, width)
        values = np.interp(places, np.arange(len(values)), values)
    starts = np.linspace(0, len(values), width, endpoint=False).astype(np.int64)
    tops, bottoms = (of.reduceat(values, starts) for of in (np.maximum, np.minimum))
    upper = np.maximum(tops, np.append(tops[:1], bottoms[:-1]))  # as high as the column before
    lower = np.minimum(bottoms, np.append(bottoms[:1], tops[:-1]))
    span = (high - low) or 1
    first, last = (
        np.rint((height - 1) * (high - ends) / span) if high > low else np.full(width, height // 2)
        for ends in (upper, lower)
    )
    rows = np.arange(height)[:, None]
    return np.where(((rows >= first) & (rows <= last))[..., None], _INK, _PAPER).astype(np.uint8)


def array_sketch(array: _Numbers, side: int) -> Thumbnail:
    """Return an array as an image if it has the shape of one, else as a curve.

    Images are (height, width) or (height, width, 1, 3 or 4). Of more axes the middle is shown, of
    the shortest axis first, and the note says so.
    """
    shape = array.shape
    taken = []
    while array.ndim > 3 or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        axis = int(np.argmin(array.shape))
        middle = array.shape[axis] // 2
        taken.append(f"{middle} of {array.shape[axis]}")
        array = array.take(middle, axis)
    note = f"{array.dtype}, {' x '.join(map(str, shape))}"
    note += f", slice {', '.join(taken)}" * bool(taken)
    if not array.size or array.dtype.kind not in "biufc":
        return Thumbnail(np.full((2, 2, 3), 255, np.uint8), note=f"{note}: no numbers to draw")
    if array.ndim < 2:
        flat = array.reshape(-1)
        pixels = curve(flat, max(2, round(side * _FLAT)), side)
        known = flat[np.isfinite(flat)].real
        ends = [number(float(end)) for end in (known.min(), known.max())] if known.size else []
        spread = " to ".join(ends) or "none of them finite"
        return Thumbnail(pixels, note=f"{count(flat.size, 'number')}, {spread}")
    array = np.abs(array) if array.dtype.kind == "c" else array
    array = array.astype(np.uint8) * 255 if array.dtype == bool else array
    pixels, said = visible(array if array.ndim == 3 else array[..., None])
    longest = max(pixels.shape[:2])
    if longest > side:
        size = [max(1, round(length * side / longest)) for length in pixels.shape[1::-1]]
        pixels = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    return Thumbnail(pixels, size=array.shape[:2], note=f"{note}; {said}" if said else note)


def text_sketch(text: str, side: int) -> Thumbnail:
    """Return the tile of a text, higher if it is longer; who draws it wraps it."""
    height = side * min(max(_FLATTEST, 0.1 + _LINE * len(text)), _TALLEST)
    return Thumbnail(np.full((round(height), side, 3), 255, np.uint8), text=text)


def shown_column(rows: pd.DataFrame) -> str:
    """Return the column that rows are shown by: of files, else of numbers, else of text.

    Files are in `path`, else in the first column that holds some.
    """
    if "path" in rows:
        return "path"
    kinds = {str(name): kind_of(rows[name]) for name in rows if name != "mask"}
    wanted = ("image", "sound", "array", "numbers", "text", "file")
    names = (name for kind in wanted for name, held in kinds.items() if held == kind)
    if (name := next(names, None)) is None:
        raise ManifestError(
            "no column holds images, sounds, arrays or text (columns: "
            f'{column_list(map(str, rows.columns))}): name one that does, as in image="scan"'
        )
    return name


def sketched_kind(rows: pd.DataFrame, shown: str | Feature) -> str | None:
    """Return "sound", "array", "numbers" or "text"; None of what is read as an image."""
    if isinstance(shown, Feature):
        return _KINDS.get(type(shown))
    kind = kind_of(rows[shown])
    is_row = kind == "array" and shown == "path" and "index" in rows
    return None if is_row or kind in ("image", "file") else kind


def row_sketches(
    rows: pd.DataFrame, shown: str | Feature, kind: str, side: int, workers: int,
    root: str | None, limits: Limits | None, storage_options: Mapping[str, Any] | None
) -> list[Thumbnail]:  # fmt: skip
    """Return a sketch of each row, or a tile that tells why it cannot be read."""
    name = str(shown.column) if isinstance(shown, Feature) else shown
    known = rows[name].notna().to_numpy()
    some = rows[known]
    draw, values = _DRAWN[kind], some[name].tolist()
    if kind in ("sound", "array") and len(some):
        contents = Columns(some.reset_index(drop=True), root=root).files(name)
        store = store_of([contents], limits, StorageOptions(storage_options))
        values = [one.as_py() for one in contents]
        values = [one[0] if isinstance(one, list) else one for one in values]
        if kind == "array" and isinstance(shown, Array):
            indices = some[shown.index] if shown.index else [None] * len(some)
            values = [*zip(values, indices, strict=True)]
            draw = partial(_array_of, shown)
        draw = partial(draw, store)

    def tile(value: Any) -> Thumbnail:
        try:
            return draw(value, side)
        except Exception as error:  # whatever a damaged file, or its store, may raise
            return Thumbnail(crossed(side), reason(error))

    with ThreadPoolExecutor(workers) as pool:
        drawn = pool.map(tile, values)
        lacking = Thumbnail(crossed(side), f"the row has no {name}")
        return [next(drawn) if is_known else lacking for is_known in known.tolist()]


def _sound(store: Store, content: Any, side: int) -> Thumbnail:
    def read(file: IO[bytes], format: str) -> Thumbnail:
        if FORMATS[format].holds != "sound":
            raise DecodeError(f"this is a .{format} {FORMATS[format].holds}, not a sound")
        with open_sound(sound_source(file, format, limits=store.limits), format) as sound:
            rate, frames = sound.samplerate, sound.frames
            part = np.zeros((min(frames, _SECONDS * rate), sound.channels), np.float32)
            read_frames(sound, 0.0, part)
        cut = f"the first {_SECONDS} of {number(frames / rate)} s, {rate:,} Hz"
        return sound_sketch(part, rate, side, cut * (len(part) < frames))

    return read_known(content, store, read)


def _array(store: Store, content: Any, side: int) -> Thumbnail:
    return array_sketch(decode_array(store.read(content), store.limits), side)


def _array_of(feature: Array, store: Store, value: tuple[Any, Any], side: int) -> Thumbnail:
    """Return the sketch of what an `Array` reads: by its own function, or a row of a file."""
    content, index = value
    if index is not None:
        return array_sketch(store.row(content, int(index), feature.dataset), side)
    if feature.decode is None:
        return _array(store, content, side)
    return array_sketch(np.asarray(feature.decode(store.read(content))), side)


def _plain_numbers(value: Any, side: int) -> Thumbnail:
    array = np.array(value.tolist() if isinstance(value, np.ndarray) else value)
    return array_sketch(array.astype(float) if array.dtype == object else array, side)


_DRAWN: dict[str, Callable[..., Thumbnail]] = {
    "sound": _sound,
    "array": _array,
    "numbers": _plain_numbers,
    "text": text_sketch,
}
