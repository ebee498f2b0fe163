"""Several processes and devices: which part of a batch each makes, and whether they are alike.

Keras does not divide the data of a `DataAdapter`: see `keras/src/distribution/distribution_lib.py`
and `keras/src/backend/*/trainer.py` of Keras 3.12, 3.15 and 3.16.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError, warn, whole
from dfgen.loading.loader import Loader
from dfgen.loading.order.epochs import Plan

Shard = tuple[int, int]
"""(index, count)"""

_TORCH_AVERAGES = tuple(map(int, keras.__version__.split(".")[:2])) >= (3, 16)
"""Keras 3.16 averages the gradients of torch's processes, and has `keras.distribution` there."""


@dataclass(frozen=True)
class Division:
    """How Keras divides a batch: which part belongs to this process, whose devices share it."""

    by: str
    shard: Shard
    devices: int
    processes: int = 1  # several can feed one replica of a model, all with the same rows


def resolve_shard(shard: object) -> Shard:
    """Return (index, count) of this process for the argument `shard` of Sequence."""
    if shard == "auto":
        shard = _automatic_shard()
    if not isinstance(shard, tuple | list) or len(shard) != 2:
        raise ArgumentError(f'shard={shard!r} is not (index, count), "auto" or None: write (0, 4)')
    count = whole("count in shard=(index, count)", shard[1], least=1)
    return whole("index in shard=(index, count)", shard[0], most=count - 1), count


def _automatic_shard() -> Shard:
    sources = {"torch.distributed": _torch_processes(), "JAX": _jax_processes()}
    if os.environ.keys() >= {"RANK", "WORLD_SIZE"}:
        sources["RANK and WORLD_SIZE"] = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    shards = {name: shard for name, shard in sources.items() if shard is not None}
    if len({*shards.values()}) > 1:
        raise ArgumentError(
            f'shard="auto" is ambiguous: {shards}. Unset the wrong one, or write '
            "shard=(index, count)"
        )
    division = mesh_division()
    return next(iter(shards.values()), (0, 1)) if division is None else division.shard


def _torch_processes() -> Shard | None:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _jax_processes() -> Shard | None:
    """Return JAX's processes; a question before they are connected would keep them apart."""
    jax = sys.modules.get("jax")
    if jax is None or not (jax.distributed.is_initialized() or _distribution()):
        return None
    return jax.process_index(), jax.process_count()


def connected() -> Shard | None:
    """Return index and count of the processes that the backend connects; None without several."""
    backends = {"torch": _torch_processes, "jax": _jax_processes}
    shard = backends.get(keras.backend.backend(), lambda: None)()
    return shard if shard and shard[1] > 1 else None


def _distribution() -> Any:
    """Return the `keras.distribution` that Keras uses; it ignores any other."""
    backend = keras.backend.backend()
    is_used = backend == "jax" or (backend == "torch" and _TORCH_AVERAGES and _torch_processes())
    return keras.distribution.distribution() if is_used else None


def mesh_division() -> Division | None:
    """Return which rows of a batch belong to this process by `keras.distribution`, if it is set."""
    if (distribution := _distribution()) is None:
        return None
    mesh, (index, processes) = distribution.device_mesh, connected() or (0, 1)
    if keras.backend.backend() == "jax":
        devices = sys.modules["jax"].devices()
        owners = {f"{device.platform}:{device.id}": device.process_index for device in devices}
    else:  # the device "cpu:3" of torch is that of rank 3
        owners = {name: int(name.split(":")[-1]) for name in mesh.devices.flat}
    ranks = np.vectorize(owners.__getitem__)(mesh.devices)
    axis = mesh.axis_names.index(distribution.batch_dim_name)
    parts = np.moveaxis(ranks, axis, 0).reshape(ranks.shape[axis], -1)
    own = np.flatnonzero((parts == index).any(axis=1)).tolist()
    shard = own[0] // len(own), len(parts) // len(own)
    return Division("keras.distribution", shard, len(own), processes)


def keras_division(model: Any) -> Division:
    """Return how Keras divides the batches of a model."""
    strategy = getattr(model, "distribute_strategy", None)  # of TensorFlow
    if strategy is None:
        return mesh_division() or Division("Keras", (0, 1), 1)
    return Division(type(strategy).__name__, (0, 1), strategy.num_replicas_in_sync)


def divide(given: Plan, call: Any, weighable: bool, endless: bool) -> tuple[Plan, bool]:
    """Return the plan for a loop of Keras, and whether its batches are divided.

    If they are, every batch is full: `fit` leaves out the last rows of an epoch, `evaluate` fills
    up the last batch with rows of weight 0 if batches can have weights.
    """
    division, count = keras_division(call.model), given.shard[1]
    if division.processes > 1 and given.shard != division.shard:
        raise ArgumentError(
            f"{division.by} takes part {division.shard} of each batch from this process, but the "
            f"Sequence makes part {given.shard}: rows would be repeated or missed. "
            'Make it with shard="auto", after keras.distribution is set'
        )
    if count == division.devices == 1:
        return given, False
    if given.size % division.devices:
        raise ArgumentError(
            f"{division.by} has {division.devices} devices in this process: expected batch_size to "
            f"be a multiple of {division.devices * count}, got {given.batch_size}"
        )
    if call.purpose == "predict":
        rest = 0 if given.tail == "pad" else given.rows % given.batch_size
        if count > 1 or rest % division.devices:
            raise ArgumentError(
                f"predict with shard={given.shard} on {division.devices} devices cannot return "
                f"{given.rows:,} predictions in order. Write dfgen.predict_frame(model, sequence)"
            )
        return given, True
    full = replace(given, tail="drop")
    few = endless or (call.steps is not None and call.steps <= len(full))
    if call.purpose == "fit" or given.tail == "drop" or not full.left_out or few:
        check_not_empty(full)
        return full, True
    if not weighable:
        raise ArgumentError(
            f"the last {full.left_out} of {given.rows:,} rows fill no batch of batch_size="
            f"{given.batch_size}, and without y the rows that fill it up would count in evaluate. "
            "Write drop_remainder=True, or evaluate in one process on one device"
        )
    return replace(given, tail="pad"), True


