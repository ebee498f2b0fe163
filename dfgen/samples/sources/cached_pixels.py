"""CachedPixels: pixels that were decoded once, and what is left to do with them.

An image is made in two steps: what is fixed, which is kept, and what chance or the batch wants. All
rows go through both, so a batch does not depend on what is cached.
"""

import os
import struct
from dataclasses import asdict, replace
from hashlib import blake2b
from importlib.metadata import version
from typing import Any

import cv2
import numpy as np
import pyarrow as pa

from dfgen.errors import DfgenError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.features.image_packed import in_two_steps
from dfgen.samples.pixels.formats import DECODERS
from dfgen.samples.pixels.geometry import Geometry
from dfgen.samples.sources.file_source import FileSource, RowSource
from dfgen.samples.stores.cache.slot_file import NOWHERE, SlotFile, SlotKey
from dfgen.samples.stores.known_files import UNKNOWN
from dfgen.samples.stores.store import Store
from dfgen.spec import IntArray, Present, Values, Watch
from dfgen.table.arrow_types import is_text

_UNKNOWN, _ABSENT, _SOUGHT = 0, -1, -2  # instead of 1 + the slot of a row
_Facts = tuple[Any, ...]  # of a file: size, time, and what else tells it from others
_DECIDING = ("size", "load_size", "resize", "color_mode", "interpolation", "antialias", "dtype")


