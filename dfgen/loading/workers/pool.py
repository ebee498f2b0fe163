"""The workers of a Loader: threads, processes, or the calling thread alone."""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dfgen.errors import ArgumentError
from dfgen.loading.workers.chunks import ChunkMaker
from dfgen.loading.workers.processes import ProcessWorker, pickled
from dfgen.loading.workers.threads import Task, Threads, ThreadWorker, Worker
from dfgen.samples.features.spec import Spec


class Pool:
    """Runs tasks on workers, which start with the first task and anew wherever it is sent.

    With `processes` each has one to make its chunks, with memory for `size` rows of `specs`.
    """

    def __init__(
        self, maker: ChunkMaker, workers: int, processes: bool, specs: Mapping[str, Spec], size: int
    ) -> None:
        if processes and not workers:
            raise ArgumentError("use_multiprocessing=True needs workers, got workers=0")
        self._arguments = (maker, workers, processes, specs, size)
        self._caller = ThreadWorker(maker)
        make: Any = partial(ThreadWorker, maker)
        if processes:
            make = partial(ProcessWorker, maker, pickled(maker), specs, size)
        self._threads = Threads(workers, make) if workers else None

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

    def wait(self, pending: Any, timeout: float | None) -> int | None:
        """Wait for a `PendingBatch`; give it up and return its row whose read takes too long."""
        while not pending.wait(None if timeout is None else timeout / 4):
            for worker in self.workers:
                row, since = worker.reading() or (-1, 0.0)
                spent = time.perf_counter() - since
                if timeout and row >= 0 and spent > timeout and worker.busy_with is pending:
                    pending.cancelled = True
                    self._threads.replace(worker)  # type: ignore[union-attr]
                    return row
        return None

    def close(self) -> None:
        """End the workers."""
        if self._threads is not None:
            self._threads.close()
