"""Run the benchmarks, each in a process of its own.

python benchmarks/run.py [--only NAME[,NAME...]] [--results]
"""

import argparse
import subprocess
import sys

from measure import HERE, machine, write_results

NAMES = sorted(file.stem.removeprefix("bench_") for file in HERE.glob("bench_*.py"))


def main() -> int:
    """Return 1 if a benchmark fails."""
    parser = argparse.ArgumentParser(description="Runs dfgen's benchmarks.")
    parser.add_argument("--only", default=",".join(NAMES), help=f"some of {', '.join(NAMES)}")
    parser.add_argument("--results", action="store_true", help="write RESULTS.md and a chart")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := {*names} - {*NAMES}:
        parser.error(f"unknown benchmarks {sorted(unknown)}; choose from {', '.join(NAMES)}")
    print(machine())
    failed = False
    for name in names:
        command = [sys.executable, str(HERE / f"bench_{name}.py")]
        command += ["--chart"] * (options.results and name == "peers")
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        print(f"\n== {name}\n\n{done.stdout}", flush=True)
        failed |= done.returncode != 0
        if options.results and done.returncode == 0:
            write_results(name, done.stdout.strip())
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
