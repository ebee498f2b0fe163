"""Run candidates in alternation on a noisy machine, compare them, say whether a target is met."""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context, get_start_method, set_start_method
from statistics import median
from typing import TYPE_CHECKING, TypeVar
from unittest import mock

from dfgen.machine import usable_cpus

if TYPE_CHECKING:
    import dfgen

THREADS = usable_cpus()
Result = TypeVar("Result")


@dataclass(frozen=True)
class Verdict:
    """One figure beside its target, which it reaches from above, or from below if `at_most`.

    `aim` is what would be better still; `limit` says, as measured, what stands in the way.
    """

    what: str
    figure: float
    target: float
    unit: str
    at_most: bool = False
    aim: float | None = None
    limit: str = ""

    @property
    def met(self) -> bool:
        return self.figure <= self.target if self.at_most else self.figure >= self.target

    @property
    def targets(self) -> str:
        sign = "<=" if self.at_most else ">="
        return f"{sign} {self.target:.3g}" + (f", aim {self.aim:.3g}" if self.aim else "")

    def __str__(self) -> str:
        word = "met    " if self.met else "NOT MET"
        figures = f"{self.figure:6.3g} {self.unit:<25} target {self.targets}"
        return f"{word}  {self.what:<58} {figures}"


@dataclass(frozen=True)
class Findings:
    """What a benchmark has found: its verdicts, and the rates worth a picture, by title."""

    verdicts: list[Verdict]
    charts: Mapping[str, "Rates"] = field(default_factory=dict)


@dataclass(frozen=True)
class Rates:
    """Items per second of every candidate in every round, in `groups` that do the same work."""

    rounds: dict[str, list[float]]
    groups: dict[str, list[str]] = field(default_factory=dict)

    def ratio(self, candidate: str, baseline: str) -> float:
        """Return the median of the ratios within one round, where the machine was the same."""
        return median(self._ratios(candidate, baseline))

    def median(self, candidate: str) -> float:
        return median(self.rounds[candidate])

    def best(self, beginning: str) -> str:
        """Return the fastest of the candidates whose names begin so."""
        return max((name for name in self.rounds if name.startswith(beginning)), key=self.median)

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


def alternate(
    candidates: dict[str, Callable[[], int]],
    rounds: int = 5,
    before: Callable[[], None] = lambda: None,
) -> Rates:
    """Run A B C A B C ...; each candidate does its work and returns how many items that was.

    One round before the first warms caches and is thrown away. `before` each is not timed.
    """
    rates: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds + 1):
        for name, work in candidates.items():
            before()
            start = time.perf_counter()
            items = work()
            if number:
                rates[name].append(items / (time.perf_counter() - start))
    return Rates(rates)


def rest(sequence: "dfgen.Sequence") -> None:
    """Drop the batches that a Sequence prefetches, so that its workers leave the CPUs to others."""
    sequence._loader.stream(epoch=1_000_000).close()


def in_new_process(
    function: Callable[..., Result], *arguments: object, backend: str | None = None
) -> Result:
    """Return what a function returns in a fresh interpreter, where nothing was loaded before.

    `backend` is Keras's there. Processes of its own start as they do here: in a spawned one they
    would be spawned, which Keras's pool is not made for.
    """
    changed = {"KERAS_BACKEND": backend} if backend else {}
    spawn = get_context("spawn")
    with (
        mock.patch.dict(os.environ, changed),
        ProcessPoolExecutor(1, spawn, _start_processes, (get_start_method(),)) as pool,
    ):
        return pool.submit(function, *arguments).result()


def _start_processes(method: str) -> None:
    set_start_method(method, force=True)


def finish(verdicts: list[Verdict], charts: Mapping[str, Rates] | None = None) -> Findings:
    """Print the verdicts of a benchmark and return its findings."""
    print(*verdicts, sep="\n", flush=True)
    return Findings(verdicts, charts or {})
