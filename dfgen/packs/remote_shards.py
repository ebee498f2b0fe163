"""Shards of packs in a remote store: rows are fetched into memory when they are asked for."""

import contextlib
import json
import mmap
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from dfgen.errors import ManifestError, ReadError, may_pass
from dfgen.packs.pack_shards import (
    NOTHING,
    Opened,
    PackShards,
    PixelsOfOneSize,
    ShardFile,
    held,
    telling,
)
from dfgen.packs.ranges import PIECE, as_file, fetch, request_each
from dfgen.packs.shard_blocks import Extent, ShardBlocks
from dfgen.packs.slot_file import SlotFile
from dfgen.platform_calls import HAS_MEMORY_FILES, memory_file
from dfgen.spec import IntArray, Values
from dfgen.stores.store import Head, Store

_HEADS = 32  # requests at a time
_ENDS = 1 << 16  # bytes of a file, at its begin and its end, that tell how rows lie in it
_LEAST = 1 << 12  # of small files
_GAP = 1 << 16  # bytes that are fetched without need sooner than by two requests
_LENT = 100  # shards of which each has two descriptors
CAN_LEND = HAS_MEMORY_FILES
"""Whether worker processes can have what this one has fetched."""

Address = tuple[str, int]
"""A path by which other processes map memory, and what tells that from others which had it."""


