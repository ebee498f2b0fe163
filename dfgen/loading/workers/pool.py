"""The workers of a Loader: threads, processes, or the calling thread alone."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dfgen.errors import ArgumentError, ReadTimeoutError
from dfgen.loading.workers.chunks import ChunkMaker
from dfgen.loading.workers.processes import ProcessWorker, pickled
from dfgen.loading.workers.threads import CLOSED, MOST_STUCK, Task, Threads, ThreadWorker, Worker
from dfgen.loading.workers.worker_tuning import (
    Chooser,
    EitherWorker,
    Switch,
    may_be_processes,
    thread_counts,
)
from dfgen.spec import Spec

_Choice = tuple[int, bool]  # how many workers, and whether they are processes
_LOOK = 1.0  # seconds, at most, between two looks for late workers of whoever waits for a batch


class Pool:
    """Runs tasks on workers, which start with the first task and anew wherever it is sent.

    With `processes` each has one to make its chunks, with memory for `size` rows of `specs`. If it
    `chooses`, fewer threads are used, or processes, where those turn out to be faster.
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
        self._caller = ThreadWorker(maker)
        make: Any = partial(ThreadWorker, maker)
        if processes:
            make = partial(ProcessWorker, maker, pickled(maker), specs, size)
        self._switch = Switch(maker, specs, size)
        self._chooser: Chooser[_Choice] | None = None
        if chooses and workers > 1:
            late = (workers, True) if may_be_processes(maker.reader) else None
            self._chooser = Chooser(tuple((n, False) for n in thread_counts(workers)), late)
            self._switch.is_over = late is None
            make = partial(EitherWorker, self._switch) if late else make
        self._threads = Threads(workers, make) if workers else None
        self._noting = threading.Lock()
        self._looked = time.perf_counter()  # when somebody last waited for a batch
        self._stood_still = 0.0  # until when this process may have been stopped, as by Ctrl-Z

    def __reduce__(self) -> tuple[Any, ...]:
        return Pool, self._arguments

    def reseeded(self, maker: ChunkMaker) -> "Pool":
        """Return a pool like this one for another maker, and close this one."""
        self.close()
        return Pool(maker, *self._arguments[1:])

    @property
    def workers(self) -> Sequence[Worker]:
        """Those that have started, also the abandoned ones; else what the calling thread has."""
        return [self._caller] if self._threads is None else self._threads.workers

    def run(self, task: Task) -> None:
        """Run a task, which must not raise, as soon as a worker is free."""
        if self._threads is None:
            task(self._caller)
        else:
            self._threads.submit(task)

    def note(self, rows: int, waited: float, now: float) -> None:
        """Note that a batch was handed out, as `Chooser.note`, and use as many threads as it says.

        If several threads take batches, one is enough to say how fast they come.
        """
        if self._chooser is None or not self._noting.acquire(blocking=False):
            return
        try:
            before = self._chooser.used
            if before != (used := self._chooser.note(rows, waited, now)):
                self._threads.use(used[0])  # type: ignore[union-attr]
                self._switch.in_processes = used[1]
            if self._chooser.late is None and not self._switch.is_over:
                self._switch.is_over = True
                for worker in self.workers:
                    if worker.resting:  # the others end theirs before the next chunk
                        worker.end_process()  # type: ignore[attr-defined]
        finally:
            self._noting.release()

    @property
    def processes(self) -> bool:
        """Whether processes make batches."""
        return bool(self._arguments[2])

    @property
    def used(self) -> int:
        """How many workers make batches, as far as that is chosen."""
        return self._arguments[1] if self._chooser is None else self._chooser.chosen[0]

    @property
    def in_processes(self) -> bool:
        """Whether processes make batches, as far as that is chosen."""
        if self._chooser is None:
            return self.processes
        return self._chooser.chosen[1] and not self._switch.is_over

    @property
    def abandoned(self) -> int:
        """How many workers were late, and replaced."""
        return 0 if self._threads is None else self._threads.replaced

    def wait(self, pending: Any, timeout: float | None) -> set[int | None]:
        """Wait for a `PendingBatch`; return what it was given up for: rows that are late, mostly.

        Late workers on other batches are replaced too: those learn it, and tell when they come.

        Raises:
            ArgumentError: it was closed meanwhile.
            ReadTimeoutError: too many workers are stuck.
        """
        seconds = _LOOK if timeout is None else min(timeout / 4, _LOOK)
        self._now(timeout)
        while not pending.late and not pending.wait(seconds):
            now = self._now(timeout)
            if (pending.cancelled and not pending.late) or self._threads.closed:  # type: ignore[union-attr]
                raise ArgumentError(CLOSED)
            if timeout is not None:
                self._replace_late(timeout, now)
        late: set[int | None] = pending.late
        return late

    def _now(self, timeout: float | None) -> float:
        """Return the time; if nobody asked for long, this process may have stood still till now."""
        now = time.perf_counter()
        if timeout is not None and now - self._looked > _LOOK + timeout / 4:
            self._stood_still = now
        self._looked = now
        return now

    def _replace_late(self, timeout: float, now: float) -> None:
        threads: Any = self._threads
        for worker in tuple(self.workers):
            pending, file = worker.busy_with, worker.file()
            if worker.abandoned or file is None:
                continue
            if now - max(file[1], self._stood_still) <= timeout:
                continue
            if worker.busy_with is not pending:
                continue  # it has come back meanwhile
            if threads.stuck >= MOST_STUCK:
                raise ReadTimeoutError(
                    f"{MOST_STUCK} files took longer than limits.read_timeout={timeout} seconds "
                    "and have not come back, and now another: see whether their drive answers"
                )
            pending.give_up(file[0])
            threads.replace(worker)

    def close(self) -> None:
        """End the workers."""
        if self._threads is not None:
            self._threads.close()
