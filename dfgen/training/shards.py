"""Which part of every batch this process feeds. No framework is imported that is not loaded."""

import json
import os

from dfgen.errors import ArgumentError
from dfgen.system import whole
from dfgen.training.device_division import Shard, jax_processes, mesh_division, torch_processes


def resolve_shard(shard: object) -> Shard:
    """Return (index, count) of this process for the argument `shard` of Sequence.

    None is (0, 1). "auto" is what `keras.distribution` says, else the processes of
    `torch.distributed`, `TF_CONFIG` or JAX, else the variables RANK and WORLD_SIZE, else (0, 1);
    these may not contradict each other.
    """
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
    return next(iter(found.values()), (0, 1))


def _tensorflow_processes() -> Shard | None:
    text = os.environ.get("TF_CONFIG")
    if not text:
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
    count = chiefs + workers
    index = whole("index of TF_CONFIG", index + (chiefs if kind == "worker" else 0), most=count - 1)
    return index, count


def _environment_processes() -> Shard | None:
    given = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    if None in given.values():
        return None
    rank, size = given.values()
    try:
        count = whole("WORLD_SIZE", int(str(size)), least=1)
        return whole("RANK", int(str(rank)), most=count - 1), count
    except ValueError as error:
        raise ArgumentError(
            f"the environment has RANK={rank!r} and WORLD_SIZE={size!r}, expected whole numbers, "
            "RANK below WORLD_SIZE. Mend them, or give shard=(index, count)"
        ) from error
