"""Run candidates in alternation on a noisy machine, compare them, say whether a target is met."""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from statistics import median
from typing import TypeVar

from dfgen.loading.workers import usable_cpus

THREADS = usable_cpus()
Result = TypeVar("Result")


@dataclass(frozen=True)
class Verdict:
    """One figure beside its target, which it reaches from above, or from below if `at_most`."""

    what: str
    figure: float
    target: float
    unit: str
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.figure <= self.target if self.at_most else self.figure >= self.target

    def __str__(self) -> str:
        sign = "<=" if self.at_most else ">="
        word = "met    " if self.met else "NOT MET"
        figures = f"{self.figure:6.3g} {self.unit:<14} target {sign} {self.target:.3g}"
        return f"{word}  {self.what:<58} {figures}"


@dataclass(frozen=True)
class Rates:
    """Items per second of every candidate in every round."""

    rounds: dict[str, list[float]]

    def ratio(self, candidate: str, baseline: str) -> float:
        """Return the median of the ratios within one round, where the machine was the same."""
        return median(self._ratios(candidate, baseline))

    def _ratios(self, candidate: str, baseline: str) -> list[float]:
        pairs = zip(self.rounds[candidate], self.rounds[baseline], strict=True)
        return [rate / base for rate, base in pairs]

    def show(self, items: str, baseline: str) -> None:
        """Print medians and extremes, and the ratios to the baseline."""
        print(f"\n{'':<44}{items + '/s':>14} {'lowest .. highest':>21}   to {baseline!r}")
        for name, rates in self.rounds.items():
            ratios = self._ratios(name, baseline)
            print(
                f"{name:<44}{median(rates):>14,.0f} {min(rates):>10,.0f} .. {max(rates):>7,.0f}"
                f"   {median(ratios):.2f} ({min(ratios):.2f} .. {max(ratios):.2f})"
            )


def alternate(candidates: dict[str, Callable[[], int]], rounds: int = 5) -> Rates:
    """Run A B C A B C ...; each candidate does its work and returns how many items that was.

    One round before the first warms caches and is thrown away.
    """
    rates: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, work in candidates.items():
            start = time.perf_counter()
            items = work()
            if number:
                rates[name].append(items / (time.perf_counter() - start))
    return Rates(rates)


def in_new_process(function: Callable[..., Result], *arguments: object) -> Result:
    """Return what a function returns in a fresh interpreter, where nothing was loaded before."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def finish(verdicts: list[Verdict]) -> list[Verdict]:
    """Print the verdicts of a benchmark and return them."""
    print(*verdicts, sep="\n", flush=True)
    return verdicts
