"""Shards: the packed values of a pack, memory-mapped.

Files of a local pack are mapped at the offsets that `_manifest.json` has, those of a remote pack as
sparse local copies, shared by all processes.
"""

import os
import shutil
import tempfile
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import ArgumentError, MissingFileError, ReadError
from dfgen.packs.format import PIECE, Pack, PackFile, check_id, check_length, pack_errors, range_of
from dfgen.spec import IntArray, Spec, Values
from dfgen.stores.slots import RECORDS, SLOTS, Room, Slots
from dfgen.stores.store import Store, prefetch

BLOCK = 1 << 18
"""Bytes of a block of a shard."""
_IN_FLIGHT, _HEADS, _STEP = 8, 32, PIECE // BLOCK  # requests at a time; blocks of one
_SPEC = Spec((BLOCK,), np.dtype(np.uint8))


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
        return np.asarray(self._pixels(shard, np.array([place]))[place])

    def content(self, shard: int, place: int) -> bytes:
        """Return the file of one row."""
        start, stop = self._bounds(shard, np.array([place]))
        return bytes(self.bytes_of(shard, start, stop)[start[0] : stop[0]])

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
                self._maps[shard] = checked_shard(self.pack, self.pack.shards[shard])
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


def checked_shard(pack: Pack, file: PackFile) -> Values:
    """Return the bytes of a local shard; raise if it is missing, cut short, or of another pack.

    Unlike `np.memmap`, Arrow keeps no file open: a large pack has more shards than a process may
    have descriptors.
    """
    path = pack.path(file)
    with pack_errors(path):
        check_length(os.path.getsize(path), file)
        with pa.memory_map(path) as mapped:
            first = mapped.read_buffer(1)  # one byte, because Arrow reads ahead what it returns
            check_id(pack, file, pa.ipc.open_file(mapped).schema)
            return np.frombuffer(pa.foreign_buffer(first.address, file.bytes, first), np.uint8)


