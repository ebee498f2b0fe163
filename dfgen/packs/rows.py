"""Sources of rows in a pack: images of packed pixels, and any feature of packed files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dfgen.errors import DecodeError
from dfgen.packs.shards import Shards
from dfgen.samples.features.base import Reading
from dfgen.samples.pixels.geometry import Geometry, Size, after, place, shrunk
from dfgen.samples.reader import Sizes
from dfgen.samples.sources import FileSource, RowSource
from dfgen.spec import IntArray, Present, Spec, Values


@dataclass(frozen=True, eq=False)
class PackRows:
    """Where the rows of a Sequence are in a pack.

    Args:
        starts: the first row of each shard, and the number of all rows.
        numbers: the number in the pack of each row; None: all rows of it, in their order.
        shard_bytes: of a shard, on average.
        nbytes: of the rows, estimated by their share of the rows of the pack.
    """

    starts: IntArray
    numbers: IntArray | None = None
    shard_bytes: int = 1
    nbytes: int = 1

    def of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return shard and place of some rows."""
        numbers = rows if self.numbers is None else self.numbers[rows]
        shards = np.searchsorted(self.starts, numbers, side="right") - 1
        return shards, numbers - self.starts[shards]

    def blocks(self) -> tuple[IntArray, IntArray | None]:
        """Return the rows sorted by shard, None if they are, and before: where each shard begins.

        Shards without rows are left out.
        """
        if self.numbers is None:
            return self.starts, None
        rows = np.argsort(self.numbers, kind="stable")  # several rows may share a file
        return np.unique(np.searchsorted(self.numbers[rows], self.starts)), rows

    def of_one(self, row: int) -> tuple[int, int]:
        """Return shard and place of one row."""
        number = row if self.numbers is None else self.numbers.item(row)
        shard = int(self.starts.searchsorted(number, side="right")) - 1
        return shard, number - self.starts.item(shard)


@dataclass(frozen=True, eq=False)
class PackSource(RowSource):
    """The packed values of a feature.

    Args:
        files: makes arrays of files; its feature makes them of packed values.
        rows: where the rows are.
        shards: of the pack.
        original_sizes: (height, width) of the upright image of each row before it was packed, 0 if
            unknown; None: no annotations are on the images.
    """

    files: FileSource
    rows: PackRows
    shards: Shards
    original_sizes: Sizes | None

    packed = True
    is_pixels = False
    """Whether pixels were packed, not files."""

    def ahead(self, rows: IntArray) -> Iterator[None]:
        """Prefetch the shards of some rows."""
        return self.shards.ahead(*self.rows.of(rows))

    @property
    def cache(self) -> Any:
        """The local copies of a remote pack."""
        return self.shards.cache

    def content(self, row: int) -> bytes:
        """Return the file of one row."""
        return self.shards.content(*self.rows.of_one(row))

    def _placed(self, row: int, packed: Size | None, most: int, resize: str) -> Geometry | None:
        """Return how the upright image was packed; None without annotations."""
        if self.original_sizes is None:
            return None
        height, width = self.original_sizes[row].tolist()
        if not height:
            raise DecodeError(
                "its annotations are in pixels of the file, whose size is unknown: build the "
                "manifest with the facts width, height and orientation, and pack again"
            )
        size = packed or shrunk((height, width), most)
        return place((height, width), size, size, resize)


@dataclass(frozen=True, eq=False)
class PackedPixels(PackSource):
    """Images of packed pixels.

    Args:
        spec: (height, width, channels).
        resize: how the images were resized, as of `Image`.
    """

    spec: Spec
    resize: str

    is_pixels = True

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
        placed = self._placed(row, self.spec.shape[:2], 0, self.resize)
        return image.fill(pixels, out, reading, placed)

    def take(self, rows: IntArray, out: Values) -> Present | None:
        """Fill `out` with the pixels of some rows."""
        self.shards.take(*self.rows.of(rows), out)
        return None


@dataclass(frozen=True, eq=False)
class PackedFiles(PackSource):
    """Any feature of packed files; `most` is the longer side of packed images in pixels."""

    most: int

    def read(self, row: int, out: Any, reading: Reading) -> Any:
        """Fill `out` for one row."""
        geometry = self.files.feature.read(self.content(row), out, reading)
        placed = self._placed(row, None, self.most, "stretch")
        return geometry if placed is None else after(placed, geometry)
