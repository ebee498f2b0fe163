"""Does a GPU wait for dfgen, does every pixel arrive on it, does a killed training end the same?

python benchmarks/gpu.py [--wheels FOLDER] [--out FOLDER] [--small] [--minutes 9]

Runs on torch, JAX or both, whichever are installed. Wheels of what else is missing are installed
into a temporary folder, without a network. Writes gpu.json and gpu.md, and exits with 1 if a row
arrived wrong, weights differ or a part failed. Without a GPU (--small) all is tiny, which shows
that it runs and measures nothing.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BACKENDS = ("torch", "jax")
CHECKS = {
    "resume": {
        "XLA_FLAGS": "--xla_gpu_deterministic_ops=true",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    },
    "correctness": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
}
"""Parts that run on all backends side by side, and what is set for them before a backend loads."""
FAREWELL = 10  # seconds to write the page in
LAST = 45  # seconds that what a part has begun may go on for

Line = dict[str, Any]

WAITING = """\
`synthetic` is one batch that stays on the device, measured before and after the others; `beside
it` is the share of its images per second that remains. `input_wait` and `ms a step` are those of
`InputMonitor`, in epochs of their own: with it Keras waits for the device after each step. `GPU`
is the utilisation of `nvidia-smi`, `CPUs` how many of the machine's were busy. All models train in
mixed_bfloat16."""
ARRIVING = """\
Each pixel encodes the number of its row, and the label is that number. The device compares them,
and nothing waits for it: a buffer that is used again while a copy from it runs would show."""
RESUMING = """\
A training with random crops, Dropout, BatchNormalization and Adam is killed by SIGKILL and goes on
in another process, with deterministic kernels. Its weights are compared with those of a run that
nothing ended."""


@dataclass(frozen=True)
class Run:
    """What all turns share."""

    folder: Path
    environment: dict[str, str]
    small: bool
    began: float
    ends: float

    def turn(self, backend: str, part: str, share: float = 1.0) -> list[Line]:
        """Return what a part tells on a backend; its error too, if it fails or takes too long.

        The part begins nothing new after `share` of the time that is left.
        """
        left = self.ends - time.monotonic()
        seconds = f"{max(0.0, left * share - LAST):.0f}"
        command = [sys.executable, str(HERE / "gpu_turn.py"), part, str(self.folder), seconds]
        changed = {"KERAS_BACKEND": backend, **CHECKS.get(part, {})}
        self.say(f"{backend}: {part} begins")
        child = subprocess.Popen(
            command + ["small"] * self.small, env=self.environment | changed, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        killer = threading.Timer(max(1.0, left), child.kill)
        killer.start()
        lines, others = list[Line](), list[str]()
        for text in child.stdout or ():
            if text.startswith('{"part"'):
                lines.append(json.loads(text))
                self.say(text.strip())
            else:
                others.append(text.strip())
        killer.cancel()
        if code := child.wait():
            why = "killed, for time or memory" if code == -signal.SIGKILL else f"exit code {code}"
            error = ": ".join(filter(None, [why, " / ".join(others[-8:])]))
            lines.append({"part": part, "backend": backend, "error": error})
            self.say(f"{backend}: {part} FAILED: {error}")
        return lines

    def checks(self, backend: str) -> list[Line]:
        return [line for part in CHECKS for line in self.turn(backend, part, share=0.5)]

    def say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:4.0f} s] {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="a folder of what is not installed here")
    parser.add_argument("--out", type=Path, default=Path(), help="folder of gpu.json and gpu.md")
    parser.add_argument("--small", action="store_true", help="tiny; so it is without nvidia-smi")
    parser.add_argument("--minutes", type=float, default=9, help="that it takes at most")
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    options = parser.parse_args()
    backends = options.backend or [name for name in BACKENDS if find_spec(name)]
    if not backends:
        parser.error(f"none of {', '.join(BACKENDS)} is installed")
    began = time.monotonic()
    small = options.small or shutil.which("nvidia-smi") is None
    with tempfile.TemporaryDirectory() as folder:
        variables = environment(Path(folder, "site"), options.wheels)
        run = Run(Path(folder), variables, small, began, began + options.minutes * 60 - FAREWELL)
        lines = run.turn(backends[0], "prepare")
        with ThreadPoolExecutor() as pool:
            lines += [line for found in pool.map(run.checks, backends) for line in found]
        for after, backend in enumerate(backends):
            lines += run.turn(backend, "throughput", share=1 / (len(backends) - after))
    found = {"small": small, "seconds": round(time.monotonic() - began), "lines": lines}
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    (options.out / "gpu.md").write_text(page(found))
    print(page(found))
    bad = ("error", "wrong", "not_once", "differ")
    return 1 if any(line.get(name) for line in lines for name in bad) else 0


def environment(site: Path, wheels: Path | None) -> dict[str, str]:
    """Return the environment of turns: dfgen from here, wheels from `site`."""
    if wheels is not None:
        files = sorted(map(str, wheels.glob("*.whl")))
        if not files:
            raise SystemExit(f"{wheels} holds no wheels (*.whl): fill it with `pip download`")
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        subprocess.run([*install, "--no-compile", "--target", str(site), *files], check=True)
    paths = [str(HERE.parent), str(site), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def page(found: Line) -> str:
    """Return all that was found as a page of Markdown."""
    done = [line for line in found["lines"] if "device" in line and "left_out" not in line]
    ran = dict.fromkeys(f"{line['backend']} on {line['device']}" for line in done)
    resumed, arrived, fed = (
        [line for line in done if line["part"] == part] for part in (*CHECKS, "throughput")
    )
    missing = [
        [line["backend"], line["part"], line.get("error") or f"no time for {line['left_out']}"]
        for line in found["lines"]
        if "error" in line or "left_out" in line
    ]
    tiny = "**No GPU, tiny models and few batches: this shows that it runs, and measures nothing.**"
    texts = [
        f"# dfgen: {', '.join(ran) or 'nothing ran'}",
        f"Written by `python benchmarks/gpu.py` after {found['seconds']} s.",
        *([tiny] if found["small"] else []),
        *(text for line in found["lines"] for text in line.get("machine", [])),
        *section("Does it wait?", WAITING, waiting(fed)),
        *section("Do the pixels arrive?", ARRIVING, arriving(arrived)),
        *section("Does a killed training end the same?", RESUMING, resuming(resumed)),
        *section("Missing", "These failed, or had no time.", table("on | part | why", missing)),
    ]
    return "\n\n".join(texts) + "\n"


def section(title: str, note: str, lines: list[str]) -> list[str]:
    """Return the paragraphs of a section, none without lines."""
    return [f"## {title}", note, "\n".join(lines)] if lines else []


def table(heads: str, rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a table, none without rows."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return [f"| {heads} |", "|" + "---|" * (heads.count("|") + 1), *lines] if lines else []


def waiting(lines: list[Line]) -> list[str]:
    """Return the table of models by what they were fed from."""

    def figure(line: Line, name: str, form: str) -> str:
        return "" if line.get(name) is None else form.format(line[name])

    rows = []
    for (backend, model), group in groupby(lines, lambda line: (line["backend"], line["model"])):
        own = list(group)
        perfect = [line["images_per_second"] for line in own if line["source"] == "synthetic"]
        for line in own:
            rate = line["images_per_second"]
            rows.append(
                [
                    backend, line["device"], model, line["batch"], line["source"], f"{rate:,.0f}",
                    f"{rate * len(perfect) / sum(perfect):.2f}",
                    figure(line, "input_wait", "{:.1%}"), figure(line, "wait_ms", "{:.2f}"),
                    figure(line, "gpu", "{:.0f} %"), f"{line['cpus']:.1f}",
                ]
            )  # fmt: skip
    heads = "backend | device | model | batch | fed from | images/s | beside it | input_wait"
    return table(f"{heads} | ms a step | GPU | CPUs", rows)


def arriving(lines: list[Line]) -> list[str]:
    """Return the table of rows that arrived, by where from and by whom they were made."""

    def kind(line: Line) -> list[str]:
        workers = "processes" if line["processes"] else "threads"
        return [line["backend"], line["device"], line["source"], workers]

    def sums(own: list[Line]) -> list[str]:
        counted = ("batches", "wrong", "not_once")
        return [f"{sum(line[name] for line in own):,}" for name in counted]

    rows = []
    for about, group in groupby(lines, kind):
        own = list(group)
        rows.append([*about, f"{own[0]['workers']} .. {own[-1]['workers']}", *sums(own)])
    rows += [["all", "", "", "", "", *sums(lines)]] if rows else []
    heads = "backend | device | from | workers are | workers | batches | wrong rows"
    return table(f"{heads} | rows not once an epoch", rows)


def resuming(lines: list[Line]) -> list[str]:
    """Return the table of trainings that were killed."""
    rows = (
        [line["backend"], line["device"], *line["killed_at"], line["arrays"], line["differ"]]
        for line in lines
    )
    return table("backend | device | killed in epoch | at step | weights | that differ", rows)


if __name__ == "__main__":
    sys.exit(main())
