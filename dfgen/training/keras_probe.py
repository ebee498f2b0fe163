"""Which reaches of `keras_private` are there in this Keras? Tried once, at the first `fit`."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError
from dfgen.training import keras_private as private
from dfgen.training.keras_calls import (
    DROPPED,
    Call,
    call_by_keras,
    given_beside,
    is_running,
    of_fit,
)
from dfgen.training.keras_private import PLAIN, REACHES, Reach, Trial


def falls_back() -> bool:
    """Whether Keras is running, and is one that a Sequence can only serve as a plain PyDataset."""
    return is_running() and not PLAIN.isdisjoint(missing())


def lacks(name: str) -> bool:
    """Whether this Keras lacks a reach."""
    return name in missing()


def refuse_if_plain(callback: str) -> None:
    """Refuse a callback that cannot count what `fit` takes."""
    gone = [reach.name for reach in REACHES if reach.name in missing() & PLAIN]
    if gone:
        raise ArgumentError(
            f"{callback} cannot tell what fit takes, for Keras {keras.__version__} is not as "
            f"dfgen knows it ({gone[0]}): train without it, or with a newer dfgen"
        )


def refuse_if_unseen() -> None:
    """Refuse `fit` where it does not show what it was given."""
    if lacks("arguments of fit"):
        raise ArgumentError(
            f"Keras {keras.__version__} does not show what fit, evaluate and predict were given: "
            "class_weight=, y= or batch_size= could be dropped in silence. Take an older Keras or "
            "a newer dfgen, or train in a loop of your own: for x, y in sequence: ..."
        )


@cache
def missing() -> frozenset[str]:
    """Return the names of the reaches that are not there; warns of them, and of a newer Keras."""
    if not hasattr(keras.Model, "train_step"):  # nothing to try on NumPy, which cannot train
        return frozenset()
    trial = _tried()
    gone = [reach for reach in REACHES if not _is_there(reach, trial)]
    plain = [reach for reach in gone if reach.name in PLAIN][:1]
    version = f"Keras {keras.__version__}"
    if gone:
        told = "; ".join(f"without {reach.name}, {reach.lost}" for reach in plain or gone)
        why = "" if trial.error is None else f" ({trial.error})"
        warnings.warn(
            f"{version} is not as dfgen knows it{why}: {told}. Is there a newer dfgen?",
            stacklevel=2,
        )
    if private.VERSION > private.TESTED:
        newest = ".".join(map(str, private.TESTED))
        warnings.warn(
            f"{version} is newer than those that dfgen was tested with, up to {newest}. The parts "
            f"of Keras that it uses were tried just now, and {'the rest' if gone else 'all'} is "
            "as before. Resuming after a kill, several processes and devices, and each loss and "
            "callback were not. Is there a newer dfgen?",
            stacklevel=2,
        )
    return frozenset(reach.name for reach in gone)


def _is_there(reach: Reach, trial: Trial) -> bool:
    try:
        return bool(reach.is_there(trial))
    except Exception:  # a probe that fails has found something else
        return False


def _tried() -> Trial:
    config, trial, shared = keras.config, Trial(), keras.distribution
    setters = shared.set_distribution, config.set_max_epochs, config.set_max_steps_per_epoch
    before = shared.distribution(), config.max_epochs(), config.max_steps_per_epoch()
    try:
        for put in setters:
            put(None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _try(trial)
    except Exception as error:
        trial.error = f"{type(error).__name__}: {error}"
    finally:
        for put, value in zip(setters, before, strict=True):
            put(value)
    return trial


def _try(trial: Trial) -> None:
    """Compile a functional model; run `fit` and `predict` on another, without layers."""
    trial.model = _compiled()
    model, callback = _Model(name="dfgen_probe"), _Callback()
    model.compile(keras.optimizers.SGD(name="dfgen_probe"), jit_compile=False)
    train, validation, tested, last = *(_Data(_shorten) for _ in range(3)), _Data()
    given = {"validation_data": validation, "steps_per_epoch": 2, "verbose": 0}
    model.fit(train, **given, callbacks=[callback])
    model.evaluate(tested, verbose=0)
    model.predict(last, verbose=0)
    trial.events = tuple(", ".join(d.events) for d in (train, validation, tested, last))
    steps = ", ".join(model.steps)
    model.steps.clear()
    callback.first = 1
    model.fit(_Data(), **given, callbacks=[callback])
    trial.steps = steps, ", ".join(model.steps)
    trial.arguments = train.given.keys() >= {*DROPPED, "steps_per_epoch"}
    trial.callbacks = callback.found == [(train, keras.callbacks.CallbackList)]


def _compiled() -> keras.Model:
    x = keras.Input((1,), name="dfgen_probe_x")
    zeros = {"kernel_initializer": "zeros", "bias_initializer": "zeros"}
    y = keras.layers.Dense(1, **zeros, name="dfgen_probe_y")(x)
    model = keras.Model(x, y, name="dfgen_probe_model")
    optimizer = keras.optimizers.SGD(name="dfgen_probe_optimizer")
    model.compile(
        optimizer, loss=["mse"], loss_weights=[2.0], metrics=["mae"], jit_compile=False,
        auto_scale_loss=False,
    )  # fmt: skip
    optimizer.build(model.trainable_variables)
    return model


def _shorten(call: Call) -> None:
    """Leave one step of the two that `fit` was asked for, and of the three of its validation."""
    private.shorten(call.iterator, 1 if call.purpose == "evaluate" else 2, 1)


class _Data(private.DataAdapter):
    """Says that it has three batches, has two, and notes what Keras does with them."""

    def __init__(self, act: Callable[[Call], None] = lambda call: None) -> None:
        self._act = act
        self._is_reset = False
        self.events: list[str] = []
        self.given: dict[str, Any] = {}

    @property
    def num_batches(self) -> int:
        call = call_by_keras(self)
        self.given |= given_beside(self)
        if call is not None and call.makes_iterator:
            self.events.append(f"made {call.purpose}({call.steps})")
        return 3

    def on_epoch_begin(self) -> None:
        call = call_by_keras(self)
        self.events.append(f"begin {call and call.purpose}")
        if call is not None and self._is_reset:
            with suppress(AttributeError):  # one reach is not to take the others with it
                self._act(call)

    def on_epoch_end(self) -> None:
        call = call_by_keras(self)
        self._is_reset = call is not None and call.is_reset
        self.events.append(f"{'reset' if self._is_reset else 'end'} {call and call.purpose}")

    def get_tf_dataset(self) -> Any:
        import tensorflow as tf

        if not tf.distribute.has_strategy():
            return self  # the same to Keras, and made in no time
        rows = tf.distribute.get_strategy().num_replicas_in_sync
        return tf.data.Dataset.from_tensors((np.zeros((rows, 1), np.float32),)).repeat(2)

    def get_numpy_iterator(self) -> Iterator[Any]:
        return iter([(np.zeros((1, 1), np.float32),)] * 2)

    def get_jax_iterator(self, super_batch: int | None = None) -> Iterator[Any]:
        return self.get_numpy_iterator()

    __iter__ = get_torch_dataloader = get_numpy_iterator


class _Model(keras.Model):
    """Notes the steps that it would take."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self.steps: list[str] = []

    def call(self, x: Any) -> Any:
        return x

    def get_metrics_result(self) -> dict[str, float]:
        return {"loss": 0.0}

    def _step(self, name: str) -> Callable[..., Any]:
        def step(*given: Any) -> Any:  # JAX gives its state before the batches
            if not isinstance(given[-1], list | tuple):
                next(given[-1])
            self.steps.append(name)
            return ({}, given[0]) if len(given) > 1 else {}

        return step

    def make_train_function(self, force: bool = False) -> None:
        self.train_function = self._step("train")

    def make_test_function(self, force: bool = False) -> None:
        self.test_function = self._step("test")

    def make_predict_function(self, force: bool = False) -> None:
        self.predict_function = self._step("predict")


class _Callback(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.first: int | None = None
        self.found: list[Any] = []

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.found:
            self.found.append((of_fit("x"), type(of_fit("callbacks"))))
        private.begin_at(self.model, self.first)
