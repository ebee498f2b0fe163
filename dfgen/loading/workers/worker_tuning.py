"""How many threads, or processes, make rows fastest: found out meanwhile, where rows are small.

A row of a few kB takes little longer than to wake a thread that waits for Python's lock: on some
machines two threads make half of what one makes, on others nearly twice as much. Which of them this
is shows by measuring alone. Batches are the same in any case.
"""

import math
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping
from statistics import median
from typing import Generic, TypeVar

from dfgen.loading.workers.chunks import Blanks, Chunk, ChunkArrays, ChunkMaker
from dfgen.loading.workers.processes import ProcessWorker, StartError, pickled
from dfgen.loading.workers.shared_memory import SharedPickle
from dfgen.loading.workers.threads import ThreadWorker
from dfgen.platform_calls import STARTS_PROCESSES_ALONE
from dfgen.samples.reader import SampleReader
from dfgen.spec import Spec

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
        STARTS_PROCESSES_ALONE
        and bool(files)
        and not reader.store.far
        and not reader.cached
        and not any(function is not None for function in reader.functions.values())
        and all(
            not reader.source(bound).files.packed and bound.array_rows is None
            for bound in reader.features
        )
        and sum(getattr(column, "nbytes", math.inf) for column in files) <= _MOST
    )


_SMALL = 200e-6  # seconds a row, from which on all threads are best anyway
_WINDOW = 0.05  # seconds of one measurement, at least
_BATCHES = 8  # in one measurement, at least
_SETTLING = 2  # batches after a change that are not measured
_STARTING = 40  # and after the first change to what has to start
_TRIES = 2  # of what is dear to start
_TURNS = 5  # measurements of each choice, in alternation
_BOUND = 0.1  # share of the time for which batches are waited for: below, none is too slow
_FASTER = 1.05  # times as fast as what is used, and it is changed
_SLOWER = 0.7  # of the rate at which a choice was made, and it is doubted
_HOPELESS = 0.5  # of the best rate, and a choice is not measured again
_AWAY = 0.25  # seconds between two batches after which nothing is measured across them
_AGAIN, _MOST_AGAIN = 10.0, 960.0  # seconds until all are measured again: the first, the longest
_REST = 60.0  # seconds until all are measured again after a choice was taken back


def thread_counts(most: int) -> tuple[int, ...]:
    """Return the numbers of threads worth a try, all of them first.

    Example:
        >>> thread_counts(16), thread_counts(2), thread_counts(1)
        ((16, 4, 1), (2, 1), (1,))
    """
    return (most, *thread_counts(most // 4 or 1)) if most > 1 else (1,)


C = TypeVar("C", bound=Hashable)


class Chooser(Generic[C]):
    """Chooses one of several ways to make batches by the rate at which they are handed out.

    That counts all there is, the consumer's own work too: what is faster by the clock alone is
    chosen. Disks and networks that keep readers waiting are faster with more of them, and so keep
    them; where a choice becomes slow, all are measured again, and where rows are by then, as when
    files are no longer in memory, it is taken back.

    Args:
        choices: the ways; the first is used until another has been faster.
        late: one more that is dear to start: it is not tried the first time that all are measured,
            and left for good once it was not chosen twice.
    """

    def __init__(self, choices: tuple[C, ...], late: C | None = None) -> None:
        self.choices = choices
        self.late = late
        self.chosen = choices[0]
        self.used = choices[0]
        """The workers of the next batches: while they are measured, each in turn."""
        self._turns: deque[C] = deque()
        self._rates: dict[C, list[float]] = defaultdict(list)
        self._rate = 0.0  # of what was chosen
        self._next, self._wait = 0.0, _AGAIN
        self._last = self._since = self._waited = 0.0
        self._rows, self._batches, self._settling = 0, 0, _SETTLING
        self._has_started, self._lost = False, 0

    def note(self, rows: int, waited: float, now: float) -> C:
        """Note that a batch was handed out; return what is to make the next ones.

        Args:
            rows: of the batch.
            waited: seconds that it was waited for.
            now: in seconds, by any clock.
        """
        away, self._last = now - self._last - waited, now
        if self._settling or away > _AWAY:
            self._begin(now, max(0, self._settling - 1))
            return self.used
        self._rows, self._batches = self._rows + rows, self._batches + 1
        self._waited += waited
        seconds = max(now - self._since, 1e-9)
        rate = self._rows / seconds
        is_hopeless = bool(self._turns) and seconds > _WINDOW and rate < _HOPELESS * self._best()
        if is_hopeless or (self._batches >= _BATCHES and seconds >= _WINDOW):
            before = self.used
            self._measured(rate, self._waited > _BOUND * seconds, now, is_hopeless)
            self._begin(now, self._settled() if self.used != before else 0)
        return self.used

    def _best(self) -> float:
        return max(map(median, self._rates.values()), default=0.0)

    def _settled(self) -> int:
        if self.used != self.late or self._has_started:
            return _SETTLING
        self._has_started = True
        return _STARTING

    def _begin(self, now: float, settling: int) -> None:
        self._since, self._settling = now, settling
        self._rows, self._batches, self._waited = 0, 0, 0.0

    def _measured(self, rate: float, is_bound: bool, now: float, is_hopeless: bool) -> None:
        is_slow = self.chosen != self.choices[0] and rate < _SLOWER * self._rate
        if self._turns:
            self._rates[self._turns.popleft()].append(rate)
            if is_hopeless:
                self._turns = deque(turn for turn in self._turns if turn != self.used)
            if not self._turns:
                self._choose(now)
        elif is_bound and (is_slow or now >= self._next) and rate * _SMALL > 1:
            self._turns = deque(self.choices * _TURNS)
            self._rates.clear()
        elif is_bound and is_slow:
            self.chosen, self._next = self.choices[0], now + _REST
        self.used = self._turns[0] if self._turns else self.chosen

    def _choose(self, now: float) -> None:
        rates = {choice: median(rates) for choice, rates in self._rates.items()}
        best = max(rates, key=rates.__getitem__)
        if rates[best] > _FASTER * rates[self.chosen]:
            self.chosen = best
        self._rate, self._next = rates[self.chosen], now + self._wait
        self._wait = min(2 * self._wait, _MOST_AGAIN)
        if self.late is not None and self.late not in rates:
            self.choices = (*self.choices, self.late)  # the next time
        elif self.late is not None and self.chosen != self.late:
            self._lost += 1
            if self._lost == _TRIES:
                self.choices, self.late = self.choices[:-1], None
