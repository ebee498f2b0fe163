"""Headroom: what a perfect loader would gain, by replaying batches that are kept in memory."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from dfgen.errors import ArgumentError, did_you_mean
from dfgen.loading.loader import Loader
from dfgen.loading.pending_batch import Batch, PendingBatch
from dfgen.training import keras
from dfgen.training.callbacks.monitor import InputMonitor
from dfgen.training.data_adapter import Passes, view_of
from dfgen.training.progress import Progress
from dfgen.training.sequence import Sequence

_SECONDS = 1.0  # of one measurement of `fit`, about
_HAND_OVER_SECONDS = 0.3
_CLASSES = 1000


@dataclass(frozen=True)
class Headroom:
    """`fit` fed by dfgen, and by a loader that has every batch ready, in turn.

    Images per second, one a round; `input_wait` is the median share of the time that `fit` waits
    for dfgen, by the definition of `InputMonitor`.
    """

    model: str
    steps: int
    fed: tuple[float, ...]
    perfect: tuple[float, ...]
    input_wait: float

    @property
    def gain(self) -> float:
        """The gain of a perfect loader in images per second, as a share of them."""
        return median(self.perfect) / median(self.fed) - 1

    @property
    def is_shown(self) -> bool:
        """Whether every round with replayed batches was faster than any with dfgen."""
        return min(self.perfect) > max(self.fed)


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


def headroom(
    name: str,
    model: keras.Model,
    make_sequence: Callable[[], Sequence],
    rounds: int,
    advance: Callable[[], object],
) -> Headroom:
    """Train a compiled model on a Sequence and on replayed batches of it, in turn.

    Each round makes its own Sequence: one that stays would work ahead of its turn.
    """
    with make_sequence() as sequence:
        perfect = replay(sequence, view_of(sequence).loader.depth)
    rate, _ = _fit(model, perfect, steps=2)
    steps = max(1, round(_SECONDS * rate / perfect.batch_size))
    fed, replayed = [], []
    for _ in range(rounds):
        with make_sequence() as sequence:
            fed.append(_fit(model, sequence.repeat(), steps))
        advance()
        replayed.append(_fit(model, perfect, steps)[0])
        advance()
    wait = median(wait for _, wait in fed)
    return Headroom(name, steps, tuple(rate for rate, _ in fed), tuple(replayed), wait)


def replay(sequence: Sequence, batches: int) -> Passes:
    """Return an endless view of a Sequence's first batches, kept in memory.

    It goes the way of every other batch, through the same hand-over, and waits for nothing.
    """
    view = view_of(sequence)
    loader = view.loader
    kept = [loader.batch(0, step) for step in range(min(batches, len(loader)))]
    full = [batch for batch in kept if len(batch.rows) == loader.batch_size]
    replay = _Replay(loader, full or kept)
    return Passes(replay, Progress(replay), view.layout, False, endless=True)


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


def steady_rate(passes: Passes) -> float:
    """Return the images per second that arrive from an endless view, without its start."""
    arriving = arrive(passes)
    next(arriving)
    images, began = 0, time.perf_counter()
    while (lasted := time.perf_counter() - began) < _HAND_OVER_SECONDS:
        images += next(arriving)
    return images / lasted


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


class _Monitor(InputMonitor):
    """Keeps to itself what it found."""

    def on_train_end(self, logs: Any = None) -> None:
        pass


def _fit(model: keras.Model, endless: Passes, steps: int) -> tuple[float, float]:
    """Return the images per second and the input wait of the second of two epochs."""
    history = model.fit(
        endless, steps_per_epoch=steps, epochs=2, verbose=0, callbacks=[_Monitor()]
    ).history
    return history["images_per_second"][1], history["input_wait"][1]
