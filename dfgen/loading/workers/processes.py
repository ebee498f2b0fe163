"""Worker processes, for transforms that hold the GIL, as their parent has them.

Never `multiprocessing.Process`, which would run the user's script again in each child. A thread of
the parent owns each process: it sends a chunk through the process's standard input, waits at its
standard output, and copies the arrays out of memory that the two share. A process that dies closes
its output, which the thread sees at once; what was lost is made again by another process.
"""

import contextlib
import errno
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

from dfgen.errors import ArgumentError, WorkerError, is_outside
from dfgen.loading.problems import WORKER, Failure
from dfgen.loading.workers.chunks import Blanks, Chunk, ChunkArrays, ChunkMaker
from dfgen.loading.workers.process_main import NO_ROW, READING, ROW, SINCE, STARTING
from dfgen.loading.workers.retries import WAITS, waited
from dfgen.loading.workers.shared_memory import (
    HEADER,
    SharedPickle,
    room,
    shared_arrays,
    shared_memory,
)
from dfgen.loading.workers.threads import Worker
from dfgen.machine import python_command
from dfgen.platform_calls import IS_WINDOWS, interrupts_blocked
from dfgen.samples.user_functions import pickled_by_value, unwrapped
from dfgen.spec import Spec

_DEATHS = 3  # on one row: then it is the row
_MOST_DEATHS = 6  # while one chunk is made, on other rows each time: then it is something else
_FAREWELL = 1.0  # seconds that a process gets to end once nobody speaks to it
_LAST = 10.0  # and one that ends by itself, which then tells how: its output is closed before
_MORE_FILES = (
    ". Each takes three open files, and more while it starts: raise their limit before Python "
    "starts, as by ulimit -n 4096, or give fewer workers="
)
_OTHER_CAUSES = (
    "something else ends them, as the system does where memory is short: see its log (dmesg), and "
    "give more memory, or fewer workers="
)
_SHORT = ", as the system does where memory is short: see its log, dmesg"


class StartError(WorkerError):
    """A worker process cannot start."""


