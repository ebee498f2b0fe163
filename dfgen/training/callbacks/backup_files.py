"""Backups on disk: whole or not there, checked, and the one before kept; all that a step changes.

Keras's saved weights leave out the seed generators, running metrics and torch's generator, so
after a restart Dropout would draw its first masks again.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any, BinaryIO

import keras
import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, WriteError
from dfgen.locks import LOCK_SUFFIX, FileLock
from dfgen.system import write_whole
from dfgen.training import keras_private
from dfgen.training.keras_probe import lacks

NamedArrays = dict[str, npt.NDArray[Any]]
Facts = dict[str, Any]

BACKUP_FORMAT = 1
_KEPT = 2
_NAME = re.compile(r"backup-(\d{8})\.dfgen")
_UNFINISHED = re.compile(r"\.backup-\d{8}\.dfgen\.\w+\.tmp")
_DIGEST = 32  # hexadecimal digits at the end of a file


class Generations:
    """The backups in a folder: `backup-00000017.dfgen` and the one before.

    A file is a line of JSON, the arrays that it names as `np.save` writes them, and the BLAKE2b-128
    of all that. It appears whole or not at all.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)
        self._lock = FileLock(
            os.path.join(self.folder, LOCK_SUFFIX),
            f"{self.folder} is in use",
            "two trainings in one folder delete each other's backups. Wait until that one has "
            "ended, or give another backup_dir",
            of_process=True,
        )

    def lock(self) -> None:
        """Keep other processes out, until `unlock`, `delete` or the end of this one."""
        self._make_folder()
        self._lock.acquire()

    def unlock(self) -> None:
        """Let other processes in."""
        self._lock.release()

    def _make_folder(self) -> None:
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            raise WriteError(
                f"{self.folder} cannot be made a folder of backups: {error.strerror}. Name a "
                "folder that is not there yet, or the one of earlier backups"
            ) from None

    def save(self, facts: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
        """Write one more backup, then delete all but the newest two; return its path."""
        self._make_folder()
        known = self._numbers()
        number = max(known, default=-1) + 1

        def write(file: BinaryIO) -> None:
            hashed = _Hashed(file)
            line = json.dumps({"format": BACKUP_FORMAT, "arrays": list(arrays), **facts})
            hashed.write(line.encode() + b"\n")
            for array in arrays.values():
                np.lib.format.write_array(hashed, np.asarray(array), allow_pickle=False)
            file.write(hashed.digest.hexdigest().encode())

        write_whole(self._path(number), write)
        self._delete([*known, number][:-_KEPT])
        return self._path(number)

    def load(self) -> tuple[str, Facts, NamedArrays] | None:
        """Return path, facts and arrays of the newest backup that is whole; None where none is."""
        numbers = self._numbers()
        for number in reversed(numbers):
            path = self._path(number)
            try:
                facts, arrays = _read(path)
            except (OSError, ValueError) as error:
                print(f"dfgen: {path} is damaged ({error}): trying the one before", flush=True)
                continue
            if facts["format"] != BACKUP_FORMAT:
                raise ArgumentError(
                    f"{path} has format {facts['format']}; this dfgen reads {BACKUP_FORMAT}. If it "
                    "was saved by a newer dfgen: pip install --upgrade keras-dfgen"
                )
            return path, facts, arrays
        if numbers:
            raise ArgumentError(f"no backup in {self.folder} can be read. {self.way_out}")
        return None

    @property
    def way_out(self) -> str:
        """Advice for backups that are of no use."""
        anew = f"To start anew, delete the folder {self.folder}"
        return f"{anew}; to keep them, give another backup_dir"

    def delete(self) -> None:
        """Delete all backups, the newest last, and the folder if nothing else is in it."""
        self._delete(self._numbers())
        self.unlock()
        with suppress(OSError):
            os.rmdir(self.folder)

    def _delete(self, numbers: list[int]) -> None:
        """Delete backups, and what a killed process left unfinished."""
        unfinished = [name for name in self._names() if _UNFINISHED.fullmatch(name)]
        for path in [*unfinished, *map(self._path, numbers)]:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self.folder, path))

    def _numbers(self) -> list[int]:
        found = (_NAME.fullmatch(name) for name in self._names())
        return sorted(int(match[1]) for match in found if match)

    def _names(self) -> list[str]:
        return os.listdir(self.folder) if os.path.isdir(self.folder) else []

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, f"backup-{number:08}.dfgen")


class _Hashed:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = blake2b(digest_size=_DIGEST // 2)

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)


