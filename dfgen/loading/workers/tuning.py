"""The number of threads, or processes, that makes rows fastest: measured once, if rows are small.

A row of a few kB takes little longer than waking a thread that waits for the GIL: on some machines
two threads make half as many rows as one, on others nearly twice as many. Batches are the same.
"""

import math
from collections import defaultdict, deque
from statistics import median

from dfgen.platform_calls import STARTS_PROCESSES_ALONE
from dfgen.samples.reader import SampleReader

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


def may_be_processes(reader: SampleReader) -> bool:
    """Return whether processes may make rows although nobody has asked for them.

    They may for local files outside of archives, caches and packs: functions of the user would run
    on copies of what they share with the program, and each process would hold a cache.
    """
    files = [bound.files for bound in reader.features if bound.files is not None]
    if not (STARTS_PROCESSES_ALONE and files) or reader.store.far or reader.cached:
        return False
    if any(function is not None for function in reader.functions.values()):
        return False
    if any(
        reader.source(bound).files.packed or bound.array_rows is not None
        for bound in reader.features
    ):
        return False
    return sum(getattr(column, "nbytes", math.inf) for column in files) <= _MOST


def thread_counts(most: int) -> tuple[int, ...]:
    """Return the numbers of threads to try, all of them first.

    Example:
        >>> thread_counts(16), thread_counts(2), thread_counts(1)
        ((16, 4, 1), (2, 1), (1,))
    """
    return (most, *thread_counts(most // 4 or 1)) if most > 1 else (1,)


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
        self.done = False
        """Whether the choice is final."""
        self._choices, self._processes = choices, processes
        self._turns: deque[Choice] = deque()
        self._rates: dict[Choice, list[float]] = defaultdict(list)
        self._last = self._since = self._waited = 0.0
        self._rows, self._batches, self._settling = 0, 0, _SETTLING
        self._next = 0.0  # when to measure

    def note(self, rows: int, waited: float, now: float) -> Choice:
        """Note that the consumer has taken a batch; return the choice for the next ones.

        Args:
            rows: rows of the batch.
            waited: seconds that the consumer has waited for it.
            now: seconds, by any clock.
        """
        away, self._last = now - self._last - waited, now
        if self.done or self._settling or away > _AWAY:
            self._begin(now, max(0, self._settling - 1))
            return self.used
        self._rows, self._batches = self._rows + rows, self._batches + 1
        self._waited += waited
        seconds = max(now - self._since, 1e-9)
        rate = self._rows / seconds
        best = max(map(median, self._rates.values()), default=0.0)
        is_hopeless = bool(self._turns) and seconds > _WINDOW and rate < _HOPELESS * best
        if is_hopeless or (self._batches >= _BATCHES and seconds >= _WINDOW):
            before = self.used
            self._measured(rate, self._waited > _BOUND * seconds, is_hopeless, now)
            is_new = self.used == self._processes and self.used not in self._rates
            settling = _STARTING if is_new else _SETTLING
            self._begin(now, settling if self.used != before else 0)
        return self.used

    def _begin(self, now: float, settling: int) -> None:
        self._since, self._settling = now, settling
        self._rows, self._batches, self._waited = 0, 0, 0.0

    def _measured(self, rate: float, is_bound: bool, is_hopeless: bool, now: float) -> None:
        if not self._turns:
            if is_bound and rate * _SMALL > 1 and now >= self._next:
                self._turns = deque(self._choices * _TURNS)
                self.used = self._turns[0]
            return
        self._rates[self._turns.popleft()].append(rate)
        if is_hopeless:
            self._turns = deque(turn for turn in self._turns if turn != self.used)
        if self._turns:
            self.used = self._turns[0]
            return
        rates = {choice: median(rates) for choice, rates in self._rates.items()}
        best, first = max(rates, key=rates.__getitem__), self._choices[0]
        self.used = best if rates[best] > _FASTER * rates[first] else first
        self.done = self._processes is None or self._processes in rates
        if not self.done:
            self._choices, self._next = (self.used, self._processes), now + _LATER  # type: ignore[assignment]
            self._rates.clear()
