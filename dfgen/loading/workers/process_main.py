"""The program of a worker process, `python -m dfgen.loading.workers.process_main`."""

import mmap
import os
import pickle
import signal
import sys
import traceback
from collections import Counter
from functools import partial
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DfgenError, WorkerError
from dfgen.loading.metrics import IDLE, OF_FILES, Stopwatch
from dfgen.loading.prefetch import Prefetch
from dfgen.loading.workers.chunks import ChunkMaker
from dfgen.loading.workers.shared_memory import shared_arrays, shared_object
from dfgen.platform_calls import end_with_parent
from dfgen.samples.pixels.decoders import prepare_worker

READING, ROW, SINCE = 0, 1, 2
"""Indices in the header of the shared memory: whether a file is read, its row, since when."""

STARTING, NO_ROW = -1, -2
"""In place of a row: the process starts, or works on no row."""


def serve() -> None:
    """Make chunks until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # output of a transform must not get between replies
    os.register_at_fork(after_in_child=partial(_close, os.getpid(), (requests, replies)))
    message, memory_size, parent = _received(requests)
    end_with_parent()
    if os.getppid() != parent:  # it has ended before
        sys.exit()
    memory = mmap.mmap(int(sys.argv[1]), memory_size)
    stopwatch = _SharedStopwatch(np.frombuffer(memory, np.float64, 3))
    maker: ChunkMaker = shared_object(message)
    store = maker.reader.store
    prefetch = Prefetch(store.another().read) if store.far else None
    store.fetched = None if prefetch is None else prefetch.take
    prepare_worker()
    while True:
        chunk, specs = _received(requests)
        blanks, error, objects = {}, None, {}
        try:
            stopwatch.leave_row()
            arrays = shared_arrays(memory, specs)
            if prefetch is not None:
                prefetch.expect(chunk.paths)
            blanks = maker.fill(chunk, arrays, stopwatch, lambda: False)
            objects = {name: array for name, array in arrays.items() if array.dtype.hasobject}
        except BaseException as raised:
            error = _portable(raised)
        if prefetch is not None:
            prefetch.drop(chunk.paths)
        stopwatch.leave_row()
        try:
            pickle.dump((blanks, *stopwatch.take(), error, objects), replies)
            replies.flush()
        except BrokenPipeError:  # the parent has ended
            os._exit(0)


def _close(worker: int, pipes: tuple[IO[bytes], ...]) -> None:
    """Close the parent's pipes in a process that a transform has forked."""
    if os.getppid() == worker:
        for pipe in pipes:
            os.close(pipe.fileno())


def _received(requests: IO[bytes]) -> tuple[Any, ...]:
    """Return the next message of the parent; exit if the parent has ended."""
    try:
        message: tuple[Any, ...] = pickle.load(requests)
    except (EOFError, pickle.UnpicklingError):
        sys.exit()
    return message


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be pickled, with its traceback as a note if it has none."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
        if isinstance(error, DfgenError) and hasattr(error, "__notes__"):
            return error
    except Exception:
        error = WorkerError(f"{type(error).__name__}: {error}")
    error.add_note(f"In the worker process:\n{text}")
    return error


class _SharedStopwatch(Stopwatch):
    """A Stopwatch that the parent can read while the process is busy."""

    def __init__(self, header: npt.NDArray[np.float64]) -> None:
        self._header = header
        super().__init__()

    def __call__(self, stage: str, nbytes: int = 0) -> None:
        super().__call__(stage, nbytes)
        self._header[READING] = 0
        self._header[ROW], self._header[SINCE] = self.row, self._file[1]
        self._header[READING] = stage in OF_FILES

    def leave_row(self) -> None:
        """Begin work that belongs to no row."""
        self.row = NO_ROW
        self(IDLE)

    def take(self) -> tuple[dict[str, float], Counter[str]]:
        """Return and reset the measurements."""
        taken = self.seconds, self.counts
        self.seconds, self.counts = dict.fromkeys(self.seconds, 0.0), Counter()
        return taken


if __name__ == "__main__":
    serve()