class RemoteShards(PackShards):
    """One column of the shards of packs, some of which are remote.

    The rows of a window are foretold, and fetched, by `ahead`; those that nobody has foretold are
    fetched when they are asked for, and those after them where they are asked for one after
    another. About `most` bytes stay in memory, those that were used last; foretold rows stay until
    somebody has asked for them, unless they alone are twice as much. The blocks that are fetched
    are kept in `slots`, if there are any, and taken from there from then on.

    Worker processes map the memory of their parent, if it `lends`; what they cannot have of it they
    fetch.
    """

    far = True

    def __init__(
        self,
        files: Iterable[ShardFile],
        column: str,
        store: Store,
        most: int,
        slots: SlotFile | None = None,
    ) -> None:
        super().__init__(files, column)
        self.store, self.most, self.slots = store, most, slots
        self._far: dict[int, RemoteShard] = {}
        self.lends = False
        self._borrowed: dict[int, tuple[Address, Opened]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteShards, (self.files, self.column, self.store, self.most, self.slots)

    def __getitem__(self, shard: int) -> Opened:
        """Return what a shard holds, of which no row may have been fetched."""
        return self._borrowed[shard][1] if shard in self._borrowed else self._shard(shard).opened

    def of(self, shard: int, place: int) -> Opened:
        """Return what a shard holds, with one row fetched."""
        return self._fetched(shard, np.array([place]))

    def holding(self, wanted: Iterable[int], shards: IntArray, places: IntArray) -> dict[int, Any]:
        """Return what the `wanted` shards hold, with the rows at some places of `shards` fetched.

        A shard is left out if a read failed that may succeed when it is tried again.
        """
        held = {}
        for shard in wanted:
            try:
                held[shard] = self._fetched(shard, places[shards == shard])
            except ReadError as error:
                if not may_pass(error):
                    raise
        return held

    def ahead(self, shards: IntArray, places: IntArray) -> Iterator[None]:
        """Fetch rows, shard by shard; who asks for one of them first, fetches those of its shard.

        A row that could not be fetched is told of when it is asked for.
        """
        wanted = np.unique(shards[shards != NOTHING]).tolist()
        for shard in wanted:
            self._shard(shard).expect(places[shards == shard])
        for shard in wanted:
            with contextlib.suppress(Exception):
                self._shard(shard).fetch_expected()
            self._trim(shard)
            yield

    def lent(self, shards: IntArray, places: IntArray) -> "dict[int, LentMemory]":
        """Fetch rows; return the memory of their shards, for other processes while this is held.

        It travels as `Address`. Those that fail are left out: they ask by themselves, and tell.
        """
        lent: dict[int, LentMemory] = {}
        for shard in np.unique(shards[shards != NOTHING]).tolist():
            if not self._shard(shard).may_lend:
                continue
            with contextlib.suppress(Exception):
                far = self._holding(shard, places[shards == shard])
                if far.lent is not None:
                    lent[shard] = far.lent
        return lent

    def borrow(self, lent: Mapping[int, Address]) -> None:
        """Have some rows of the shards that another process has lent, and of no others."""
        before, self._borrowed = self._borrowed, {}
        for shard, address in lent.items():
            known = before.get(shard)
            with contextlib.suppress(OSError):
                if known is None or known[0] != address:
                    with open(address[0], "rb") as file:
                        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    opened = held(self.files[shard], self.column, pa.py_buffer(memory), list)
                    known = address, opened
                self._borrowed[shard] = known

    def _fetched(self, shard: int, places: IntArray) -> Opened:
        if shard in self._borrowed:
            return self._borrowed[shard][1]
        return self._holding(shard, places).opened

    def _holding(self, shard: int, places: IntArray) -> "RemoteShard":
        far = self._shard(shard)
        if far.fetch(places):
            self._trim(shard)
        return far

    def _shard(self, number: int) -> "RemoteShard":
        with self._lock:
            far = self._far.pop(number, None)
            if far is None:
                file, lent = self.files[number], [one.lent for one in self._far.values()]
                lends = self.lends and len(lent) - lent.count(None) < _LENT
                far = RemoteShard(file, self.column, self.store, self.slots, lends)
            self._far[number] = far  # the last one of use
        return far

    def _trim(self, kept: int) -> None:
        with self._lock:
            taken = sum(far.taken for far in self._far.values())
            for most, spares in ((self.most, True), (2 * self.most, False)):
                for number, far in [*self._far.items()]:
                    if taken <= most:
                        return
                    if number != kept and not (spares and far.expected):
                        taken -= self._far.pop(number).taken


class RemoteShard:
    """One of them: memory as long as the file, which the system gives where it is written to.

    Arrow maps that memory just as it would map the file.
    """

    def __init__(
        self, file: ShardFile, column: str, store: Store, slots: SlotFile | None, lends: bool
    ) -> None:
        self._file, self._column, self._store, self._slots = file, column, store, slots
        self._lends = lends
        self.lent: LentMemory | None = None  # all of its memory
        self._blocks: ShardBlocks | None = None
        self._unkept: list[Extent] = []
        self._lock, self._coming = threading.Lock(), threading.Lock()
        self._opened: Opened | None = None
        self._there = np.zeros(file.rows, np.bool_)
        self._expected = np.zeros(file.rows, np.bool_)
        self.taken = 0  # bytes

    @property
    def opened(self) -> Opened:
        """Its content, of which only some rows have been fetched."""
        if self._opened is None:
            with self._lock:
                if self._opened is None:
                    with telling(self._file):
                        self._opened = self._open()
        return self._opened

    @property
    def expected(self) -> bool:
        """Whether somebody will ask for some of its rows."""
        return bool(self._expected.any())

    def expect(self, places: IntArray) -> None:
        """Note that somebody will ask for some rows."""
        self._expected[places] = True

    def fetch_expected(self) -> bool:
        """Fetch the rows that somebody will ask for, who waits meanwhile."""
        with self._coming:
            return self._fetch(np.flatnonzero(self._expected), self.opened)

    def fetch(self, places: IntArray) -> bool:
        """Fetch those of some rows that are not in memory; return whether there were any."""
        opened, found = self.opened, False
        if not self._there[places].all():
            if self._expected[places].any():
                with contextlib.suppress(ReadError):  # of others, perhaps
                    found = self.fetch_expected()
            else:
                with self._coming:  # they may be among those that are coming
                    pass
            found |= self._fetch(places, opened)
        self._expected[places] = False
        return found

    def _fetch(self, places: IntArray, opened: Opened) -> bool:
        missing = np.unique(places[~self._there[places]])
        if not len(missing):
            return False
        starts, stops = _extents(opened)
        foretold = self._expected[missing].all()
        if not foretold and missing[0] and self._there[missing[0] - 1]:  # more will be wanted
            until = np.searchsorted(stops, starts[missing[0]] + PIECE, side="right")
            missing = np.union1d(missing, np.arange(missing[0], until))
        runs = [*_runs(self._first + starts[missing], self._first + stops[missing])]
        with telling(self._file):
            fetched = self._fetch_runs(runs)
            self._refuse_other(self._store.head(self._file.path))
            self._keep(fetched)
        self._there[missing] = True
        return True

    def _open(self) -> Opened:
        """Fetch the parts that tell how the rows lie in the file."""
        self._head = self._store.head(self._file.path)
        if self._head.size != self._file.nbytes:
            raise ManifestError(self._file.of_length(self._head.size))
        self._memory = self._new_memory()
        if self._slots is not None:
            self._blocks = ShardBlocks(self._slots, self._name(), self._memory)
        size = self._file.nbytes
        self._ends = min(_ENDS, max(_LEAST, size >> 8))
        head = min(self._ends, size)
        self._unkept += self._fetch_runs([(0, head), (max(head, size - self._ends), size)])
        source = pa.PythonFile(as_file(size, self._read, self._ends), "r")
        options = pa.ipc.IpcReadOptions(included_fields=[0])  # so that it reads no pixels
        with pa.ipc.open_file(source, options=options) as reader:
            reader.get_batch(0)  # what Arrow reads of it is in memory then
        opened = held(self._file, self._column, pa.py_buffer(self._memory), self._fetch_buffers)
        data = opened.pixels if isinstance(opened, PixelsOfOneSize) else opened.data
        self._first = _address(data) - _address(self._memory) if data.size else 0
        return opened

    def _new_memory(self) -> Values:
        if self._lends:
            with contextlib.suppress(OSError):  # too many open files: it is not lent
                self.lent = lent = LentMemory(self._file.nbytes)
                return lent.array
        return np.zeros(self._file.nbytes, np.uint8)

    def _read(self, nbytes: int, start: int) -> bytes:
        """Return some bytes, of which its ends are in memory already."""
        stop = start + nbytes
        if stop > self._ends and start < self._file.nbytes - self._ends:
            self._unkept += self._fetch_runs([(start, stop)])
        return self._memory[start:stop].tobytes()

    def _fetch_buffers(self, buffers: Iterable[Any]) -> None:
        first = _address(self._memory)
        places = [(b.address - first, b.size) for b in buffers if b is not None and b.size]
        self._unkept += self._fetch_runs([(at, at + size) for at, size in places])

    def _fetch_runs(self, runs: list[Extent]) -> list[Extent]:
        """Have some runs in memory; return what had to be fetched."""
        if self._blocks is not None:
            runs, nbytes = self._blocks.lacking(runs)
            self.taken += nbytes
        fetch(self._store, self._file.path, runs, self._memory)
        if self._blocks is not None:
            self._blocks.fetched(runs)
        self.taken += sum(stop - start for start, stop in runs)
        return runs

    def _keep(self, fetched: list[Extent]) -> None:
        """Keep what was fetched of the file that is still there, and what told how it lies."""
        if self._blocks is not None:
            unkept, self._unkept = self._unkept, []
            self._blocks.keep([*unkept, *fetched])

    def _name(self) -> str:
        """Tell its contents from others, by what the pack and the store say of it."""
        file, head = self._file, self._head
        plan = json.dumps(file.plan, sort_keys=True)
        told = head.mtime_ns if head.version is None else head.version
        return repr((file.path, file.nbytes, file.checksum, plan, told))

    @property
    def may_lend(self) -> bool:
        """Whether other processes can have its memory, or could once it is opened."""
        return self.lent is not None if self._opened else self._lends

    def _refuse_other(self, head: Head) -> None:
        times = (head.mtime_ns, self._head.mtime_ns) if head.version is None else ()
        if (head.size, head.version) != (self._head.size, self._head.version) or len({*times}) > 1:
            raise ManifestError(
                f"{self._file}, was written anew since this pack was opened: make the Sequence anew"
            )


class LentMemory:
    """Memory that other processes can map; it travels as its `Address`."""

    def __init__(self, nbytes: int) -> None:
        file = memory_file("dfgen-shard")
        weakref.finalize(self, os.close, file)
        os.ftruncate(file, nbytes)
        self.array: Values = np.frombuffer(mmap.mmap(file, nbytes), np.uint8)
        self._address: Address = f"/proc/{os.getpid()}/fd/{file}", os.fstat(file).st_ino

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._address,)


