"""How many threads, or processes, make rows fastest: found out meanwhile, where rows are small.

A row of a few kB takes little longer than to wake a thread that waits for Python's lock: on some
machines two threads make half of what one makes, on others nearly twice as much. Which of them this
is shows by measuring alone. Batches are the same in any case.
"""

from collections import defaultdict, deque
from collections.abc import Hashable
from statistics import median
from typing import Generic, TypeVar

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
        """Return the best rate that was measured of any choice."""
        return max(map(median, self._rates.values()), default=0.0)

    def _settled(self) -> int:
        """Return how many batches after a change are not measured."""
        if self.used != self.late or self._has_started:
            return _SETTLING
        self._has_started = True
        return _STARTING

    def _begin(self, now: float, settling: int) -> None:
        """Begin a measurement, after some batches more."""
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
