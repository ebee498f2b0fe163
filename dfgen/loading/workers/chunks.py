"""Chunks of a batch: what a worker makes in one go, in whichever thread or process."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError, MissingFileError
from dfgen.loading.generators import sample_rng
from dfgen.loading.metrics import IDLE, Stopwatch
from dfgen.loading.order.permutation import Integers
from dfgen.samples.features.base import Spec
from dfgen.samples.reader import SampleReader

_CHUNKS_PER_WORKER = 2  # of what is in the making, so that all workers have some until its end
_CHUNK = 1 << 22  # bytes of a chunk made by a process, about: it has memory of its own for one

ChunkArrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Chunk:
    """Some samples of one batch.

    Args:
        epoch: of the batch.
        rows: which rows, int64.
        earlier: how often each of them came before in this epoch, int64.
        known: those of them that are not to be read.
    """

    epoch: int
    rows: Integers
    earlier: Integers
    known: Collection[int] = ()


@dataclass(frozen=True)
class ChunkMaker:
    """Makes chunks; all that a worker needs, and so what travels to a process.

    Args:
        reader: makes samples from rows.
        seed: of the samples' random generators.
        skip: whether a bad row is filled with zeros instead of raising.
    """

    reader: SampleReader
    seed: int
    skip: bool

    def fill(
        self,
        chunk: Chunk,
        arrays: ChunkArrays,
        stopwatch: Stopwatch,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> dict[int, str | None]:
        """Fill the arrays of a chunk.

        Args:
            chunk: which samples.
            arrays: name -> array of shape (rows, ...).
            stopwatch: is told what is being done.
            cancelled: whether nobody wants the chunk any more.

        Returns:
            Place in the chunk -> what is wrong with its row, None for known ones; zeros are there.

        Raises:
            DfgenError: a bad row, unless they are skipped; a transform that fails.
        """
        self.reader.gather(chunk.rows, arrays)
        blanks: dict[int, str | None] = {}
        made = len(chunk.rows)
        if self.reader.reads_rows or chunk.known:
            made = self._read_rows(chunk, arrays, stopwatch, cancelled, blanks)
        if blanks:
            for name, array in arrays.items():
                array[list(blanks)] = self.reader.specs[name].blank
        stopwatch.counts["samples"] += made - len(blanks)
        return blanks

    def _read_rows(
        self,
        chunk: Chunk,
        arrays: ChunkArrays,
        stopwatch: Stopwatch,
        cancelled: Callable[[], bool],
        blanks: dict[int, str | None],
    ) -> int:
        """Fill what needs files or the transform, note what stays blank; return the rows done."""
        rows = chunk.rows.tolist()
        # made together: between two decodes, out of the caches, each would take five times as long
        rngs = [self._rng(chunk, place) for place in range(len(rows))]
        try:
            for place, (row, rng) in enumerate(zip(rows, rngs, strict=True)):
                if cancelled():
                    return place
                if row in chunk.known:
                    blanks[place] = None
                    continue
                stopwatch.row = row
                out = {name: array[place, ...] for name, array in arrays.items()}
                try:
                    self.reader.read(row, out, rng, stopwatch)
                except (DecodeError, MissingFileError) as error:
                    if not self.skip:
                        raise
                    blanks[place] = str(error)  # anything else is a mistake in a program
        finally:
            stopwatch(IDLE)
        return len(chunk.rows)

    def _rng(self, chunk: Chunk, place: int) -> np.random.Generator | None:
        if not self.reader.is_random:
            return None
        id = self.reader.id(int(chunk.rows[place]))
        return sample_rng(self.seed, chunk.epoch, id, int(chunk.earlier[place]))


def chunk_sizes(batch: int, depth: int, workers: int, row: int, processes: bool) -> tuple[int, int]:
    """Return the rows of a chunk where all workers share a batch, and where many are under way.

    The second is as large as it can be: of tiny images 16 rows take half as long again as 64.

    Args:
        batch: rows of a batch.
        depth: how many are in the making.
        workers: how many make them.
        row: bytes of one.
        processes: whether the workers are processes.
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
