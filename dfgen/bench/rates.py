"""Rates, measured in turn, so that a noisy machine treats all candidates alike."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

PASSES = 5
"""So many that the rounds of equal candidates stand apart by chance once in 250 times only."""


@dataclass(frozen=True)
class Rates:
    """Images per second of every candidate in every round, and why others could not be measured."""

    rounds: Mapping[str, tuple[float, ...]]
    failed: Mapping[str, str]

    def median(self, name: str) -> float:
        """Return the median over the rounds."""
        return median(self.rounds[name])

    def ratio(self, name: str, baseline: str) -> float:
        """Return the median of the ratios within one round, where the machine was the same."""
        pairs = zip(self.rounds[name], self.rounds[baseline], strict=True)
        return median(rate / base for rate, base in pairs)

    def faster(self, name: str, other: str) -> bool:
        """Whether every round of one was faster than any of the other."""
        return min(self.rounds[name]) > max(self.rounds[other])


def shown(rate: float) -> str:
    """Return a rate with as many digits as are of use."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}"


def timed(work: Callable[[], int]) -> Callable[[], float]:
    """Return a candidate that does some work and returns its images per second."""

    def rate() -> float:
        began = time.perf_counter()
        images = work()
        return images / (time.perf_counter() - began)

    return rate


def alternate(
    candidates: Mapping[str, Callable[[], float]],
    may_fail: Mapping[str, Callable[[], float]],
    advance: Callable[[], object],
) -> Rates:
    """Run A B C A B C ... and return the rates; the first round warms caches and does not count.

    A candidate returns its images per second. One that may fail and raises is left out and its
    error kept. `advance` is called after each measurement.
    """
    everything = {**candidates, **may_fail}
    rounds: dict[str, tuple[float, ...]] = dict.fromkeys(everything, ())
    failed: dict[str, str] = {}
    for number in range(PASSES + 1):
        for name, candidate in everything.items():
            try:
                if name not in failed:
                    rate = candidate()
                    rounds[name] += (rate,) if number else ()
            except Exception as error:
                if name not in may_fail:
                    raise
                failed[name] = f"{type(error).__name__}: {error}"
                del rounds[name]
            advance()
    return Rates(rounds, failed)
