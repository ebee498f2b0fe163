"""Does this Keras do what `keras_private` takes it to do? Tried once, at the first `fit`."""

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError
from dfgen.training import keras_private as private


def falls_back() -> bool:
    """Whether Keras is running, and is one that a Sequence can only serve as a plain PyDataset."""
    return private.is_running() and fault() is not None


def refuse_if_plain(callback: str) -> None:
    """Refuse a callback that cannot count what `fit` takes."""
    if fault() is not None:
        raise ArgumentError(
            f"{callback} cannot tell what fit takes, for Keras {keras.__version__} is not as "
            f"dfgen knows it ({fault()}): train without it, or with a newer dfgen"
        )


@cache
def fault() -> str | None:
    """Return what is other in this Keras than dfgen takes it to be, or None; warns of it once."""
    config = keras.config
    before = keras.distribution.distribution(), config.max_epochs(), config.max_steps_per_epoch()
    try:
        _configure(None, None, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = private.MOVED or _run()
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    finally:
        _configure(*before)
    if found is not None:
        warnings.warn(
            f"Keras {keras.__version__} is not as dfgen knows it ({found}): a Sequence runs as a "
            "plain PyDataset. Every row still comes once an epoch, in another order each epoch, "
            "but slower, and lost are: going on in the middle of an epoch, InputMonitor, "
            "BackupAndRestore, several processes or devices, and the refusal of arguments and "
            "models that do not fit; evaluate and predict on a Sequence count as epochs of it, "
            "and disturb one that is under way. Is there a newer dfgen?",
            stacklevel=2,
        )
    return found


def _configure(distribution: Any, epochs: int | None, steps: int | None) -> None:
    keras.distribution.set_distribution(distribution)
    keras.config.set_max_epochs(epochs)
    keras.config.set_max_steps_per_epoch(steps)


def _run() -> str | None:
    """Run `fit` and `predict` on a model without layers; return what went otherwise, or None."""
    model = _Model(name="dfgen_probe")
    model.compile(keras.optimizers.SGD(name="dfgen_probe"), jit_compile=False)
    private.always_build(model)
    train, validation, tested = _Data(_shorten), _Data(_shorten), _Data(_interrupt)
    given = {"validation_data": validation, "steps_per_epoch": 2, "verbose": 0}
    callback = _Callback()
    model.fit(train, **given, callbacks=[callback])
    model.predict(tested, verbose=0)
    callback.first = 1
    model.fit(_Data(), **given, callbacks=[callback])
    private.symbolic_build(model, (keras.KerasTensor((None, 1)),))
    made = train.made
    validated = [event for event in validation.events if event != "begin build"]
    happened = {
        "made fit(2), begin build, reset fit, begin fit, end fit": train.events,
        "made evaluate(None), reset evaluate, begin evaluate, end evaluate": validated,
        "made predict(None), begin predict, interrupted, end predict": tested.events,
        "train, test, predict, predict": model.steps,
    }
    told = {
        "the model of fit": made is not None and made.model is model,
        "its validation data": made is not None and made.validation is validation,
        "its arguments": made is not None and set(made.arguments) >= private.DROPPED,
        "what it trains on": callback.found[:1] == [train],
        "the global seed": private.seed_is_where_it_was(),
        "the devices of a mesh": private.mesh_is_as_it_was(),
    }
    found = {known: ", ".join(events) for known, events in happened.items()}
    wrong = [f"{found[known]} instead of {known}" for known in found if found[known] != known]
    wrong += [f"{name} cannot be found" for name, is_found in told.items() if not is_found]
    return "; ".join(wrong) or None


def _shorten(data: "_Data", call: private.Call) -> None:
    """Leave one step of the two that `fit` was asked for, and of the three of its validation."""
    if call.driver != "build":
        private.shorten(call.iterator, 1 if call.steps is None else 2, 1)


def _interrupt(data: "_Data", call: private.Call) -> None:
    private.on_interruption(call.iterator, lambda: data.events.append("interrupted"))


class _Data(private.DataAdapter):
    """Says that it has three batches, has two, and notes what Keras does with them."""

    def __init__(self, act: Callable[["_Data", private.Call], None] = lambda data, call: None):
        self._act = act
        self.events: list[str] = []
        self.made: private.Call | None = None

    @property
    def num_batches(self) -> int:
        call = private.call_by_keras()
        if call is not None and call.makes_iterator:
            self.made = call
            self.events.append(f"made {call.purpose}({call.steps})")
        return 3

    def on_epoch_begin(self) -> None:
        call = private.call_by_keras()
        self.events.append(f"begin {call and call.driver}")
        if call is not None:
            self._act(self, call)

    def on_epoch_end(self) -> None:
        call = private.call_by_keras()
        self.events.append(f"{'reset' if call and call.is_reset else 'end'} {call and call.driver}")

    def get_tf_dataset(self) -> Any:
        import tensorflow as tf

        if not tf.distribute.has_strategy():
            return self  # the same to Keras, and made in no time
        rows = tf.distribute.get_strategy().num_replicas_in_sync
        return tf.data.Dataset.from_tensors((np.zeros((rows, 1), np.float32),)).repeat(2)

    def get_numpy_iterator(self) -> Iterator[Any]:
        return iter([(np.zeros((1, 1), np.float32),)] * 2)

    __iter__ = get_jax_iterator = get_torch_dataloader = get_numpy_iterator


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
    first: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.found.append(private.input_of_fit())
        private.begin_at(self.model, self.first)
