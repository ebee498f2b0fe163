"""Decode threads: OpenCV, Pillow, NumPy and file reads release the GIL."""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from dfgen.errors import ArgumentError, WorkerError
from dfgen.loading.metrics import Stopwatch
from dfgen.loading.workers.chunks import Blanks, Chunk, ChunkArrays, ChunkMaker
from dfgen.samples.pixels.decoders import prepare_worker


class Worker:
    """Base class of workers. Each belongs to one thread.

    A chunk that an abandoned worker makes may not be whole: another worker makes it again.
    """

    def __init__(self) -> None:
        self.stopwatch = Stopwatch()
        self.abandoned = False
        self.busy_with: Any = None

    def fill(self, chunk: Chunk, arrays: ChunkArrays, cancelled: Callable[[], bool]) -> Blanks:
        """Fill the arrays of a chunk, as `ChunkMaker.fill`."""
        return {}

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when by `time.perf_counter`."""
        return None

    def abandon(self) -> None:
        """Give up a worker that may never come back; its thread ends when its read does."""
        self.abandoned = True

    def close(self) -> None:
        """Release what the worker holds."""


class ThreadWorker(Worker):
    """Makes chunks in the thread itself."""

    def __init__(self, maker: ChunkMaker) -> None:
        super().__init__()
        self._maker = maker

    def fill(self, chunk: Chunk, arrays: ChunkArrays, cancelled: Callable[[], bool]) -> Blanks:
        """Fill the arrays of a chunk, as `ChunkMaker.fill`."""
        return self._maker.fill(
            chunk, arrays, self.stopwatch, lambda: cancelled() or self.abandoned
        )

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when."""
        return self.stopwatch.file()


Task = Callable[[Worker], None]
CLOSED = "this Sequence was closed: make a new one"
_PATIENCE = 2.0  # seconds that closing waits for threads, one of which may be stuck in a read


class Threads:
    """Runs tasks in order of submission on daemon threads.

    Not a `ThreadPoolExecutor`: the interpreter joins that at exit, and would wait for every batch
    that is being made. Threads start with the first task. They hold the queue alone, so they end
    when nobody references this object, and before the interpreter does: a daemon thread that is
    stopped inside of OpenCV would abort the process. Abandoned threads are not waited for. A
    forked process has no threads, and leaves them alone.
    """

    def __init__(self, count: int, make_worker: Callable[[], Worker]) -> None:
        self._count, self._make_worker = count, make_worker
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.workers: list[Worker] = []
        """In the order in which they started, abandoned ones included."""
        self.replaced = 0
        self._finalizer = weakref.finalize(
            self, _stop, os.getpid(), self._tasks, self.workers, self._threads
        )

    @property
    def closed(self) -> bool:
        """Whether they run no more tasks."""
        return not self._finalizer.alive

    @property
    def stuck(self) -> int:
        """How many abandoned threads have not come back."""
        pairs = zip(self.workers, self._threads, strict=False)
        return sum(worker.abandoned and thread.is_alive() for worker, thread in pairs)

    def submit(self, task: Task) -> None:
        """Run a task, which must not raise, as soon as a thread is free."""
        with self._lock:
            if self.closed:
                raise ArgumentError(CLOSED)
            while len(self.workers) < self._count:
                self._start()
            self._tasks.put(task)

    def replace(self, worker: Worker) -> None:
        """Start another worker, and abandon one that is stuck."""
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
        """End the threads; tasks that have not begun are cancelled."""
        refusing = Worker()
        refusing.abandon()
        with self._lock:
            for task in self._finalizer() or ():
                task(refusing)

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
) -> list[Task]:
    """End the threads; return the tasks that have not begun.

    It takes no lock, because the garbage collector may call it in any thread.
    """
    if process != os.getpid():
        return []
    ending = [
        thread for worker, thread in zip(workers, threads, strict=False) if not worker.abandoned
    ]
    for worker in workers:
        worker.abandon()
    left = list[Task]()
    with contextlib.suppress(Empty):
        while True:
            if (task := tasks.get_nowait()) is not None:
                left.append(task)
    for _ in threads:
        tasks.put(None)
    end = time.monotonic() + _PATIENCE
    for thread in ending:
        if thread.ident and thread is not threading.current_thread():
            thread.join(max(0.0, end - time.monotonic()))
    return left
