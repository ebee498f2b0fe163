"""Who asks for batches, and what else they were given: read from the frames of Keras that call.

Keras tells a `DataAdapter` neither. Of a frame only its function, its `self` and the public names
of arguments are read.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

import keras

from dfgen.errors import ArgumentError, listed
from dfgen.training.keras_private import EpochIterator

DROPPED = ("y", "sample_weight", "class_weight", "batch_size")
"""Arguments of `fit` that go no further where its data is its adapter, and of a PyDataset some."""
_GIVEN = (*DROPPED, "steps_per_epoch", "steps_per_execution", "shuffle")
_OF_VALIDATION = "validation_steps", "validation_batch_size"
_OF_MODEL, _OF_METRICS = ("trainable_variables", "non_trainable_variables"), "metrics_variables"
_STATES = {
    "fit": (*_OF_MODEL, "optimizer_variables", _OF_METRICS),
    "evaluate": (*_OF_MODEL, _OF_METRICS),
    "predict": _OF_MODEL,
}
"""The variables that a step of each takes and returns on JAX, in this order."""
_CALLERS = "fit", "evaluate", "predict"


@dataclass(frozen=True)
class Call:
    """A call by a method of one of Keras's EpochIterators, its loops over batches."""

    iterator: Any
    method: str
    caller: str | None  # fit, evaluate or predict; None for a loop that is not Keras's own
    purpose: str | None  # as `caller`, but evaluate for the validation of fit
    model: Any
    validation: Any
    of_validation: Mapping[str, Any]  # what fit was given beside its validation data
    arguments: Mapping[str, Any]  # given beside the data, while the iterator is made

    @property
    def makes_iterator(self) -> bool:
        """Whether the iterator is being made, and what it was given is known."""
        return self.method == "__init__"

    @property
    def is_reset(self) -> bool:
        """Whether the iterator only starts anew, which ends no epoch."""
        return self.method == "reset"

    @property
    def steps(self) -> int | None:
        """How many batches `steps_per_epoch` takes, in whole executions; None without it."""
        steps, each = self.arguments.get("steps_per_epoch"), self.steps_per_execution
        return steps and -(-steps // each) * each

    @property
    def steps_per_execution(self) -> int:
        """Steps that Keras takes at once."""
        return self.arguments.get("steps_per_execution") or 1


def call_by_keras(data: Any) -> Call | None:
    """Return the call that a method of data which asks is answering, None if it is not Keras's."""
    frames = [*_of_keras(sys._getframe(2))]
    if EpochIterator is None or not frames:
        return None
    own = (each for each in frames if isinstance(each.f_locals.get("self"), EpochIterator))
    frame = next(own, None)
    if frame is not None:
        running, iterator = _running(frame, *_CALLERS), frame.f_locals["self"]
    else:  # Keras may build a model by its data alone
        frame = frames[0]
        running = next((each for each in frames if each.f_code.co_name in _CALLERS), None)
        iterator = None if running is None else _own_iterator(running.f_locals)
        if iterator is None:
            return None
    held = {} if running is None else running.f_locals
    caller = None if running is None else running.f_code.co_name
    validates = caller == "fit" and _own_iterator(held) not in (None, iterator)
    purpose, method = "evaluate" if validates else caller, frame.f_code.co_name
    return Call(
        iterator,
        method,
        caller,
        purpose,
        model=held.get("self"),
        validation=held.get("validation_data") if purpose == "fit" else None,
        of_validation={name: held.get(name) for name in _OF_VALIDATION},
        arguments=given_beside(data) if method == "__init__" else {},
    )


def _own_iterator(held: Mapping[str, Any]) -> Any:
    return next((each for each in held.values() if isinstance(each, EpochIterator)), None)


def given_beside(data: Any) -> dict[str, Any]:
    """Return what the functions of Keras that call were given beside data, by public names."""
    found: dict[str, Any] = {}
    for frame in _of_keras(sys._getframe(1)):
        held = frame.f_locals
        if held.get("x") is data:
            for name in _GIVEN:
                if name in held and found.get(name) is None:
                    found[name] = held[name]
    return found


def _of_keras(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those outwards, as long as they are of Keras, or of ours that it calls."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("keras."):
            yield frame
        elif not name.startswith("dfgen."):
            return
        frame = frame.f_back


def refuse_adapt(x: Any) -> None:
    """Refuse the `adapt` of a layer that asks for batches, where it takes no tuple for an array.

    `x` is nested as that of a batch.
    """
    asking = [one for one in _of_keras(sys._getframe(2)) if one.f_code.co_name == "adapt"]
    layer = asking[0].f_locals.get("self") if asking else None
    is_nested = not isinstance(x, str)
    if layer is None or (isinstance(layer, keras.layers.Normalization) and not is_nested):
        return
    names = [*x] if isinstance(x, Mapping) else [*range(len(x))] if is_nested else []
    got = f"x has {len(names)} of them, {listed(names)}" if names else "a batch is a tuple, (x, y)"
    one = f"x[{names[0]!r}]" if names else "x"
    raise ArgumentError(
        f"{type(layer).__name__}.adapt takes one array after the other, but {got}: write "
        f"layer.adapt({one} for x, *_ in sequence)" + ", each array for its layer" * bool(names)
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


def of_fit(name: str, frame: FrameType | None = None) -> Any:
    """Return an argument of the `fit` that called the caller, or a frame; None without a `fit`.

    `callbacks` is the `keras.callbacks.CallbackList` that it makes of them.
    """
    found = _running(frame or sys._getframe(1), "fit")
    return None if found is None else found.f_locals.get(name)


def validation_logs(model: Any, epoch: int) -> dict[str, Any]:
    """Do the validation that the `fit` that called the caller does after an epoch; its logs."""
    found = _running(sys._getframe(1), "fit")
    held = {} if found is None else found.f_locals
    data, every = held.get("validation_data"), held.get("validation_freq", 1)
    due = (epoch + 1) % every == 0 if isinstance(every, int) else epoch + 1 in every
    if data is None or not due:
        return {}
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    logs = model.evaluate(
        x=x,
        y=y,
        sample_weight=sample_weight,
        batch_size=held["validation_batch_size"] or held["batch_size"],
        steps=held["validation_steps"],
        callbacks=held["callbacks"],
        return_dict=True,
    )
    return {f"val_{name}": value for name, value in logs.items()}


def put_variables_back() -> None:
    """Give the model of the loop that asks for a batch its variables back, where it has none.

    On JAX Keras takes them out of a model for its steps, and does not put them back after an error.
    The innermost frame that has `state` has those of now.
    """
    frame, state = sys._getframe(1).f_back, None
    while keras.backend.backend() == "jax" and (frame := _running(frame)) is not None:
        held = frame.f_locals
        state = held.get("state") if state is None else state
        if (names := _STATES.get(frame.f_code.co_name)) is not None:
            kept = hasattr(held["self"], "jax_state_sync")
            if kept and isinstance(state, tuple) and len(state) == len(names):
                held["self"]._jax_state = dict(zip(names, state, strict=True))
                held["self"].jax_state_sync()
            break
        frame = frame.f_back
