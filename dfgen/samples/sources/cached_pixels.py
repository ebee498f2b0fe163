"""CachedPixels: decoded pixels of images.

An image is made in two steps. The result of the first, which is not random, is cached. All rows go
through both steps, so a batch does not depend on the state of the cache.
"""

import os
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from dfgen.errors import DfgenError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import Reading
from dfgen.samples.features.image import Image
from dfgen.samples.pixels.formats import DECODERS
from dfgen.samples.pixels.geometry import Geometry
from dfgen.samples.sources.file_source import FileSource, RowSource
from dfgen.spec import IntArray, Present, Values
from dfgen.stores.archives import Member, member_of
from dfgen.stores.cache_folder import Keys, Segment
from dfgen.stores.store import Store
from dfgen.stores.stores import is_remote
from dfgen.table.arrow_types import is_text
from dfgen.table.mapped_column import MappedColumn

CACHE_FAILED = "cache_failed_"
"""Prefix of a count before an errno: why nothing more is cached."""

_DECIDING = ("size", "load_size", "resize", "color_mode", "interpolation", "antialias", "dtype")


def _absolute(path: str, folder: str) -> str:
    member = member_of(path)
    if member is not None:
        return str(Member(member.kind, member.name, _absolute(member.archive, folder)))
    return path if "://" in path else os.path.normpath(os.path.join(folder, path))


def key_of(path: str, folder: str) -> int:
    """Return a 64-bit hash of the absolute path of a file, or of a member, or of a URL."""
    return xxh3_64_intdigest(_absolute(path, folder).encode(errors="surrogatepass"))


class CachedPixels(RowSource):
    """The cached pixels of a feature.

    The size and time of a file are read when its row is first needed; the next Sequence notices a
    later change. For remote files the size and time are from the manifest.

    Args:
        files: reads and decodes the file of each row.
        steps: the image that is cached, and the image that is made from it.
        store: the files are there.
        segments: have the slots.
        keys: hash of the path of each row.
        facts: sizes and times of the manifest, for remote files.
    """

    def __init__(
        self,
        files: FileSource,
        steps: tuple[Image, Image],
        store: Store,
        segments: list[Segment],
        keys: Keys,
        facts: tuple[Any, ...] = (None, None),
    ) -> None:
        self._arguments = (files, steps, store, segments, keys, facts)
        self.files, self.spec = files, segments[0].slots.spec
        self.fixed, self.rest = steps
        self._paths, self._store, self._facts, self._keys = files.values, store, facts, keys
        self._fixed_files = replace(files, feature=self.fixed)
        self.slots = [segment.slots for segment in segments]
        self._segments = np.zeros(len(keys), np.uint16)
        self._places = np.zeros(len(keys), np.int64)
        for number, segment in enumerate(segments):
            places = np.minimum(np.searchsorted(segment.keys, keys), len(segment.keys) - 1)
            there = segment.keys[places] == keys
            self._segments[there], self._places[there] = number, places[there]
        self._salts = np.zeros(len(keys), np.uint64)  # 0: nobody has looked at the file yet
        self._is_all = replace(self.rest, scale=None).takes(self.spec)
        self._counts, self._lock = Counter[str](), threading.Lock()
        self._error: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return CachedPixels, self._arguments

    @property
    def is_as_wanted(self) -> bool:
        """Whether the pixels that are kept go into the batch as they are."""
        return self.rest.takes(self.spec)

    @property
    def cache(self) -> Any:
        """Itself."""
        return self

    @property
    def nbytes(self) -> int:
        """The bytes of pixels that are kept."""
        return sum(slots.nbytes for slots in self.slots)

    def counted(self) -> Mapping[str, int]:
        """Return hits and misses since the last call, and once the errno that ended writing."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
            error = next((slots.error for slots in self.slots if slots.error is not None), None)
            if error is not None and error != self._error:
                self._error = error
                counts[f"{CACHE_FAILED}{error}"] = 1
        return counts

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out`, (rows, height, width, channels); return which rows are present."""
        salts = self._salts_of(rows)
        numbers, places = self._segments[rows], self._places[rows]
        if len(self.slots) == 1:
            present = self.slots[0].take(places, salts, out)
        else:
            present = np.zeros(len(rows), np.bool_)
            for number in np.unique(numbers).tolist():
                here = np.flatnonzero(numbers == number)
                part = np.empty((len(here), *out.shape[1:]), out.dtype)
                present[here] = self.slots[number].take(places[here], salts[here], part)
                out[here] = part
        self._count("cache_hits", int(present.sum()))
        return None if present.all() else present

    def has(self, row: int) -> bool:
        """Return whether the pixels of a row are present."""
        salt: Any = self._salts.item(row)
        if not salt:
            salt = self._salts[row] = self._salt(row)
        slots = self.slots[self._segments.item(row)]
        return slots.holds(self._places.item(row), int(salt))

    def read(self, row: int, out: Any, reading: Reading) -> Geometry:
        """Fill `out`, as `Image.read` does, with the image of one row."""
        reading.watch("read")
        slots, place = self.slots[self._segments.item(row)], self._places.item(row)
        if self.has(row):
            placed = self.fixed.place(slots.size(place), self.spec.shape[:2])
            geometry = self.rest.fill(slots.arrays[place], out, reading, placed)
            if slots.same(place):
                self._count("cache_hits", 1)
                return geometry
        if self._is_all:  # straight into the batch
            return self._decode(row, out, reading)
        pixels = np.empty(self.spec.shape, self.spec.dtype)
        placed = self._decode(row, pixels, reading)
        return self.rest.fill(pixels, out, reading, placed)

    def _decode(self, row: int, pixels: Values, reading: Reading) -> Geometry:
        """Decode the image of one row, and keep it unless its file changed meanwhile."""
        salt = self._salts[row]
        placed: Geometry = self._fixed_files.read(row, pixels, reading._replace(drawn=None))
        self._count("cache_misses", 1)
        if salt and salt == self._salt(row):
            slots = self.slots[self._segments.item(row)]
            slots.put(self._places.item(row), pixels, int(salt), placed.image)
        return placed

    def _salts_of(self, rows: IntArray) -> npt.NDArray[np.uint64]:
        """Return the salts of some rows; see `_salt`."""
        salts = self._salts[rows]
        if not salts.all():
            for row in rows[salts == 0].tolist():
                self._salts[row] = self._salt(row)
            salts = self._salts[rows]
        return salts

    def _salt(self, row: int) -> int:
        """Return a hash of size, time and path of a file; 0 if they are unknown."""
        path, version = self._paths[row].as_py(), None
        is_local = "://" not in path
        if is_local or not is_remote(path):
            try:
                head = self._store.head(path)
            except (DfgenError, OSError, ValueError):
                return 0  # reading it raises the right error
            if head.problem or self.files.size(row) not in (None, head.size):
                return 0
            size, mtime = head.size, head.mtime_ns
            version = None if is_local else head.version  # inode numbers change with copies
        else:
            size, mtime = (-1 if fact is None else fact.item(row) for fact in self._facts)
            if size < 0 or mtime < 0:
                return 0
        text = f"{self._keys.item(row)} {size} {mtime} {version}"
        return xxh3_64_intdigest(text.encode()) or 1

    def _count(self, what: str, number: int) -> None:
        with self._lock:
            self._counts[what] += number


