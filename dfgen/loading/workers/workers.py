"""The workers of a Loader: a pool of threads or processes, or another one if that is faster.

The number of threads, or processes, that makes rows fastest is measured once, if rows are small. A
row of a few kB takes little longer than waking a thread that waits for the GIL: on some machines
two threads make half as many rows as one, on others nearly twice as many. Batches are the same.
"""

import math
import threading
from collections.abc import Callable, Generator, Mapping
from functools import partial
from statistics import median

from dfgen.errors import ArgumentError
from dfgen.loading.workers.chunks import ChunkMaker
from dfgen.loading.workers.pool import CLOSED, Pool, Worker
from dfgen.loading.workers.processes import ProcessWorker, pickled
from dfgen.machine import STARTS_PROCESSES_ALONE
from dfgen.samples.reader import SampleReader
from dfgen.spec import Spec

_MOST = 1 << 28  # bytes of columns that are copied for processes
_SMALL = 200e-6  # seconds a row; all threads are best for slower rows
_WINDOW = 0.05  # seconds of one measurement, at least
_BATCHES = 8  # of one measurement, at least
_SETTLING = 2  # batches after a change that are not measured
_STARTING = 40  # batches that are not measured after the first change to processes
_TURNS = 5  # measurements of each choice, in alternation
_BOUND = 0.1  # share of the time in which the consumer waits; below, no choice is too slow
_FASTER = 1.05  # times as fast as the first choice, and another one is chosen
_HOPELESS = 0.5  # times the best rate, and a choice is not measured again
_LATER = 10.0  # seconds until processes are measured
_AWAY = 0.25  # seconds between two batches, after which a measurement begins again

Choice = tuple[int, bool]
"""The number of workers, and whether they are processes."""


_Noted = Generator[None, tuple[int, float, float], tuple[float, float, float]]


def may_be_processes(reader: SampleReader) -> bool:
    """Return whether processes may make rows although nobody has asked for them.

    They may for local files outside of archives, caches and packs: functions of the user would run
    on copies of what they share with the program, and each process would hold a cache.
    """
    files = [bound.files for bound in reader.features if bound.files is not None]
    stored = any(
        reader.source(bound).packed or bound.array_rows is not None for bound in reader.features
    )
    if not (STARTS_PROCESSES_ALONE and files) or reader.store.far or reader.cached or stored:
        return False
    has_functions = any(function is not None for function in reader.functions.values())
    nbytes = sum(getattr(column, "nbytes", math.inf) for column in files)
    return nbytes <= _MOST and not has_functions


class Chooser:
    """Chooses the workers by the rate at which the consumer takes rows.

    It measures threads once, as soon as the consumer waits for batches of small rows, and 10 s
    later processes, which start slowly. The rate includes the work of the consumer.

    Args:
        choices: the first is used until another is faster.
        processes: another choice.
    """

    def __init__(self, choices: tuple[Choice, ...], processes: Choice | None = None) -> None:
        self.used = choices[0]
        """The choice for the next batches: while measuring, each in turn."""
        self.done = len(choices) == 1 and processes is None
        """Whether the choice is final."""
        self._noted = self._choose(choices, processes)
        if not self.done:
            next(self._noted)

    def note(self, rows: int, waited: float, now: float) -> None:
        """Note that the consumer has taken a batch.

        Args:
            rows: rows of the batch.
            waited: seconds that the consumer has waited for it.
            now: seconds, by any clock.
        """
        self._noted.send((rows, waited, now))

    def _choose(self, choices: tuple[Choice, ...], processes: Choice | None) -> _Noted:
        earliest = 0.0
        while not self.done:
            rate, waited, now = yield from _measured(_SETTLING)
            if waited <= _BOUND or rate * _SMALL <= 1 or now < earliest:
                continue
            rates: dict[Choice, list[float]] = {choice: [] for choice in choices}
            lowest = 0.0
            for choice in choices * _TURNS:
                if rates[choice] and rates[choice][-1] < lowest:
                    continue
                settling = _STARTING if choice == processes and not rates[choice] else _SETTLING
                settling, self.used = settling if choice != self.used else 1, choice
                rate, _, now = yield from _measured(settling, lowest)
                rates[choice].append(rate)
                lowest = _HOPELESS * max(median(each) for each in rates.values() if each)
            medians = {choice: median(each) for choice, each in rates.items()}
            best = max(choices, key=medians.__getitem__)
            is_faster = medians[best] > _FASTER * medians[choices[0]]
            self.used = best if is_faster else choices[0]
            self.done = processes is None or processes in choices
            choices, earliest = (self.used, processes or self.used), now + _LATER
        while True:
            yield


def _measured(settling: int, lowest: float = 0.0) -> _Noted:
    """Return rows a second, the share of the time that the consumer waited, and the time.

    Args:
        settling: batches that are not measured.
        lowest: a rate below it ends the measurement earlier.
    """
    total, batches, waiting, since, last = 0, 0, 0.0, 0.0, 0.0
    while True:
        rows, waited, now = yield
        away, last = now - last - waited, now
        if settling > 0 or away > _AWAY:
            total, batches, waiting, since = 0, 0, 0.0, now
            settling -= 1
            continue
        total, batches, waiting = total + rows, batches + 1, waiting + waited
        seconds = max(now - since, 1e-9)
        rate = total / seconds
        if seconds >= _WINDOW and (batches >= _BATCHES or rate < lowest):
            return rate, waiting / seconds, now


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
        self._maker, self._memory, self._is_optional = maker, (specs, size), chooses
        self._payload = pickled(maker) if processes else None
        choices, also = [(count, processes)], None
        if chooses and count > 1:
            while choices[-1][0] > 1:
                choices.append((choices[-1][0] // 4 or 1, False))
            also = (count, True) if may_be_processes(maker.reader) else None
        self.chooser = Chooser(tuple(choices), also)
        self._pools: dict[Choice, Pool] = {}
        self._lock = threading.Lock()
        self._closed = False

    def start(self, begin: Callable[[Pool], None]) -> None:
        """Call `begin` with the pool that makes batches now."""
        with self._lock:
            if self._closed:
                raise ArgumentError(CLOSED)
            count, processes = used = self.chooser.used
            if used not in self._pools:
                make: Callable[[], Worker] = partial(Worker, self._maker.fill)
                if processes:
                    self._payload = self._payload or pickled(self._maker)
                    parts = self._payload, *self._memory, self._is_optional
                    make = partial(ProcessWorker, self._maker, *parts)
                self._pools[used] = Pool(count, make)
            begin(self._pools[used])

    def note(self, rows: int, waited: float, now: float) -> None:
        """Note that a consumer has taken a batch, as `Chooser.note`.

        If several threads take batches, one of them is enough to measure the rate.
        """
        if self.chooser.done or not self._lock.acquire(blocking=False):
            return
        try:
            self.chooser.note(rows, waited, now)
            if self.chooser.done:
                for choice in self._pools.keys() - {self.chooser.used}:
                    self._pools[choice].drain()
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
        if self._payload is not None:
            self._payload.close()
