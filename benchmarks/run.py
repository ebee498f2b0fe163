"""Run the benchmarks, each in a process of its own, and say which targets are met.

python benchmarks/run.py [--only NAME[,NAME...]] [--results]
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
    parser.add_argument("--only", type=named, default=NAMES, help="some, with commas between")
    words = "write into results.json, RESULTS.md and plots/ what these found"
    parser.add_argument("--results", action="store_true", help=words)
    options = parser.parse_args()
    print(results.machine())
    start, found = time.perf_counter(), {}
    for name in options.only:
        print(f"\n===== {name}", flush=True)
        try:
            found[name] = in_new_process(run, name)
        except Exception:
            traceback.print_exc()
    broken = len(options.only) - len(found)
    verdicts = [verdict for findings, _ in found.values() for verdict in findings.verdicts]
    missed = sum(not verdict.met for verdict in verdicts)
    print(f"\n===== all, in {time.perf_counter() - start:.0f} s")
    print(*verdicts, sep="\n")
    print(f"{len(verdicts) - missed} targets met, {missed} missed, {broken} benchmarks broken")
    if options.results:
        results.write({name: results.of_benchmark(*one) for name, one in found.items()})
    return 1 if broken else 0


def named(text: str) -> list[str]:
    """Return names of benchmarks that commas part."""
    names = text.split(",")
    if unknown := {*names} - {*NAMES}:
        raise argparse.ArgumentTypeError(f"{sorted(unknown)} are none of {', '.join(NAMES)}")
    return names


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
