"""PackedSource: images of packs, decoded already, gathered straight into batches."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError
from dfgen.packs.pack_rows import PackRows
from dfgen.packs.pack_shards import NOTHING, PackShards
from dfgen.samples.pixels.geometry import Geometry, Size, after, place, shrunk
from dfgen.samples.sources.file_source import FileSource, RowSource
from dfgen.samples.stores.store import Store
from dfgen.spec import IntArray, Present, Spec, Values, Watch

BAD_WHEN_PACKED = (
    "its file could not be used when it was packed, so the pack has nothing of it: leave the row "
    'out, df = df[df["problem"].isna()], or mend the file and pack again'
)


@dataclass(frozen=True, eq=False)
class PackedSource(RowSource):
    """Makes images of packed pixels; rows that lie in no pack are read from their files."""

    files: FileSource
    stored: "PackedPixels | SmallerFiles"

    @property
    def spec(self) -> Spec:
        """The shape and dtype of the packed pixels."""
        return self.stored.spec

    @property
    def far(self) -> bool:
        """Whether some of the packs are remote."""
        return self.files.far or self.stored.far

    def read(self, row: int, out: Any, store: Store, watch: Watch, given: Any) -> Any:
        """Fill `out` with the packed pixels of one row, else with those of its file."""
        pixels = self.stored.at(row)
        if pixels is not None:
            placed = self.stored.placed(row)
            image: Any = self.files.feature
            return image.fill(pixels, out, watch, given, placed)
        geometry = self.files.read(row, out, store, watch, given)
        placed = self.stored.placed(row)
        return geometry if placed is None else after(placed, geometry)

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the rows that are packed."""
        return self.stored.take(rows, out)

    def ahead(self, rows: IntArray) -> None:
        """Have the shards read where some rows lie."""
        self.files.ahead(rows)
        self.stored.ahead(rows)


@dataclass(frozen=True, eq=False)
class PackedPixels:
    """The pixels of rows in packs.

    Args:
        shards: hold them.
        rows: where each row lies.
        spec: (height, width, channels), None for those that differ.
        sizes: (height, width) of the upright image of each row, 0 if unknown; None: nothing lies on
            the images, or the pixels are those of whole images.
        resize: how the images were resized, as of `Image`.
    """

    shards: PackShards
    rows: PackRows
    spec: Spec
    sizes: npt.NDArray[np.int32] | None = None
    resize: str = "stretch"

    def at(self, row: int) -> Values | None:
        """Return the pixels of one row, a view of the mapped file."""
        shard, within = self.rows.of_one(row)
        if shard == NOTHING:
            return None
        opened = self.shards.of(shard, within)
        if opened.good is not None and not opened.good[within]:
            raise DecodeError(BAD_WHEN_PACKED)
        found: Values = opened.at(within)
        return found

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the rows that are there."""
        shards, places = self.rows.of(rows)
        wanted = {*shards.tolist()} - {NOTHING}
        held = self.shards.holding(wanted, shards, places)
        if len(held) < len(wanted):  # `at` of one row says what is wrong, and is tried again
            shards = np.where(np.isin(shards, [*held]), shards, NOTHING)
        there = shards != NOTHING
        for shard, opened in held.items():
            if opened.good is not None:
                here = shards == shard
                there[here] = opened.good[places[here]]
        flat = out.reshape(len(out), -1)
        flats = {shard: opened.pixels.reshape(-1, flat.shape[1]) for shard, opened in held.items()}
        if len(flats) == 1 and NOTHING not in shards:
            [pixels] = flats.values()
            np.take(pixels, places, axis=0, out=flat, mode="clip")  # any other copies `out` first
        else:
            flats[NOTHING] = flat  # what is not there stays as it is
            places = np.where(shards == NOTHING, np.arange(len(out)), places)
            pairs = zip(shards.tolist(), places.tolist(), strict=True)
            parts = [flats[shard][place : place + 1] for shard, place in pairs]
            cv2.vconcat(parts, flat)  # one crossing of Python's lock for all rows
        return None if there.all() else there

    def placed(self, row: int) -> Geometry | None:
        """Return how the upright image of a row became its pixels."""
        if self.sizes is None or not self.rows.holds(row):
            return None
        size = self.spec.shape[:2]
        return place(_known(self.sizes, row), size, size, self.resize)

    @property
    def far(self) -> bool:
        """Whether some of the shards are remote."""
        return self.shards.far

    def ahead(self, rows: IntArray) -> None:
        """Have the shards read where some rows lie."""
        self.shards.ahead(*self.rows.of(rows))


@dataclass(frozen=True, eq=False)
class SmallerFiles:
    """Images that were made smaller when they were packed, and are decoded like any file.

    Args:
        rows: where each row lies.
        sizes: (height, width) of the upright image of each row, 0 if unknown.
        most: pixels of the longer side.
    """

    rows: PackRows
    sizes: npt.NDArray[np.int32]
    most: int
    spec = Spec((None, None, None), np.dtype(np.uint8))
    far = False

    def at(self, row: int) -> None:
        """Return nothing: its file is decoded."""

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Take nothing."""
        return np.zeros(len(rows), np.bool_)

    def ahead(self, rows: IntArray) -> None:
        """Read nothing ahead."""

    def placed(self, row: int) -> Geometry | None:
        """Return how the upright image of a row became the one that was packed."""
        if not self.rows.holds(row):
            return None
        size = _known(self.sizes, row)
        smaller = shrunk(size, self.most)
        return place(size, smaller, smaller, "stretch")


def _known(sizes: Any, row: int) -> Size:
    height, width = sizes[row].tolist()
    if not height:
        raise DecodeError(
            "what lies on its image is in pixels of the file, whose size the manifest does not "
            "know: build it with the facts of files, width, height and orientation, and pack again"
        )
    return height, width
