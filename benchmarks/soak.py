"""Does training stay exact and as small for as long as it runs, whatever happens to it?

python benchmarks/soak.py [--seconds 1800] [--backend jax] [--seed 0] [--results]

Trains on each backend in turn, in threads and in processes, each turn by two ranks in a process
each (`soak_turn.py`), and has something happen to both every second or so: killed workers, slow,
hung and damaged reads, full disks, no memory, no descriptors; and trainings left in mid-epoch, that
go on from their state. Each epoch must be exact: its receipts, and the rows that both models have
seen, each once by one of them, but for those whose file was broken on purpose. Resident size,
descriptors and threads of a rank must be flat: it collects its garbage as each epoch ends, and has
no huge pages. Exits with 1 if anything was not.
"""

import argparse
import ctypes
import json
import os
import statistics
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
from survive import may_mount

HERE = Path(__file__).parent
SMALL = may_mount()
BACKENDS = ("tensorflow", "jax", "torch")
RANKS = 2
STARTS = 20  # seconds that a turn takes beside its training
ROWS = 600  # of soak_turn.py
TURN = 75  # seconds, at least
EACH = 0.2  # seconds between two looks at a rank: it is seldom seen between two Sequences
FLAT = 0.01  # of the resident size, by which it may grow
PR_SET_THP_DISABLE = 41  # of <linux/prctl.h>; child processes have it too
WARM = 0.5  # of a turn, after which nothing may grow


@dataclass
class Rank:
    """What one process has told, and what it held at each look."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    held: list[tuple[float, float, int, int]] = field(default_factory=list)
    """(seconds since the soak began, MB, descriptors, threads), without its workers"""
    code: int | None = None

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """Each epoch that was trained."""
        return [line for line in self.lines if "epoch" in line]

    @property
    def growth(self) -> tuple[float, int, int]:
        """By how much each thing grew in the last quarter of a turn, on the one before.

        The median of the size counts, and the least of descriptors and threads, of which faults
        open some for a moment.
        """
        warm = self.held[int(len(self.held) * WARM) :]
        if len(warm) < 8:
            return 0.0, 0, 0
        before, after = warm[: len(warm) // 2], warm[len(warm) // 2 :]
        sizes = [statistics.median(each[1] for each in part) for part in (before, after)]
        descriptors, threads = (
            min(each[place] for each in after) - min(each[place] for each in before)
            for place in (2, 3)
        )
        return sizes[1] / sizes[0] - 1, descriptors, threads


@dataclass
class Turn:
    """A training by two ranks."""

    backend: str
    processes: bool
    ranks: list[Rank] = field(default_factory=lambda: [Rank() for _ in range(RANKS)])

    @property
    def name(self) -> str:
        """The backend, and the kind of its workers."""
        return f"{self.backend}, {'processes' if self.processes else 'threads'}"

    @property
    def epochs(self) -> list[dict[str, Any]]:
        """Each epoch that was trained, of all ranks."""
        return [line for rank in self.ranks for line in rank.epochs]

    @property
    def faults(self) -> Counter[str]:
        """How often each thing happened."""
        return Counter(
            line["fault"] for rank in self.ranks for line in rank.lines if "fault" in line
        )

    @property
    def inexact(self) -> list[str]:
        """Epochs that were not as they should be, alone or together."""
        alone = [f"epoch {line['epoch']}: {line['wrong']}" for line in self.epochs if line["wrong"]]
        return alone + [wrong for epochs in self.together() for wrong in together(epochs)]

    def together(self) -> list[tuple[dict[str, Any], ...]]:
        """Return each epoch that all ranks have ended, as they tell of it."""
        own = [{line["epoch"]: line for line in rank.epochs} for rank in self.ranks]
        shared = sorted(set.intersection(*map(set, own)))
        return [tuple(of[epoch] for of in own) for epoch in shared]

    @property
    def grown(self) -> list[str]:
        """All that is not flat."""
        found = []
        for number, rank in enumerate(self.ranks):
            size, *counts = rank.growth
            if size > FLAT:
                found.append(f"rank {number}: resident size grew by {size:.2%}")
            for what, count in zip(("descriptors", "threads"), counts, strict=True):
                if count > 0:
                    found.append(f"rank {number}: {count} more {what}")
        return found

    @property
    def ended(self) -> list[str]:
        """Ranks that ended by an error, or trained nothing."""
        return [
            f"rank {number}: exit code {rank.code} after {len(rank.epochs)} epochs"
            for number, rank in enumerate(self.ranks)
            if rank.code or not rank.epochs
        ]


def together(epochs: tuple[dict[str, Any], ...]) -> list[str]:
    """Return what is wrong with the rows of one epoch of all ranks."""
    seen = Counter(row for line in epochs for row in line["seen"])
    broken = {row for line in epochs for row in line["broken"]}
    doubled = sorted(row for row, count in seen.items() if count > 1)
    lost = sorted({*range(ROWS)} - {*seen} - broken)
    where = f"epoch {epochs[0]['epoch']} of all ranks"
    found = [f"{where}: {len(doubled)} rows doubled: {doubled[:5]}"] if doubled else []
    return found + ([f"{where}: {len(lost)} rows lost: {lost[:5]}"] if lost else [])


def main() -> int:
    """Return 1 if anything was not exact or not flat."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", action="store_true", help="write into RESULTS.md and plots/")
    options = parser.parse_args()
    names = [name for name in options.backend or BACKENDS if find_spec(name)]
    if sys.platform == "linux":  # else Linux makes huge pages, of memory that nobody has touched
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    start, turns = time.monotonic(), list[Turn]()
    most = max(TURN, options.seconds / (2 * len(names)) - STARTS)
    with tempfile.TemporaryDirectory() as folder:
        for number, (backend, processes) in enumerate(in_turn(names)):
            left = options.seconds - (time.monotonic() - start)
            if left < TURN / 2 and turns:
                break
            turns.append(Turn(backend, processes))
            run(turns[-1], f"{folder}/{number}", int(min(left, most)), options.seed + number, start)
            print(line_of(turns[-1]), flush=True)
    text = summary(turns)
    print(text)
    if options.results:
        plot(HERE / "plots" / "soak.png", turns)
        results.write(
            {"soak": results.Part(text, pictures=[("soak.png", "Resources of each turn")])}
        )
    return 1 if any(turn.inexact or turn.grown or turn.ended for turn in turns) else 0


