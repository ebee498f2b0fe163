"""The measurements as a table, as JSON and as a picture."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import IO, Any, BinaryIO

from dfgen import __version__
from dfgen.bench.advice import shown
from dfgen.bench.job import ChosenRows, Job
from dfgen.bench.model_wait import ModelWait
from dfgen.bench.stages import DECODE, HAND_OVER, NUMPY, READ, RESIZE, Rates
from dfgen.errors import ArgumentError, WriteError
from dfgen.system import refuse_others, write_whole
from dfgen.training import keras

_PACKAGES = ("numpy", "opencv-python-headless", "pillow", "keras")
_SHOWN = 5  # of the rows that were left out
_SOFTWARE = "dfgen bench"
_STAGES = (READ, DECODE, RESIZE, HAND_OVER)


@dataclass(frozen=True)
class Report:
    """All figures of one run, and what they mean."""

    manifest: str
    job: Job
    sample: ChosenRows
    cpus: int
    rates: Rates
    model: ModelWait | None
    advice: tuple[str, ...]


def table(report: Report) -> str:
    """Return the report as text."""
    return "\n".join([*_head(report), "", *_rows(report), *_model(report), "", *report.advice])


def _head(report: Report) -> Iterator[str]:
    job, sample, (height, width) = report.job, report.sample, report.job.size
    yield (
        f"{report.manifest}: {sample.usable + sample.known_problems:,} rows. Measured on "
        f"{len(sample.data):,} files chosen at random, {sample.mean_bytes / 1000:,.1f} kB on "
        f"average, {len(job.paths):,} images a pass"
    )
    yield (
        f"to {height}x{width} (height x width), antialias={job.image.antialias}, "
        f"batch_size={job.batch_size}, workers={job.workers} of {report.cpus} CPUs, "
        f"backend {keras.backend.backend()}"
    )
    if sample.known_problems:
        yield f"left out, as the manifest names a problem: {sample.known_problems:,} rows"
    if sample.left_out:
        yield f"left out, as they cannot be decoded: {len(sample.left_out):,} rows"
        yield from (f"  {problem}" for problem in sample.left_out[:_SHOWN])
        if len(sample.left_out) > _SHOWN:
            yield f"  ... and {len(sample.left_out) - _SHOWN:,} more"


def _rows(report: Report) -> Iterator[str]:
    rates = report.rates
    yield f"{'':<44}{'images/s':>10}  {'lowest .. highest':>21}  {'us/image':>9}  {'x dfgen':>7}"
    yield f"each stage alone, {report.job.workers} workers (hand-over: one thread)"
    first = report.sample.first_read
    yield f"  {'read, the first time':<42}{shown(first):>10}{'':25}{1e6 / first:>9,.1f}"
    yield from (_figures(name, rates.rounds[name]) for name in _STAGES)
    yield "all together"
    for name, rounds in rates.rounds.items():
        if name not in _STAGES:
            yield f"{_figures(name, rounds)}  {rates.ratio(name, NUMPY):>7.2f}"


def _figures(name: str, rounds: tuple[float, ...]) -> str:
    middle = median(rounds)
    extremes = f"{shown(min(rounds))} .. {shown(max(rounds))}"
    return f"  {name:<42}{shown(middle):>10}  {extremes:>21}  {1e6 / middle:>9,.1f}"


def _model(report: Report) -> Iterator[str]:
    if (model := report.model) is None:
        return
    rows = report.sample.usable
    yield f"fit of {model.model}, {model.steps} steps a round"
    yield _figures("fed by dfgen", model.rates)
    yield f"  {'input_wait: share of the time':<42}{model.input_wait:>10.1%}"
    yield f"  {f'seconds of an epoch of {rows:,} images':<42}{rows / median(model.rates):>10,.1f}"


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON; every name says its unit, where it has one."""
    job, sample = report.job, report.sample
    rates = {
        name: _summary(rounds) | {"images_per_second_of_rounds": list(rounds)}
        for name, rounds in report.rates.rounds.items()
    }
    model = report.model and {
        "name": report.model.model,
        "steps": report.model.steps,
        "fed": _summary(report.model.rates),
        "input_wait_share": report.model.input_wait,
        "epoch_seconds": sample.usable / median(report.model.rates),
    }
    return {
        "manifest": report.manifest,
        "setting": {
            "image_size": list(job.size),
            "batch_size": job.batch_size,
            "workers": job.workers,
            "cpus": report.cpus,
            "antialias": job.image.antialias,
            "backend": keras.backend.backend(),
        },
        "versions": {"dfgen": __version__} | {name: version(name) for name in _PACKAGES},
        "rows": sample.usable + sample.known_problems,
        "rows_with_known_problem": sample.known_problems,
        "left_out": list(sample.left_out),
        "files": len(sample.data),
        "mean_file_bytes": sample.mean_bytes,
        "images_per_pass": len(job.paths),
        "first_read_files_per_second": sample.first_read,
        "rates": rates,
        "model": model,
        "advice": list(report.advice),
    }


