"""Does training stay exact, and its memory flat, for as long as it runs under faults?

python benchmarks/soak.py [--seconds 1800] [--backend jax] [--seed 0] [--results]

Each turn trains on one backend, with threads or processes, in two ranks (`soak_turn.py`). Faults
come every second or so: killed workers, slow, hung and damaged reads, full disks, no memory, no
descriptors; and trainings that end in mid-epoch and resume from their state. In each epoch each
row must come once in one of the ranks, except rows with damaged files. Resident size, descriptors
and threads of a rank must be flat. Exits with 1 otherwise.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from measure import HERE, write_results
from survive import may_mount

BACKENDS = ("tensorflow", "jax", "torch")
RANKS, ROWS = 2, 600  # as in soak_turn.py
STARTUP, LEAST = 20, 75  # seconds: a turn's start, and its training unless time ends
LOOK = 0.2  # seconds between two samples of a rank's resources
FLAT = 0.01  # of the resident size, which may grow by this much
HEADS = (
    "| | epochs | rows trained | skipped | faults | inexact | size | descriptors | threads |",
    "|---" + "|--:" * 8 + "|",
)
PR_SET_THP_DISABLE = 41  # of <linux/prctl.h>; child processes inherit it


@dataclass
class Rank:
    """The lines of JSON that one process printed, and samples of its resources."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    """(MB, descriptors, threads), without its workers."""
    code: int | None = None

    @property
    def epochs(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if "epoch" in line]

    @property
    def growth(self) -> tuple[float, int, int]:
        """Return the growth from the middle half of the samples to the last half.

        Of sizes the medians are compared; of descriptors and threads the minima, because slow and
        hung reads hold some until the next epoch with whole files.
        """
        quarter = len(self.samples) // 4
        if quarter < 4:
            return 0.0, 0, 0
        halves = self.samples[quarter:-quarter], self.samples[2 * quarter :]
        before, after = (list(zip(*half, strict=True)) for half in halves)
        counts = (min(after[place]) - min(before[place]) for place in (1, 2))
        return (median(after[0]) / median(before[0]) - 1, *counts)  # type: ignore[return-value]


@dataclass
class Turn:
    """One training in two ranks."""

    backend: str
    processes: bool
    ranks: list[Rank] = field(default_factory=lambda: [Rank() for _ in range(RANKS)])

    @property
    def name(self) -> str:
        return f"{self.backend}, {'processes' if self.processes else 'threads'}"

    @property
    def epochs(self) -> list[dict[str, Any]]:
        return [line for rank in self.ranks for line in rank.epochs]

    @property
    def faults(self) -> Counter[str]:
        lines = [line for rank in self.ranks for line in rank.lines]
        return Counter(line["fault"] for line in lines if "fault" in line)

    @property
    def inexact(self) -> list[str]:
        """Return what is wrong in epochs of one rank, and in epochs of all."""
        wrong = [f"epoch {line['epoch']}: {line['wrong']}" for line in self.epochs if line["wrong"]]
        by_epoch = [{line["epoch"]: line for line in rank.epochs} for rank in self.ranks]
        for epoch in sorted(set.intersection(*map(set, by_epoch))):
            lines = [own[epoch] for own in by_epoch]
            seen = Counter(row for line in lines for row in line["seen"])
            broken = {row for line in lines for row in line["broken"]}
            doubled = [row for row, count in seen.items() if count > 1]
            lost = [row for row in range(ROWS) if row not in seen and row not in broken]
            if doubled or lost:
                wrong.append(f"epoch {epoch}: rows doubled {doubled[:5]}, lost {lost[:5]}")
        return wrong

    @property
    def failures(self) -> list[str]:
        """Return resources that grew, and ranks that ended early."""
        found = []
        for number, rank in enumerate(self.ranks):
            size, descriptors, threads = rank.growth
            if size > FLAT or descriptors > 0 or threads > 0:
                grown = f"{size:+.2%} MB, {descriptors:+} descriptors, {threads:+} threads"
                found.append(f"rank {number} grew: {grown}")
            if rank.code or not rank.epochs:
                epochs = len(rank.epochs)
                found.append(f"rank {number}: exit code {rank.code} after {epochs} epochs")
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", action="store_true", help="write into RESULTS.md")
    options = parser.parse_args()
    names = [name for name in options.backend or BACKENDS if find_spec(name)]
    if sys.platform == "linux":  # otherwise Linux backs untouched memory with huge pages
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
    end, turns = time.monotonic() + options.seconds, list[Turn]()
    lines = list[str]()
    print(*HEADS, sep="\n")
    most = max(LEAST, options.seconds / (2 * len(names)) - STARTUP)
    with tempfile.TemporaryDirectory() as folder:
        for processes, backend in cycle(product((False, True), names)):
            left = end - time.monotonic()
            if left < most / 2 and turns:  # too short to tell what grows
                break
            turn = Turn(backend, processes)
            seed = options.seed + len(turns)
            run(turn, f"{folder}/{len(turns)}", int(min(left, most)), seed)
            turns.append(turn)
            lines.append(row(turn))
            print(lines[-1], flush=True)
    if options.results:
        write_results("soak", "\n".join([*HEADS, *lines]))
    return int(any(turn.inexact or turn.failures for turn in turns))


def run(turn: Turn, folder: str, seconds: int, seed: int) -> None:
    """Run one turn, and sample its resources."""
    environment = {**os.environ, "KERAS_BACKEND": turn.backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    small_disk = may_mount()
    children, readers = [], []
    for number, rank in enumerate(turn.ranks):
        own = Path(folder, str(number))
        (own / "disk").mkdir(parents=True)
        command = [sys.executable, str(HERE / "soak_turn.py"), str(own), str(seconds), str(seed)]
        command += [str(number), *["processes"] * turn.processes]
        if small_disk:
            mount = f'mount -t tmpfs -o size=1m none {own}/disk && exec "$@"'
            command = ["unshare", "-m", "sh", "-c", mount, "sh", *command]
        child = psutil.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        readers.append(threading.Thread(target=read, args=(child, rank)))
        readers[-1].start()
        children.append(child)
    hung = time.monotonic() + seconds + 120
    while any(child.poll() is None for child in children):
        for child, rank in zip(children, turn.ranks, strict=True):
            sample(child, rank)
            if time.monotonic() > hung:
                child.kill()  # its exit code is a failure
        time.sleep(LOOK)
    for child, reader, rank in zip(children, readers, turn.ranks, strict=True):
        reader.join()
        rank.code = child.wait()


def read(child: Any, rank: Rank) -> None:
    """Collect the lines of JSON that a rank prints."""
    for line in child.stdout or ():
        if line.startswith("{"):
            rank.lines.append(json.loads(line))


def sample(process: psutil.Process, rank: Rank) -> None:
    """Sample the resources of a rank between its first epoch and its end."""
    try:
        size = process.memory_info().rss / 1e6
        held = size, process.num_fds(), process.num_threads()
    except psutil.Error:  # it has just ended
        return
    if rank.epochs and "over" not in rank.lines[-1]:
        rank.samples.append(held)


def row(turn: Turn) -> str:
    """Return a turn as a row of Markdown, and everything that was wrong in it."""
    rows, skipped = (sum(line[key] for line in turn.epochs) for key in ("rows", "skipped"))
    growth = [rank.growth for rank in turn.ranks]
    size, descriptors, threads = (max(column) for column in zip(*growth, strict=True))
    counts = (len(turn.epochs), rows, skipped, turn.faults.total(), len(turn.inexact))
    cells = " | ".join(f"{count:,}" for count in counts)
    wrong = [f"WRONG: {one}" for one in turn.inexact + turn.failures]
    line = f"| {turn.name} | {cells} | {size:+.2%} | {descriptors:+} | {threads:+} |"
    return "\n".join([line, *wrong])


if __name__ == "__main__":
    sys.exit(main())
