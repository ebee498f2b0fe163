"""The workers of a Loader: threads, processes, or the calling thread."""

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dfgen.errors import ArgumentError, ReadTimeoutError
from dfgen.loading.workers.chunks import Blanks, Chunk, ChunkArrays, ChunkMaker
from dfgen.loading.workers.processes import ProcessWorker, StartError, pickled
from dfgen.loading.workers.threads import CLOSED, Task, Threads, ThreadWorker, Worker
from dfgen.loading.workers.tuning import Chooser, may_be_processes, thread_counts
from dfgen.spec import Spec

_Choice = tuple[int, bool]  # the number of workers, and whether they are processes
_LOOK = 1.0  # seconds between two looks for late workers, at most
_MOST_STUCK = 32  # abandoned threads that have not come back, each with the memory of a batch


class TriedProcessWorker(ProcessWorker):
    """A worker process that nobody has asked for: if it cannot start, its thread does the work."""

    def __init__(self, maker: ChunkMaker, *arguments: Any) -> None:
        super().__init__(maker, *arguments)
        self._maker, self._starts = maker, True

    def fill(self, chunk: Chunk, arrays: ChunkArrays, cancelled: Callable[[], bool]) -> Blanks:
        """Fill the arrays of a chunk, as `ChunkMaker.fill`."""
        if self._starts:
            try:
                return super().fill(chunk, arrays, cancelled)
            except StartError:
                self._starts = False
        return self._maker.fill(
            chunk, arrays, self.stopwatch, lambda: cancelled() or self.abandoned
        )

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when."""
        return super().file() if self._starts else self.stopwatch.file()


class Pool:
    """Runs tasks on workers, which start with the first task.

    Args:
        maker: makes chunks.
        workers: the number of workers; 0 = the calling thread.
        processes: whether each worker has a process, with memory for `size` rows of `specs`.
        specs: the arrays of a chunk.
        size: rows of a chunk, at most.
        chooses: whether fewer threads, or processes, make batches if they are faster.
    """

    def __init__(
        self,
        maker: ChunkMaker,
        workers: int,
        processes: bool,
        specs: Mapping[str, Spec],
        size: int,
        chooses: bool = False,
    ) -> None:
        if processes and not workers:
            raise ArgumentError("use_multiprocessing=True needs workers, got workers=0")
        self._arguments = (maker, workers, processes, specs, size, chooses)
        self._maker, self._payload = maker, pickled(maker) if processes else None
        self._used: _Choice = workers, processes
        self._chooser: Chooser[_Choice] | None = None
        if chooses and workers > 1:
            choices = [(count, False) for count in thread_counts(workers)]
            also = (workers, True) if may_be_processes(maker.reader) else None
            self._chooser = Chooser(tuple(choices), also)
        self._caller = ThreadWorker(maker)
        self._threads: dict[_Choice, Threads] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._looked = time.perf_counter()  # when a consumer last waited for a batch
        self._stood_still = 0.0  # until when this process may have been stopped, as by Ctrl-Z

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, self._arguments

    def reseeded(self, maker: ChunkMaker) -> "Pool":
        """Return a pool like this one for another maker, and close this one."""
        self.close()
        return Pool(maker, *self._arguments[1:])

    @property
    def workers(self) -> list[Worker]:
        """The workers that have started, abandoned ones included."""
        if not self._arguments[1]:
            return [self._caller]
        return [worker for threads in [*self._threads.values()] for worker in threads.workers]

    def run(self, task: Task) -> None:
        """Run a task, which must not raise, as soon as a worker is free."""
        if not self._arguments[1]:
            task(self._caller)
            return
        with self._lock:
            if self._closed:
                raise ArgumentError(CLOSED)
            if self._used not in self._threads:
                count, process = self._used
                self._threads[self._used] = Threads(count, self._make_worker(process))
            self._threads[self._used].submit(task)

    def _make_worker(self, process: bool) -> Callable[[], Worker]:
        """Return what makes a worker; it has no reference to the pool."""
        maker, (specs, size) = self._maker, self._arguments[3:5]
        if not process:
            return partial(ThreadWorker, maker)
        kind = ProcessWorker if self.processes else TriedProcessWorker
        return partial(kind, maker, self._payload or pickled(maker), specs, size)

    def note(self, rows: int, waited: float, now: float) -> None:
        """Note that a consumer has taken a batch, as `Chooser.note`.

        If several threads take batches, one of them is enough to measure the rate.
        """
        chooser = self._chooser
        if chooser is None or chooser.done or not self._lock.acquire(blocking=False):
            return
        try:
            self._used = chooser.note(rows, waited, now)
            if chooser.done:
                for choice, threads in self._threads.items():
                    if choice != self._used:
                        threads.drain()
        finally:
            self._lock.release()

    @property
    def processes(self) -> bool:
        """Whether processes were asked for."""
        return bool(self._arguments[2])

    @property
    def used(self) -> int:
        """The number of workers that make batches."""
        return self._used[0]

    @property
    def in_processes(self) -> bool:
        """Whether processes make batches."""
        return self._used[1]

    @property
    def abandoned(self) -> int:
        """How many workers were late, and replaced."""
        return sum(threads.replaced for threads in self._threads.values())

    def wait(self, pending: Any, timeout: float | None) -> set[int | None]:
        """Wait for a `PendingBatch`; return the rows that are late, for which it was given up.

        Late workers on other batches are replaced too.

        Raises:
            ArgumentError: the pool was closed meanwhile.
            ReadTimeoutError: too many workers are stuck.
        """
        seconds = _LOOK if timeout is None else min(timeout / 4, _LOOK)
        self._now(timeout)
        while not pending.late and not pending.wait(seconds):
            now = self._now(timeout)
            if (pending.cancelled and not pending.late) or self._closed:
                raise ArgumentError(CLOSED)
            if timeout is not None:
                for threads in [*self._threads.values()]:
                    self._replace_late(threads, timeout, now)
        late: set[int | None] = pending.late
        return late

    def _now(self, timeout: float | None) -> float:
        """Return the time; after a long gap, this process may have been stopped until now."""
        now = time.perf_counter()
        if timeout is not None and now - self._looked > _LOOK + timeout / 4:
            self._stood_still = now
        self._looked = now
        return now

    def _replace_late(self, threads: Threads, timeout: float, now: float) -> None:
        for worker in tuple(threads.workers):
            pending, file = worker.busy_with, worker.file()
            if worker.abandoned or file is None:
                continue
            if now - max(file[1], self._stood_still) <= timeout:
                continue
            if worker.busy_with is not pending:
                continue  # it has come back meanwhile
            if threads.stuck >= _MOST_STUCK:
                raise ReadTimeoutError(
                    f"{_MOST_STUCK} files took longer than limits.read_timeout={timeout} seconds "
                    "and have not come back, and now another: check whether their drive answers"
                )
            pending.give_up(file[0])
            threads.replace(worker)

    def close(self) -> None:
        """End the workers."""
        with self._lock:
            self._closed, running = True, [*self._threads.values()]
        for threads in running:
            threads.close()