def _summary(rounds: tuple[float, ...]) -> dict[str, float]:
    return {
        "images_per_second": median(rounds),
        "images_per_second_lowest": min(rounds),
        "images_per_second_highest": max(rounds),
    }


def check_outputs(png: str | None, json_file: str | None) -> None:
    """Refuse files that could not be written, before anything is measured."""
    if png and not find_spec("matplotlib"):
        raise ArgumentError(
            "--png needs matplotlib, which is not installed. It is in the extra named bench: "
            'pip install "keras-dfgen[bench]"'
        )
    for option, file in (("--png", png), ("--json", json_file)):
        if file and not Path(file).absolute().parent.is_dir():
            raise WriteError(f"{option} {file}: there is no folder {Path(file).absolute().parent}")
    for file, is_own in ((png, _is_chart), (json_file, _is_json)):
        if file:
            refuse_others(file, "figures of dfgen bench", is_own)


def _is_chart(file: IO[bytes]) -> bool:
    return _SOFTWARE.encode() in file.read(1_000)


def _is_json(file: IO[bytes]) -> bool:
    found = json.load(file)
    return isinstance(found, dict) and "dfgen" in found.get("versions", ())


def write(report: Report, png: str | None, json_file: str | None) -> None:
    """Draw the rates, and write all figures as JSON, where files are named for them."""
    for name, save in ((png, _draw), (json_file, _save)):
        if name:
            write_whole(os.path.abspath(name), partial(save, report))


def _save(report: Report, file: BinaryIO) -> None:
    file.write(json.dumps(as_json(report), indent=2).encode() + b"\n")


def _draw(report: Report, file: BinaryIO) -> None:
    """Draw the medians, each on a line from its slowest to its fastest round."""
    from matplotlib.figure import Figure

    lines = dict(report.rates.rounds)
    if report.model is not None:
        lines[f"{report.model.model}, fed by dfgen"] = report.model.rates
    colours = ["C7" if name in _STAGES else "C0" for name in lines]
    figure = Figure(figsize=(9, 1 + 0.4 * len(lines)), layout="constrained")
    axes = figure.add_subplot()
    for (name, rounds), colour in zip(lines.items(), colours, strict=True):
        rate = median(rounds)
        axes.plot([min(rounds), max(rounds)], [name, name], color=colour)
        axes.plot([rate], [name], "o", color=colour)
        axes.annotate(shown(rate), (rate, name), (0, 6), textcoords="offset points", ha="center")
    axes.set_xscale("log")
    axes.margins(x=0.08, y=0.08)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("images/s, median and lowest .. highest (logarithmic)")
    height, width = report.job.size
    name = Path(report.manifest).name
    axes.set_title(f"{name} to {height}x{width}, {report.job.workers} workers")
    figure.savefig(file, format="png", dpi=120, metadata={"Software": _SOFTWARE})
