"""The stages of a batch, each alone and all together, measured in turn."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

import dfgen
from dfgen.bench.job import InMemory, Job, in_threads
from dfgen.explain.speed import Waiting
from dfgen.loading.loader import Loader
from dfgen.loading.pending_batch import Batch, PendingBatch
from dfgen.samples.stores.local_files import Files
from dfgen.system import usable_cpus
from dfgen.training import keras
from dfgen.training.data_adapter import Passes, view_of
from dfgen.training.progress import Progress

READ, DECODE, RESIZE = "read", "decode", "decode and resize"
HAND_OVER = "hand-over to the backend"
NUMPY, BACKEND = "dfgen, as NumPy arrays", "dfgen, into the backend"
ONE = "dfgen, as NumPy arrays, workers=1"

PASSES = 5
"""So many that the rounds of equal candidates stand apart by chance once in 250 times only."""
_HAND_OVER_SECONDS = 0.3
_KEPT = 8  # batches that are handed over again and again

Candidates = dict[str, Callable[[], float]]


@dataclass(frozen=True)
class Rates:
    """Images per second of every candidate in every round."""

    rounds: Mapping[str, tuple[float, ...]]

    def median(self, name: str) -> float:
        """Return the median over the rounds."""
        return median(self.rounds[name])

    def ratio(self, name: str, baseline: str) -> float:
        """Return the median of the ratios within one round, where the machine was the same."""
        pairs = zip(self.rounds[name], self.rounds[baseline], strict=True)
        return median(rate / base for rate, base in pairs)

    def faster(self, name: str, other: str) -> bool:
        """Whether every round of one was faster than any of the other."""
        return min(self.rounds[name]) > max(self.rounds[other])


def alternate(
    candidates: Mapping[str, Callable[[], float]], advance: Callable[[], object]
) -> Rates:
    """Run A B C A B C ... and return the rates; the first round warms caches and does not count.

    So a noisy machine treats all candidates alike. `advance` is called after each measurement.
    """
    rounds: dict[str, tuple[float, ...]] = dict.fromkeys(candidates, ())
    for number in range(PASSES + 1):
        for name, candidate in candidates.items():
            rate = candidate()
            rounds[name] += (rate,) if number else ()
            advance()
    return Rates(rounds)


def stages(job: Job, data: Mapping[str, bytes]) -> Candidates:
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
        return _timed(lambda: in_threads(job.paths, job.workers, run))

    with sequence(job) as made:
        kept = replay(made, _KEPT)
    return {
        READ: on_workers(read),
        DECODE: on_workers(decode),
        RESIZE: on_workers(resize),
        HAND_OVER: lambda: _steady_rate(kept),
    }


def together(job: Job) -> Candidates:
    """Return all stages together, up to NumPy arrays and up to the backend in use.

    Each pass makes its own Sequence: one that stays would work ahead while others are timed.
    """

    def drain(job: Job) -> int:
        with sequence(job) as made:
            return sum(len(images) for images, _ in made)

    def into_backend() -> int:
        with sequence(job) as made:
            return sum(arrive(made))

    candidates = {NUMPY: _timed(lambda: drain(job)), BACKEND: _timed(into_backend)}
    if job.workers > 1:  # on small files threads may hinder each other
        candidates[ONE] = _timed(lambda: drain(replace(job, workers=1)))
    return candidates


def waiting(job: Job, hand_over: float) -> Waiting:
    """Return how long steps wait that only hand over, so many images per second."""
    with sequence(job) as made:
        loader = view_of(made).loader
        arriving = arrive(made.repeat())
        next(arriving)  # workers have begun
        before, began, on_cpus = loader.metrics, time.perf_counter(), time.process_time()
        images = sum(islice(arriving, len(made)))
        steps, cpu = time.perf_counter() - began, time.process_time() - on_cpus
        after = loader.metrics
        seconds = {stage: spent - before.seconds[stage] for stage, spent in after.seconds.items()}
        return Waiting(
            max(0.0, steps - images / hand_over), steps, seconds, cpu, len(made), after.workers,
            after.use_multiprocessing, usable_cpus(), loader.depth, loader.max_queue_size,
            rows=after.samples - before.samples,
        )  # fmt: skip


def sequence(job: Job) -> dfgen.Sequence:
    """Return the Sequence of a job; every label is class 0, whatever the manifest says."""
    rows = len(job.paths)
    frame = pd.DataFrame({"id": np.arange(rows), "path": job.paths, "label": np.zeros(rows, int)})
    return dfgen.Sequence(
        frame, x=job.image, y="label", batch_size=job.batch_size, workers=job.workers
    )


def replay(sequence: dfgen.Sequence, batches: int) -> Passes:
    """Return an endless view of a Sequence's first batches, kept in memory.

    It goes the way of every other batch, through the same hand-over, and waits for nothing.
    """
    view = view_of(sequence)
    loader = view.loader
    kept = [loader.batch(0, step) for step in range(min(batches, len(loader)))]
    full = [batch for batch in kept if len(batch.rows) == loader.batch_size]
    replay = _Replay(loader, full or kept)
    return Passes(replay, Progress(replay), view.layout, False, endless=True)


class _Replay(Loader):
    """A Loader whose batches are made already."""

    def __init__(self, loader: Loader, kept: list[Batch]) -> None:
        super().__init__(loader.reader, batch_size=loader.batch_size, workers=0)
        self._kept = kept

    def start(self, epoch: int, step: int, *others: Any, **asked: Any) -> PendingBatch:
        kept = self._kept[step % len(self._kept)]
        return PendingBatch(lambda: kept.arrays, kept.rows, (epoch, step), self.plan, left=0)

    def result(self, pending: PendingBatch) -> Batch:
        return self._kept[pending.position[1] % len(self._kept)]


def arrive(passes: Passes) -> Iterator[int]:
    """Yield the images of each batch as it arrives at the backend in use, on its device."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        for batch in passes.get_tf_dataset():
            yield len(batch[0])
    elif backend == "torch":
        for batch in passes.get_torch_dataloader():
            yield len(keras.ops.convert_to_tensor(batch[0]))
    else:
        import jax

        for batch in passes.get_jax_iterator():
            yield len(jax.device_put(batch[0]).block_until_ready())


def _steady_rate(passes: Passes) -> float:
    """Return the images per second that arrive from an endless view, without its start."""
    arriving = arrive(passes)
    next(arriving)
    images, began = 0, time.perf_counter()
    while (lasted := time.perf_counter() - began) < _HAND_OVER_SECONDS:
        images += next(arriving)
    return images / lasted


def _timed(work: Callable[[], int]) -> Callable[[], float]:

    def rate() -> float:
        began = time.perf_counter()
        images = work()
        return images / (time.perf_counter() - began)

    return rate


class _DecodedError(Exception):
    """Ends the making of a sample where its pixels are decoded."""


def _until_resize(stage: str, nbytes: int = 0) -> None:
    if stage == "resize":
        raise _DecodedError
