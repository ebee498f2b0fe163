"""Snapshots of all that a training step changes: variables, and states of random generators."""

from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError
from dfgen.training.callbacks.generations import NamedArrays

_VARIABLE = "variables/"


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
