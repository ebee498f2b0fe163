"""Every reach into Keras's private parts, and the probe that proves them before the first step.

Read from Keras 3.12 and 3.15, `keras/src/trainers/epoch_iterator.py`, `data_adapters/__init__.py`
and `backend/*/trainer.py`. Keras takes a `DataAdapter` as it is, but tells it neither who asks,
`fit` or `evaluate`, nor what else they were given: the calling frames do. Where a newer Keras
differs in any of this, a Sequence falls back: see `PlainPasses`.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

import keras

try:
    from keras.src.backend.common.global_state import get_global_attribute, set_global_attribute
    from keras.src.losses.losses import LossFunctionWrapper
    from keras.src.random.seed_generator import global_seed_generator
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter as DataAdapter
    from keras.src.trainers.epoch_iterator import EpochIterator
except ImportError as error:  # pragma: no cover - no released Keras yet
    MOVED: str | None = str(error)
    EpochIterator = None

    class DataAdapter:  # type: ignore[no-redef]
        """Stands in where Keras has moved its own."""

else:
    MOVED = None

_DRIVERS = {
    "fit": "fit",
    "evaluate": "evaluate",
    "predict": "predict",
    "_symbolic_build": "build",
    "_maybe_symbolic_build": "build",
}
_SEED = "global_seed_generator"
_PREDICT = "trainable_variables", "non_trainable_variables"
_STATES = {
    "fit": (*_PREDICT, "optimizer_variables", "metrics_variables"),
    "evaluate": (*_PREDICT, "metrics_variables"),
    "predict": _PREDICT,
}
"""What a step of each is given and returns on JAX, in this order."""
_ASKED = "asked_of_losses"
_OF_VALIDATION = "validation_steps", "validation_batch_size"
DROPPED = {"y", "sample_weight", "class_weight", "batch_size", "shuffle"}
"""Arguments of `fit` that reach an EpochIterator, and go no further where data is its adapter."""
_CHECKPOINT = "best", "_batches_seen_since_last_saving", "_last_batch_seen"
COUNTED_BY = {
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch", "best_weights"),
    "ModelCheckpoint": _CHECKPOINT,
    "OrbaxCheckpoint": (*_CHECKPOINT, "_total_batches_seen"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
    "TensorBoard": ("_global_train_batch", "_global_test_batch"),
}
"""What each of Keras's callbacks counts; the others count nothing that training depends on."""


