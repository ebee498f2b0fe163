"""Decode threads: OpenCV, Pillow, NumPy and file reads release the GIL."""

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

from dfgen.errors import ArgumentError, WorkerError, warn
from dfgen.loading.metrics import Stopwatch
from dfgen.loading.workers.chunks import Blanks, Chunk, ChunkArrays, ChunkMaker
from dfgen.samples.pixels.decoders import prepare_worker


class Worker:
    """Makes chunks for one thread, which owns it; of this class itself, it makes none.

    A chunk that it makes once abandoned, or has in hand then, may not be whole: it is made anew.
    """

    def __init__(self) -> None:
        self.stopwatch = Stopwatch()
        self.abandoned = False
        self.busy_with: Any = None
        self.resting = False
        """Whether its thread rests before its next task."""
        self._woken: SimpleQueue[None] = SimpleQueue()

    def fill(self, chunk: Chunk, arrays: ChunkArrays, cancelled: Callable[[], bool]) -> Blanks:
        """Fill the arrays of a chunk, as `ChunkMaker.fill`."""
        return {}

    def file(self) -> tuple[int, float] | None:
        """Return the row whose file is read or decoded, and since when by `time.perf_counter`."""
        return None

    def abandon(self) -> None:
        """Give up a worker that may never come back; its thread ends when its read does."""
        self.abandoned = True
        self._woken.put(None)

    def wake(self) -> None:
        """Let its thread rest no more."""
        self.resting = False
        self._woken.put(None)

    def rest(self) -> None:
        """Wait until it is woken or abandoned, if it is to rest."""
        while self.resting and not self.abandoned:
            self._woken.get()

    def close(self) -> None:
        """Give back what the worker holds."""


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
MOST_STUCK = 32
"""Threads given up that have not come back, each with the memory of a batch: no more are."""


class Threads:
    """Runs tasks in order of submission on daemon threads of its own.

    Not a `ThreadPoolExecutor`, which is joined when the interpreter exits and so would wait there
    for every batch still in the making. Threads start with the first task. They end when nobody
    holds this object any more, since they hold its queue only, and before the interpreter does: a
    daemon thread that it stops inside of OpenCV would abort the process. Those that were given up
    are not waited for. A process that was forked has none of them, and leaves them alone.
    """

    def __init__(self, count: int, make_worker: Callable[[], Worker]) -> None:
        self._count = count
        self._process = os.getpid()
        self._make_worker = make_worker
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self.workers: list[Worker] = []
        """In the order in which they started; also those abandoned."""
        self.replaced = 0
        self._awake = count
        self._finalizer = weakref.finalize(
            self, _stop, self._process, self._tasks, self.workers, self._threads
        )

    @property
    def closed(self) -> bool:
        """Whether they run no more tasks."""
        return not self._finalizer.alive

    @property
    def stuck(self) -> int:
        """How many abandoned ones have not come back."""
        pairs = zip(self.workers, self._threads, strict=False)
        return sum(worker.abandoned and thread.is_alive() for worker, thread in pairs)

    def submit(self, task: Task) -> None:
        """Run a task, which must not raise, as soon as a thread is free."""
        with self._lock:
            if self.closed:
                raise ArgumentError(CLOSED)
            wanted, fault = self._count, None
            while len(self.workers) < self._count:
                if (fault := self._start()) is not None:
                    if not self.workers:
                        raise _none_started(fault) from fault
                    self._count = len(self.workers)
            self._tasks.put(task)
        if fault is not None:  # last, since a warning may be an error
            warn(
                f"only {len(self.workers)} of {wanted} threads can be started ({fault}), which do "
                "the work: allow more processes, as by ulimit -u, or give fewer workers="
            )

    def replace(self, worker: Worker) -> None:
        """Start another worker, and abandon one that is stuck."""
        with self._lock:
            if not worker.abandoned:
                if (fault := self._start()) is not None:
                    raise _none_started(fault) from fault
                self.replaced += 1
                worker.abandon()
                self._wake()

    def use(self, count: int) -> None:
        """Have so many threads run tasks from now on; the others rest after the task in hand."""
        with self._lock:
            self._awake = count
            self._wake()

    def _wake(self) -> None:
        there = [worker for worker in self.workers if not worker.abandoned]
        for place, worker in enumerate(there):
            if place < self._awake:
                worker.wake()
            else:
                worker.resting = True

    def close(self) -> None:
        """End the threads; tasks not begun are refused, and what is being made is given up."""
        refusing = Worker()
        refusing.abandon()
        with self._lock:
            for task in self._finalizer() or ():
                task(refusing)

    def _start(self) -> RuntimeError | None:
        """Start a thread; return why the system, as without room for another one, starts none."""
        worker = self._make_worker()
        arguments: Any = (self._tasks, worker)
        name = f"dfgen-{len(self.workers)}"
        thread = threading.Thread(target=_run, args=arguments, name=name, daemon=True)
        # before it starts: after a Ctrl-C in its start, it must be told to end too
        self.workers.append(worker)
        self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError as error:
            del self.workers[-1], self._threads[-1]
            worker.close()
            return error
        self._wake()
        return None


def _none_started(fault: RuntimeError) -> WorkerError:
    return WorkerError(
        f"no thread can be started ({fault}): allow more processes, as by ulimit -u, or more "
        "memory, or give workers=0"
    )


def _run(tasks: "SimpleQueue[Task | None]", worker: Worker) -> None:
    prepare_worker()
    try:
        while True:
            worker.rest()
            if worker.abandoned or (task := tasks.get()) is None:
                return
            task(worker)
            del task  # or the thread would keep the batch until its next task
    finally:
        worker.close()


def _stop(
    process: int,
    tasks: "SimpleQueue[Task | None]",
    workers: list[Worker],
    threads: list[threading.Thread],
) -> list[Task]:
    """End the threads; return tasks that nobody has begun.

    It takes no lock, since it runs wherever garbage is collected: in a thread that has one, even.
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
