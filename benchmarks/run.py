"""Run the benchmarks, each in a process of its own, and say which targets are met.

python benchmarks/run.py [--only NAME]
"""

import argparse
import platform
import time
import traceback
from datetime import date
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from measure import THREADS, Verdict, in_new_process

import dfgen

HERE = Path(__file__).parent
NAMES = sorted(file.stem.removeprefix("bench_") for file in HERE.glob("bench_*.py"))
PACKAGES = ("numpy", "pandas", "pyarrow", "pillow", "opencv-python-headless", "keras")


def main() -> int:
    """Return 1 if a benchmark could not run; a target that is missed is no error."""
    parser = argparse.ArgumentParser(description="Runs dfgen's benchmarks.")
    parser.add_argument("--only", choices=NAMES, action="append", help="one question; repeatable")
    names = parser.parse_args().only or NAMES
    versions = ", ".join(f"{package} {version(package)}" for package in PACKAGES)
    print(f"dfgen {dfgen.__version__}, Python {platform.python_version()}, {versions}")
    print(f"{date.today()}, {platform.platform()}, {THREADS} CPUs")
    start, broken = time.perf_counter(), 0
    verdicts: list[Verdict] = []
    for name in names:
        print(f"\n===== {name}", flush=True)
        try:
            verdicts += in_new_process(run, name)
        except Exception:
            broken += 1
            traceback.print_exc()
    missed = sum(not verdict.met for verdict in verdicts)
    print(f"\n===== all, in {time.perf_counter() - start:.0f} s")
    print(*verdicts, sep="\n")
    print(f"{len(verdicts) - missed} targets met, {missed} missed, {broken} benchmarks broken")
    return 1 if broken else 0


def run(name: str) -> list[Verdict]:
    return import_module(f"bench_{name}").main()


if __name__ == "__main__":
    raise SystemExit(main())
