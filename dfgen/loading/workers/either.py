"""EitherWorker: makes chunks in its thread, or in a process of its own, whichever is faster."""

import sys
import threading
from collections.abc import Callable, Mapping

from dfgen.loading.workers.chunks import Blanks, Chunk, ChunkArrays, ChunkMaker
from dfgen.loading.workers.processes import ProcessWorker, StartError, pickled
from dfgen.loading.workers.shared_memory import SharedPickle
from dfgen.loading.workers.threads import ThreadWorker
from dfgen.samples.features.spec import Spec
from dfgen.samples.reader import SampleReader

_MOST = 1 << 28  # bytes of columns that are copied for processes


class Switch:
    """Says where the workers of a pool make their chunks.

    Args:
        maker: of the chunks.
        specs: of their arrays.
        size: rows that a chunk has at most.
    """

    def __init__(self, maker: ChunkMaker, specs: Mapping[str, Spec], size: int) -> None:
        self.maker = maker
        self.in_processes = False
        self.is_over = False
        """Whether no process is needed any more."""
        self._specs, self._size = specs, size
        self._lock = threading.Lock()
        self._payload: SharedPickle | None = None

    def process_worker(self) -> ProcessWorker:
        """Return a worker with a process, all of which share what they are sent at their start."""
        with self._lock:
            if self._payload is None:
                self._payload = pickled(self.maker)
        return ProcessWorker(self.maker, self._payload, self._specs, self._size)


class EitherWorker(ThreadWorker):
    """Makes chunks where a Switch says, with the same in them.

    A process starts with the first chunk that is made there, and rests while none is. Where it
    cannot start, its thread does the work, as nobody has asked for a process.
    """

    def __init__(self, switch: Switch) -> None:
        super().__init__(switch.maker)
        self._switch = switch
        self._process: ProcessWorker | None = None
        self._at_work = threading.Lock()

    def fill(self, chunk: Chunk, arrays: ChunkArrays, cancelled: Callable[[], bool]) -> Blanks:
        """Fill the arrays of a chunk, as `ChunkMaker.fill`."""
        if self._switch.is_over:
            self.end_process()
        elif self._switch.in_processes:
            try:
                with self._at_work:
                    return self._with_process().fill(chunk, arrays, cancelled)
            except StartError:
                self._switch.is_over = True
        return super().fill(chunk, arrays, cancelled)

    def _with_process(self) -> ProcessWorker:
        if self._process is None:
            self._process = self._switch.process_worker()
            self._process.stopwatch = self.stopwatch
            if self.abandoned:  # meanwhile
                self._process.abandon()
        return self._process

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when."""
        process = self._process
        return (None if process is None else process.file()) or super().file()

    def abandon(self) -> None:
        """Give up a worker that may never come back, and end its process."""
        super().abandon()
        if (process := self._process) is not None:
            process.abandon()

    def end_process(self) -> None:
        """End the process, from any thread; one that is at work ends before the next chunk."""
        if self._at_work.acquire(blocking=False):
            try:
                self.close()
            finally:
                self._at_work.release()

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.close()


def may_be_processes(reader: SampleReader) -> bool:
    """Whether rows may be made in processes though nobody has asked for it.

    Loose files of this machine, that is: functions of the user's would run on copies of what they
    share with the program, and what is held in memory or mapped would be held, or copied, by each.
    """
    files = [bound.files for bound in reader.features if bound.files is not None]
    return (
        sys.platform == "linux"
        and bool(files)
        and not reader.store.far
        and not reader.cached
        and not any(function is not None for function in reader.functions.values())
        and all(
            bound.packed is None and bound.pixels is None and bound.feature.index is None
            for bound in reader.features
        )
        and sum(getattr(column, "nbytes", _MOST + 1) for column in files) <= _MOST
    )
