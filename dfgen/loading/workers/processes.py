"""Worker processes, for transforms that hold the GIL.

Not `multiprocessing.Process`, which would run the user's script again in each child. A thread of
the parent owns each process: it sends a chunk through the process's standard input, waits at its
standard output, and copies the arrays out of shared memory. A process that dies closes its output,
so the thread notices at once, and another process makes the chunk again.
"""

import contextlib
import errno
import functools
import os
import pickle
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import IO, Any

import numpy as np

from dfgen.errors import ArgumentError, WorkerError
from dfgen.loading.metrics import IDLE, Stopwatch
from dfgen.loading.problems import WORKER, Problem
from dfgen.loading.workers.chunks import WAITS, Blanks, Chunk, ChunkArrays, ChunkMaker, waited
from dfgen.loading.workers.pool import Worker
from dfgen.loading.workers.process_main import (
    HEADER,
    NO_ROW,
    READING,
    ROW,
    SINCE,
    STARTING,
    SharedPickle,
    room,
    shared_arrays,
    shared_memory,
)
from dfgen.machine import IS_WINDOWS, interrupts_blocked, python_command
from dfgen.samples.transforms import pickled_by_value
from dfgen.spec import Spec

_DEATHS = 3  # on one row: then it is the row
_MOST_DEATHS = 6  # during one chunk, on different rows: then it is something else
_GRACE = 10.0  # seconds that a process gets to end after its pipes were closed
_FILES = (
    ". Each takes three open files, and more while it starts: raise their limit before Python "
    "starts, as by ulimit -n 4096, or give fewer workers="
)
_SHORT = ", as the system does if memory is short: see its log, dmesg"


class StartError(WorkerError):
    """A worker process cannot start."""