@dataclass(frozen=True)
class Call:
    """A call by one of Keras's EpochIterators, the loops over the batches of one epoch.

    Args:
        iterator: the EpochIterator.
        method: its method that calls.
        driver: what runs: fit, evaluate or predict, `build` while a model is built, or None.
        purpose: what the iterator is for: fit, evaluate (the validation of fit too) or predict;
            None for a loop that is not Keras's own.
        model: whose method that is.
        validation: the validation data of fit, which Keras looks at after the first epoch only.
        of_validation: what else fit was given for it.
        arguments: of `EpochIterator.__init__`, while that is the method, else empty.
    """

    iterator: Any
    method: str
    driver: str | None
    purpose: str | None
    model: Any
    validation: Any
    of_validation: Mapping[str, Any]
    arguments: Mapping[str, Any]

    @property
    def makes_iterator(self) -> bool:
        """Whether the iterator is being made, and what it was given is known."""
        return bool(self.arguments)

    @property
    def is_reset(self) -> bool:
        """Whether the iterator only starts anew, which ends no epoch."""
        return self.method == "reset"

    @property
    def steps(self) -> Any:
        """How many batches `steps_per_epoch` takes, in whole executions; None without it."""
        steps, each = self.iterator.steps_per_epoch, self.iterator.steps_per_execution
        return steps and -(-steps // each) * each


def call_by_keras() -> Call | None:
    """Return the call that the method which asks is answering, None if it is not Keras's."""
    frame = sys._getframe(2)
    iterator = frame.f_locals.get("self")
    if EpochIterator is None or not isinstance(iterator, EpochIterator):
        return None
    running = _running(frame, *_DRIVERS)
    caller = _running(running, "fit", "evaluate", "predict")
    held = {} if caller is None else caller.f_locals
    purpose = None if caller is None else caller.f_code.co_name
    if purpose == "fit" and held.get("epoch_iterator", iterator) is not iterator:
        purpose = "evaluate"
    return Call(
        iterator,
        frame.f_code.co_name,
        None if running is None else _DRIVERS[running.f_code.co_name],
        purpose,
        held.get("self"),
        held.get("validation_data") if purpose == "fit" else None,
        {name: held.get(name) for name in _OF_VALIDATION},
        dict(frame.f_locals) if frame.f_code is EpochIterator.__init__.__code__ else {},
    )


def _running(frame: FrameType | None, *names: str) -> FrameType | None:
    """Return the innermost frame, outwards, of a function of Keras that has one of these names."""
    while frame is not None:
        of_keras = str(frame.f_globals.get("__name__", "")).startswith("keras.")
        if of_keras and (not names or frame.f_code.co_name in names):
            break
        frame = frame.f_back
    return frame


def is_running() -> bool:
    """Whether Keras is among those that called."""
    return _running(sys._getframe(1)) is not None


def input_of_fit(frame: FrameType | None = None) -> Any:
    """Return what the `fit` that called the caller, or a frame, trains on, as Keras holds it."""
    found = _running(frame or sys._getframe(1), "fit")
    return None if found is None else found.f_locals["epoch_iterator"].data_adapter


def validation_of_fit() -> Any:
    """Return the validation data of the `fit` that called the caller."""
    found = _running(sys._getframe(1), "fit")
    return None if found is None else found.f_locals.get("validation_data")


def callbacks_of_fit() -> Any:
    """Return the `keras.callbacks.CallbackList` of the `fit` that called the caller."""
    found = _running(sys._getframe(1), "fit")
    return None if found is None else found.f_locals.get("callbacks")


def validation_logs(model: Any, epoch: int) -> dict[str, Any]:
    """Do the validation that the `fit` that called the caller does after an epoch; its logs."""
    found = _running(sys._getframe(1), "fit")
    held = {} if found is None else found.f_locals
    given = held.get("validation_data") is not None
    if not given or not model._should_eval(epoch, held["validation_freq"]):
        return {}
    logs = model.evaluate(
        x=held["val_x"],
        y=held["val_y"],
        sample_weight=held["val_sample_weight"],
        batch_size=held["validation_batch_size"] or held["batch_size"],
        steps=held["validation_steps"],
        callbacks=held["callbacks"],
        return_dict=True,
    )
    return {f"val_{name}": value for name, value in logs.items()}


def put_variables_back() -> None:
    """Give the model of the loop that asks for a batch its variables back, where it has none.

    On JAX Keras takes them out of a model for the time of its steps, and after an error does not
    put them back in `evaluate`, in `predict`, and in the first step of `fit`. The innermost frame
    that has `state` has those of now.
    """
    frame, state = sys._getframe(1).f_back, None
    while keras.backend.backend() == "jax" and (frame := _running(frame)) is not None:
        held = frame.f_locals
        state = held.get("state") if state is None else state
        if (names := _STATES.get(frame.f_code.co_name)) is not None:
            if isinstance(state, tuple) and len(state) == len(names):
                held["self"]._jax_state = dict(zip(names, state, strict=True))
                held["self"].jax_state_sync()
            break
        frame = frame.f_back


def has_lost_variables(model: Any) -> bool:
    """Whether Keras has left a model without values of its variables, as it may on JAX."""
    lost = (None, None)
    return keras.backend.backend() == "jax" and any(
        (getattr(v, "_value", v), getattr(v, "_initializer", v)) == lost for v in model.variables
    )


def unweighted_metrics(model: Any) -> Any:
    """Return what a model was compiled with as `metrics=`, None if nothing."""
    return getattr(getattr(model, "_compile_metrics", None), "_user_metrics", None)


def shorten(iterator: Any, batches: int, done: int) -> Callable[[Any, bool], None]:
    """Let the EpochIterator of a `fit` that goes on do only what is left of its first epoch.

    Of a pass that has an end so many batches are left, of `steps_per_epoch` so many steps are done.
    What it returns undoes it when that epoch has ended; it is told the iterator, which it does not
    hold, and whether the pass has ended too.
    """
    steps, full = iterator.steps_per_epoch, iterator._num_batches
    if full is not None:
        iterator._num_batches = batches
    if steps is not None:
        iterator.steps_per_epoch = steps - done

    def undo(iterator: Any, pass_has_ended: bool) -> None:
        iterator.steps_per_epoch = steps
        if pass_has_ended:
            iterator._num_batches = full

    return undo


def on_interruption(iterator: Any, act: Callable[[], None]) -> None:
    """Have an EpochIterator that runs out of data do something else than warn."""
    iterator._interrupted_warning = act


def begin_at(model: keras.Model, epoch: int | None) -> None:
    """Have `fit` begin at an epoch; None: at the one that it was given."""
    model._initial_epoch = epoch


def symbolic_build(model: keras.Model, batch: Any) -> None:
    """Make the variables of a model, its loss and its metrics, given the specs of a batch."""
    model._symbolic_build(data_batch=batch)


def always_build(model: keras.Model) -> None:
    """Have `fit` build a model on TensorFlow too, where it does so only under a strategy."""
    if keras.backend.backend() == "tensorflow":
        model._distribute_strategy = model.distribute_strategy


def trained_by(optimizer: Any) -> list[Any]:
    """Return the variables that an optimizer was built for."""
    return list(optimizer._trainable_variables)


def seed_state() -> Any:
    """Return the variable of Keras's global seed generator; None if there is no generator yet."""
    generator = get_global_attribute(_SEED)
    return None if generator is None else generator.state


def set_seed_state(state: Any) -> None:
    """Put Keras's global seed generator into a state."""
    global_seed_generator().state.assign(state)


def seed_is_where_it_was() -> bool:
    """Whether Keras looks for its global seed generator where `seed_state` does."""
    before, other = get_global_attribute(_SEED), object()
    set_global_attribute(_SEED, other)
    try:
        return global_seed_generator() is other
    finally:
        set_global_attribute(_SEED, before)


def mesh_is_as_it_was() -> bool:
    """Whether `mesh_devices` finds the devices of a mesh."""
    if keras.backend.backend() != "jax":
        return True
    names = keras.distribution.list_devices()[:1]
    devices = mesh_devices(keras.distribution.DeviceMesh((1,), ["batch"], names))
    return [type(device.process_index) for device in devices.flat] == [int]


def mesh_devices(mesh: Any) -> Any:
    """Return the devices of a `keras.distribution.DeviceMesh` on JAX, an array of them."""
    return mesh.backend_mesh.devices


def strategy_workers(strategy: Any) -> int:
    """Return over how many processes a strategy of TensorFlow works."""
    return int(getattr(strategy.extended, "_num_workers", 1))


def operation_of(tensor: Any) -> Any:
    """Return the layer, model or operation that made a KerasTensor; None where it is not known."""
    history = getattr(tensor, "_keras_history", None)
    return getattr(history, "operation", None)


def arguments_of_loss(loss: Any) -> Mapping[str, Any] | None:
    """Return what a loss class of Keras tells its function; None where it is not known."""
    found: Mapping[str, Any] | None = getattr(loss, "_fn_kwargs", None)
    return found


def as_loss(given: Any) -> Any:
    """Return a loss as `compile` takes it as the `keras.Loss` that Keras makes of it; or None."""
    found = keras.losses.get(given)
    if found is None or isinstance(found, keras.losses.Loss):
        return found
    return LossFunctionWrapper(found)


def loss_weights(model: Any) -> Any:
    """Return what a model was compiled with as `loss_weights=`, None if nothing."""
    return getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None)


def built_outputs(model: Any) -> Any:
    """Return what stands for the outputs that the losses of a model were built for, nested.

    None where they are not, or are for a single output.
    """
    return getattr(getattr(model, "_compile_loss", None), "_y_pred_build_structure", None)


def when_losses_are_built(call: Call, act: Callable[[Any], None]) -> None:
    """Tell a function what the model of a call makes, symbolic as it is, before the first step.

    Keras settles its losses once after `compile`, when a model is first run: to build it, or as its
    first step is traced. It is done for this call alone, whose iterator holds the function, and
    without a word where Keras does it in another thread.
    """
    losses = getattr(call.model, "_compile_loss", None)
    if losses is not None and not losses.built:
        vars(call.iterator).setdefault(_ASKED, []).append(act)
        losses.build = partial(_build_losses, losses)


def _build_losses(losses: Any, y_true: Any, y_pred: Any) -> None:
    running = _running(sys._getframe(1), "fit", "evaluate")
    iterator = None if running is None else running.f_locals.get("epoch_iterator")
    for act in getattr(iterator, _ASKED, ()):
        act(y_pred)  # what it raises, torch may ask for again
    vars(losses).pop("build", None)
    losses.build(y_true, y_pred)
