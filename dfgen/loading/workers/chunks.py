"""Chunks of a batch: what a worker makes in one go, in whichever thread or process."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, DecodeError, DfgenError, MissingFileError, without_secrets
from dfgen.loading.generators import sample_rng
from dfgen.loading.metrics import Stopwatch
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.problems import Failure
from dfgen.loading.workers.retries import read_again
from dfgen.samples.reader import SampleReader
from dfgen.spec import IntArray, Present, Spec, Watch

_CHUNKS_PER_WORKER = 2  # of what is in the making, so that all workers have some until its end
_CHUNK = 1 << 22  # bytes of a chunk made by a process, about: it has memory of its own for one

ChunkArrays = Mapping[str, npt.NDArray[Any]]
Blanks = dict[int, Failure | None]
"""Place in a chunk -> what is wrong with its row, None for known ones; zeros are there."""

_thread = threading.local()  # whose rows it makes just now


class Expected:
    """The remote files of a chunk, which are being prefetched in the order of its rows."""

    def __init__(self, prefetch: Prefetch, paths: Iterable[str]) -> None:
        self._prefetch, self._paths = prefetch, deque(paths)
        prefetch.expect(self._paths)

    def taken(self) -> dict[str, bytes]:
        """Return the bytes of all files that could be read, by their paths."""
        files = {}
        while self._paths:
            path = self._paths.popleft()
            try:
                data = self._prefetch.take(path, until_read=True)
                if data is not None:
                    files[path] = data
            except DfgenError:  # whoever wants the file reads it again, and raises that
                pass
            finally:
                self._prefetch.drop([path])
        return files

    def drop(self) -> None:
        """Forget the files that were not taken."""
        self._prefetch.drop(self._paths)


@dataclass(frozen=True)
class Chunk:
    """Some samples of one batch."""

    epoch: int
    rows: IntArray
    earlier: IntArray  # how often each of them came before in this epoch
    known: Collection[int] = ()  # those of them that are not to be read
    ahead: Expected | None = None  # its remote files
    files: Mapping[str, bytes] = field(default_factory=dict)  # these, sent to a process


@dataclass(frozen=True)
class ChunkMaker:
    """Makes chunks; all that a worker needs, and so what travels to a process."""

    reader: SampleReader
    seed: int  # of the samples' random generators
    skip: bool  # whether a bad row is filled with zeros instead of raising

    def fill(
        self, chunk: Chunk, arrays: ChunkArrays, stopwatch: Stopwatch, cancelled: Callable[[], bool]
    ) -> Blanks:
        """Fill the arrays of a chunk until nobody wants it any more; return what stays blank."""
        blanks: Blanks = {}
        made = len(chunk.rows)
        one_by_one = self.reader.reads_rows or bool(chunk.known)
        begin = stopwatch.begin if one_by_one else stopwatch  # columns are made too soon for it
        begin("table")
        try:
            with making(self.reader):
                self.reader.gather(chunk.rows, arrays)
                taken = self._take(chunk, arrays, stopwatch) if self.reader.taken else None
                if one_by_one:
                    blanks, made = self._read_rows(chunk, arrays, stopwatch, cancelled, taken)
        finally:
            stopwatch.rest()
        if blanks:
            for name, array in arrays.items():
                array[list(blanks)] = self.reader.specs[name].blank
        stopwatch.counts["samples"] += made - len(blanks)
        for slots in self.reader.cached:
            stopwatch.counts.update(slots.counted())
        return blanks

    def _take(self, chunk: Chunk, arrays: ChunkArrays, stopwatch: Stopwatch) -> Present:
        """Fill what is stored just as the batch wants it; return the rows that it was there for."""
        stopwatch.row = int(chunk.rows[0])
        stopwatch("read")
        taken = self.reader.take(chunk.rows, arrays)
        stopwatch("table")
        return taken

    def _read_rows(
        self,
        chunk: Chunk,
        arrays: ChunkArrays,
        stopwatch: Stopwatch,
        cancelled: Callable[[], bool],
        taken: Present | None,
    ) -> tuple[Blanks, int]:
        """Fill what needs files or the transform; return what stays blank, and the rows done."""
        rows, blanks = chunk.rows.tolist(), Blanks()
        read_one: Callable[..., None] = self.reader.read
        done = [False] * len(rows) if taken is None else taken.tolist()
        left = self._left(chunk, done)
        # made together: between two decodes, out of the caches, each would take five times as long
        rngs = [self._rng(chunk, place) for place in left]
        for place, rng in zip(left, rngs, strict=True):
            row = rows[place]
            read = partial(read_one, taken=True) if done[place] else read_one
            if cancelled():
                return blanks, place
            if row in chunk.known:
                blanks[place] = None
                continue
            stopwatch.row = row
            out = {name: array[place, ...] for name, array in arrays.items()}
            try:
                try:
                    read(row, out, rng, stopwatch)
                except Exception as error:
                    again = partial(self._again, chunk, place, out, stopwatch)
                    read_again(again, error, self.reader, row, stopwatch, cancelled)
            except (DecodeError, MissingFileError) as error:
                if not self.skip:
                    raise
                # anything else is a mistake in a program, or no fault of the file
                blanks[place] = self._fault(stopwatch.stage, error, row)
        return blanks, len(rows)

    def _left(self, chunk: Chunk, done: list[bool]) -> Sequence[int]:
        """Return the places of a chunk where something is left to do row by row."""
        if self.reader.others or self.reader.transform or not any(done):
            return range(len(done))
        rows = enumerate(chunk.rows.tolist())
        return [place for place, row in rows if not done[place] or row in chunk.known]

    def _again(self, chunk: Chunk, place: int, out: ChunkArrays, watch: Watch) -> None:
        self.reader.read(int(chunk.rows[place]), out, self._rng(chunk, place), watch)

    def _fault(self, stage: str, error: Exception, row: int) -> Failure:
        told = str(error).removeprefix(without_secrets(f"row id={self.reader.id(row)!r}, "))
        if len([*self.reader.paths(row)]) == 1:  # else the message is to tell of which files it is
            told = str(error).removeprefix(f"{self.reader.where(row)}: ")
        return Failure(stage, told)

    def _rng(self, chunk: Chunk, place: int) -> np.random.Generator | None:
        if not self.reader.is_random:
            return None
        id = self.reader.id(int(chunk.rows[place]))
        return sample_rng(self.seed, chunk.epoch, id, int(chunk.earlier[place]))


@contextlib.contextmanager
def making(reader: SampleReader) -> Iterator[None]:
    """Have `refuse_inside` know which rows are made in this thread."""
    outer = getattr(_thread, "reader", None)
    _thread.reader = reader
    try:
        yield
    finally:
        _thread.reader = outer


def refuse_inside(reader: SampleReader) -> None:
    """Refuse a batch that a function of the user's asks for while it makes one of the same rows."""
    if getattr(_thread, "reader", None) is reader:
        raise ArgumentError(
            "a function that makes the rows of a Sequence asks that Sequence for a batch, which "
            "would wait for itself: to mix the rows of a batch write batch_transform=, and take "
            "others from a second Sequence, made before"
        )


def chunk_sizes(batch: int, depth: int, workers: int, row: int, processes: bool) -> tuple[int, int]:
    """Return the rows of a chunk where all workers share a batch, and where many are under way.

    The second is as large as it can be: of tiny images 16 rows take half as long again as 64. There
    are `depth` batches in the making, of `batch` rows of `row` bytes each.
    """
    chunks = max(1, workers * _CHUNKS_PER_WORKER)
    spread = -(-batch // chunks)
    most = min(batch, batch * depth // chunks)
    if processes:
        most = min(most, _CHUNK // max(1, row))
    return spread, max(spread, most)


def row_bytes(specs: Mapping[str, Spec]) -> int:
    """Return the bytes of one sample's arrays."""
    return sum(prod(spec.shape) * spec.dtype.itemsize for spec in specs.values())
