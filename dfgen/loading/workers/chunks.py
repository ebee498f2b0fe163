"""Chunks of a batch: the rows that a worker makes at once, their retries and random generators."""

import errno
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random.bit_generator import ISeedSequence

from dfgen.errors import (
    DecodeError,
    DfgenError,
    MissingFileError,
    ReadError,
    is_outside,
    reason,
    without_secrets,
)
from dfgen.loading.metrics import IDLE, Stopwatch
from dfgen.loading.problems import Problem
from dfgen.samples.reader import SampleReader
from dfgen.spec import IntArray, Spec, Watch

WAITS = (0.1, 0.4, 1.2, 2.4)
"""Seconds before each retry. Network drives usually come back within their sum."""

_SLICE = 0.05  # seconds between two looks at whether the row is still wanted

_DISK = "check the disk or the network (dmesg tells more), then resume from the last backup"
_FILES = "allow more open files, as by ulimit -n 65536, or use fewer workers"
_MEMORY = "give the process more memory, or make workers, max_queue_size or batch_size smaller"
_ADVICE = {
    errno.EIO: _DISK,
    errno.ESTALE: _DISK,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: _MEMORY,
}

_CHUNKS_PER_WORKER = 2  # of the batches in the making, so that all workers are busy until their end
_CHUNK = 1 << 22  # bytes of a chunk of a process, about; it has its own memory for one
ChunkArrays = Mapping[str, npt.NDArray[Any]]
Blanks = dict[int, Problem | None]
"""Place in a chunk -> why its row is blank; None for rows that were known to be bad."""


def retry(
    read: Callable[[], None],
    error: Exception,
    where: Callable[[], str],
    watch: Watch,
    cancelled: Callable[[], bool],
) -> None:
    """Repeat a failed read after each of `WAITS` while its error is one of `_ADVICE`.

    A missing or corrupt file, and a server that obstore has retried, are not retried.

    Args:
        read: reads the row.
        error: of the first try.
        where: returns the id and paths of the row.
        watch: callback for timing; waiting is idle.
        cancelled: whether the row is no longer wanted.

    Raises:
        ReadError: no retry has helped.
        Exception: an error that is not retried.
    """
    start = time.monotonic()
    try:
        for seconds in WAITS:
            if _errno(error) is None:
                raise error
            watch(IDLE)
            if not waited(seconds, cancelled):
                raise error
            try:
                return read()
            except Exception as another:
                error = another
        if (number := _errno(error)) is None:
            raise error
        message = str(error)
        if not isinstance(error, ReadError):
            message = f"{where()}: out of memory: {reason(error)}"
        raise ReadError(
            f"{message}; tried {len(WAITS) + 1} times in {time.monotonic() - start:.1f} seconds. "
            f'The file is not at fault, so on_error="skip" does not skip its row: {_ADVICE[number]}'
        ) from error
    finally:
        del error  # its traceback refers to this frame


def _errno(error: BaseException) -> int | None:
    """Return the errno of an error that is worth a retry, else None."""
    if not is_outside(error):
        return None
    while isinstance(error, DfgenError) and error.__cause__ is not None:
        error = error.__cause__
    number = error.errno if isinstance(error, OSError) else errno.ENOMEM  # as decoders report it
    return number if number in _ADVICE else None


def waited(seconds: float, cancelled: Callable[[], bool]) -> bool:
    """Wait; return False as soon as `cancelled` returns True."""
    end = time.monotonic() + seconds
    while not cancelled():
        if time.monotonic() >= end:
            return True
        time.sleep(_SLICE)
    return False


@dataclass(frozen=True)
class Chunk:
    """Some samples of one batch."""

    seed: int  # of the samples' random generators
    epoch: int
    rows: IntArray
    earlier: IntArray  # how often each row came before in this epoch
    known: Collection[int] = ()  # rows that are not read, because they are bad
    paths: Sequence[str] = ()  # of remote files


