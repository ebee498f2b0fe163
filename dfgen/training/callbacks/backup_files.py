"""What a backup holds, of variables, random generators and callbacks, and the files of backups."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from glob import glob
from typing import Any
from zipfile import BadZipFile

import keras
import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, warn
from dfgen.files import LOCK_SUFFIX, FileLock, write_whole

NamedArrays = dict[str, npt.NDArray[Any]]
_NAME = re.compile(r"backup-(\d{8})\.npz")
_VARIABLE = "variables/"
_CHECKPOINT = ("best", "_batches_seen_since_last_saving", "_last_batch_seen")
_ATTRIBUTES = {  # that hold the state of Keras's callbacks
    "EarlyStopping": ("wait", "stopped_epoch", "best", "best_epoch", "best_weights"),
    "ModelCheckpoint": _CHECKPOINT,
    "OrbaxCheckpoint": (*_CHECKPOINT, "_total_batches_seen"),
    "ReduceLROnPlateau": ("wait", "best", "cooldown_counter"),
    "SwapEMAWeights": ("_ema_weights_in_model",),
    "TensorBoard": ("_global_train_batch", "_global_test_batch"),
}


def snapshot(model: keras.Model) -> NamedArrays:
    """Return copies of all variables of a model, and the states of torch's generators."""
    numpy = keras.ops.convert_to_numpy
    arrays = {name: np.array(numpy(variable)) for name, variable in _variables(model).items()}
    if keras.backend.backend() == "torch":
        import torch

        arrays["torch"] = torch.get_rng_state().numpy()
        states = torch.cuda.get_rng_state_all()
        arrays |= {f"cuda/{n}": state.numpy() for n, state in enumerate(states)}
    return arrays


def restore(model: keras.Model, arrays: NamedArrays) -> None:
    """Put a snapshot back into a built model; raise an ArgumentError if it is of another one."""
    saved = {name: array for name, array in arrays.items() if name.startswith(_VARIABLE)}
    variables = _variables(model)
    for name in sorted({*saved, *variables}):
        old, new = (tuple(x[name].shape) if name in x else "missing" for x in (saved, variables))
        if old != new:
            raise ArgumentError(
                f"the backup is of another model, optimizer or metrics: {name} has the shape {old} "
                f"in the backup, {new} in this model. Compile the same model, or delete the backups"
            )
    for name, variable in variables.items():
        array = saved[name]
        if array.dtype.kind == "V":  # a type that NumPy lacks, such as bfloat16
            array = array.view(keras.ops.convert_to_numpy(variable).dtype)
        variable.assign(array)
    if keras.backend.backend() == "torch" and "torch" in arrays:
        import torch

        torch.set_rng_state(torch.from_numpy(arrays["torch"]))
        states = [torch.from_numpy(arrays[name]) for name in arrays if name.startswith("cuda/")]
        torch.cuda.set_rng_state_all(states[: torch.cuda.device_count()])


def check_optimizers(model: keras.Model) -> None:
    """Raise an ArgumentError if an optimizer other than that of `compile` is not built."""
    for name, optimizer in _optimizers(model).items():
        if not optimizer.built and optimizer is not model.optimizer:
            raise ArgumentError(
                f"model.{name} is not built, so a backup cannot hold its variables: before fit, "
                f"call model.{name}.build(...) with the variables that it trains"
            )


def _optimizers(model: keras.Model) -> dict[str, Any]:
    """Return the optimizers in attributes of a model, and in their lists and dicts."""
    values = dict(vars(model))
    for name, value in vars(model).items():
        if isinstance(value, list | tuple | dict):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            values |= {f"{name}[{key!r}]": item for key, item in pairs}
    return {k: v for k, v in values.items() if isinstance(v, keras.optimizers.Optimizer)}


def _variables(model: keras.Model) -> dict[str, Any]:
    """Return all variables, named by their owner and position."""
    groups = {"model": model.variables, "metrics": model.metrics_variables}
    for name, optimizer in _optimizers(model).items():
        if not optimizer.built:  # that of compile, which a train_step of the user's own may not use
            optimizer.build(model.trainable_variables)
        groups[f"{name} {type(optimizer).__name__}"] = optimizer.variables
    numbered = [(name, *pair) for name, group in groups.items() for pair in enumerate(group)]
    return {f"{_VARIABLE}{name}/{n}": variable for name, n, variable in numbered}


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


class Generations:
    """The newest two backups in a folder, such as `backup-00000017.npz`: arrays, facts as JSON."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)
        os.makedirs(self.folder, exist_ok=True)
        lock = os.path.join(self.folder, LOCK_SUFFIX)
        advice = "wait until that training has ended, or give another backup_dir"
        self.lock = FileLock(lock, f"{self.folder} is in use", advice, shared=True)

    def save(self, facts: dict[str, Any], arrays: NamedArrays) -> None:
        """Write a backup, then delete all but the newest two."""
        paths = self._paths()
        number = int(_NAME.findall(paths[-1])[0]) + 1 if paths else 0
        path = os.path.join(self.folder, f"backup-{number:08}.npz")
        named: dict[str, Any] = {"facts": np.array(json.dumps(facts)), **arrays}
        for name in glob(".backup-*.tmp", root_dir=self.folder):  # of killed processes
            os.unlink(os.path.join(self.folder, name))
        write_whole(path, lambda file: np.savez(file, **named))
        for path in paths[:-1]:
            os.unlink(path)

    def load(self) -> tuple[str, dict[str, Any], NamedArrays] | None:
        """Return path, facts and arrays of the newest intact backup; None if there are no files."""
        paths = self._paths()
        for path in reversed(paths):
            try:
                with open(path, "rb") as file, np.load(file) as archive:
                    if (member := archive.zip.testzip()) is not None:
                        raise BadZipFile(f"the checksum of {member} is wrong")
                    arrays = dict(archive)
                return path, json.loads(arrays.pop("facts").item()), arrays
            except Exception as error:  # damaged archives raise errors of many types
                warn(f"{path} is damaged, the backup before it is used: {error}")
        if paths:
            raise ArgumentError(
                f"no backup in {self.folder} can be read. Delete the folder to start again, or "
                "give another backup_dir to keep it"
            )
        return None

    def delete(self) -> None:
        """Delete all backups, the newest last, and the folder if nothing else is in it."""
        with suppress(FileNotFoundError):  # if another callback saved there and deleted it
            for name in sorted(os.listdir(self.folder)):
                if _NAME.search(name):  # temporary files of killed processes as well
                    os.unlink(os.path.join(self.folder, name))
        self.lock.release()
        with suppress(OSError):
            os.rmdir(self.folder)

    def _paths(self) -> list[str]:
        names = filter(_NAME.fullmatch, sorted(os.listdir(self.folder)))
        return [os.path.join(self.folder, name) for name in names]