class ProcessWorker(Worker):
    """Makes chunks in a process of its own, which is replaced when it dies.

    The payload is the maker, pickled once for all processes.
    """

    def __init__(
        self, maker: ChunkMaker, payload: SharedPickle, specs: Mapping[str, Spec], size: int
    ) -> None:
        super().__init__()
        self._payload = payload
        self._reader = maker.reader
        self._taking: tuple[int, float] | None = None
        self._skip = maker.skip
        self._memory_size = HEADER + room(specs, size)
        self._child: subprocess.Popen[bytes] | None = None
        self._file: IO[bytes] | None = None
        self._memory: Any = None
        self._header: Any = None

    def fill(self, chunk: Chunk, arrays: ChunkArrays, cancelled: Callable[[], bool]) -> Blanks:
        """Fill the arrays of a chunk, as `ChunkMaker.fill`."""
        deadly: dict[int, Failure] = {}
        deaths: Counter[int] = Counter()
        if chunk.ahead is not None:
            self._taking = int(chunk.rows[0]), time.perf_counter()
            chunk = replace(chunk, ahead=None, files=chunk.ahead.taken())
            self._taking = None
        while not cancelled():
            try:
                blanks, seconds, counts, error, objects = self._ask(chunk, arrays)
            except (EOFError, OSError, pickle.UnpicklingError):
                if self.abandoned:
                    break
                deadly |= self._bury(chunk, deaths)
                chunk = replace(chunk, known={*chunk.known, *deadly})
                continue
            self.stopwatch.add(seconds, counts)
            self.stopwatch.since = time.perf_counter()  # the process has measured what was before
            if error is not None:
                raise error
            for name, shared in shared_arrays(self._memory, _specs(arrays)).items():
                arrays[name][...] = objects.get(name, shared)
            rows = chunk.rows.tolist()
            return {place: why or deadly.get(rows[place]) for place, why in blanks.items()}
        return {}

    def _ask(self, chunk: Chunk, arrays: ChunkArrays) -> tuple[Any, ...]:
        if (child := self._child) is None:
            child = self._start()
        else:
            self._header[ROW] = NO_ROW  # it may have died since its last one
        _send((chunk, _specs(arrays)), child)
        with open(child.stdout.fileno(), "rb", closefd=False) as replies:  # type: ignore[union-attr]
            reply: tuple[Any, ...] = pickle.load(replies)
        return reply

    def _start(self) -> subprocess.Popen[bytes]:
        child = self._child = self._spawned_at_last()
        if self.abandoned:  # while it was started: `abandon` has not seen it
            child.kill()
        _send((self._payload.message, self._memory_size, os.getpid()), child)
        return child

    def _spawned_at_last(self) -> subprocess.Popen[bytes]:
        waits = iter(WAITS)
        while True:
            try:
                return self._spawned()
            except OSError as error:  # of this process, not of the one that there is not yet
                wait = next(waits, None) if is_outside(error) else None
                if wait is None or not waited(wait, lambda: self.abandoned):
                    advice = _MORE_FILES if error.errno in (errno.EMFILE, errno.ENFILE) else ""
                    raise StartError(f"a worker process cannot start: {error}{advice}") from error

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
                pass_fds=[handle, *self._payload.handles],
                env=environment,
                process_group=0,
            )

    def _bury(self, chunk: Chunk, deaths: Counter[int]) -> dict[int, Failure]:
        """Note which row the process died on; three times, and it is to be skipped: row -> why."""
        row, code = int(self._header[ROW]), self._end(_LAST)
        deaths[row] += 1
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        first, others = self._reader.where(int(chunk.rows[0])), len(chunk.rows) - 1
        made = f"{first} and {others} more" if others else first
        if deaths[STARTING] == _DEATHS:
            raise StartError(
                f"a worker process cannot start ({how}): see what it printed. It was to make {made}"
            )
        if deaths[row] == _DEATHS and row >= 0:
            cause = _SHORT * (code == -signal.SIGKILL)
            died = f"{_DEATHS} worker processes died on this row (the last: {how}{cause})"
            if not self._skip:
                raise WorkerError(f"{self._reader.where(row)}: {died}")
            del deaths[row]
            return {row: Failure(WORKER, died)}
        if deaths.total() == _MOST_DEATHS:
            raise WorkerError(
                f"{_MOST_DEATHS} worker processes died while they made {made} (the last: {how}), "
                f"less than {_DEATHS} times on any row: {_OTHER_CAUSES}"
            )
        return {}

    def _end(self, patience: float = _FAREWELL) -> int:
        child, self._child = self._child, None
        if child is None:
            return 0
        self._header[READING] = 0
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):  # what was not sent yet cannot be
                pipe.close()  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(patience)  # it may have ended by itself, and then knows why
        child.kill()
        return child.wait()

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when."""
        header = self._header
        if self._taking is not None or header is None:
            return self._taking
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
        """End the process and give back its memory."""
        self._end()
        if self._file is not None:
            self._file.close()
            self._file = self._header = self._memory = None


def _send(message: object, child: subprocess.Popen[bytes]) -> None:
    """Send a message through a buffer that is gone with it.

    A process that the user forks meanwhile would write its copy of the buffer when it ends.
    """
    with open(child.stdin.fileno(), "wb", closefd=False) as requests:  # type: ignore[union-attr]
        pickle.dump(message, requests)


def _specs(arrays: ChunkArrays) -> dict[str, Spec]:
    return {name: Spec(array.shape, array.dtype) for name, array in arrays.items()}


def pickled(maker: ChunkMaker) -> SharedPickle:
    """Return a ChunkMaker pickled, functions of a notebook or script by value, or refuse it."""
    if IS_WINDOWS:
        raise ArgumentError("use_multiprocessing=True does not work on Windows: use threads")
    for name, function in maker.reader.functions.items():
        _take_along(getattr(unwrapped(function), "__module__", None))
        try:
            pickled_by_value(function)
        except Exception as error:
            raise ArgumentError(
                f"{name}={function!r} cannot be sent to a worker process: "
                f"{type(error).__name__}: {error}. Create its content inside of it, or use threads"
            ) from error
    return SharedPickle(maker)


def _take_along(name: str | None) -> None:
    """Have cloudpickle send what a module defines that no process can import, as of `runpy`."""
    import cloudpickle

    module = sys.modules.get(name or "")
    if module is None or name in ("__main__", *cloudpickle.list_registry_pickle_by_value()):
        return
    package = module.__name__.partition(".")[0]
    if module.__name__ == name and not any(one.find_spec(package, None) for one in sys.meta_path):
        cloudpickle.register_pickle_by_value(module)
