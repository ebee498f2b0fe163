"""Sources of rows in a pack: images of packed pixels, and any feature of packed files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dfgen.errors import DecodeError
from dfgen.packs.shards import Shards
from dfgen.samples.features.base import Reading
from dfgen.samples.pixels.geometry import Geometry, Size, after, place, shrunk
from dfgen.samples.sources.file_source import FileSource, RowSource
from dfgen.spec import IntArray, Present, Spec, Values


@dataclass(frozen=True, eq=False)
class PackRows:
    """Where the rows of a Sequence are in a pack.

    Args:
        starts: the first row of each shard, and the number of all rows.
        numbers: of the rows in the pack; None: all rows of it, in their order.
        shard_bytes: of a shard, on average.
    """

    starts: IntArray
    numbers: IntArray | None = None
    shard_bytes: int = 1

    def of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return shard and place of some rows."""
        numbers = rows if self.numbers is None else self.numbers[rows]
        shards = np.searchsorted(self.starts, numbers, side="right") - 1
        return shards, numbers - self.starts[shards]

    def of_one(self, row: int) -> tuple[int, int]:
        """Return shard and place of one row."""
        number = row if self.numbers is None else self.numbers.item(row)
        shard = int(self.starts.searchsorted(number, side="right")) - 1
        return shard, number - self.starts.item(shard)


@dataclass(frozen=True, eq=False)
class _Packed(RowSource):
    files: FileSource
    rows: PackRows
    shards: Shards

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Have the shards of some rows read."""
        return self.shards.ahead(*self.rows.of(rows))

    @property
    def cache(self) -> Any:
        """The local copies of a remote pack."""
        return self.shards.copies


@dataclass(frozen=True, eq=False)
class PackedPixels(_Packed):
    """Images of packed pixels.

    Args:
        files: makes them of files; its feature makes them of pixels.
        rows: where they are.
        shards: hold them.
        spec: (height, width, channels).
        sizes: (height, width) of the upright image of each row, 0 if unknown; None: nothing lies on
            the images.
        resize: how the images were resized, as of `Image`.
    """

    spec: Spec
    sizes: Any = None
    resize: str = "stretch"

    @property
    def is_as_wanted(self) -> bool:
        """Whether the packed pixels go into the batch as they are."""
        image: Any = self.files.feature
        return bool(image.takes(self.spec))

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Fill `out` with the image of one row."""
        reading.watch("read")
        image: Any = self.files.feature
        pixels = self.shards.at(*self.rows.of_one(row))
        return image.fill(pixels, out, reading, self._placed(row))

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the pixels of some rows."""
        self.shards.take(*self.rows.of(rows), out)
        return None

    def _placed(self, row: int) -> Geometry | None:
        """Return how the upright image of a row became its pixels."""
        if self.sizes is None:
            return None
        size = self.spec.shape[:2]
        return place(_known(self.sizes, row), size, size, self.resize)


@dataclass(frozen=True, eq=False)
class PackedFiles(_Packed):
    """Any feature of packed files.

    Args:
        files: its feature reads them.
        rows: where they are.
        shards: hold them.
        sizes: (height, width) of the upright image of each row before it was packed smaller, 0 if
            unknown; None: nothing lies on the images.
        most: pixels of the longer side of packed images.
    """

    sizes: Any = None
    most: int = 0

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Fill `out` for one row."""
        geometry = self.files.feature.read(self.content(row), out, reading)
        if self.sizes is None:
            return geometry
        size = _known(self.sizes, row)
        smaller = shrunk(size, self.most)
        return after(place(size, smaller, smaller, "stretch"), geometry)

    def content(self, row: int) -> bytes:
        """Return the file of one row."""
        return self.shards.content(*self.rows.of_one(row))


def _known(sizes: Any, row: int) -> Size:
    height, width = sizes[row].tolist()
    if not height:
        raise DecodeError(
            "its annotations are in pixels of the file, whose size is unknown: build the manifest "
            "with the facts width, height and orientation, and pack again"
        )
    return height, width