def check_all_there(files: Iterable[ShardFile], store: Store) -> None:
    """Refuse shards of which one is missing, or not as long as it was written."""

    def check(file: ShardFile) -> None:
        with telling(file):
            nbytes = store.head(file.path).size
        if nbytes != file.nbytes:
            raise ManifestError(file.of_length(nbytes))

    request_each(check, files, _HEADS)


def _address(array: Values) -> int:
    return int(array.__array_interface__["data"][0])


def _extents(opened: Opened) -> tuple[IntArray, IntArray]:
    """Return where the data of each row begins and ends, from the first one on."""
    if not isinstance(opened, PixelsOfOneSize):
        return opened.ends[:-1] - opened.ends[0], opened.ends[1:] - opened.ends[0]
    each = int(np.prod(opened.pixels.shape[1:]))
    starts = np.arange(len(opened.pixels), dtype=np.int64) * each
    return starts, starts + each


def _runs(starts: IntArray, stops: IntArray) -> Iterator[Extent]:
    """Yield the extents of rows that follow each other, with small gaps, as one."""
    breaks = np.flatnonzero(starts[1:] - stops[:-1] > _GAP) + 1
    firsts, lasts = [0, *breaks.tolist()], [*breaks.tolist(), len(starts)]
    for first, last in zip(firsts, lasts, strict=True):
        if stops[last - 1] > starts[first]:
            yield int(starts[first]), int(stops[last - 1])
