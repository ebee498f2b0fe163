"""Rows that are no images as small pictures: what their sounds, arrays, numbers or text hold."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any

import numpy as np
import pandas as pd

from dfgen.binding.frame_columns import Columns
from dfgen.errors import DecodeError, ManifestError, column_list, reason
from dfgen.explore.column_kinds import kind_of
from dfgen.explore.plain_words import number
from dfgen.explore.sketches import array_sketch, sound_sketch, text_sketch
from dfgen.explore.visible_pixels import Thumbnail, crossed
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

_SECONDS = 20  # of a sound, from its start
_KINDS = {Audio: "sound", Array: "array", Text: "text"}


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
    root: str | None, limits: Limits | None, storage_options: Mapping[str, Any] | None,
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