class ProcessWorker(Worker):
    """Makes chunks in a process of its own, which is replaced when it dies.

    Args:
        maker: makes chunks.
        payload: the maker, pickled once for all processes.
        specs: the arrays of a chunk.
        size: rows of a chunk, at most.
        optional: whether the thread makes the chunks itself if no process can start.
    """

    def __init__(
        self,
        maker: ChunkMaker,
        payload: SharedPickle,
        specs: Mapping[str, Spec],
        size: int,
        optional: bool = False,
    ) -> None:
        super().__init__()
        self._maker, self._payload, self._optional = maker, payload, optional
        self._memory_size = HEADER + room(specs, size)
        self._child: subprocess.Popen[bytes] | None = None
        self._file: IO[bytes] | None = None
        self._memory: Any = None
        self._header: Any = None

    def fill(
        self, chunk: Chunk, arrays: ChunkArrays, stopwatch: Stopwatch, cancelled: Callable[[], bool]
    ) -> Blanks:
        """Fill the arrays of a chunk, as `ChunkMaker.fill`."""
        try:
            return self._fill(chunk, arrays, stopwatch, cancelled)
        except StartError:
            if not self._optional:
                raise
            self.fill = self._maker.fill  # type: ignore[method-assign]
            return self.fill(chunk, arrays, stopwatch, cancelled)

    def _fill(
        self, chunk: Chunk, arrays: ChunkArrays, stopwatch: Stopwatch, cancelled: Callable[[], bool]
    ) -> Blanks:
        specs = {name: Spec(array.shape, array.dtype) for name, array in arrays.items()}
        deadly, deaths = dict[int, Problem](), Counter[int]()
        stopwatch(IDLE)
        while not cancelled():
            try:
                child: Any = self._child or self._start()
                _send((chunk, specs), child)
                with open(child.stdout.fileno(), "rb", closefd=False) as replies:
                    blanks, seconds, counts, error, objects = pickle.load(replies)
            except (EOFError, OSError, pickle.UnpicklingError):
                if self.abandoned:
                    break
                deadly |= self._note_death(chunk, deaths)
                chunk = replace(chunk, known={*chunk.known, *deadly})
                continue
            self._header[ROW] = NO_ROW  # it may die before its next chunk
            stopwatch.add(seconds, counts)
            stopwatch.since = time.perf_counter()  # the process has measured the chunk
            if error is not None:
                raise error
            for name, shared in shared_arrays(self._memory, specs).items():
                arrays[name][...] = objects.get(name, shared)
            rows = chunk.rows.tolist()
            return {place: why or deadly.get(rows[place]) for place, why in blanks.items()}
        return {}

    def _start(self) -> subprocess.Popen[bytes]:
        for seconds in (*WAITS, None):
            try:
                child = self._child = self._spawned()
                break
            except OSError as error:
                is_short = error.errno in (errno.EMFILE, errno.ENFILE)
                may_retry = is_short and seconds is not None
                if not may_retry or not waited(seconds or 0, lambda: self.abandoned):
                    advice = _FILES if is_short else ""
                    raise StartError(f"a worker process cannot start: {error}{advice}") from error
        if self.abandoned:  # meanwhile, so that `abandon` has not seen it
            child.kill()
        _send((self._payload.message, self._memory_size, os.getpid()), child)
        return child

    def _spawned(self) -> subprocess.Popen[bytes]:
        """Start a process, in a group of its own: Ctrl-C and Ctrl-Z are the parent's."""
        if self._file is None:
            self._file, self._memory = shared_memory(self._memory_size)
            self._header = np.frombuffer(self._memory, np.float64, 3)
        self._header[ROW] = STARTING
        handle = self._file.fileno()
        command, environment = python_command("dfgen.loading.workers.process_main", str(handle))
        with interrupts_blocked():
            return subprocess.Popen(
                command,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[handle, self._payload.handle],
                env=environment,
                process_group=0,
            )

    def _note_death(self, chunk: Chunk, deaths: Counter[int]) -> dict[int, Problem]:
        """Count a death for the row in the making; return the row and why if it is to be skipped.

        Raises:
            WorkerError: there were too many deaths.
        """
        row, code, reader = int(self._header[ROW]), self._end(), self._maker.reader
        deaths[row] += 1
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if deaths[row] < _DEATHS and deaths.total() < _MOST_DEATHS:
            if row == STARTING:  # as without descriptors, which may be there later
                waited(WAITS[1 + deaths[row]], lambda: self.abandoned)
            return {}
        if deaths[row] == _DEATHS and row >= 0:
            cause = _SHORT * (code == -signal.SIGKILL)
            died = f"{_DEATHS} worker processes died on this row (the last: {how}{cause})"
            if not self._maker.skip:
                raise WorkerError(f"{reader.where(row)}: {died}")
            del deaths[row]
            return {row: Problem(WORKER, died)}
        rows = f"row id={reader.id(int(chunk.rows[0]))!r} and {len(chunk.rows) - 1} more"
        if row == STARTING:
            raise StartError(
                f"a worker process cannot start ({how}): see what it printed. It was to make {rows}"
            )
        raise WorkerError(
            f"{deaths.total()} worker processes died while they made {rows} (the last: {how}), on "
            f"different rows{_SHORT}: give more memory, or fewer workers="
        )

    def _end(self) -> int:
        """End the process; return its exit code."""
        child, self._child = self._child, None
        if child is None:
            return 0
        self._header[READING] = 0
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):  # bytes that were not sent yet
                pipe.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(_GRACE)
        child.kill()
        return child.wait()

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when."""
        header = self._header
        if header is None or self._child is None:
            return super().file()
        seen = header.tolist()
        if not seen[READING] or seen != header.tolist():  # it goes on meanwhile
            return None
        return int(seen[ROW]), seen[SINCE]

    def abandon(self) -> None:
        """End the process, stuck as it may be; its thread then ends too."""
        super().abandon()
        if (child := self._child) is not None:
            child.kill()

    def close(self) -> None:
        """End the process and release its memory."""
        self._end()
        if self._file is not None:
            self._file.close()
            self._file = self._header = self._memory = None


def _send(message: object, child: subprocess.Popen[bytes]) -> None:
    """Send a message through a buffer of its own.

    A process that the user forks meanwhile would write its copy of a shared buffer at its end.
    """
    with open(child.stdin.fileno(), "wb", closefd=False) as requests:  # type: ignore[union-attr]
        pickle.dump(message, requests)


def pickled(maker: ChunkMaker) -> SharedPickle:
    """Return a pickled ChunkMaker, functions of a notebook or script by value.

    Raises:
        ArgumentError: a function cannot be pickled, or the system is Windows.
    """
    if IS_WINDOWS:
        raise ArgumentError("use_multiprocessing=True does not work on Windows: use threads")
    for name, function in maker.reader.functions.items():
        try:
            _register_module_of(function)
            pickled_by_value(function)
        except Exception as error:
            raise ArgumentError(
                f"{name}={function!r} cannot be sent to a worker process: "
                f"{type(error).__name__}: {error}. Create its content inside of it, or use threads"
            ) from error
    return SharedPickle(maker)


def _register_module_of(function: object) -> None:
    """Have cloudpickle send the functions of a module by value if no finder knows it."""
    import cloudpickle

    function = function.func if isinstance(function, functools.partial) else function
    name = str(getattr(function, "__module__", None))
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
    specs = (finder.find_spec(name.partition(".")[0], None, None) for finder in finders)
    if name != "__main__" and sys.modules.get(name) is not None and not any(specs):
        cloudpickle.register_pickle_by_value(sys.modules[name])