def check_not_empty(plan: Plan) -> None:
    """Raise if a plan has no batches."""
    if not len(plan):
        raise ArgumentError(
            f"{plan.rows:,} rows fill no batch of batch_size={plan.batch_size}, and a batch that "
            "processes or devices share must be full: make the batches smaller"
        )


def check_ranks(model: Any, given: Plan) -> None:
    """Warn if `fit` would train another model in each process."""
    backend, together = keras.backend.backend(), connected() is not None
    if backend == "jax":
        together &= _distribution() is not None
    elif backend == "torch" and not _TORCH_AVERAGES:
        tensors = [variable.value for variable in model.trainable_variables]
        hooks = "_backward_hooks", "_post_accumulate_grad_hooks"  # None or empty without hooks
        together &= any(getattr(tensor, name, True) for tensor in tensors for name in hooks)
    if given.shard[1] > 1 and not together and type(model).train_step is keras.Model.train_step:
        warn(
            f"shard={given.shard}, but nothing averages the gradients of the processes, so each "
            f"trains a model of its own: see the guide to several machines for Keras on {backend}"
        )


def gathered(value: Any) -> list[Any]:
    """Return the values of all processes, which JSON can hold, by rank; all must call it."""
    text = json.dumps(value)
    if keras.backend.backend() == "torch":
        import torch

        texts: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(texts, text)
        return [*map(json.loads, texts)]
    from jax.experimental import multihost_utils

    data = np.frombuffer(text.encode(), np.uint8)
    sizes = np.ravel(multihost_utils.process_allgather(np.array([len(data)], np.int32)))
    padded = np.resize(data, sizes.max())
    rows = np.reshape(multihost_utils.process_allgather(padded), (len(sizes), -1))
    return [json.loads(bytes(row[:size])) for row, size in zip(rows, sizes, strict=True)]


def by_rank(values: list[Any]) -> str:
    """Return `3 on rank 0, 4 on rank 2`, with the first rank that differs from rank 0."""
    other = next((n for n, value in enumerate(values) if value != values[0]), len(values) - 1)
    return ", ".join(f"{values[rank]!s:.100} on rank {rank}" for rank in (0, other))


def settings(loader: Loader) -> dict[str, str]:
    """Return how a Sequence makes rows, by names for a message; equal in all processes."""
    named = {f"array {name!r}": f"{spec.shape} {spec.dtype}" for name, spec in loader.specs.items()}
    for bound in loader.reader.features:
        feature: Any = bound.feature
        for field in fields(feature) if is_dataclass(feature) else ():
            value = getattr(feature, field.name)
            value = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            named[f"{field.name} of {bound.name!r}"] = repr(value)
    named["transform"] = repr(loader.reader.transform)
    return {name: re.sub(" at 0x[0-9a-f]+", "", value) for name, value in named.items()}


def alike(model: Any, loader: Loader) -> dict[str, Any]:
    """Return the settings besides the order of rows that processes which train a model share."""
    backend = keras.backend.backend()
    rng = sys.modules.get("keras.src.utils.rng_utils")  # not public in Keras 3.12 to 3.16
    packages = "dfgen", "keras", backend
    named = {f"version of {name}": sys.modules[name].__version__ for name in packages}
    named["keras.utils.set_random_seed"] = getattr(rng, "get_random_seed", lambda: None)()
    if backend == "torch" and not _TORCH_AVERAGES and model.built:  # 3.16 sends those of rank 0
        sums = [float(variable.value.detach().double().sum()) for variable in model.variables]
        named["weights"] = str(sums)
    return {**named, **settings(loader)}


def compare(told: Mapping[str, Any], refusal: str | None = None) -> None:
    """Raise if the settings of processes differ, or a refusal keeps one from training.

    All must call it. The setting `shard` is None if Keras divides the batches.
    """
    ranks = gathered({"error": refusal, **told})
    errors, shards = ([rank.pop(name) for rank in ranks] for name in ("error", "shard"))
    if refusal is not None:
        return
    faults = [f"rank {n} cannot train: {error}" for n, error in enumerate(errors) if error]
    if {*map(str, shards)} not in ({f"[{n}, {len(ranks)}]" for n in range(len(ranks))}, {"None"}):
        faults.append(f"shard: {shards}")
    for name in dict.fromkeys(name for rank in ranks for name in rank):
        values = [rank.get(name) for rank in ranks]
        if any(value != values[0] for value in values):
            faults.append(f"{name}: {by_rank(values)}")
    if faults:
        raise ArgumentError(
            "the processes that train together differ, so rows would be repeated and missed, or "
            f"their models drift apart. {'; '.join(faults[:4])}. Give all the same rows, versions, "
            'arguments and keras.utils.set_random_seed(0), and each its own part: shard="auto"'
        )
