"""How Keras divides batches over processes and devices, and what that asks of an epoch's plan.

Read from Keras 3.12 and 3.15, `keras/src/distribution/distribution_lib.py` and
`keras/src/backend/{jax,tensorflow}/trainer.py`.
"""

import sys
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError
from dfgen.loading.order.plan import Plan
from dfgen.training.keras_calls import Call
from dfgen.training.keras_private import mesh_devices
from dfgen.training.keras_probe import lacks

Shard = tuple[int, int]
"""(index, count)"""


@dataclass(frozen=True)
class Division:
    """How Keras divides a batch: its part from this process, spread over devices of this one."""

    by: str
    shard: Shard
    devices: int


def keras_division(model: Any) -> Division:
    """Return how the `fit` of a model divides the batches it is given."""
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is None:
        return jax_division() or Division("Keras", (0, 1), 1)
    name = type(strategy).__name__
    if _workers(strategy) > 1:
        raise ArgumentError(
            f"Keras {keras.__version__} cannot run fit, evaluate or predict with {name} on several "
            "workers: its own code fails there, whatever the data. Train with a loop of your own "
            "over strategy.distribute_datasets_from_function(lambda context: "
            "sequence.get_tf_dataset()), or with JAX or torch"
        )
    return Division(name, (0, 1), strategy.num_replicas_in_sync)


def _workers(strategy: Any) -> int:
    """Return over how many processes a strategy of TensorFlow works."""
    resolver = getattr(strategy, "cluster_resolver", None)
    jobs = {} if resolver is None else resolver.cluster_spec().as_dict()
    return sum(len(jobs.get(job, ())) for job in ("chief", "worker"))


def _distribution() -> Any:
    """Return Keras's distribution where it has a meaning, or None."""
    return keras.distribution.distribution() if keras.backend.backend() == "jax" else None


def jax_processes() -> Shard | None:
    """Return JAX's processes; asking before they are connected would keep them from connecting."""
    jax = sys.modules.get("jax")
    if jax is None or not (jax.distributed.is_initialized() or _distribution() is not None):
        return None
    return jax.process_index(), jax.process_count()


def jax_division() -> Division | None:
    """Return which rows of a batch lie on devices of this process, by the mesh of devices."""
    distribution = _distribution()
    if distribution is None:
        return None
    index, count = jax_processes() or (0, 1)
    if count > 1 and distribution.auto_shard_dataset:
        raise ArgumentError(
            f"{type(distribution).__name__} divides the data over {count} processes itself "
            "(auto_shard_dataset=True), and so does a Sequence: rows would be divided twice. "
            f"Make it with {type(distribution).__name__}(..., auto_shard_dataset=False)"
        )
    if lacks("DeviceMesh.backend_mesh"):
        raise ArgumentError(
            f"Keras {keras.__version__} does not tell on which devices of this process the rows of "
            "a batch lie: train without keras.distribution, or with a newer dfgen"
        )
    mesh = distribution.device_mesh
    axis = mesh.axis_names.index(distribution.batch_dim_name)
    places = np.moveaxis(mesh_devices(mesh), axis, 0)
    places = places.reshape(len(places), -1)
    own = [n for n, row in enumerate(places) if any(d.process_index == index for d in row)]
    if not own:
        raise ArgumentError(f"keras.distribution uses no device of process {index} of {count}")
    shard = own[0] // len(own), len(places) // len(own)
    return Division("keras.distribution", shard, len(own))


def divide(given: Plan, call: Call, weighable: bool, endless: bool) -> tuple[Plan, bool]:
    """Return the plan for what Keras is about to do, and whether its batches are divided.

    If they are, over processes or devices, every batch is full: `fit` leaves out the last rows
    of an epoch that fill none, `evaluate` fills up the last batch with rows of weight 0, where
    batches can have weights. Given is the plan by the arguments of the Sequence.
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


def check_not_empty(plan: Plan) -> None:
    """Refuse a plan without batches."""
    if not len(plan):
        raise ArgumentError(
            f"{plan.rows:,} rows fill no batch of batch_size={plan.batch_size}, and a batch that "
            "processes or devices share must be full: make the batches smaller"
        )


def _check_division(given: Plan, division: Division) -> None:
    count = division.shard[1]
    if count > 1 and given.shard != division.shard:
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
    """Refuse predictions that could not be matched with the rows, or that Keras cannot make."""
    index, count = given.shard
    if count > 1:
        raise ArgumentError(
            f"predict with shard={given.shard}: the predictions of this process could not be "
            f"matched with the rows. Give each process rows of its own, df.iloc[{index}::{count}], "
            "and a Sequence without shard, on a model that no other process shares"
        )
    rest = 0 if given.tail == "pad" else given.rows % given.batch_size % devices
    if rest:
        raise ArgumentError(
            f"predict on {devices} devices: the last batch has {given.rows % given.batch_size} "
            f"rows, which cannot be divided over them. Predict on one device, or leave out {rest} "
            "of the rows"
        )
