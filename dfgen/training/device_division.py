"""How Keras divides batches over processes and devices, and what that asks of an epoch's plan.

Read from Keras 3.12, 3.15 and 3.16, `keras/src/distribution/distribution_lib.py` and
`keras/src/backend/{jax,tensorflow,torch}/trainer.py`, which divide no data of a `DataAdapter`.
"""

import json
import os
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError
from dfgen.loading.order.plan import Plan
from dfgen.system import whole
from dfgen.training.keras_loop import Loop as Call
from dfgen.training.keras_private import VERSION, mesh_devices
from dfgen.training.keras_probe import lacks

Shard = tuple[int, int]
"""(index, count)"""


@dataclass(frozen=True)
class Division:
    """How Keras divides a batch: its part from this process, spread over devices of this one."""

    by: str
    shard: Shard
    devices: int
    processes: int = 1  # may be more than parts, and feed one replica of a model the same rows


def keras_division(model: Any) -> Division:
    """Return how the `fit` of a model divides the batches it is given."""
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None:
        return mesh_division() or Division("Keras", (0, 1), 1)
    name, resolver = type(strategy).__name__, getattr(strategy, "cluster_resolver", None)
    jobs = {} if resolver is None else resolver.cluster_spec().as_dict()
    if sum(len(jobs.get(job, ())) for job in ("chief", "worker")) > 1:
        raise ArgumentError(
            f"Keras {keras.__version__} cannot run fit or evaluate with {name} on several workers: "
            "its own code fails there, with any data. Train with a loop of your own over "
            "strategy.distribute_datasets_from_function(lambda context: "
            "sequence.get_tf_dataset()), or with JAX or torch"
        )
    return Division(name, (0, 1), strategy.num_replicas_in_sync)


def jax_processes() -> Shard | None:
    """Return JAX's processes; asking before they are connected would keep them from connecting."""
    jax = sys.modules.get("jax")
    if jax is None or not (jax.distributed.is_initialized() or _distribution("jax") is not None):
        return None
    return jax.process_index(), jax.process_count()


def torch_processes() -> Shard | None:
    """Return the processes of `torch.distributed`, None where it is not initialized."""
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _distribution(backend: str) -> Any:
    return keras.distribution.distribution() if keras.backend.backend() == backend else None


def mesh_division() -> Division | None:
    """Return which rows of a batch belong to this process, by the mesh of `keras.distribution`.

    None where nobody has set one, or where Keras ignores it: on TensorFlow, on torch before 3.16,
    and on torch without processes.
    """
    if (distribution := _distribution("jax")) is not None:
        if lacks("DeviceMesh.backend_mesh"):
            raise ArgumentError(
                f"Keras {keras.__version__} does not tell on which devices of this process the "
                "rows of a batch lie: train without keras.distribution, or with a newer dfgen"
            )
        index, count = jax_processes() or (0, 1)
        devices = mesh_devices(distribution.device_mesh)
        owners = np.reshape([device.process_index for device in devices.flat], devices.shape)
    elif (distribution := _distribution("torch")) is not None and VERSION >= (3, 16):
        if (processes := torch_processes()) is None:
            return None
        index, count = processes
        names = distribution.device_mesh.devices  # "cpu:3" is that of rank 3
        owners = np.reshape([int(name.split(":")[-1]) for name in names.flat], names.shape)
    else:
        return None
    axis = distribution.device_mesh.axis_names.index(distribution.batch_dim_name)
    places = np.moveaxis(owners, axis, 0).reshape(owners.shape[axis], -1)
    own = [n for n, row in enumerate(places) if index in row]
    if not own:
        raise ArgumentError(f"keras.distribution uses no device of process {index} of {count}")
    shard = own[0] // len(own), len(places) // len(own)
    return Division("keras.distribution", shard, len(own), count)


