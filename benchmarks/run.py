"""Run the benchmarks, each in a process of its own, and say which targets are met.

python benchmarks/run.py [--only NAME] [--results]
"""

import argparse
import contextlib
import io
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

import results
from measure import Findings, in_new_process

HERE = Path(__file__).parent
NAMES = sorted(file.stem.removeprefix("bench_") for file in HERE.glob("bench_*.py"))


def main() -> int:
    """Return 1 if a benchmark could not run; a target that is missed is no error."""
    parser = argparse.ArgumentParser(description="Runs dfgen's benchmarks.")
    parser.add_argument("--only", choices=NAMES, action="append", help="one question; repeatable")
    parser.add_argument("--results", action="store_true", help="write RESULTS.md and plots/")
    options = parser.parse_args()
    print(results.machine())
    start, found = time.perf_counter(), {}
    for name in options.only or NAMES:
        print(f"\n===== {name}", flush=True)
        try:
            found[name] = in_new_process(run, name)
        except Exception:
            traceback.print_exc()
    broken = len(options.only or NAMES) - len(found)
    verdicts = [verdict for findings, _ in found.values() for verdict in findings.verdicts]
    missed = sum(not verdict.met for verdict in verdicts)
    print(f"\n===== all, in {time.perf_counter() - start:.0f} s")
    print(*verdicts, sep="\n")
    print(f"{len(verdicts) - missed} targets met, {missed} missed, {broken} benchmarks broken")
    if options.results:
        results.write(HERE, found)
    return 1 if broken else 0


def run(name: str) -> tuple[Findings, str]:
    """Return what a benchmark has found, and all that it printed."""
    printed = _Both()
    with contextlib.redirect_stdout(printed):
        findings = import_module(f"bench_{name}").main()
    return findings, printed.getvalue()


class _Both(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)  # type: ignore[union-attr]
        return super().write(text)

    def flush(self) -> None:
        sys.__stdout__.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    raise SystemExit(main())
