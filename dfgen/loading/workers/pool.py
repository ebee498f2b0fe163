"""Pools of workers: daemon threads, each with a process if it has one, or the waiting thread."""

import contextlib
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from dfgen.errors import ArgumentError, ReadTimeoutError, WorkerError
from dfgen.loading.metrics import Stopwatch
from dfgen.samples.pixels.decoders import prepare_worker

CLOSED = "this Sequence was closed: make a new one"
_PATIENCE = 2.0  # seconds that closing waits for threads, in case one is stuck in a read
_LOOK = 1.0  # seconds between two looks for late workers, at most
_MOST_STUCK = 32  # abandoned threads that are still stuck, each with the memory of a batch


class Worker:
    """Makes chunks on one thread.

    An abandoned worker may be stuck in a read. The chunk that it makes may be incomplete, and
    another worker makes it again.

    Args:
        fill: makes a chunk, as `ChunkMaker.fill`.
    """

    def __init__(self, fill: Callable[..., Any] | None = None) -> None:
        if fill is not None:
            self.fill = fill
        self.stopwatch = Stopwatch()
        self.abandoned = False
        self.batch: Any = None  # the PendingBatch that it works on
        self.thread = 0  # that works on it

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when by `time.perf_counter`."""
        return self.stopwatch.file()

    def abandon(self) -> None:
        """Give up the worker; its thread ends when its read does."""
        self.abandoned = True

    def close(self) -> None:
        """Release resources."""


Task = Callable[[Any], None]
"""What a worker is passed to."""


class Pool:
    """Runs tasks in order of submission on daemon threads, or with `count=0` on the waiting thread.

    Not a `ThreadPoolExecutor`: the interpreter joins that at exit, and would wait for every batch
    in the making. Threads start with the first task. They refer to the queue alone, so they end
    when the pool is collected, and before the interpreter does: a daemon thread that is stopped
    inside OpenCV would abort the process. A forked process has no threads, so the pool is closed
    there.

    Args:
        count: the number of threads.
        make_worker: returns the worker of a new thread; without a reference to the pool.
    """

    def __init__(self, count: int, make_worker: Callable[[], Worker]) -> None:
        self._count, self._make_worker = count, make_worker
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.workers: list[Worker] = [] if count else [make_worker()]
        """In the order in which they started, abandoned ones included."""
        self.replaced = 0
        """Workers that were late and were replaced."""
        self._process = os.getpid()
        self._finalizer = weakref.finalize(
            self, _stop, self._process, self._tasks, self.workers, self._threads
        )

    @property
    def closed(self) -> bool:
        """Whether tasks are no longer run."""
        return not self._finalizer.alive or self._process != os.getpid()

    def submit(self, task: Task) -> None:
        """Run a task, which must not raise, as soon as a thread is free."""
        with self._lock:
            if self.closed:
                raise ArgumentError(CLOSED)
            while len(self._threads) < self._count:
                self._start()
            self._tasks.put(task)

    def wait(self, batch: Any, timeout: float | None) -> set[int | None]:
        """Wait for a PendingBatch; return its late rows, None for one of an abandoned worker.

        A worker is late if its file takes longer than `timeout` seconds; another one replaces it.

        Raises:
            ArgumentError: the pool was closed.
            ReadTimeoutError: too many workers are stuck.
        """
        with contextlib.suppress(Empty):
            while not (self._count or batch.done.is_set()):
                self._tasks.get_nowait()(self.workers[0])  # type: ignore[misc]
        timeout = timeout if self._count else None  # a caller cannot be replaced
        seconds = _LOOK if timeout is None else min(timeout / 4, _LOOK)
        looks = Counter[tuple[int, float]]()  # at each file; none while Ctrl-Z stops this process
        while not batch.late and not batch.done.wait(seconds):
            if (batch.cancelled and not batch.late) or self.closed:
                raise ArgumentError(CLOSED)
            for worker in tuple(self.workers) if timeout is not None else ():
                pending, file = worker.batch, worker.file()
                if file is not None and not worker.abandoned:
                    looks[file] += 1
                    if looks[file] * seconds > timeout:  # type: ignore[operator]
                        self._check_stuck(timeout)
                        pending.give_up(file[0])
                        self.replace(worker)
        late: set[int | None] = batch.late
        return late

    def _check_stuck(self, timeout: float | None) -> None:
        pairs = zip(self.workers, self._threads, strict=False)
        if sum(one.abandoned and thread.is_alive() for one, thread in pairs) >= _MOST_STUCK:
            raise ReadTimeoutError(
                f"{_MOST_STUCK} files took longer than limits.read_timeout={timeout} seconds and "
                "are still being read, and now another: check whether their drive answers"
            )

    def replace(self, worker: Worker) -> None:
        """Abandon a stuck worker and start another one."""
        with self._lock:
            if not worker.abandoned:
                self._start()
                self.replaced += 1
                worker.abandon()

    def drain(self) -> None:
        """Have the threads end after the tasks that were submitted."""
        for _ in self._threads:
            self._tasks.put(None)

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            alive = self._finalizer.detach()
        if alive:
            _stop(*alive[2])

    def _start(self) -> None:
        worker = self._make_worker()
        arguments: Any = (self._tasks, worker)
        name = f"dfgen-{len(self.workers)}"
        thread = threading.Thread(target=_run, args=arguments, name=name, daemon=True)
        # before it starts: after a Ctrl-C in its start, `_stop` must know it
        self.workers.append(worker)
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError as error:
            del self.workers[-1], self._threads[-1]
            worker.close()
            raise WorkerError(
                f"thread {len(self.workers) + 1} of {self._count} cannot start ({error}): allow "
                "more processes, as by ulimit -u, or give fewer workers="
            ) from error


def _run(tasks: "SimpleQueue[Task | None]", worker: Worker) -> None:
    prepare_worker()
    try:
        while not worker.abandoned and (task := tasks.get()) is not None:
            task(worker)
            del task  # else the thread would keep the batch until its next task
    finally:
        worker.close()


def _stop(
    process: int,
    tasks: "SimpleQueue[Task | None]",
    workers: list[Worker],
    threads: list[threading.Thread],
) -> None:
    """End the threads; tasks that have not begun are not run.

    It takes no lock, because the garbage collector may call it in any thread.
    """
    if process != os.getpid():
        return
    pairs = zip(workers, threads, strict=False)
    ending = [thread for worker, thread in pairs if not worker.abandoned]
    for worker in workers:
        worker.abandon()
        tasks.put(None)
    end = time.monotonic() + _PATIENCE
    for thread in ending:
        if thread.ident and thread is not threading.current_thread():
            thread.join(max(0.0, end - time.monotonic()))
