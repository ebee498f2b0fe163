"""Shards: the packed values of a pack, memory-mapped at the offsets that `_manifest.json` has."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import DfgenError, ManifestError, MissingFileError, reason
from dfgen.packs.format import Pack, PackFile, check_id
from dfgen.packs.remote_shards import LocalCopies
from dfgen.platform_calls import read_ahead
from dfgen.spec import IntArray, Values

_BETWEEN = 1 << 16  # bytes that are read together with what lies around them


class Shards:
    """The packed values of a pack; it travels to other processes.

    Args:
        pack: the pack.
        copies: local copies of its shards; None if it is local.
    """

    def __init__(self, pack: Pack, copies: LocalCopies | None = None) -> None:
        self.pack, self.copies = pack, copies
        self._row_bytes = 0 if pack.shape is None else int(np.prod(pack.shape))
        self._maps: dict[int, Values] = {}
        self._pixels_of: dict[int, Values] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Shards, (self.pack, self.copies)

    def take(self, shards: IntArray, places: IntArray, out: Values) -> None:
        """Fill `out` with the pixels of some rows."""
        numbers = shards.tolist()
        if self.copies is None:
            maps = self._pixels_of
            for shard in {*numbers} - maps.keys():
                maps[shard] = self._pixels(shard, places)
        else:
            maps = {n: self._pixels(n, places[shards == n]) for n in {*numbers}}
        for row, shard, place in zip(out, numbers, places.tolist(), strict=True):
            row[...] = maps[shard][place]  # faster than np.take and than one index per shard

    def at(self, shard: int, place: int) -> Values:
        """Return the pixels of one row."""
        pixels: Values = self._pixels(shard, np.array([place]))[place]
        return pixels

    def content(self, shard: int, place: int) -> bytes:
        """Return the file of one row."""
        begin, end = self._bounds(shard, np.array([place]))
        data: bytes = self._bytes(shard, begin, end)[begin[0] : end[0]].tobytes()
        return data

    def ahead(self, shards: IntArray, places: IntArray) -> Iterator[None]:
        """Read or fetch some rows ahead, shard by shard."""
        for shard in np.unique(shards).tolist():
            starts, stops = self._bounds(shard, np.unique(places[shards == shard]))
            if self.copies is not None:
                self.copies.fetch(shard, starts, stops)
            else:
                gaps = np.flatnonzero(starts[1:] - stops[:-1] > _BETWEEN) + 1
                firsts, lasts = [0, *gaps], [*(gaps - 1), len(starts) - 1]
                ends = zip(starts[firsts].tolist(), stops[lasts].tolist(), strict=True)
                extents = [(start, stop - start) for start, stop in ends]
                read_ahead(self.pack.path(self.pack.shards[shard]), extents)
            yield

    def _pixels(self, shard: int, places: IntArray) -> Values:
        """Return the pixels of a shard, of which those at some places are present."""
        file, begin = self.pack.shards[shard], self.pack.shards[shard].offsets[0]
        if self.copies is None:
            flat = self._maps.get(shard)
            flat = self._open(shard) if flat is None else flat
        else:
            flat = self._bytes(shard, *self._bounds(shard, places))
        return flat[begin : begin + file.rows * self._row_bytes].reshape(-1, *self.pack.shape)  # type: ignore[misc]

    def _bounds(self, shard: int, places: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the values of rows begin and end in the file of a shard."""
        offsets = self.pack.shards[shard].offsets
        if self._row_bytes:
            starts = offsets[0] + places * self._row_bytes
            return starts, starts + self._row_bytes
        starts = offsets[0] + 8 * places
        flat = self._bytes(shard, starts, starts + 16)
        rows = self.pack.shards[shard].rows
        ends = flat[offsets[0] : offsets[0] + 8 * (rows + 1)].view(np.int64)
        return offsets[1] + ends[places], offsets[1] + ends[places + 1]

    def _bytes(self, shard: int, starts: IntArray, stops: IntArray) -> Values:
        """Return the bytes of a shard, of which some ranges are present."""
        if self.copies is not None:
            return self.copies.fetch(shard, starts, stops)
        flat = self._maps.get(shard)
        return self._open(shard) if flat is None else flat

    def _open(self, shard: int) -> Values:
        with self._lock:
            if shard not in self._maps:
                file = self.pack.shards[shard]
                check_shard(self.pack, file)
                self._maps[shard] = np.asarray(np.memmap(self.pack.path(file), np.uint8, "r"))
            return self._maps[shard]


def check_shard(pack: Pack, file: PackFile) -> None:
    """Raise if a local shard is missing, cut short, or of another pack."""
    path = pack.path(file)
    try:
        size = os.path.getsize(path)
        if size != file.bytes:
            raise ValueError(f"it has {size:,} bytes, expected {file.bytes:,}")
        with pa.memory_map(path) as mapped:
            check_id(pack, file, pa.ipc.open_file(mapped).schema)
    except FileNotFoundError:
        raise MissingFileError(f"{path} is missing: copy it again, or pack again") from None
    except DfgenError:
        raise
    except (OSError, ValueError) as error:
        why = reason(error)
        raise ManifestError(f"{path} is damaged: {why}. Copy it again, or pack again") from None