class RemoteShards(Shards):
    """The packed values of a remote pack. Blocks are fetched when needed.

    Without a cache, blocks are in a temporary folder with the most recently used shards.

    Args:
        pack: the remote pack.
        store: reads it.
        folder: of a cache; None for a temporary folder.
        most: bytes of the cache.
        shards: how many are kept in the temporary folder.
        temporary: the temporary folder of the parent process.
    """

    def __init__(
        self,
        pack: Pack,
        store: Store,
        folder: str | None = None,
        most: int | None = None,
        shards: int = 8,
        temporary: str | None = None,
    ) -> None:
        super().__init__(pack)
        self._store, self._folder, self._most, self._shards = store, folder, most, shards
        self._owns = temporary is None
        self._temporary = temporary or tempfile.mkdtemp(prefix="dfgen-pack-")
        if self._owns:
            weakref.finalize(self, shutil.rmtree, self._temporary, ignore_errors=True)
        self._opened = OrderedDict[int, Slots]()
        self._checked = set[int]()
        self._counts = Counter[str]()

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = self.pack, self._store, self._folder, self._most, self._shards
        return RemoteShards, (*arguments, self._temporary)

    @property
    def cache(self) -> Any:
        """Itself."""
        return self

    @property
    def nbytes(self) -> int:
        """The bytes of blocks of open shards."""
        return sum(slots.nbytes for slots in [*self._opened.values()])

    def counted(self) -> Mapping[str, int]:
        """Return how many blocks were fetched since the last call."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return counts

    def prefetch(self, shard: int, starts: IntArray, stops: IntArray) -> None:
        """Fetch ranges of a shard."""
        self.bytes_of(shard, starts, stops)

    def bytes_of(self, shard: int, starts: IntArray, stops: IntArray) -> Values:
        """Return the bytes of a shard's local copy, after fetching some ranges if necessary.

        Raises:
            ManifestError: the shard is of another pack.
            ReadError: it cannot be read.
        """
        slots = self._slots(shard)
        ends = zip((starts // BLOCK).tolist(), ((stops - 1) // BLOCK + 1).tolist(), strict=True)
        blocks = np.unique([0, *(block for end in ends for block in range(*end))])
        if not self._present(slots, blocks).all():
            with slots.locked():  # by all threads and processes, or two would fetch the same
                self._fetch(shard, slots, blocks[~self._present(slots, blocks)])
        flat: Values = slots.arrays.reshape(-1)
        if shard not in self._checked:
            file = self.pack.shards[shard]
            with pack_errors(self.pack.path(file)):
                schema = flat[8 : min(BLOCK, file.bytes)].tobytes()
                check_id(self.pack, file, pa.ipc.read_schema(pa.py_buffer(schema)))
            self._checked.add(shard)
        return flat

    def _pixels_at(
        self, numbers: list[int], shards: IntArray, places: IntArray
    ) -> dict[int, Values]:
        return {number: self._pixels(number, places[shards == number]) for number in {*numbers}}

    def _present(self, slots: Slots, blocks: IntArray) -> Any:
        return slots.has(blocks, np.zeros(len(blocks), np.uint64))

    def _fetch(self, shard: int, slots: Slots, blocks: IntArray) -> None:
        with self._lock:  # before other processes can see the blocks
            self._counts["cache_misses"] += len(blocks)
        runs = np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1)
        pieces = [run[at : at + _STEP] for run in runs for at in range(0, len(run), _STEP)]
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            [*pool.map(lambda piece: self._fetch_piece(shard, slots, piece), pieces)]

    def _fetch_piece(self, shard: int, slots: Slots, blocks: IntArray) -> None:
        file = self.pack.shards[shard]
        start, stop = int(blocks[0]) * BLOCK, min(int(blocks[-1] + 1) * BLOCK, file.bytes)
        data = range_of(self._store, self.pack.path(file), start, stop)
        arrays = np.zeros((len(blocks), BLOCK), np.uint8)
        arrays.reshape(-1)[: len(data)] = np.frombuffer(data, np.uint8)
        for block, array in zip(blocks.tolist(), arrays, strict=True):
            if not slots.put(block, array):
                raise ReadError(f"{slots.paths[0]} cannot be written: is its disk full?")

    def _slots(self, shard: int) -> Slots:
        with self._lock:
            slots = self._opened.get(shard)
            if slots is None:
                slots = self._opened[shard] = self._open(shard)
            self._opened.move_to_end(shard)
            if len(self._opened) > self._shards:
                _, old = self._opened.popitem(last=False)
                if self._owns and old.paths[0].startswith(self._temporary):
                    for path in old.paths:
                        os.unlink(path)
            return slots

    def _open(self, shard: int) -> Slots:
        folder, nbytes = self._temporary, self.pack.shards[shard].bytes
        room = Room(folder)
        if self._folder is not None:
            kept = os.path.join(self._folder, f"pack-{self.pack.id}")
            path = os.path.join(kept, f"{shard:05}{SLOTS}")
            os.makedirs(kept, exist_ok=True)
            if os.path.exists(path) or Room(self._folder, self._most).free(path) >= nbytes:
                folder, room = kept, Room(self._folder)
        begin = os.path.join(folder, f"{shard:05}")
        return Slots((begin + SLOTS, begin + RECORDS), -(-nbytes // BLOCK), _SPEC, room)


def check_sizes(pack: Pack, store: Store) -> None:
    """Raise if a shard of a remote pack is missing, or has another length."""
    sizes: dict[str, int | None]
    try:
        sizes = {path: head.size for path, head in store.list(pack.folder)}
    except ArgumentError:  # HTTP servers list nothing
        paths = [pack.path(file) for file in pack.shards]
        with ThreadPoolExecutor(_HEADS) as pool:
            heads = pool.map(lambda path: _size(store, path), paths)
            sizes = dict(zip(paths, heads, strict=True))
    for file in pack.shards:
        path = pack.path(file)
        with pack_errors(path):
            size = sizes.get(path)
            if size is None:
                raise FileNotFoundError
            check_length(size, file)


def _size(store: Store, path: str) -> int | None:
    with pack_errors(path):
        try:
            return store.head(path).size
        except MissingFileError:
            return None