def _read(path: str) -> tuple[Facts, NamedArrays]:
    digest = blake2b(digest_size=_DIGEST // 2)
    with open(path, "rb") as file:
        left = os.path.getsize(path) - _DIGEST
        while left > 0 and (data := file.read(min(left, 2**20))):
            digest.update(data)
            left -= len(data)
        if (found := digest.hexdigest()).encode() != file.read():
            raise ValueError("its checksum is wrong")
        file.seek(0)
        facts: Facts = json.loads(file.readline())
        names = facts.pop("arrays")
        facts["digest"] = found
        return facts, {name: np.lib.format.read_array(file, allow_pickle=False) for name in names}


_COMPILED = "optimizer"


def snapshot(model: keras.Model) -> NamedArrays:
    """Return all that a step changes; on JAX of `callback.model`, which gets the state of now."""
    arrays = {name: _array(variable) for name, variable in _variables(model).items()}
    return {**arrays, **_generators()}


def optimizer_name(model: keras.Model) -> str | None:
    """Return the name of the class of a model's optimizer; None: it has none."""
    return None if model.optimizer is None else type(model.optimizer).__name__


def restore(
    model: keras.Model, arrays: Mapping[str, npt.NDArray[Any]], optimizer: str | None = None
) -> None:
    """Put a snapshot back into a model that is built; refuse one of another model."""
    if optimizer not in (None, own := optimizer_name(model)):
        raise ArgumentError(
            f"the backup is of the optimizer {optimizer}, this model is compiled with {own}"
        )
    variables = _variables(model)
    saved = [name for name in arrays if not name.startswith("random/")]
    if saved != list(variables):
        raise ArgumentError(
            f"the backup is of another model, optimizer or metrics: it holds {_counts(saved)}, "
            f"this model has {_counts(variables)}"
        )
    for name, variable in variables.items():
        if arrays[name].shape != tuple(variable.shape):
            raise ArgumentError(
                f"the backup is of another model: its {name} has the shape {arrays[name].shape}, "
                f"here {variable.path} has {tuple(variable.shape)}"
            )
    for name, variable in variables.items():
        array = arrays[name]
        if array.dtype.kind == "V":  # one that NumPy does not know, such as bfloat16
            array = array.view(_array(variable).dtype)
        variable.assign(array)
    _restore_generators(arrays)


def build(
    model: keras.Model, batch: Any, trained: Mapping[str, Iterable[int]] | None = None
) -> None:
    """Make all variables of a compiled model, its optimizers and its metrics not there yet."""
    unbuilt = {name: one for name, one in _optimizers(model).items() if not one.built}
    try:
        for optimizer in unbuilt.values():  # or Keras builds that of compile, which may stay unused
            optimizer.built = True
        try:
            if not lacks("Model._symbolic_build"):
                keras_private.symbolic_build(model, batch)
        finally:
            for optimizer in unbuilt.values():
                optimizer.built = False
        if trained is None and _COMPILED in unbuilt:
            model.optimizer.build(model.trainable_variables)
        variables = dict(enumerate(model.variables))  # of another model some may be missing
        for name in unbuilt.keys() & (trained or {}).keys():
            places = [place for place in (trained or {})[name] if place in variables]
            unbuilt[name].build([variables[place] for place in places])
    except Exception as error:
        raise ArgumentError(
            "a backup can be put back into a model that is built, and this one could not be "
            f"({error}). Before fit, call it on a batch: model(sequence[0][0])"
        ) from error


def trained(model: keras.Model) -> dict[str, list[int]] | None:
    """Return the places among a model's variables of those that each built optimizer trains."""
    if lacks("Optimizer._trainable_variables"):
        return None
    places = {id(variable): place for place, variable in enumerate(model.variables)}
    of_each = {
        name: [places.get(id(variable), -1) for variable in keras_private.trained_by(optimizer)]
        for name, optimizer in _optimizers(model).items()
        if optimizer.built
    }
    return {name: found for name, found in of_each.items() if -1 not in found}


def _optimizers(model: keras.Model) -> dict[str, Any]:
    """Return the optimizer of compile, and those that a model or its parts hold otherwise."""
    found = {} if model.optimizer is None else {_COMPILED: model.optimizer}
    for name, optimizer in _held(model):
        if all(optimizer is not each for each in found.values()):
            found[f"{name} ({type(optimizer).__name__})"] = optimizer
    return found


def _held(model: keras.Model, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the optimizers in the attributes of a model, their lists and dicts, and its parts."""
    for name, value in vars(model).items():
        held = {name: value}
        if isinstance(value, dict | list | tuple) and not name.startswith("_"):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            held = {f"{name}.{place}": each for place, each in pairs}
        for where, each in held.items():
            if isinstance(each, keras.optimizers.Optimizer):
                yield f"{path}{where}", each
    for number, layer in enumerate(model.layers):
        if isinstance(layer, keras.Model):
            yield from _held(layer, f"{path}model {number}: ")


def _variables(model: keras.Model) -> dict[str, Any]:
    """Return all variables, named by what they belong to and their place there."""
    optimizers = {name: one.variables for name, one in _optimizers(model).items()}
    groups = {
        "model": model.variables,
        _COMPILED: optimizers.pop(_COMPILED, []),
        "metrics": model.metrics_variables,
        **optimizers,
    }
    named: dict[int, tuple[str, Any]] = {}
    for group, variables in groups.items():
        for number, variable in enumerate(variables):
            named.setdefault(id(variable), (f"{group}/{number}", variable))
    return dict(named.values())


def _counts(names: Iterable[str]) -> str:
    groups = [name.partition("/")[0] for name in names]
    return ", ".join(f"{groups.count(group)} of {group}" for group in dict.fromkeys(groups))


def _array(variable: Any) -> npt.NDArray[Any]:
    return np.asarray(keras.ops.convert_to_numpy(variable))


def _generators() -> NamedArrays:
    """Return the states of random generators that belong to no layer, as far as there are any."""
    found = None if lacks("global_seed_generator") else keras_private.seed_state()
    states = {} if found is None else {"random/keras": _array(found)}
    if keras.backend.backend() == "torch":
        import torch

        states["random/torch"] = torch.get_rng_state().numpy()
        for number, state in enumerate(torch.cuda.get_rng_state_all()):
            states[f"random/cuda/{number}"] = state.numpy()
    return states


def _restore_generators(arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    if "random/keras" in arrays and not lacks("global_seed_generator"):
        keras_private.set_seed_state(arrays["random/keras"])
    if keras.backend.backend() == "torch" and "random/torch" in arrays:
        import torch

        torch.set_rng_state(torch.from_numpy(arrays["random/torch"]))
        for number in range(torch.cuda.device_count()):
            if (state := arrays.get(f"random/cuda/{number}")) is not None:
                torch.cuda.set_rng_state(torch.from_numpy(state), number)
