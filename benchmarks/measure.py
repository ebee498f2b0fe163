"""Time candidates in alternation on a noisy machine, and write the results as Markdown."""

import os
import platform
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
THREADS = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Rates:
    """Items per second of each candidate in each round."""

    rounds: dict[str, list[float]]

    def median(self, candidate: str) -> float:
        return median(self.rounds[candidate])

    def ratios(self, candidate: str, baseline: str) -> list[float]:
        """Return the ratios within one round, where the load of the machine was the same."""
        pairs = zip(self.rounds[candidate], self.rounds[baseline], strict=True)
        return sorted(rate / base for rate, base in pairs)

    def table(self, title: str, baseline: str) -> str:
        """Return a table of Markdown: medians, and the ratios to a baseline."""
        lines = [f"| {title} | images/s | ratio | lowest .. highest |", "|---|--:|--:|---|"]
        for name, rates in self.rounds.items():
            ratios = self.ratios(name, baseline)
            figures = f"{median(rates):,.0f} | {median(ratios):.2f}"
            lines.append(f"| {name} | {figures} | {ratios[0]:.2f} .. {ratios[-1]:.2f} |")
        return "\n".join(lines)


def alternate(
    candidates: dict[str, Callable[[], int]],
    rounds: int = 5,
    before: Callable[[], None] = lambda: None,
) -> Rates:
    """Run A B C A B C ...; each candidate does its work and returns the number of items.

    A first round fills caches and is not counted. `before` runs before each candidate, untimed.
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


def machine() -> str:
    """Return date, last commit of dfgen/, processors and system in a line."""
    cpuinfo = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", cpuinfo.read_text() if cpuinfo.exists() else "")
    dfgen = HERE.parent / "dfgen"
    parts = [
        subprocess.run(["git", "-C", str(dfgen), *command], capture_output=True, text=True).stdout
        for command in (["log", "-1", "--format=%h", "."], ["status", "--porcelain", "."])
    ]
    commit = (parts[0].strip() or "unknown") + "-dirty" * bool(parts[1])
    processor = model[1] if model else platform.processor()
    return f"{date.today()}, commit {commit}, {THREADS} CPUs ({processor}), {platform.system()}"


def write_results(section: str, text: str) -> None:
    """Replace one section of RESULTS.md."""
    file = HERE / "RESULTS.md"
    pattern = re.compile(rf"^## {section}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    page = pattern.sub("", file.read_text(encoding="utf-8")).rstrip("\n")
    written = f"{page}\n\n## {section}\n\n{machine()}\n\n{text}\n"
    file.write_text(written, encoding="utf-8")


def idle_model() -> Any:
    """Return a compiled model that takes batches and does nothing with them."""
    import keras

    class Idle(keras.Model):  # type: ignore[misc]
        def train_step(self, *given: Any) -> Any:
            if keras.backend.backend() == "jax":
                return {"loss": 0.0}, given[0]
            return {"loss": 0.0}

    model = Idle()
    model.built = True
    model.compile(jit_compile=False)
    return model