def cache_steps(
    bound: BoundFeature, source: RowSource, facts: tuple[Any, ...], transforms: bool
) -> Any:
    """Return the image to cache and the image that is made from it, or why nothing is cached.

    For random crops from `load_size` the whole image is cached; else the result of `Image.read`
    before flips and `scale`. `facts` are sizes and times of the manifest; `transforms`: whether a
    transform gets the pixels.
    """
    values, image = bound.values, bound.feature
    if source.files.packed:
        return "it is in a pack already"
    if not isinstance(values, pa.Array | MappedColumn) or not is_text(values.type):
        return "its files are not named by paths"
    if is_remote(values[0].as_py() if len(values) else "") and any(
        fact is None or fact.min() < 0 for fact in facts
    ):
        return "remote files need the columns bytes and mtime_ns of the manifest"
    if not isinstance(image, Image):
        return f"{type(image).__name__} is not kept, only images are"
    seen = image.spec.stage(transforms)
    refusals = (
        (image.like is not None, "it follows another image"),
        (image.decode is not None, "nothing identifies the function decode="),
        (image.size is None, "size=None gives each image a size of its own"),
        (seen.dtype is None, f"dtype={image.dtype!r} keeps the depth of each file"),
        (image.crop == "random_resized", 'crop="random_resized" crops before it resizes: take '
                                         'crop="random" with load_size='),
        (image.crop == "random"
         and (image.load_size is None or image.resize not in ("stretch", "pad")),
         'crop="random" needs load_size= and resize="stretch" or "pad"'),
    )  # fmt: skip
    for holds, why in refusals:
        if holds:
            return why
    kept = replace(image, flip=None, scale=None)
    if image.crop == "random":
        kept = replace(kept, size=image.load_size, load_size=None, crop=None)
        return kept, replace(image, resize="stretch")
    size = seen.shape[:2]
    if size != image.size:  # a transform crops
        kept = replace(kept, size=size, load_size=None)
    return kept, replace(image, size=size, resize="stretch", load_size=None, crop=None)


def settings_of(fixed: Image) -> dict[str, Any]:
    """Return all settings that the pixels of `fixed` depend on, for JSON."""
    return {
        **{name: getattr(fixed, name) for name in _DECIDING},
        "shape": fixed.spec.shape,
        "dtype": np.dtype(fixed.spec.dtype).name,
        "decoders": DECODERS,
        "opencv": cv2.__version__,
        "pillow": version("pillow"),
    }
