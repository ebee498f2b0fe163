"""The state of other callbacks: the `wait` of EarlyStopping, the best value of ModelCheckpoint."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError, warn
from dfgen.training.callbacks.backup_files import NamedArrays
from dfgen.training.keras_private import COUNTED_BY

COUNTS = "callbacks/"
"""How the names of their arrays begin in a backup."""
_OWN = "get_state", "set_state"


def counts(callbacks: Iterable[Any]) -> tuple[dict[str, Any], NamedArrays]:
    """Return what callbacks count, for JSON, and as arrays their lists of these."""
    facts: dict[str, Any] = {}
    arrays: NamedArrays = {}
    for key, callback in _counting(callbacks):
        facts[key] = {}
        for name in _known(callback):
            value = getattr(callback, name)
            if isinstance(value, list):  # weights
                arrays |= {f"{COUNTS}{key}/{name}/{n}": array for n, array in enumerate(value)}
            else:
                facts[key][name] = value.item() if isinstance(value, np.generic) else value
        if _has_own(callback):
            facts[key][_OWN[0]] = callback.get_state()
    return facts, arrays


def put_back(
    callbacks: Iterable[Any], facts: Mapping[str, Any], arrays: Mapping[str, Any]
) -> list[str]:
    """Have callbacks count on; return which of them begin anew and which are gone, in words."""
    found = dict(_counting(callbacks))
    for key in facts.keys() & found.keys():
        counted = dict(facts[key])
        if _OWN[0] in counted:
            found[key].set_state(counted.pop(_OWN[0]))
        for path, array in arrays.items():
            owner, name, _ = path.rsplit("/", 2)
            if owner == COUNTS + key:
                counted.setdefault(name, []).append(array)
        for name, value in counted.items():
            setattr(found[key], name, value)
    anew = [f"{key} is not in the backup: it begins anew" for key in found if key not in facts]
    gone = [f"{key} is in the backup, but not in this fit" for key in facts if key not in found]
    return anew + gone


def check_callbacks(callbacks: Iterable[Any]) -> None:
    """Warn about a CSVLogger that begins its file anew, and raise for a state that is not JSON."""
    for callback in callbacks:
        if isinstance(callback, keras.callbacks.CSVLogger) and not callback.append:
            warn(
                f"CSVLogger begins {callback.filename} anew where a stopped training goes on: give "
                "it append=True to keep the rows before"
            )
        if _has_own(callback):
            try:
                json.dumps(callback.get_state())
            except (TypeError, ValueError) as error:
                raise ArgumentError(
                    f"get_state() of {type(callback).__name__} must return what JSON can hold: "
                    f"{error}"
                ) from error


def _counting(callbacks: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield those that count something, by their class, what they watch, and which of several."""
    seen: dict[str, int] = {}
    for callback in callbacks:
        if _known(callback) or _has_own(callback):
            watched = getattr(callback, "monitor", None)
            key = type(callback).__name__ + (f" of {watched}" if isinstance(watched, str) else "")
            seen[key] = number = seen.get(key, 0) + 1
            yield (key if number == 1 else f"{key}, number {number}"), callback


def _has_own(callback: Any) -> bool:
    return all(hasattr(callback, name) for name in _OWN)


def _known(callback: Any) -> list[str]:
    of_class = (
        names
        for name, names in COUNTED_BY.items()
        if isinstance(callback, getattr(keras.callbacks, name, ()))
    )
    return [name for names in of_class for name in names if hasattr(callback, name)]