@dataclass(frozen=True)
class ChunkMaker:
    """Makes chunks. It is pickled for worker processes."""

    reader: SampleReader
    skip: bool  # whether a bad row is blank instead of an error

    def fill(
        self, chunk: Chunk, arrays: ChunkArrays, stopwatch: Stopwatch, cancelled: Callable[[], bool]
    ) -> Blanks:
        """Fill the arrays of a chunk unless it is cancelled; return the blank rows."""
        reader, rows, blanks = self.reader, chunk.rows.tolist(), Blanks()
        made, taken = len(rows), set[int]()
        reads = bool(reader.steps or chunk.known) or reader.transform is not None
        if reads:
            stopwatch.begin("table")
        else:
            stopwatch("table")  # too short to measure the time on a CPU
        try:
            reader.gather(chunk.rows, arrays)
            if reader.taken:
                stopwatch.row = rows[0]
                stopwatch("read")
                taken = {*np.flatnonzero(reader.take(chunk.rows, arrays)).tolist()}
                stopwatch("table")
            places = [*range(len(rows))] if reads else []
            if taken and not (reader.others or reader.transform):
                places = [at for at in places if at not in taken or rows[at] in chunk.known]
            # together: between two decodes, out of the CPU's caches, each takes five times as long
            rngs = [self._rng(chunk, place) for place in places]
            for place, rng in zip(places, rngs, strict=True):
                if cancelled():
                    made = place
                    break
                if rows[place] in chunk.known:
                    blanks[place] = None
                    continue
                stopwatch.row = rows[place]
                out = {name: array[place, ...] for name, array in arrays.items()}
                try:
                    reader.read(rows[place], out, rng, stopwatch, taken=place in taken)
                except Exception as error:
                    problem = self._retried(chunk, place, out, error, stopwatch, cancelled)
                    if problem is not None:
                        blanks[place] = problem
        finally:
            stopwatch.rest()
        for name, array in arrays.items() if blanks else ():
            array[list(blanks)] = reader.specs[name].blank
        stopwatch.counts["samples"] += made - len(blanks)
        for slots in reader.cached:
            stopwatch.counts.update(slots.counted())
        return blanks

    def _retried(
        self,
        chunk: Chunk,
        place: int,
        out: ChunkArrays,
        error: Exception,
        stopwatch: Stopwatch,
        cancelled: Callable[[], bool],
    ) -> Problem | None:
        """Retry a row that could not be read; return why it is to be skipped."""
        reader, row = self.reader, int(chunk.rows[place])

        def read() -> None:
            reader.read(row, out, self._rng(chunk, place), stopwatch)

        try:
            retry(read, error, partial(reader.where, row), stopwatch, cancelled)
        except (DecodeError, MissingFileError) as error:
            if not self.skip:
                raise
            where = without_secrets(f"row id={reader.id(row)!r}, ")
            if len([*reader.paths(row)]) == 1:
                where = f"{reader.where(row)}: "
            return Problem(stopwatch.stage, str(error).removeprefix(where))
        return None

    def _rng(self, chunk: Chunk, place: int) -> np.random.Generator | None:
        if not self.reader.is_random:
            return None
        id = self.reader.id(int(chunk.rows[place]))
        return sample_rng(chunk.seed, chunk.epoch, id, int(chunk.earlier[place]))


def chunk_sizes(batch: int, depth: int, workers: int, row: int, processes: bool) -> tuple[int, int]:
    """Return the rows of a chunk if all workers share a batch, and if batches are made ahead.

    The second is as large as possible: 16 rows of tiny images take half as long again as 64. There
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


def sample_rng(seed: int, epoch: int, id: object, k: int = 0) -> np.random.Generator:
    """Return the random generator of one sample, the same in any worker.

    It takes 5 microseconds, and has no `spawn`. Its key is the first 16 bytes of BLAKE2b-512 of
    the text "dfgen/rng/1|{seed}|{epoch}|{id}|{k}", read as a little-endian integer (two
    little-endian uint64). NumPy guarantees the bits of Philox, but the methods of a Generator for
    one version only. The `id` counts as its text, so 7 is "7"; `k` is how often the row occurred
    before in this epoch.

    Example:
        >>> sample_rng(0, 0, "cat-1").random() == sample_rng(0, 0, "cat-1").random()
        True
    """
    key = _Key(_digest(f"dfgen/rng/1|{seed}|{epoch}|{id}|{k}"))
    return np.random.Generator(np.random.Philox(key))  # type: ignore[arg-type]


def batch_rng(seed: int, epoch: int, step: int, host: int = 0) -> np.random.Generator:
    """Return the random generator of one batch of one host.

    Its key is made like a sample's, of the text "dfgen/batch-rng/1|{seed}|{epoch}|{step}|{host}".

    Example:
        >>> batch_rng(0, 1, 2).random() == batch_rng(0, 1, 2).random()
        True
    """
    digest = _digest(f"dfgen/batch-rng/1|{seed}|{epoch}|{step}|{host}")
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def _digest(text: str) -> bytes:
    return blake2b(text.encode()).digest()[:16]


class _Key(ISeedSequence):
    """Gives a Philox its key; `Philox(key=...)` would draw entropy first."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> Any:
        return np.frombuffer(self.key, "<u8", n_words).astype(dtype)
