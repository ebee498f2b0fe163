"""The stages of a batch, each alone, and all of them together."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd

import dfgen
from dfgen.bench.headroom import arrive, replay, steady_rate
from dfgen.bench.job import InMemory, Job, in_threads
from dfgen.bench.rates import timed
from dfgen.samples.stores.local_files import Files

READ, DECODE, RESIZE = "read", "decode", "decode and resize"
HAND_OVER = "hand-over to the backend"
NUMPY, BACKEND = "dfgen, as NumPy arrays", "dfgen, into the backend"
ONE = "dfgen, as NumPy arrays, workers=1"
OURS = (READ, DECODE, RESIZE, HAND_OVER, NUMPY, BACKEND, ONE)

_KEPT = 8  # batches that are handed over again and again


def stages(job: Job, data: Mapping[str, bytes]) -> dict[str, Callable[[], float]]:
    """Return the stages: on the job's workers, but for the hand-over, which has one thread."""
    memory = InMemory(data)
    buffer = np.empty((job.batch_size, *job.image.spec.shape), np.uint8)

    def read(path: str, _: int) -> None:
        Files().read(path)

    def resize(path: str, number: int) -> None:
        job.image.read(path, buffer[number % job.batch_size], memory)

    def decode(path: str, number: int) -> None:
        with suppress(_DecodedError):
            job.image.read(path, buffer[number % job.batch_size], memory, _until_resize)

    def on_workers(run: Callable[[str, int], None]) -> Callable[[], float]:
        return timed(lambda: in_threads(job.paths, job.workers, run))

    with sequence(job) as made:
        kept = replay(made, _KEPT)
    return {
        READ: on_workers(read),
        DECODE: on_workers(decode),
        RESIZE: on_workers(resize),
        HAND_OVER: lambda: steady_rate(kept),
    }


def together(job: Job) -> dict[str, Callable[[], float]]:
    """Return all stages together, up to NumPy arrays and up to the backend in use.

    Each pass makes its own Sequence: one that stays would work ahead while others are timed.
    """

    def drain(job: Job) -> int:
        with sequence(job) as made:
            return sum(len(images) for images, _ in made)

    def into_backend() -> int:
        with sequence(job) as made:
            return sum(arrive(made))

    candidates = {NUMPY: timed(lambda: drain(job)), BACKEND: timed(into_backend)}
    if job.workers > 1:  # on small files threads may hinder each other
        candidates[ONE] = timed(lambda: drain(replace(job, workers=1)))
    return candidates


def sequence(job: Job) -> dfgen.Sequence:
    """Return the Sequence of a job; every label is class 0, whatever the manifest says."""
    rows = len(job.paths)
    frame = pd.DataFrame({"id": np.arange(rows), "path": job.paths, "label": np.zeros(rows, int)})
    return dfgen.Sequence(
        frame, x=job.image, y="label", batch_size=job.batch_size, workers=job.workers
    )


class _DecodedError(Exception):
    """Ends the making of a sample where its pixels are decoded."""


def _until_resize(stage: str, nbytes: int = 0) -> None:
    if stage == "resize":
        raise _DecodedError