def in_turn(names: list[str]) -> Iterator[tuple[str, bool]]:
    """Yield backends, and whether workers are processes, for ever."""
    while True:
        for processes in (False, True):
            for name in names:
                yield name, processes


def run(turn: Turn, folder: str, seconds: int, seed: int, start: float) -> None:
    """Run one turn, and look at it all the time."""
    environment = {**os.environ, "KERAS_BACKEND": turn.backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    children, readers = list[psutil.Popen](), list[threading.Thread]()
    for number, rank in enumerate(turn.ranks):
        own = Path(folder, str(number))
        (own / "disk").mkdir(parents=True)
        command = [sys.executable, str(HERE / "soak_turn.py"), str(own), str(seconds), str(seed)]
        command += [str(number), *["processes"] * turn.processes]
        if SMALL:
            mount = f'mount -t tmpfs -o size=1m none {own}/disk && exec "$@"'
            command = ["unshare", "-m", "sh", "-c", mount, "sh", *command]
        child = psutil.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        readers.append(threading.Thread(target=read, args=(child, rank)))
        readers[-1].start()
        children.append(child)
    hung = time.monotonic() + seconds + 120
    while any(child.poll() is None for child in children):
        for child, rank in zip(children, turn.ranks, strict=True):
            look(child, rank, start)
            if time.monotonic() > hung and child.poll() is None:
                child.kill()
                wrong = {"epoch": -1, "wrong": "it hung", "rows": 0, "skipped": 0, "seen": []}
                rank.lines.append({**wrong, "broken": []})
        time.sleep(EACH)
    for child, reader, rank in zip(children, readers, turn.ranks, strict=True):
        reader.join()
        rank.code = child.wait()


def read(child: Any, rank: Rank) -> None:
    """Take what a rank tells."""
    for line in child.stdout or ():
        if line.startswith("{"):
            rank.lines.append(json.loads(line))


def look(process: psutil.Process, rank: Rank, start: float) -> None:
    """Note what a rank holds; its workers are killed, and others start in their place."""
    try:
        size = process.memory_info().rss / 1e6
        held = size, process.num_fds(), process.num_threads()
    except psutil.Error:  # it has just ended
        return
    if rank.epochs and "over" not in rank.lines[-1]:  # others tell of its start or end
        rank.held.append((time.monotonic() - start, *held))


def line_of(turn: Turn) -> str:
    """Return one turn in a line, and what was wrong in more."""
    rows = sum(line["rows"] for line in turn.epochs)
    skipped = sum(line["skipped"] for line in turn.epochs)
    found = f"{turn.name:21} {len(turn.epochs):5} epochs, {rows:8,} rows, {skipped:5,} skipped"
    faults = ", ".join(f"{count} {what}" for what, count in sorted(turn.faults.items()))
    wrong = turn.inexact + turn.grown + turn.ended
    return "\n".join([f"{found}; {faults}", *(f"  WRONG: {each}" for each in wrong)])


def summary(turns: list[Turn]) -> str:
    """Return what the soak has found, as a table of Markdown."""
    rows = []
    for name in dict.fromkeys(turn.name for turn in turns):
        own = [turn for turn in turns if turn.name == name]
        epochs = [line for turn in own for line in turn.epochs]
        growth = [rank.growth for turn in own for rank in turn.ranks]
        held = [rank.held for turn in own for rank in turn.ranks if rank.held]
        cells = (
            name,
            f"{sum(each[-1][0] - each[0][0] for each in held) / RANKS / 60:.1f}",
            f"{sum(len(turn.together()) for turn in own):,}",
            f"{sum(line['rows'] for line in epochs):,}",
            f"{sum(line['skipped'] for line in epochs):,}",
            f"{sum(turn.faults.total() for turn in own):,}",
            str(sum(len(turn.inexact) for turn in own)),
            f"{max(each[0] for each in growth):+.2%}",
            *(f"{max(each[place] for each in growth):+}" for place in (1, 2)),
            str(sum(len(turn.ended) for turn in own)),
        )
        rows.append("| " + " | ".join(cells) + " |")
    faults = sum((turn.faults for turn in turns), Counter[str]())
    happened = ", ".join(f"{what} {count:,}" for what, count in sorted(faults.items()))
    wrong = [f"- {turn.name}: {each}" for turn in turns for each in turn.inexact + turn.grown]
    wrong += [f"- {turn.name}: {each}" for turn in turns for each in turn.ended]
    head = (
        "| | minutes | epochs | rows taken | rows skipped | faults | rows lost or doubled | "
        "resident size | descriptors | threads | ended early |"
    )
    said = "Growth is that of the last quarter of a turn on the one before, of the rank"
    return "\n".join(
        [
            *(head, "|---" * 11 + "|", *rows, "", f"The faults were {happened}."),
            *("", f"{said} that grew most.", "", *wrong),
        ]
    ).strip()


def plot(file: Path, turns: list[Turn]) -> None:
    """Draw what each turn held over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    parts = figure.subplots(3, 1, sharex=True)
    colors = dict(zip(BACKENDS, (results.OURS, "#30638e", results.OTHERS), strict=True))
    every = [(turn, rank) for turn in turns for rank in turn.ranks]
    for place, (axes, what) in enumerate(zip(parts, ("MB", "descriptors", "threads"), strict=True)):
        for turn, rank in every:
            minutes = [each[0] / 60 for each in rank.held]
            style = "--" if turn.processes else "-"
            values = [each[place + 1] for each in rank.held]
            axes.plot(minutes, values, style, color=colors[turn.backend], linewidth=1)
        axes.set_ylabel(what)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    for name, color in colors.items():
        parts[0].plot([], [], color=color, label=name)
    parts[0].plot([], [], "k--", label="its workers are processes", linewidth=1)
    parts[0].legend(loc="lower right", fontsize=8, ncols=4)
    parts[0].set_title("A soak: each line is one rank, without its workers", loc="left")
    parts[-1].set_xlabel("minutes")
    figure.savefig(file, dpi=80)


if __name__ == "__main__":
    sys.exit(main())
