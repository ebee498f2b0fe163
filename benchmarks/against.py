"""Compare the speed of this tree with another commit: `make against COMMIT=HEAD~5`.

Two processes, one for each tree, run the cases of against_cases.py in turn: A B, B A, A B, ...
A ratio above 1 means that this tree is faster. Each line has the median of
the ratios, their quartiles, and the medians of both trees.
"""

import argparse
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median, quantiles
from subprocess import PIPE, Popen, check_output, run

import corpus
import cv2
from against_cases import CASES
from measure import machine

TREE = Path(__file__).parents[1]
GIT, DESCRIBE = ["git", "-C", TREE], ["describe", "--always", "--dirty", "--exclude=*"]
BACKEND = "jax"  # the quickest to import
NAMES = "this tree", "the other"
TIMEOUT = 300  # seconds for a measurement


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--only", default=",".join(CASES), help="cases, separated by commas")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, 2 rounds")
    parser.add_argument("--floor", type=float, default=0, help="exit with 1 if a ratio is lower")
    options = parser.parse_args()
    if unknown := {*options.only.split(",")} - {*CASES}:
        parser.error(f"unknown cases {sorted(unknown)}; choose from {', '.join(CASES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # remove the folders first
    share, rounds = (0.1, 2) if options.quick else (1, options.rounds)
    start, ratios = time.perf_counter(), []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="against-")))
        other = folder / "other"
        if run([*GIT, "worktree", "add", "--quiet", "--detach", other, options.commit]).returncode:
            return 2  # git has printed the reason
        stack.callback(run, [*GIT, "worktree", "remove", "--force", other])
        write_data(folder, share)
        command = [sys.executable, str(TREE / "tests/servers.py"), "s3", str(folder / "bucket")]
        server = stack.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True))
        s3 = server.stdout.readline().strip()
        workers = [Worker(tree, folder, s3, stack) for tree in (TREE, other)]
        for number, tree in enumerate((TREE, other)):
            commit = check_output(["git", "-C", tree, *DESCRIBE], text=True).strip()
            print(f"{NAMES[number]}: {commit}", end=", ")
        print(f"{machine()}, {rounds} rounds, {share:g} of the data, Keras on {BACKEND}")
        print(f"{'':<36}{'ratio':>6}  {'quartiles':<14}{NAMES[0]:>11}{NAMES[1]:>11}")
        for name in options.only.split(","):
            line, ratio = compare(name, workers, rounds)
            print(f"{CASES[name][0]:<36}{line}", flush=True)
            ratios.append(ratio)
    print(f"in {time.perf_counter() - start:.0f} s")
    return int(any(ratio is None or ratio < options.floor for ratio in ratios))


def compare(name: str, workers: "list[Worker]", rounds: int) -> tuple[str, float | None]:
    """Return the line of a case and its ratio: None if this tree fails, 1 if the other does."""
    unit, ours, theirs = CASES[name][1], [], []
    for number in range(rounds + 1):
        sides = (0, 1) if number % 2 else (1, 0)
        answers = dict(sorted((side, workers[side].measure(name)) for side in sides))
        if errors := {NAMES[at]: error for at, error in answers.items() if type(error) is str}:
            line = "; ".join(f"{tree} fails: {error}" for tree, error in errors.items())
            return line, None if NAMES[0] in errors else 1
        if number:  # the first round fills caches
            ours.append(answers[0])
            theirs.append(answers[1])
    ratios = [a / b if unit.endswith("/s") else b / a for a, b in zip(ours, theirs, strict=True)]
    low, middle, high = quantiles(ratios * 2, n=4, method="inclusive")  # needs two or more
    digits = 2 if median(ours) < 100 else 0
    both = "".join(f"{median(side):>11,.{digits}f}" for side in (ours, theirs))
    return f"{middle:>6.2f}  {low:.2f} .. {high:.2f}  {both} {unit}", middle


class Worker:
    """A process that runs cases on one tree. It is started again after a crash or timeout."""

    def __init__(self, tree: Path, folder: Path, s3: str, stack: ExitStack) -> None:
        self.own, self.process = Path(tempfile.mkdtemp(dir=folder)), None
        stack.callback(self.stop)
        self.command = [sys.executable, str(TREE / "benchmarks/against_cases.py"), str(tree)]
        settings = {"PYTHONPATH": str(tree), "KERAS_BACKEND": BACKEND, "S3": s3}
        self.environment = os.environ | settings | {"XDG_CACHE_HOME": str(self.own / "home")}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # it would slow down each import

    def measure(self, case: str) -> float | str:
        """Return a figure, or the last line of an error."""
        if self.process is None:
            streams = {"stdin": PIPE, "stdout": PIPE, "stderr": (self.own / "errors").open("w")}
            options = {"cwd": self.own, "env": self.environment, "text": True}
            self.process = Popen(self.command, **streams, **options)
        with suppress(BrokenPipeError):
            print(case, file=self.process.stdin, flush=True)
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT)
        if ready and (line := self.process.stdout.readline()):
            return json.loads(line)  # type: ignore[no-any-return]
        self.stop()
        lines = (self.own / "errors").read_text().splitlines() or ["the process died"]
        return lines[-1] if ready else f"no answer in {TIMEOUT} s"

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None


def write_data(folder: Path, share: float) -> None:
    """Write the files that both trees read."""
    for name in ("photographs", "small", "masks", "bucket", "tree", "links"):
        (folder / name).mkdir()
    corpus.write_photographs(int(1000 * share), folder / "photographs")
    corpus.write_small_images(int(10_000 * share), folder / "small")
    shutil.make_archive(str(folder / "photographs"), "zip", folder / "photographs")
    small = sorted((folder / "small").iterdir())
    for number, file in enumerate(sorted((folder / "photographs").iterdir())):
        gray = cv2.blur(cv2.imread(str(file), cv2.IMREAD_GRAYSCALE), (31, 31))
        cv2.imwrite(str(folder / "masks" / f"{file.stem}.png"), gray // 32)
        if number < 300:
            (folder / "bucket" / file.name).hardlink_to(file)
    for number in range(1000):  # names of the same files, for a large manifest
        (folder / "links" / str(number)).symlink_to(folder / "photographs")
    for number in range(int(100_000 * share)):
        path = folder / "tree" / f"{number // 1000:02d}" / f"{number:05d}.png"
        path.parent.mkdir(exist_ok=True)
        path.hardlink_to(small[number % len(small)])


if __name__ == "__main__":
    raise SystemExit(main())
