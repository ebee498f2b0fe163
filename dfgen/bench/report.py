"""Runs `dfgen bench`: its measurements as a table and as JSON, and what they mean."""

import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import IO, Any

from dfgen import __version__
from dfgen.bench.job import ChosenRows, Job, choose
from dfgen.bench.stages import (
    BACKEND,
    DECODE,
    HAND_OVER,
    NUMPY,
    ONE,
    PASSES,
    READ,
    RESIZE,
    ModelWait,
    Rates,
    alternate,
    application,
    model_wait,
    sequence,
    stages,
    together,
    waiting,
)
from dfgen.errors import WriteError
from dfgen.explain.speed import (
    CLEAR,
    Remedy,
    Waiting,
    cause,
    larger_batches,
    remedies,
    stored_remedies,
    verdict,
)
from dfgen.progress_bars import progress
from dfgen.samples.features.image import Image
from dfgen.system import refuse_others, usable_cpus, whole, write_whole
from dfgen.training import keras
from dfgen.training.data_adapter import view_of

_PACKAGES = ("numpy", "opencv-python-headless", "pillow", "keras")
_SHOWN = 5  # of the rows that were left out
_NOISY = 1.5  # fastest round / slowest
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


def bench(
    manifest: str,
    *,
    rows: int | None = None,
    image_size: tuple[int, int] = (256, 256),
    batch_size: int = 32,
    workers: int | None = None,
    antialias: bool = True,
    model: str | None = None,
) -> Report:
    """Measure how fast batches come from the images of a manifest, and what limits them.

    The arguments are the command's. None: rows that take a second to decode; the CPUs that this
    process may use.
    """
    image = Image("path", size=image_size, antialias=antialias)
    cpus = usable_cpus()
    workers = cpus if workers is None else whole("workers", workers)
    rows = None if rows is None else whole("rows", rows, least=1)
    whole("batch_size", batch_size, least=1)
    trained = application(model, image.spec.shape) if model else None
    sample = choose(manifest, rows, image, batch_size, workers)
    job = Job(sample.paths, image, batch_size, workers)
    ours = stages(job, sample.data) | together(job)
    measurements = len(ours) * (PASSES + 1) + (PASSES if trained else 0)
    with progress(measurements, "Measuring", " passes") as bar:
        rates = alternate(ours, bar.update)
        fed = None
        if model and trained:
            fed = model_wait(model, trained, lambda: sequence(job), PASSES, bar.update)
    with sequence(job) as made:
        reader = view_of(made).loader.reader
        ways = remedies(reader)
        ways += stored_remedies(reader, rows=sample.usable, pack=partial(pack_line, manifest))
    waited = fed.waiting if fed else waiting(job, rates.median(HAND_OVER))
    advice = advise(
        rates, waited, fed, first_read=sample.first_read, rows=sample.usable, remedies=ways
    )
    return Report(manifest, job, sample, cpus, rates, fed, tuple(advice))


def advise(
    rates: Rates,
    waiting: Waiting,
    model: ModelWait | None,
    *,
    first_read: float,
    rows: int,
    remedies: list[Remedy],
) -> list[str]:
    """Return what the figures say, a few sentences a point.

    Args:
        rates: of the stages, and of all together.
        waiting: of the model's training; without a model, of a pass that only hands over.
        model: the model, if one was trained.
        first_read: files per second when they were read for the first time.
        rows: those of an epoch.
        remedies: of these files.
    """
    working = 1 / rates.median(READ) + 1 / rates.median(RESIZE)
    allowed = 1 / max(working, 1 / rates.median(HAND_OVER))  # one thread hands over meanwhile
    made = rates.median(BACKEND)
    points = [
        f"dfgen makes {shown(made)} images/s and hands them to the backend: {made / allowed:.0%} "
        f"of the {shown(allowed)} that its stages alone allow."
    ]
    used = median(model.rates) if model else made
    epoch = waiting.scaled(rows / used / waiting.steps)
    if model:
        points.append(f"{model.model}: {verdict(epoch, remedies, least=0.0)}")
    elif epoch.share < CLEAR:
        cost = larger_batches(epoch.steps, epoch.batches)
        points.append(f"The hand-over to the backend takes all the time. {cost}")
    else:
        points.append(
            f"An epoch of {rows:,} images takes {epoch.steps:,.1f} s, the hand-over alone "
            f"{epoch.model:,.1f} s. {cause(epoch, remedies)}"
        )
    if model is None or epoch.share >= CLEAR:
        if ONE in rates.rounds and rates.faster(ONE, NUMPY):
            points.append(
                f"One worker is faster than {epoch.workers} on these files, "
                f"{rates.ratio(ONE, NUMPY):.2f} x: workers=1. Not tried: use_multiprocessing=True."
            )
        needed = min(made, rows / max(epoch.model, 1e-9))
        if first_read < needed:
            points.append(
                f"Read for the first time, the files came at {shown(first_read)} a second, slower "
                f"than the {shown(needed)} that are used up: if they do not all fit in the memory "
                "that the system has for files, storage is the limit."
            )
    spread = max(max(rounds) / min(rounds) for name, rounds in rates.rounds.items() if name != ONE)
    if spread > _NOISY:
        points.append(
            f"The rounds of one measurement differ by up to {spread:.1f} x: the machine had other "
            "work. Run this again on an idle one for figures to rely on."
        )
    return points


def pack_line(manifest: str, image: Image) -> str:
    """Return the command that packs the pixels that an Image makes of the files of a manifest."""
    height, width, _ = image.spec.shape
    options = "" if image.antialias else " --no-antialias"
    return f"dfgen pack {shlex.quote(manifest)} --out packed --image-size {height},{width}{options}"


def shown(rate: float) -> str:
    """Return a rate with as many digits as are of use."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:,.1f}"


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
    yield f"  {'input_wait: share of the time':<42}{model.waiting.share:>10.1%}"
    yield f"  {f'seconds of an epoch of {rows:,} images':<42}{rows / median(model.rates):>10,.1f}"


def as_json(report: Report) -> dict[str, Any]:
    """Return the report as JSON; every name says its unit, where it has one."""
    job, sample, model = report.job, report.sample, report.model
    return {
        "manifest": report.manifest,
        "setting": {
            "image_size": list(job.size), "batch_size": job.batch_size, "workers": job.workers,
            "cpus": report.cpus, "antialias": job.image.antialias,
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
        "rates": {
            name: _summary(rounds) | {"images_per_second_of_rounds": list(rounds)}
            for name, rounds in report.rates.rounds.items()
        },
        "model": model and {
            "name": model.model, "steps": model.steps, "fed": _summary(model.rates),
            "input_wait_share": model.waiting.share,
            "epoch_seconds": sample.usable / median(model.rates),
        },
        "advice": list(report.advice),
    }  # fmt: skip


def _summary(rounds: tuple[float, ...]) -> dict[str, float]:
    name = "images_per_second"
    return {name: median(rounds), f"{name}_lowest": min(rounds), f"{name}_highest": max(rounds)}


def check_output(path: str) -> None:
    """Refuse a file that could not be written, before anything is measured."""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise WriteError(f"--json {path}: there is no folder {folder}")
    refuse_others(path, "figures of dfgen bench", _is_own)


def _is_own(file: IO[bytes]) -> bool:
    found = json.load(file)
    return isinstance(found, dict) and "dfgen" in found.get("versions", ())


def write(report: Report, path: str) -> None:
    """Write all figures as JSON."""
    text = json.dumps(as_json(report), indent=2) + "\n"
    write_whole(os.path.abspath(path), lambda file: file.write(text.encode()))
