"""The workers of a Loader: a pool of threads or processes, or another one if that is faster."""

import threading
from collections.abc import Callable, Mapping
from functools import partial

from dfgen.errors import ArgumentError
from dfgen.loading.workers.chunks import ChunkMaker
from dfgen.loading.workers.pool import CLOSED, Pool, Worker
from dfgen.loading.workers.processes import ProcessWorker, pickled
from dfgen.loading.workers.tuning import Choice, Chooser, may_be_processes, thread_counts
from dfgen.spec import Spec


class Workers:
    """Holds the pool that makes batches, and the one before while it finishes its tasks.

    Args:
        maker: makes chunks.
        count: the number of workers; 0 = the calling thread.
        processes: whether each worker has a process, with memory for `size` rows of `specs`.
        specs: the arrays of a chunk.
        size: rows of a chunk, at most.
        chooses: whether fewer threads, or processes, are used if they are faster.
    """

    def __init__(
        self,
        maker: ChunkMaker,
        count: int,
        processes: bool,
        specs: Mapping[str, Spec],
        size: int,
        chooses: bool = False,
    ) -> None:
        if processes and not count:
            raise ArgumentError("use_multiprocessing=True needs workers, got workers=0")
        self._maker, self._processes, self._memory = maker, processes, (specs, size)
        self._payload = pickled(maker) if processes else None
        self.used: Choice = count, processes
        """The number of workers that make batches, and whether they are processes."""
        self._chooser: Chooser | None = None
        if chooses and count > 1:
            choices = tuple((number, False) for number in thread_counts(count))
            also = (count, True) if may_be_processes(maker.reader) else None
            self._chooser = Chooser(choices, also)
        self._pools: dict[Choice, Pool] = {}
        self._lock = threading.Lock()
        self._closed = False

    def start(self, begin: Callable[[Pool], None]) -> None:
        """Call `begin` with the pool that makes batches now."""
        with self._lock:
            if self._closed:
                raise ArgumentError(CLOSED)
            count, processes = self.used
            if self.used not in self._pools:
                make: Callable[[], Worker] = partial(Worker, self._maker.fill)
                if processes:
                    payload = self._payload or pickled(self._maker)
                    parts = self._maker, payload, *self._memory, not self._processes
                    make = partial(ProcessWorker, *parts)
                self._pools[self.used] = Pool(count, make)
            begin(self._pools[self.used])

    def note(self, rows: int, waited: float, now: float) -> None:
        """Note that a consumer has taken a batch, as `Chooser.note`.

        If several threads take batches, one of them is enough to measure the rate.
        """
        chooser = self._chooser
        if chooser is None or chooser.done or not self._lock.acquire(blocking=False):
            return
        try:
            self.used = chooser.note(rows, waited, now)
            if chooser.done:
                for choice, pool in self._pools.items():
                    if choice != self.used:
                        pool.drain()
        finally:
            self._lock.release()

    @property
    def started(self) -> list[Worker]:
        """The workers that have started, abandoned ones included."""
        return [worker for pool in [*self._pools.values()] for worker in pool.workers]

    @property
    def abandoned(self) -> int:
        """How many workers were late, and replaced."""
        return sum(pool.replaced for pool in [*self._pools.values()])

    def close(self) -> None:
        """End the workers."""
        with self._lock:
            self._closed, pools = True, [*self._pools.values()]
        for pool in pools:
            pool.close()
