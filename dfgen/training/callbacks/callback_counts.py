"""The counts of other callbacks: the `wait` of EarlyStopping, the best value of ModelCheckpoint."""

import dis
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from io import IOBase
from types import FunctionType
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError, warn
from dfgen.training.callbacks.backup_files import NamedArrays
from dfgen.training.keras_private import COUNTED_BY

COUNTS = "callbacks/"
"""How the names of their arrays begin in a backup."""
_OWN = "get_state", "set_state"
_BEGINNING = ("__init__", "set_model", "set_params", "on_train_begin")
_NOT_OF_USERS = ("keras.", "keras_tuner.", "dfgen.", "builtins")
_CONTAINERS = (list, dict, set, deque, bytearray, np.ndarray)


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


def warn_of_uncounted(callbacks: Iterable[Any]) -> None:
    """Name the callbacks that do not go on as if nothing had happened; refuse a state not for JSON.

    The attributes of one of the user's that its methods set again, its empty containers and its
    iterators count something; what else it was made with does where it changes: see `contents`.
    """
    for callback in callbacks:
        name = type(callback).__name__
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
                    f"get_state() of {name} must return what JSON can hold: {error}"
                ) from error
        elif changing := _changing(callback):
            _warn_of(callback, changing)


def contents(callbacks: Iterable[Any]) -> dict[tuple[int, str], int]:
    """Return hashes of what the user's callbacks hold in containers that are not named yet."""
    return {
        (id(callback), name): hash(_shown(value))
        for callback in callbacks
        if not _has_own(callback)
        for name, value in _of_user(callback).items()
        if isinstance(value, _CONTAINERS) and name not in _changing(callback)
    }


def warn_of_changed(
    callbacks: Iterable[Any], before: Mapping[tuple[int, str], int]
) -> dict[tuple[int, str], int]:
    """Name the callbacks whose containers have changed since; return those that have not."""
    now = contents(callbacks := list(callbacks))
    for callback in callbacks:
        of_it = [key for key in before if key[0] == id(callback)]
        if changed := sorted(key[1] for key in of_it if now.get(key) != before[key]):
            _warn_of(callback, changed)
    return {key: held for key, held in now.items() if before.get(key) == held}


def _warn_of(callback: Any, names: list[str]) -> None:
    warn(
        f"BackupAndRestore does not know what {type(callback).__name__} keeps in "
        f"{', '.join(names)}: where a stopped training goes on, it begins anew. Give it "
        "get_state(), which returns what JSON can hold, and set_state(state)"
    )


def _shown(value: Any) -> str:
    """Return plain values, and those in containers, as text; of anything else its class."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_shown(k)}: {_shown(v)}' for k, v in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_shown, value)))}}}"
    if isinstance(value, np.ndarray):
        data = _shown(value.tolist()) if value.dtype.hasobject else hash(value.tobytes())
        return f"{value.shape} {data}"
    if isinstance(value, list | tuple | deque):
        return f"[{', '.join(map(_shown, value))}]"
    plain = isinstance(value, str | bytes | bytearray | int | float | complex | np.generic | None)
    return repr(value) if plain else type(value).__name__


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


def _changing(callback: Any) -> list[str]:
    """Return the attributes of a user's callback that seem to count something."""
    users, _ = _classes(callback)
    later = {name for each in users for name in _set_by(each, skip=_BEGINNING)}
    moving = {name for name, value in _of_user(callback).items() if _moves(value)}
    changing = (later | moving).difference(_known(callback))
    return sorted(name for name in changing if hasattr(callback, name))


def _of_user(callback: Any) -> dict[str, Any]:
    """Return the attributes that none but classes of the user's set."""
    users, others = _classes(callback)
    known = {name for each in others for name in _set_by(each)}.union(_known(callback))
    return {name: value for name, value in vars(callback).items() if users and name not in known}


def _classes(callback: Any) -> tuple[list[type], list[type]]:
    """Return the classes of the user's that it is of, and the others."""
    classes = type(callback).__mro__
    others = [each for each in classes if each.__module__.startswith(_NOT_OF_USERS)]
    return [each for each in classes if each not in others], others


def _moves(value: Any) -> bool:
    if isinstance(value, _CONTAINERS):
        return not len(value)
    return isinstance(value, Iterator) and not isinstance(value, IOBase)


def _set_by(owner: type, skip: tuple[str, ...] = ()) -> Iterator[str]:
    for name, method in vars(owner).items():
        if isinstance(method, FunctionType) and name not in skip:
            for instruction in dis.get_instructions(method):
                if instruction.opname == "STORE_ATTR":
                    yield instruction.argval