def divide(given: Plan, call: Call, weighable: bool, endless: bool) -> tuple[Plan, bool]:
    """Return the plan for what Keras is about to do, and whether its batches are divided.

    If they are, every batch is full: `fit` leaves out the last rows of an epoch that fill none,
    `evaluate` fills up the last batch with rows of weight 0, where batches can have weights.
    """
    division = keras_division(call.model)
    _check_division(given, division)
    if given.shard[1] == division.devices == 1:
        return given, False
    if call.purpose == "predict":
        _check_predict(given, division.devices)
        return given, True
    full = replace(given, tail="drop")
    few = endless or (call.steps is not None and call.steps <= len(full))
    if call.purpose == "fit" or given.tail == "drop" or not full.left_out or few:
        check_not_empty(full)
        return full, True
    if not weighable:
        raise ArgumentError(
            f"the last {full.left_out} of {given.rows:,} rows fill no batch of "
            f"batch_size={given.batch_size}, and without y nothing tells evaluate not to count "
            "what fills it up. Leave them out with drop_remainder=True, or evaluate in one "
            "process on one device"
        )
    return replace(given, tail="pad"), True


def connected() -> Shard | None:
    """Return which of how many processes this is, None where no backend connects several."""
    found = {"torch": torch_processes, "jax": jax_processes}.get(keras.backend.backend())
    processes = None if found is None else found()
    return processes if processes is not None and processes[1] > 1 else None


def check_ranks(model: Any, given: Plan) -> None:
    """Warn of a `fit` that would train a model in each process, or refuse it."""
    backend, count = keras.backend.backend(), given.shard[1]
    if count == 1 or type(model).train_step is not keras.Model.train_step:
        return
    connect = _CONNECT.get(backend)
    _, processes = connected() or (0, 1)
    if processes == 1:
        warnings.warn(
            f"shard={given.shard} makes a part of each batch, but nothing connects this process "
            f"to the others: each trains a model of its own. Before the model is made: {connect}",
            stacklevel=2,
        )
    elif backend == "jax" and _distribution("jax") is None:
        raise ArgumentError(
            f"keras.distribution is not set: each of the {processes} processes would train a model "
            f"of its own. Before the model is made: {connect}"
        )
    elif backend == "torch" and VERSION < (3, 16):
        _check_hooks(model, processes)


_CONNECT = {
    "torch": 'torch.distributed.init_process_group("gloo")',
    "jax": "keras.distribution.initialize(...), then "
    "keras.distribution.set_distribution(keras.distribution.DataParallel())",
    "tensorflow": "a loop of your own over strategy.distribute_datasets_from_function, as in the "
    "guide to several machines",
}
"""How processes come to train one model."""


def _check_hooks(model: Any, count: int) -> None:
    """Warn where Keras on torch, before 3.16, averages no gradients, and nor does a hook."""
    if not model.built:
        raise ArgumentError(
            "the model is not built, so its variables have no hooks yet that average gradients "
            f"over the {count} processes of torch.distributed. Before fit, call it on a batch, "
            "model(sequence[0][0]), and then register the hooks"
        )
    hooks = "_backward_hooks", "_post_accumulate_grad_hooks"  # None or empty: there are none
    tensors = [variable.value for variable in model.trainable_variables]
    if not any(getattr(tensor, name, True) for tensor in tensors for name in hooks):
        warnings.warn(
            f"Keras {keras.__version__} averages no gradients over the {count} processes of "
            "torch.distributed, and no variable of the model has a hook that does: each process "
            "trains a model of its own. Build the model and register hooks before fit: see the "
            "guide to several machines. Keras 3.16 averages by itself",
            stacklevel=2,
        )


def check_not_empty(plan: Plan) -> None:
    """Refuse a plan without batches."""
    if not len(plan):
        raise ArgumentError(
            f"{plan.rows:,} rows fill no batch of batch_size={plan.batch_size}, and a batch that "
            "processes or devices share must be full: make the batches smaller"
        )


