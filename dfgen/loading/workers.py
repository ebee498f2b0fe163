"""Decode threads: OpenCV, Pillow, NumPy and file reads release the GIL."""

import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

from dfgen.errors import ArgumentError

Task = Callable[[], None]


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Threads:
    """Runs tasks in order of submission on daemon threads of its own.

    Not a `ThreadPoolExecutor`, which is joined when the interpreter exits and so would wait there
    for every batch still in the making. Threads start with the first task.

    Args:
        workers: number of threads, at least 1.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._started = False
        self._lock = threading.Lock()
        # Threads hold the queue only, so a loader that nobody holds ends them.
        self._finalizer = weakref.finalize(self, _stop, self._tasks, workers)

    def submit(self, task: Task) -> None:
        """Run a task, which must not raise, as soon as a thread is free."""
        with self._lock:
            if not self._finalizer.alive:
                raise ArgumentError("this Sequence was closed: make a new one")
            if not self._started:
                self._started = True
                for number in range(self._workers):
                    threading.Thread(
                        target=_run, args=(self._tasks,), name=f"dfgen-{number}", daemon=True
                    ).start()
            self._tasks.put(task)

    def close(self) -> None:
        """End the threads after the tasks that were submitted."""
        with self._lock:
            self._finalizer()


def _run(tasks: "SimpleQueue[Task | None]") -> None:
    while (task := tasks.get()) is not None:
        task()
        del task  # or the thread would keep the batch until its next task


def _stop(tasks: "SimpleQueue[Task | None]", workers: int) -> None:
    for _ in range(workers):
        tasks.put(None)
