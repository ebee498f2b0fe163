"""The stages of a batch, each alone and all together, and the wait of a model, measured in turn."""

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
from dfgen.errors import ArgumentError, did_you_mean
from dfgen.explain.speed import Waiting
from dfgen.loading.loader import Loader
from dfgen.loading.pending_batch import Batch, PendingBatch
from dfgen.samples.stores.local_files import Files
from dfgen.system import usable_cpus
from dfgen.training import keras
from dfgen.training.callbacks.monitor import InputMonitor
from dfgen.training.data_adapter import Passes, view_of
from dfgen.training.progress import Progress
from dfgen.training.sequence import Sequence

READ, DECODE, RESIZE = "read", "decode", "decode and resize"
HAND_OVER = "hand-over to the backend"
NUMPY, BACKEND = "dfgen, as NumPy arrays", "dfgen, into the backend"
ONE = "dfgen, as NumPy arrays, workers=1"

PASSES = 5
"""So many that the rounds of equal candidates stand apart by chance once in 250 times only."""
_HAND_OVER_SECONDS = 0.3
_KEPT = 8  # batches that are handed over again and again

Candidates = dict[str, Callable[[], float]]
_SECONDS = 1.0  # of one measurement of `fit`, about
_CLASSES = 1000


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


@dataclass(frozen=True)
class ModelWait:
    """`fit` fed by dfgen: images per second, one a round; how many steps a round has.

    `waiting` is of the round that waited the median share of its time.
    """

    model: str
    steps: int
    rates: tuple[float, ...]
    waiting: Waiting


def application(name: str, image_shape: tuple[int, ...]) -> keras.Model:
    """Return a compiled model of `keras.applications` without weights, for 1,000 classes."""
    known = sorted(
        key for key, value in vars(keras.applications).items() if key[0].isupper() and value
    )
    if name not in known:
        raise ArgumentError(
            f'"{name}" is not a model of keras.applications.{did_you_mean(name, known)} '
            f"Models: {', '.join(known)}"
        )
    height, width, channels = image_shape
    if keras.config.image_data_format() == "channels_first":
        image_shape = (channels, height, width)
    make = getattr(keras.applications, name)
    try:
        model = make(weights=None, input_shape=image_shape, classes=_CLASSES)
    except ValueError as error:
        raise ArgumentError(f"{name} does not take images of {height}x{width}: {error}") from error
    model.compile("sgd", "sparse_categorical_crossentropy")
    return model


def model_wait(
    name: str,
    model: keras.Model,
    make_sequence: Callable[[], Sequence],
    rounds: int,
    advance: Callable[[], object],
) -> ModelWait:
    """Train a compiled model on a Sequence for some rounds, each on a Sequence of its own."""
    with make_sequence() as sequence:
        rate, _ = fit_rate(model, sequence.repeat(), steps=2)
        steps = steps_of(rate, sequence.batch_size)
    found = []
    for _ in range(rounds):
        with make_sequence() as sequence:
            found.append(fit_rate(model, sequence.repeat(), steps))
        advance()
    rates, waits = zip(*found, strict=True)
    waiting = sorted(waits, key=lambda one: one.share)[rounds // 2]
    return ModelWait(name, steps, rates, waiting)


def steps_of(rate: float, batch_size: int) -> int:
    """Return the steps of one measurement at a rate of images per second."""
    return max(1, round(_SECONDS * rate / batch_size))


def fit_rate(model: keras.Model, endless: Passes, steps: int) -> tuple[float, Waiting]:
    """Return the images per second of the second of two epochs, and how long it waited."""
    monitor = _Monitor()
    history = model.fit(
        endless, steps_per_epoch=steps, epochs=2, verbose=0, callbacks=[monitor]
    ).history
    return history["images_per_second"][1], monitor.waiting


class _Monitor(InputMonitor):
    waiting: Waiting

    def on_train_end(self, logs: Any = None) -> None:
        self.waiting = self._waiting()
        super().on_train_end(logs)
