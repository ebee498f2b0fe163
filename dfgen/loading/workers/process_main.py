"""The program of a worker, `python -m dfgen.loading.workers.process_main`; see `processes`."""

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
from dfgen.loading.workers.chunks import ChunkMaker
from dfgen.loading.workers.shared_memory import shared_arrays, shared_object
from dfgen.platform_calls import end_with_parent
from dfgen.samples.pixels.decoders import prepare_worker

READING, ROW, SINCE = 0, 1, 2
"""Places in the header of the shared memory: whether a file is read, of which row, since when."""

STARTING, NO_ROW = -1, -2
"""Instead of the row that a process has in hand."""


def serve() -> None:
    """Serve chunks until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a transform prints must not come between replies
    own = os.getpid()
    os.register_at_fork(after_in_child=partial(_leave, own, (requests, replies)))
    message, memory_size, parent = _received(requests)
    _die_with(parent)
    memory = mmap.mmap(int(sys.argv[1]), memory_size)
    stopwatch = _SharedStopwatch(np.frombuffer(memory, np.float64, 3))
    maker: ChunkMaker = shared_object(message)
    prepare_worker()
    while True:
        chunk, specs = _received(requests)
        blanks, error, objects = {}, None, {}
        try:
            stopwatch.leave_row()
            arrays = shared_arrays(memory, specs)
            maker.reader.store.fetched = chunk.files.get
            blanks = maker.fill(chunk, arrays, stopwatch, lambda: False)
            objects = {name: array for name, array in arrays.items() if array.dtype.hasobject}
        except BaseException as raised:
            error = _portable(raised)
        if os.getpid() != own:  # forked by a transform, and come back from it
            os._exit(0)
        stopwatch.leave_row()
        try:
            pickle.dump((blanks, *stopwatch.take(), error, objects), replies)
            replies.flush()
        except BrokenPipeError:  # nobody waits for it any more
            os._exit(0)


def _leave(worker: int, pipes: tuple[IO[bytes], ...]) -> None:
    """Close in a process that a transform forks the pipes at whose end the parent waits."""
    if os.getppid() == worker:  # those that it forks itself have none
        for pipe in pipes:
            os.close(pipe.fileno())


def _received(requests: IO[bytes]) -> tuple[Any, ...]:
    """Return what the parent sent; leave where it sends nothing more, or was cut off in it."""
    try:
        sent: tuple[Any, ...] = pickle.load(requests)
    except (EOFError, pickle.UnpicklingError):
        sys.exit()
    return sent


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be sent, with its traceback as a note, if it has no such yet."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
        if isinstance(error, DfgenError) and hasattr(error, "__notes__"):
            return error
    except Exception:
        error = WorkerError(f"{type(error).__name__}: {error}")
    error.add_note(f"In the worker process:\n{text}")
    return error


def _die_with(parent: int) -> None:
    """Have this process end with its parent, which may have ended already."""
    end_with_parent()
    if os.getppid() != parent:
        sys.exit()


class _SharedStopwatch(Stopwatch):
    """A Stopwatch that the parent can look at while the process is busy."""

    def __init__(self, header: npt.NDArray[np.float64]) -> None:
        self._header = header
        super().__init__()

    def __call__(self, stage: str, nbytes: int = 0) -> None:
        super().__call__(stage, nbytes)
        self._header[READING] = 0
        self._header[ROW], self._header[SINCE] = self.row, self._file[1]
        self._header[READING] = stage in OF_FILES

    def leave_row(self) -> None:
        """Say that what comes is no row's doing."""
        self.row = NO_ROW
        self(IDLE)

    def take(self) -> tuple[dict[str, float], Counter[str]]:
        """Return what was measured since the last time."""
        taken = self.seconds, self.counts
        self.seconds, self.counts = dict.fromkeys(self.seconds, 0.0), Counter()
        return taken


if __name__ == "__main__":
    serve()
