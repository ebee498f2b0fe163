"""The processes that train together: they compare what they are about to do, by the backend."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError, RankError, brief
from dfgen.loading.loader import Loader
from dfgen.training.keras_private import VERSION, random_seed


def gathered(value: Any) -> list[Any]:
    """Return what each process gave, in their order, by way of the backend; all must call it.

    Args:
        value: what JSON can hold.
    """
    text = json.dumps(value)
    if keras.backend.backend() == "torch":
        import torch

        texts: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(texts, text)
        return [json.loads(each) for each in texts]
    from jax.experimental import multihost_utils

    data = np.frombuffer(text.encode(), np.uint8)
    sizes = np.ravel(multihost_utils.process_allgather(np.array([len(data)], np.int32)))
    padded = np.zeros(sizes.max(), np.uint8)
    padded[: len(data)] = data
    rows = np.reshape(multihost_utils.process_allgather(padded), (len(sizes), -1))
    return [json.loads(bytes(row[:size])) for row, size in zip(rows, sizes, strict=True)]


def alike(model: Any, loader: Loader) -> dict[str, Any]:
    """Return what processes that train one model have alike, beside the order of the rows."""
    backend = keras.backend.backend()
    found: dict[str, Any] = {"keras_seed": random_seed()}
    for name in ("dfgen", "keras", backend):
        found[f"version of {name}"] = sys.modules[name].__version__
    for name, spec in loader.specs.items():
        found[f"array {name!r}"] = f"{spec.shape} {spec.dtype}"
    for bound in loader.reader.features:
        feature: Any = bound.feature
        for one in fields(feature) if is_dataclass(feature) else ():
            found[f"{one.name} of {bound.name!r}"] = _shown(getattr(feature, one.name))
    if backend == "torch" and VERSION < (3, 16) and model.built:  # later ones take the first one's
        sums = [float(variable.value.detach().double().sum()) for variable in model.variables]
        found["weights"] = sha256(repr(sums).encode()).hexdigest()[:16]
    return found


def _shown(value: Any) -> str:
    """Return a value of a feature as text, the same in each process; a long one as its digest."""
    value = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) < 100 else sha256(text.encode()).hexdigest()[:16]


def compare(told: Mapping[str, Any], refusal: str | None = None) -> None:
    """Compare what the processes are about to do; all must call it.

    Args:
        told: name -> a value that must be the same on all of them, except for `shard`.
        refusal: why this process does not begin, for the others.

    Raises:
        ArgumentError: they differ.
        RankError: another process does not begin.
    """
    others = gathered({"told": told, "refusal": refusal})
    if refusal is not None:
        return
    _refuse_differences([other["told"] for other in others])
    for rank, other in enumerate(others):
        if other["refusal"] is not None:
            raise RankError(f"rank {rank} does not begin: {other['refusal']}")


_ADVICE = {
    "shard": 'Give each its own part: shard="auto", or (0, 2), (1, 2)',
    "keras_seed": "Call keras.utils.set_random_seed(0) in each before the model is made",
    "weights": (
        "Call keras.utils.set_random_seed(0) in each before the model is made, or load the same "
        "weights"
    ),
    "ids": "Give all the same rows in the same order",
}


def _refuse_differences(told: list[Mapping[str, Any]]) -> None:
    """Refuse processes that would train on other rows or in another way than each other."""
    faults = []
    for name in dict.fromkeys(name for each in told for name in each):
        values = [each.get(name) for each in told]
        if name == "shard":
            parts = {each and tuple(each) for each in values}  # None: Keras divides the batches
            if parts != {None} and parts != {(n, len(told)) for n in range(len(told))}:
                faults.append((name, values))
        elif any(value != values[0] for value in values):
            faults.append((name, values))
    if faults:
        shown = "; ".join(f"{name}: {by_rank(values)}" for name, values in faults[:4])
        advice = next((_ADVICE[name] for name, _ in faults if name in _ADVICE), None)
        raise ArgumentError(
            "the processes that train together are not set up alike, and rows would be repeated "
            f"and missed, or models drift apart. {shown}. {advice or 'Make them the same on all'}"
        )


def by_rank(values: list[Any]) -> str:
    """Return `3 on rank 0, 4 on ranks 1 and 2`."""
    texts = [brief(value) if not isinstance(value, str) else value for value in values]
    ranks = {text: [n for n, each in enumerate(texts) if each == text] for text in texts}
    return ", ".join(
        f"{text} on rank{'s' * (len(held) > 1)} {' and '.join(map(str, held))}"
        for text, held in ranks.items()
    )
