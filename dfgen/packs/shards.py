"""Shards: the packed values of a pack, memory-mapped at the offsets that `_manifest.json` has."""

import os
import threading
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.packs.format import Pack, PackFile, check_id, check_length, pack_errors
from dfgen.spec import IntArray, Values
from dfgen.stores.local_files import prefetch


class Shards:
    """The packed values of a local pack; it can be pickled."""

    cache: Any = None  # counts what a remote pack fetched

    def __init__(self, pack: Pack) -> None:
        self.pack = pack
        self._row_bytes = 0 if pack.shape is None else prod(pack.shape)
        self._maps: dict[int, Values] = {}
        self._pixels_of: dict[int, Values] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Shards, (self.pack,)

    def take(self, shards: IntArray, places: IntArray, out: Values) -> None:
        """Fill `out` with the pixels of some rows."""
        numbers = shards.tolist()
        maps = self._pixels_at(numbers, shards, places)
        if len({*numbers}) == 1:
            np.take(maps[numbers[0]], places, axis=0, out=out, mode="clip")  # others make a copy
            return
        for row, shard, place in zip(out, numbers, places.tolist(), strict=True):
            row[...] = maps[shard][place]  # faster than an index per shard

    def at(self, shard: int, place: int) -> Values:
        """Return the pixels of one row."""
        pixels: Values = self._pixels(shard, np.array([place]))[place]
        return pixels

    def content(self, shard: int, place: int) -> bytes:
        """Return the file of one row."""
        start, stop = self._bounds(shard, np.array([place]))
        data: bytes = self.bytes_of(shard, start, stop)[start[0] : stop[0]].tobytes()
        return data

    def ahead(self, shards: IntArray, places: IntArray) -> Iterator[None]:
        """Prefetch some rows, shard by shard."""
        for shard in np.unique(shards).tolist():
            self.prefetch(shard, *self._bounds(shard, np.unique(places[shards == shard])))
            yield

    def prefetch(self, shard: int, starts: IntArray, stops: IntArray) -> None:
        """Have the system read ranges of a shard into its page cache."""
        prefetch(self.pack.path(self.pack.shards[shard]), starts, stops)

    def bytes_of(self, shard: int, starts: IntArray, stops: IntArray) -> Values:
        """Return all bytes of a shard. Those in some ranges can be read."""
        flat = self._maps.get(shard)
        if flat is not None:
            return flat
        with self._lock:
            if shard not in self._maps:
                file = self.pack.shards[shard]
                check_shard(self.pack, file)
                self._maps[shard] = np.asarray(np.memmap(self.pack.path(file), np.uint8, "r"))
            return self._maps[shard]

    def _pixels_at(
        self, numbers: list[int], shards: IntArray, places: IntArray
    ) -> dict[int, Values]:
        """Return number of a shard -> its pixels."""
        for shard in {*numbers} - self._pixels_of.keys():
            self._pixels_of[shard] = self._pixels(shard, places)
        return self._pixels_of

    def _pixels(self, shard: int, places: IntArray) -> Values:
        """Return the pixels of a shard. Those at some places can be read."""
        file = self.pack.shards[shard]
        flat = self.bytes_of(shard, *self._bounds(shard, places))
        begin = file.offsets[0]
        pixels = flat[begin : begin + file.rows * self._row_bytes]
        return pixels.reshape(-1, *self.pack.shape)  # type: ignore[misc]

    def _bounds(self, shard: int, places: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the values of rows begin and end in the file of a shard."""
        offsets = self.pack.shards[shard].offsets
        if self._row_bytes:
            starts = offsets[0] + places * self._row_bytes
            return starts, starts + self._row_bytes
        starts = offsets[0] + 8 * places
        flat = self.bytes_of(shard, starts, starts + 16)
        rows = self.pack.shards[shard].rows
        ends = flat[offsets[0] : offsets[0] + 8 * (rows + 1)].view(np.int64)
        return offsets[1] + ends[places], offsets[1] + ends[places + 1]


def check_shard(pack: Pack, file: PackFile) -> None:
    """Raise if a local shard is missing, cut short, or of another pack."""
    path = pack.path(file)
    with pack_errors(path):
        check_length(os.path.getsize(path), file)
        with pa.memory_map(path) as mapped:
            check_id(pack, file, pa.ipc.open_file(mapped).schema)