def _check_division(given: Plan, division: Division) -> None:
    if division.processes > 1 and given.shard != division.shard:
        raise ArgumentError(
            f"{division.by} takes part {division.shard} of each batch from this process, but the "
            f"Sequence makes part {given.shard}: rows would be repeated or missed. "
            'Make it with shard="auto", after keras.distribution is set'
        )
    if given.size % division.devices:
        raise ArgumentError(
            f"{division.by} spreads the {given.size} rows that this process makes of a batch over "
            f"{division.devices} devices: expected batch_size to be a multiple of "
            f"{division.devices * given.shard[1]}, got {given.batch_size}"
        )


def _check_predict(given: Plan, devices: int) -> None:
    if given.shard[1] > 1:
        raise ArgumentError(
            f"predict with shard={given.shard}: the predictions of this process could not be "
            "matched with the rows. dfgen.predict_frame(model, sequence) gives each process its "
            "part of them, with their ids"
        )
    rest = 0 if given.tail == "pad" else given.rows % given.batch_size % devices
    if rest:
        raise ArgumentError(
            f"predict on {devices} devices: the last batch has {given.rows % given.batch_size} "
            f"rows, which cannot be divided over them. Predict on one device, or leave out {rest} "
            "of the rows"
        )


def resolve_shard(shard: object) -> Shard:
    """Return (index, count) of this process for the argument `shard` of Sequence."""
    if shard is None:
        return 0, 1
    if shard == "auto":
        return _found_shard()
    if isinstance(shard, tuple | list) and len(shard) == 2:
        count = whole("count in shard=(index, count)", shard[1], least=1)
        return whole("index in shard=(index, count)", shard[0], most=count - 1), count
    raise ArgumentError(
        f'shard must be (index, count), such as (0, 4) on the first of 4, "auto" or None, '
        f"got {shard!r}"
    )


def _found_shard() -> Shard:
    """Return what `keras.distribution` says, else one of these, which may not contradict."""
    sources = {
        "torch.distributed": torch_processes(),
        "TF_CONFIG": _tensorflow_processes(),
        "JAX": jax_processes(),
        "RANK and WORLD_SIZE": _environment_processes(),
    }
    found = {name: processes for name, processes in sources.items() if processes is not None}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{name}: {processes}" for name, processes in found.items())
        raise ArgumentError(
            f'shard="auto" finds several answers to which of how many processes this is: {shown}. '
            "Unset what does not hold, or give shard=(index, count)"
        )
    if (division := mesh_division()) is not None:
        return division.shard
    return next(iter(found.values()), _slurm_processes() or (0, 1))


def _slurm_processes() -> Shard | None:
    """Return those of `srun`; of them torchrun may start several each, which tell more."""
    index, count = (os.environ.get(f"SLURM_{name}", "") for name in ("PROCID", "STEP_NUM_TASKS"))
    numbers = index.isdecimal() and count.isdecimal() and int(index) < int(count)
    return (int(index), int(count)) if numbers else None


def _tensorflow_processes() -> Shard | None:
    if not (text := os.environ.get("TF_CONFIG")):
        return None
    try:
        config = json.loads(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        chiefs, workers = len(cluster.get("chief", ())), len(cluster.get("worker", ()))
        kind, index = task.get("type", "worker"), int(task.get("index", 0))
    except (ValueError, TypeError, AttributeError) as error:
        raise ArgumentError(
            f"TF_CONFIG is not what TensorFlow expects ({error}): {text}. "
            "Mend it, or give shard=(index, count)"
        ) from None
    if not chiefs + workers:
        return None
    if kind not in ("chief", "worker"):
        raise ArgumentError(
            f"TF_CONFIG makes this process a {kind}, which is no worker: it feeds no batches. "
            "Give it shard=None if it is to feed whole ones"
        )
    place, count = index + chiefs * (kind == "worker"), chiefs + workers
    return whole("index of TF_CONFIG", place, most=count - 1), count


def _environment_processes() -> Shard | None:
    rank, size = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or size is None:
        return None
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
        raise ArgumentError(
            f"the environment has RANK={rank!r} and WORLD_SIZE={size!r}, expected whole numbers, "
            "RANK below WORLD_SIZE. Mend them, or give shard=(index, count)"
        )
    return int(rank), int(size)
