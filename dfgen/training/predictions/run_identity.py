"""What tells one run of predictions from another: rows, inputs, weights, arguments."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError
from dfgen.training.sequence import Sequence

_VERSION = 1
"""The version of what a file says of its run."""

_WORDS = {
    "format": "another version of dfgen",
    "rows": "another number of rows",
    "ids": "other rows, or in another order",
    "labels": "other labels",
    "columns": "other columns of the manifest",
    "x": "other inputs",
    "y": "other targets or class names",
    "seed": "another seed",
    "batch_size": "another batch size",
    "shard": "another part of the rows",
    "weights": "another model, or other weights of it",
    "loss": "another loss",
    "views": "another number of views",
    "from_logits": "another from_logits",
    "arrays": "arrays in another place",
    "evaluates": "predict_frame, or evaluate_frame, the other of the two",
}


def run_of(model: Any, sequence: Sequence, **arguments: Any) -> dict[str, Any]:
    """Return what tells a run from another, as plain types of JSON.

    Args:
        model: the model.
        sequence: whose rows.
        arguments: of the run.
    """
    identity, loader, binding = sequence._identity, sequence._loader, sequence._binding
    features = {bound.name: _written(bound.feature) for bound in loader.reader.features}
    names = [*keras.tree.flatten(binding.x)]
    return {
        "format": _VERSION,
        "rows": identity.rows,
        "ids": identity.ids,
        "labels": identity.labels,
        "columns": [name for name in binding.columns.names if name != "problem"],
        "x": {name: features[name] for name in names}
        | {"transform": _written(loader.reader.transform)},
        "y": {name: one for name, one in features.items() if name not in names},
        "seed": sequence.seed,
        "batch_size": loader.given.size,
        "shard": list(loader.given.shard),
        "weights": _weights_digest(model),
        "loss": _written(getattr(model, "loss", None)),
        **arguments,
    }


def refuse_other(found: Mapping[str, Any], run: Mapping[str, Any], where: str, advice: str) -> None:
    """Refuse what is of another run, and say what differs.

    Raises:
        ArgumentError: it is.
    """
    differs = [words for name, words in _WORDS.items() if found.get(name) != run.get(name)]
    if differs:
        raise ArgumentError(f"{where} of another run: {'; '.join(differs)}. {advice}")


def _written(one: Any) -> str:
    """Return how something is written, the same in every process."""
    if isinstance(one, keras.losses.Loss):
        one = type(one).__name__, sorted(one.get_config().items(), key=str)
    if callable(one) and hasattr(one, "__qualname__"):
        return f"{one.__module__}.{one.__qualname__}"
    return re.sub(r" at 0x[0-9a-f]+", "", repr(one))


def _weights_digest(model: Any) -> str:
    digest = blake2b(digest_size=16)
    for variable in model.weights:
        values = np.ascontiguousarray(keras.ops.convert_to_numpy(variable.value))
        digest.update(f"{values.shape}|{values.dtype}|".encode())
        digest.update(values.view(np.uint8).data if values.ndim else values.tobytes())
    return digest.hexdigest()
