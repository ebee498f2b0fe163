"""Runs `dfgen bench`."""

import shlex
from functools import partial

from tqdm import tqdm

from dfgen.bench.advice import advise
from dfgen.bench.job import Job, choose
from dfgen.bench.model_wait import application, model_wait
from dfgen.bench.report import Report
from dfgen.bench.stages import PASSES, alternate, sequence, stages, together
from dfgen.explain.remedies import remedies, stored_remedies
from dfgen.samples.features.image import Image
from dfgen.system import usable_cpus, whole
from dfgen.training.data_adapter import view_of


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
    with tqdm(total=measurements, desc="Measuring", disable=None) as bar:
        rates = alternate(ours, bar.update)
        fed = None
        if model and trained:
            fed = model_wait(model, trained, lambda: sequence(job), PASSES, bar.update)
    with sequence(job) as made:
        reader = view_of(made).loader.reader
        ways = remedies(reader)
        ways += stored_remedies(reader, rows=sample.usable, pack=partial(pack_line, manifest))
    advice = advise(
        rates, sample.first_read, fed, rows=sample.usable, workers=workers, cpus=cpus,
        remedies=ways,
    )  # fmt: skip
    return Report(manifest, job, sample, cpus, rates, fed, tuple(advice))


def pack_line(manifest: str, image: Image) -> str:
    """Return the command that packs the pixels that an Image makes of the files of a manifest."""
    height, width, _ = image.spec.shape
    options = "" if image.antialias else " --no-antialias"
    return f"dfgen pack {shlex.quote(manifest)} --out packed --image-size {height},{width}{options}"
