"""Rows of a frame that lie in packs: where, their pixels, and their files."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import cv2
import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError
from dfgen.packs.pack_shards import NOTHING, PackShards
from dfgen.samples.features.base import Reading
from dfgen.samples.pixels.geometry import Geometry, Size, after, place, shrunk
from dfgen.samples.sources.file_source import FileSource, RowSource
from dfgen.spec import IntArray, Present, Spec, Values
from dfgen.table.file_columns import FILE

BAD_WHEN_PACKED = (
    "its file could not be used when it was packed, so the pack has nothing of it: leave the row "
    'out, df = df[df["problem"].isna()], or mend the file and pack again'
)


@dataclass(frozen=True, eq=False)
class PackRows:
    """The shard of every row, and its place there.

    Args:
        starts: of all rows of one pack in their order: the first row of each shard, and the number
            of rows. Then nothing is stored of a row.
        shards: else the number of the shard of each row, NOTHING where it lies in none.
        places: and the row in it.
        shard_bytes: of a shard, on average.
        mixed: whether rows were put in a random order when they were packed.
    """

    starts: Any = None
    shards: Any = None
    places: Any = None
    shard_bytes: int = 1
    mixed: bool = False

    def __len__(self) -> int:
        return int(self.starts[-1]) if self.shards is None else len(self.shards)

    def of(self, rows: IntArray) -> tuple[npt.NDArray[Any], IntArray]:
        """Return shard and place of some rows."""
        if self.shards is not None:
            return self.shards[rows], self.places[rows]
        shards = np.searchsorted(self.starts, rows, side="right") - 1
        return shards, rows - self.starts[shards]

    def of_one(self, row: int) -> tuple[int, int]:
        """Return shard and place of one row."""
        if self.shards is not None:
            return self.shards.item(row), self.places.item(row)
        shard = int(np.searchsorted(self.starts, row, side="right")) - 1
        return shard, row - int(self.starts[shard])

    def holds(self, row: int) -> bool:
        """Whether a row lies in a pack."""
        return self.shards is None or bool(self.shards[row] != NOTHING)

    @cached_property
    def all_packed(self) -> bool:
        """Whether every row lies in a pack."""
        return self.shards is None or bool((self.shards != NOTHING).all())

    @property
    def packed(self) -> Present:
        """Which rows lie in packs."""
        return np.ones(len(self), np.bool_) if self.shards is None else self.shards != NOTHING


FarPacks = tuple[tuple[PackRows, PackShards], ...]


@dataclass(frozen=True, eq=False)
class PackedSource(RowSource):
    """Makes images of packed pixels; rows that lie in no pack are read from their files."""

    files: FileSource
    stored: "PackedPixels | SmallerFiles"

    @property
    def is_as_wanted(self) -> bool:
        """Whether the packed pixels go into the batch as they are."""
        image: Any = self.files.feature
        return bool(image.takes(self.stored.spec))

    @property
    def far_packs(self) -> FarPacks:
        """Those of the files, and of the pixels."""
        return (*self.files.far_packs, *self.stored.far_packs)

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Fill `out` with the packed pixels of one row, else with those of its file."""
        pixels = self.stored.at(row)
        if pixels is not None:
            placed = self.stored.placed(row)
            image: Any = self.files.feature
            return image.fill(pixels, out, reading, placed)
        geometry = self.files.read(row, out, reading)
        placed = self.stored.placed(row)
        return geometry if placed is None else after(placed, geometry)

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the rows that are packed."""
        return self.stored.take(rows, out)

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have the shards read where some rows lie."""
        yield from self.files.ahead(rows)
        yield from self.stored.ahead(rows)


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
    def far_packs(self) -> FarPacks:
        """Rows and shards, where some are in a store."""
        return ((self.rows, self.shards),) if self.shards.far else ()

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have the shards read where some rows lie."""
        return self.shards.ahead(*self.rows.of(rows))


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
    far_packs = ()

    def at(self, row: int) -> None:
        """Return nothing: its file is decoded."""

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Take nothing."""
        return np.zeros(len(rows), np.bool_)

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Read nothing ahead."""
        return iter(())

    def placed(self, row: int) -> Geometry | None:
        """Return how the upright image of a row became the one that was packed."""
        if not self.rows.holds(row):
            return None
        size = _known(self.sizes, row)
        smaller = shrunk(size, self.most)
        return place(size, smaller, smaller, "stretch")


class PackedFiles:
    """A column of structs of `bytes` and `path`, read row by row; `bytes` of packed rows alone."""

    null_count = 0
    type = FILE

    def __init__(self, paths: Any, rows: PackRows, shards: PackShards) -> None:
        self._paths, self._rows, self._shards = paths, rows, shards

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, row: int) -> "_PackedFile":
        return _PackedFile(self, row)

    def content(self, row: int) -> dict[str, Any]:
        """Return bytes and path of one row; no bytes where it lies in no pack."""
        path = self._paths[row].as_py()
        shard, place = self._rows.of_one(row)
        data = None if shard == NOTHING else self._shards.of(shard, place).at(place).tobytes()
        return {"bytes": data, "path": path}

    @property
    def far_packs(self) -> FarPacks:
        """Rows and shards, where some are in a store."""
        return ((self._rows, self._shards),) if self._shards.far else ()

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have the shards read where some rows lie."""
        return self._shards.ahead(*self._rows.of(rows))


class _PackedFile(NamedTuple):
    """One of them, as a scalar of Arrow."""

    files: PackedFiles
    row: int

    def as_py(self) -> dict[str, Any]:
        return self.files.content(self.row)


def _known(sizes: Any, row: int) -> Size:
    height, width = sizes[row].tolist()
    if not height:
        raise DecodeError(
            "its annotations are in pixels of the file, and the manifest does not know that size: "
            "build it with the facts of files, width, height and orientation, and pack again"
        )
    return height, width