class CachedPixels(RowSource):
    """The pixels of every row that are kept, found by path, size and time of its file.

    A file is looked at when its row is first wanted; a later change is noticed by the next
    Sequence. Of remote files, what the manifest knows counts.

    Args:
        files: reads and decodes the file of each row.
        steps: makes what is kept of a file, and makes of that what a batch wants; of `cache_steps`.
        store: where the files are.
        slots: what is kept.
    """

    def __init__(
        self, files: FileSource, steps: tuple[Image, Image], store: Store, slots: SlotFile
    ) -> None:
        self._arguments = (files, steps, store, slots)
        self.files, self.spec = files, slots.spec
        self.fixed, self.rest = steps
        self._paths, self._store, self.slots = files.values, store, slots
        self._places = np.zeros(len(files.values), np.int64)
        self._sought: dict[int, tuple[SlotKey, _Facts]] = {}  # of rows that are being made
        self._is_all = replace(self.rest, scale=None).passes_through(self.spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return CachedPixels, self._arguments

    @property
    def pixels_for(self) -> Image:
        """The image that is made of what is kept."""
        return self.rest

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out`, (rows, height, width, channels), all at once; return which rows are there."""
        places = self._looked_up(rows, (_UNKNOWN, _SOUGHT))
        there: Present = places > 0
        if not there.any():
            return there
        if there.all():
            found = self.slots.take(places - 1, out)
            there = there if found is None else found
        else:
            for place in np.flatnonzero(there).tolist():
                array = self.slots.at(int(places[place]) - 1)
                there[place] = array is not None
                if array is not None:
                    out[place] = array
        broken = (places > 0) & ~there
        self._places[rows[broken]] = _UNKNOWN
        self.slots.count("cache_hits", int(there.sum()))
        return None if there.all() else there

    def at(self, row: int) -> Values | None:
        """Return the pixels of one row, a view; None: none are there."""
        place = int(self._places[row])
        if place == _UNKNOWN:
            place = int(self._looked_up(np.array([row]), (_UNKNOWN,))[0])
        found = self.slots.at(place - 1) if place > 0 else None
        if place > 0 and found is None:
            self._places[row] = _UNKNOWN
        return found

    def has(self, row: int) -> bool:
        """Whether a row seems to be there; nothing is asked for over a network."""
        if self._places[row] <= 0:
            self._looked_up(np.array([row]), (_UNKNOWN, _SOUGHT))
        return bool(self._places[row] > 0)

    def placed(self, row: int) -> Geometry:
        """Return how the upright image of a row, which is there, became its pixels."""
        size = self.slots.facts(int(self._places[row]) - 1)
        return self.fixed.place(size, self.spec.shape[:2])

    def read(self, row: int, out: Any, store: Store, watch: Watch, given: Any) -> Geometry:
        """Fill `out`, as `Image.read` does, with the image of one row, decoded if it must be."""
        if self.files.known is not None:
            store = self.files.known.of(row, store)
        watch("read")
        found = self.at(row)
        if found is None:
            if self._is_all:  # straight into the batch
                return self._made(row, out, store, watch)
            found = np.empty(self.spec.shape, self.spec.dtype)
            placed = self._made(row, found, store, watch)
        else:
            self.slots.count("cache_hits", 1)
            placed = self.placed(row)
        return self.rest.fill(found, out, watch, given, placed)

    def _made(self, row: int, pixels: Values, store: Store, watch: Watch) -> Geometry:
        """Decode the image of one row, and keep it if its file stayed the same meanwhile."""
        path = self._paths[row].as_py()
        placed = self.fixed.read(path, pixels, store, watch)
        self.slots.count("cache_misses", 1)
        sought = self._sought.pop(row, None)
        if sought is None:
            return placed
        key, facts = sought
        is_same = self._store.of(path).far or self._facts(row, path) == facts
        slot = self.slots.put(key, placed.image, pixels) if is_same else NOWHERE
        is_over = self.slots.is_full or self.slots.failed is not None
        none = _ABSENT if is_over else _UNKNOWN  # another process was at it
        self._places[row] = none if slot == NOWHERE else 1 + slot
        return placed

    def _looked_up(self, rows: IntArray, sought: tuple[int, ...]) -> IntArray:
        """Return 1 + the slots of some rows, 0 or less where they have none."""
        places: IntArray = self._places[rows]
        if places.min() > 0:
            return places
        new = np.flatnonzero(np.isin(places, sought))
        if not len(new):
            return places
        found = {row: key for row in rows[new].tolist() if (key := self._key(row)) is not None}
        if found:
            self.slots.refresh()
            slots = self.slots.find(np.array([key for key, _ in found.values()], np.uint64))
            for (row, key), slot in zip(found.items(), slots.tolist(), strict=True):
                self._places[row] = 1 + slot if slot != NOWHERE else _SOUGHT
                if slot == NOWHERE:
                    self._sought[row] = key
        return self._places[rows]

    def _key(self, row: int) -> tuple[SlotKey, _Facts] | None:
        """Return what tells the file of one row from all others; None: it is for `read` to tell."""
        path = self._paths[row].as_py()
        facts = self._facts(row, path)
        if facts is None:
            return None
        if "://" not in path:
            path = os.path.abspath(path)
        told = repr((path, *facts)).encode(errors="surrogatepass")
        first, second = struct.unpack("<QQ", blake2b(told, digest_size=16).digest())
        return (first, second), facts

    def _facts(self, row: int, path: str) -> _Facts | None:
        """Return what changes with the file of a row; of one far away what the manifest knows."""
        known, store = self.files.known, self._store.of(path)
        if store.far:
            facts = None if known is None else known.facts(row)
            return None if facts is None or UNKNOWN in facts else facts
        try:
            head = store.head(path)
        except (DfgenError, OSError, ValueError):
            return None
        if known is not None and not known.agrees(row, head.size, head.mtime_ns):
            return None
        when = head.version if head.mtime_ns is None else head.mtime_ns
        if when is None or head.problem is not None:
            return None
        # archives are often made anew with the times that their members had
        return head.size, when, head.version if "://" in path else None


def cache_steps(bound: BoundFeature, source: RowSource, transforms: bool, store: Store) -> Any:
    """Return the image that a cache keeps and the one made of it, or why nothing may be kept.

    `transforms`: whether a transform sees the pixels.
    """
    files, values, feature = source.files, bound.values, bound.feature
    if files.packed is not None:
        return "it is in a pack already"
    if bound.has_lists:
        return "it has lists of files"
    if not isinstance(values, pa.Array) or not is_text(values.type):
        return "its files are in the table"
    is_far = len(values) > 0 and store.of(values[0].as_py()).far
    if is_far and not (files.known and UNKNOWN not in files.known.facts(0)):
        columns = "its columns bytes, mtime_ns"
        return f"of files far away the manifest must know size and time, {columns}"
    if feature.pixel_kind != "image":
        return f"{type(feature).__name__} is not kept, images alone are"
    return in_two_steps(feature, feature.read_spec(transforms))


def settings_of(fixed: Image) -> dict[str, Any]:
    """Return all that decides what pixels `fixed` makes of a file, for JSON."""
    spec = fixed.spec
    given = {name: value for name, value in asdict(fixed).items() if name in _DECIDING}
    return {
        **given,
        "shape": spec.shape,
        "dtype": np.dtype(spec.dtype).name,
        "decoders": DECODERS,
        "opencv": cv2.__version__,
        "pillow": version("pillow"),
    }
