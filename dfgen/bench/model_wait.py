"""How long a model waits for its input while `fit` trains it on a job's Sequence."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dfgen.errors import ArgumentError, did_you_mean
from dfgen.explain.speed import Waiting
from dfgen.training import keras
from dfgen.training.callbacks.monitor import InputMonitor
from dfgen.training.data_adapter import Passes
from dfgen.training.sequence import Sequence

_SECONDS = 1.0  # of one measurement of `fit`, about
_CLASSES = 1000


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
