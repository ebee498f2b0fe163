"""Who survives what? Faults done to dfgen, torch DataLoader, tf.data, Keras's PyDataset and Grain.

    python benchmarks/survive.py [--cases hangs,cut] [--loaders dfgen,Grain] [--jobs 3] [--results]

Each case runs with each loader in a process of its own, under a time limit. Prints a table of
Markdown, in which bold marks a result that would hurt a user. `--results` writes it into
RESULTS.md. Exits with 1 if dfgen, with processes, has a bold result.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import psutil
from measure import write_results
from survive_cases import CASES, Outcome, write_files
from survive_loaders import IN_THREADS, LOADERS, Job

FAREWELL = 15  # seconds after the end of a program until its children must have ended
BACKENDS = "torch", "jax", "tensorflow"  # the quickest to start first
PROMISES = "dfgen, processes"
MARK = "SURVIVE_TURN"  # in the environment of all processes of a turn


def turn(case: str, loader: str, folder: Path) -> None:
    """Run a case on a loader in this process, and write its outcome to a file."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job of a shell may ignore it
    paths = write_files(folder / "files")
    outcome = CASES[case].run(lambda **job: LOADERS[loader][1](Job(paths, **job)), folder)
    (folder / "outcome.json").write_text(json.dumps(asdict(outcome)))


def watch(case: str, loader: str) -> Outcome:
    """Run a turn in a process of its own, and judge it from outside."""
    if CASES[case].needs_processes and loader in IN_THREADS:
        return Outcome(True, "has none")
    with tempfile.TemporaryDirectory() as folder:
        mark, out = uuid.uuid4().hex, Path(folder)
        command = [sys.executable, __file__, "--turn", case, loader, folder]
        backend = next(name for name in BACKENDS if find_spec(name))
        environment = {**os.environ, MARK: mark, "KERAS_BACKEND": backend}
        with open(out / "said", "w") as said:
            child = subprocess.Popen(
                command, env=environment, stdout=said, stderr=said, start_new_session=True
            )
        try:
            try:
                code: int | None = child.wait(CASES[case].limit)
            except subprocess.TimeoutExpired:
                code = None
            outcome = judge(case, code, out, mark)
            print(case, loader, outcome.what, sep=": ", file=sys.stderr, flush=True)
            return outcome
        finally:
            for process in _marked(mark):
                process.kill()
            child.wait()


def judge(case: str, code: int | None, folder: Path, mark: str) -> Outcome:
    """Judge a turn by its exit code, its written outcome and the processes that it left."""
    written = folder / "outcome.json"
    found = Outcome(**json.loads(written.read_text())) if written.exists() else None
    if code is None:
        return Outcome(False, "hangs" if found is None else f"{found.what}, then hangs")
    if (folder / "killed").exists():
        found = Outcome(True, "nothing left")
    said = (folder / "said").read_text(errors="replace")
    if found is None:
        names = re.findall(r"^(?:\w+\.)*(\w*(?:Error|Interrupt))\b", said, re.MULTILINE)
        error = f"error: {names[-1]}" if names else f"exit code {code}"  # out of what was no try
        found = Outcome(False, f"dies of {signal.Signals(-code).name}" if code < 0 else error)
    if case == "ctrl_c" and "Traceback" in said:
        found = Outcome(False, f"{found.what}, tracebacks of workers")
    deadline = time.monotonic() + FAREWELL
    while (left := len(_marked(mark))) and time.monotonic() < deadline:
        time.sleep(0.1)
    return Outcome(False, f"{found.what}, {left} processes left") if left else found


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def may_mount() -> bool:
    """Return whether a process can mount a small disk of its own."""
    if not shutil.which("unshare"):
        return False
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/dev/shm"]
    return not subprocess.run(tried, capture_output=True).returncode


def table(found: dict[tuple[str, str], Outcome], cases: list[str], loaders: list[str]) -> str:
    """Return the outcomes as a table of Markdown, and the number of good ones."""
    lines = [["", *loaders], ["---"] * (len(loaders) + 1)]
    for case in cases:
        cells = [found[case, loader] for loader in loaders]
        lines.append([CASES[case].title, *(c.what if c.good else f"**{c.what}**" for c in cells)])
    good = [str(sum(found[case, loader].good for case in cases)) for loader in loaders]
    lines.append([f"as needed, of {len(cases)}", *good])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turn", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--loaders", default="", help="beginnings of their names")
    parser.add_argument("--jobs", type=int, default=3, help="turns at a time")
    parser.add_argument("--results", action="store_true", help="write into RESULTS.md")
    given = parser.parse_args()
    if given.turn:
        case, loader, folder = given.turn
        turn(case, loader, Path(folder))
        return 0
    cases, beginnings = given.cases.split(","), tuple(given.loaders.split(","))
    chosen = [name for name in LOADERS if name.startswith(beginnings)]
    loaders = [name for name in chosen if find_spec(LOADERS[name][0])]
    print(f"not installed: {sorted({*chosen} - {*loaders})}", file=sys.stderr)
    pairs = list(product(cases, loaders))
    with ThreadPoolExecutor(given.jobs) as pool:
        found = dict(zip(pairs, pool.map(watch, *zip(*pairs, strict=True)), strict=True))
    text = table(found, cases, loaders)
    print(text)
    if given.results:
        write_results("survive", text)
    return int(not all(one.good for (_, name), one in found.items() if name == PROMISES))


if __name__ == "__main__":
    sys.exit(main())
