"""States of other callbacks: the `wait` of EarlyStopping, the best value of ModelCheckpoint."""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np

from dfgen.training.callbacks.generations import NamedArrays

_CHECKPOINT = ("best", "_batches_seen_since_last_saving", "_last_batch_seen")
_ATTRIBUTES = {  # that hold the state of Keras's callbacks
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch", "best_weights"),
    "ModelCheckpoint": _CHECKPOINT,
    "OrbaxCheckpoint": (*_CHECKPOINT, "_total_batches_seen"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
    "TensorBoard": ("_global_train_batch", "_global_test_batch"),
}


def states_of(callbacks: Iterable[Any]) -> tuple[dict[str, Any], NamedArrays]:
    """Return the states of callbacks for JSON, and their lists of weights as arrays."""
    states: dict[str, Any] = {}
    arrays: NamedArrays = {}
    for key, callback, names in _stateful(callbacks):
        states[key] = {"": callback.get_state()} if hasattr(callback, "get_state") else {}
        for name in names:
            value = getattr(callback, name)
            if isinstance(value, list):
                arrays |= {f"{key}/{name}/{n}": np.array(one) for n, one in enumerate(value)}
            else:
                states[key][name] = value.item() if isinstance(value, np.generic) else value
    return states, arrays


def set_states(callbacks: Iterable[Any], states: dict[str, Any], arrays: NamedArrays) -> None:
    """Give callbacks the states that `states_of` returned; new callbacks start afresh."""
    for key, callback, names in _stateful(callbacks):
        state = {**states.get(key, {})}
        if "" in state:
            callback.set_state(state.pop(""))
        for name in names:
            if weights := [arrays[path] for path in arrays if path.startswith(f"{key}/{name}/")]:
                state[name] = weights
        for name, value in state.items():
            setattr(callback, name, value)


def _stateful(callbacks: Iterable[Any]) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield callbacks that have a state, with the names of its attributes.

    The key of a callback has its class, the metric that it monitors, and its number among those.
    """
    keys: list[str] = []
    for callback in callbacks:
        kinds = [k for k in _ATTRIBUTES if isinstance(callback, getattr(keras.callbacks, k, ()))]
        if kinds or hasattr(callback, "get_state"):
            keys.append(f"{type(callback).__name__} of {getattr(callback, 'monitor', None)}")
            names = [n for kind in kinds for n in _ATTRIBUTES[kind] if hasattr(callback, n)]
            yield f"callbacks/{keys[-1]}, {keys.count(keys[-1])}", callback, names
