"""Does training stay exact for as long as it runs, whatever happens to its workers and files?

python benchmarks/soak.py [--minutes 30] [--backend jax] [--seed 0] [--results]

Trains on each backend in turn, in threads and in processes, each turn in a process of its own
(`soak_turn.py`), and has something happen every second or so. Each epoch must be exact: its
receipt, the sum of the rows that the model itself has seen, and the rows that were skipped, all
of which were broken on purpose. Exits with 1 if one was not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import results

HERE = Path(__file__).parent
BACKENDS = ("tensorflow", "jax", "torch")
TURN = 75  # seconds


@dataclass
class Turn:
    """What one process has told, and what it held each second."""

    backend: str
    processes: bool
    began: float
    lines: list[dict[str, Any]] = field(default_factory=list)
    held: list[tuple[float, float, int, int]] = field(default_factory=list)
    """(seconds since the soak began, MB, descriptors, threads), of all its processes together"""
    code: int | None = None

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """Each epoch that was trained."""
        return [line for line in self.lines if "epoch" in line]

    @property
    def faults(self) -> Counter[str]:
        """How often each thing happened."""
        return Counter(line["fault"] for line in self.lines if "fault" in line)

    @property
    def inexact(self) -> list[str]:
        """Epochs that were not as they should be."""
        return [f"epoch {line['epoch']}: {line['wrong']}" for line in self.epochs if line["wrong"]]

    @property
    def ended(self) -> list[str]:
        """That it ended by an error, if it did."""
        code, epochs = self.code, len(self.epochs)
        return [f"exit code {code} after {epochs} epochs"] if code or not epochs else []


def main() -> int:
    """Return 1 if anything was not exact."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", action="store_true", help="write into RESULTS.md and plots/")
    options = parser.parse_args()
    names = [name for name in options.backend or BACKENDS if find_spec(name)]
    start, turns = time.monotonic(), list[Turn]()
    with tempfile.TemporaryDirectory() as folder:
        for number, (backend, processes) in enumerate(in_turn(names)):
            left = options.minutes * 60 - (time.monotonic() - start)
            if left < min(20, TURN) and turns:
                break
            arguments = [f"{folder}/{number}", str(min(left, TURN)), str(options.seed + number)]
            turns.append(run(backend, processes, arguments, start))
            print(line_of(turns[-1]), flush=True)
    text = summary(turns)
    print(text)
    if options.results:
        plot(HERE / "plots" / "soak.png", turns)
        results.write_soak(HERE, text)
    return 1 if any(turn.inexact or turn.ended for turn in turns) else 0


def in_turn(names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield backends, and whether workers are processes, for ever."""
    while True:
        for processes in (False, True):
            for name in names:
                yield name, processes


def run(backend: str, processes: bool, arguments: list[str], start: float) -> Turn:
    """Run one turn, and look at it each second."""
    turn = Turn(backend, processes, time.monotonic() - start)
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    child = subprocess.Popen(
        [sys.executable, str(HERE / "soak_turn.py"), *arguments, *["processes"] * processes],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    reader = threading.Thread(target=read, args=(child, turn))
    reader.start()
    hung = time.monotonic() + float(arguments[1]) + 120
    while child.poll() is None:
        look(psutil.Process(child.pid), turn, start)
        if time.monotonic() > hung:
            child.kill()
            turn.lines.append({"epoch": -1, "wrong": "it hung", "rows": 0, "skipped": 0})
        time.sleep(1)
    reader.join()
    turn.code = child.wait()
    return turn


def read(child: "subprocess.Popen[str]", turn: Turn) -> None:
    """Take what a turn tells."""
    for line in child.stdout or ():
        if line.startswith("{"):
            turn.lines.append(json.loads(line))


def look(process: psutil.Process, turn: Turn, start: float) -> None:
    """Note what a process and its children hold."""
    try:
        family = [process, *process.children(recursive=True)]
        sizes = [
            (member.memory_info().rss, member.num_fds(), member.num_threads()) for member in family
        ]
    except psutil.Error:  # one has just ended
        return
    memory, descriptors, threads = map(sum, zip(*sizes, strict=True))
    turn.held.append((time.monotonic() - start, memory / 1e6, descriptors, threads))


def line_of(turn: Turn) -> str:
    """Return one turn in a line."""
    name = f"{turn.backend}, {'processes' if turn.processes else 'threads'}"
    rows = sum(line["rows"] for line in turn.epochs)
    skipped = sum(line["skipped"] for line in turn.epochs)
    found = f"{name:21} {len(turn.epochs):5} epochs, {rows:8,} rows, {skipped:5,} skipped"
    faults = ", ".join(f"{count} {what}" for what, count in sorted(turn.faults.items()))
    return "\n".join(
        [f"{found}; {faults}", *(f"  WRONG: {each}" for each in turn.inexact + turn.ended)]
    )


def summary(turns: list[Turn]) -> str:
    """Return what the soak has found, as a table of Markdown."""
    rows = []
    for backend, processes in dict.fromkeys((turn.backend, turn.processes) for turn in turns):
        own = [t for t in turns if (t.backend, t.processes) == (backend, processes)]
        epochs = [line for turn in own for line in turn.epochs]
        faults = sum((turn.faults for turn in own), Counter[str]())
        cells = (
            f"{backend}, {'processes' if processes else 'threads'}",
            f"{sum(turn.held[-1][0] - turn.began for turn in own if turn.held) / 60:.1f}",
            f"{len(epochs):,}",
            f"{sum(line['rows'] for line in epochs):,}",
            f"{sum(line['skipped'] for line in epochs):,}",
            f"{sum(faults.values()):,}",
            str(sum(len(turn.inexact) for turn in own)),
            str(sum(len(turn.ended) for turn in own)),
        )
        rows.append("| " + " | ".join(cells) + " |")
    faults = sum((turn.faults for turn in turns), Counter[str]())
    happened = ", ".join(f"{what} {count:,}" for what, count in sorted(faults.items()))
    head = "| | minutes | epochs | rows taken | rows skipped | faults | not exact | ended early |"
    return "\n".join(
        [head, "|---|---|---|---|---|---|---|---|", *rows, "", f"What happened: {happened}."]
    )


def plot(file: Path, turns: list[Turn]) -> None:
    """Draw what each turn held over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    parts = figure.subplots(3, 1, sharex=True)
    colors = dict(zip(BACKENDS, (results.OURS, "#30638e", results.OTHERS), strict=True))
    for place, (axes, what) in enumerate(zip(parts, ("MB", "descriptors", "threads"), strict=True)):
        for turn in turns:
            minutes = [each[0] / 60 for each in turn.held]
            style = "--" if turn.processes else "-"
            values = [each[place + 1] for each in turn.held]
            axes.plot(minutes, values, style, color=colors[turn.backend], linewidth=1)
        axes.set_ylabel(what)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    for name, color in colors.items():
        parts[0].plot([], [], color=color, label=name)
    parts[0].plot([], [], "k--", label="its workers are processes", linewidth=1)
    parts[0].legend(loc="lower right", fontsize=8, ncols=4)
    parts[0].set_title("A soak: each line is one process with its workers", loc="left")
    parts[-1].set_xlabel("minutes")
    figure.savefig(file, dpi=80)


if __name__ == "__main__":
    sys.exit(main())
