"""The identity of a run of predictions: its rows, inputs, weights, arguments."""

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, ManifestError
from dfgen.loading.state import ids_digest
from dfgen.manifest.fingerprint import columns_digest
from dfgen.manifest.schema import label_columns
from dfgen.table.arrow_types import is_text
from dfgen.training.data_adapter import view_of
from dfgen.training.layout import SequenceView
from dfgen.training.sequence import Sequence

_VERSION = 2
"""The version of what a file says of its run."""

_WORDS = {
    "format": "another version of dfgen",
    "rows": "another number of rows",
    "ids": "other rows, or in another order",
    "labels": "other labels",
    "columns": "other columns of the manifest",
    "values": "other values in columns of the manifest",
    "paths": "other paths of files",
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
    "row_weights": "other weights of rows, by sample_weight or class_weight",
    "evaluates": "predict_frame, or evaluate_frame, the other of the two",
}


_ALIKE = {"seed", "trainable", "module", "registered_name", "build_config"}
"""Entries of the configuration of a layer that change no prediction."""

_NAMED = {"class_name", "trainable", "batch_shape"}
"""One of these is beside the name of a layer, and not beside that of a dtype."""

_ADDRESS = r" at 0x[0-9a-f]+"


def run_of(
    model: Any, sequence: Sequence, targets: Mapping[str, Any], **arguments: Any
) -> dict[str, Any]:
    """Return what tells a run from another, for JSON; `targets` were saved beside the model."""
    view, state = view_of(sequence), sequence.state_dict()
    loader, binding = view.loader, view.binding
    features = {bound.name: _written(bound.feature) for bound in loader.reader.features}
    names = [*keras.tree.flatten(binding.x)]
    files = {name for one in loader.reader.features if one.feature.of_files
             for name in one.feature.columns}  # fmt: skip
    known = binding.columns.names
    told = [name for name in [*label_columns(known), "index", "digest"] if name in known]
    return {
        "format": _VERSION,
        "rows": state["rows"],
        "ids": state["ids"],
        "labels": state["labels"],
        "columns": [name for name in known if name != "problem"],
        "values": _values_digest(binding.columns, [one for one in told if one not in files]),
        "paths": _values_digest(binding.columns, [one for one in known if one in files]),
        "x": {name: features[name] for name in names}
        | {"transform": _written(loader.reader.transform)},
        "y": {name: one for name, one in features.items() if name not in names}
        | {name: _written(one) for name, one in targets.items()},
        "seed": sequence.seed,
        "batch_size": loader.given.size,
        "shard": list(loader.given.shard),
        "weights": _model_digest(model),
        "loss": _written(getattr(model, "loss", None)),
        "row_weights": _weights_digest(view) if arguments.get("evaluates") else None,
        **arguments,
    }


def refuse_other(found: Mapping[str, Any], run: Mapping[str, Any], where: str, advice: str) -> None:
    """Refuse what is of another run, and say what differs."""
    differs = [words for name, words in _WORDS.items() if found.get(name) != run.get(name)]
    if differs:
        raise ArgumentError(f"{where} of another run: {'; '.join(differs)}. {advice}")


def _written(one: Any) -> str:
    if isinstance(one, keras.losses.Loss):
        one = type(one).__name__, sorted(one.get_config().items(), key=str)
    if callable(one) and hasattr(one, "__qualname__"):
        return f"{one.__module__}.{one.__qualname__}"
    return re.sub(_ADDRESS, "", repr(one))


def _values_digest(columns: Columns, names: list[str]) -> str:
    """Return a digest of columns, without the folder where the files lie, as it may have moved."""
    digest = blake2b(digest_size=16)
    root = getattr(columns.source, "attrs", {}).get("dfgen", {}).get("root")
    for name in names:
        values = columns[name]
        if root and is_text(values.type):
            inside = pc.starts_with(values, f"{root}/")
            values = pc.if_else(inside, pc.utf8_slice_codeunits(values, len(root)), values)
        try:
            digest.update(columns_digest(pa.table({name: values}), [name]).encode())
        except (ManifestError, pa.ArrowException):  # of types that no manifest has
            digest.update(f"{name}: {values.type}".encode())
    return digest.hexdigest()


def _weights_digest(view: SequenceView) -> str | None:
    """Return a digest of what each row counts in the loss of each array of y; None: all 1."""
    loader, names = view.loader, keras.tree.flatten(view.layout.y)
    if loader.weights is None and not loader.own_weights:
        return None
    digest = blake2b(digest_size=16)
    for name in names:
        digest.update(loader.weights_of(name).tobytes())
    return digest.hexdigest()


def ids_of_rows(sequence: Sequence, rows: slice) -> dict[str, Any]:
    """Return the digest of the ids of some rows, and which column has them, None where none has."""
    view = view_of(sequence)
    ids, columns = view.loader.reader.ids, view.binding.columns
    names = sorted(columns.names, key=("path", "id").__contains__, reverse=True)
    if isinstance(ids, np.ndarray | pa.Array):
        name = next((name for name in names if _holds(columns, name, ids)), None)
    else:  # of a pack, mapped
        name = "id"
    is_whole = rows == slice(0, len(ids))
    digest = sequence.state_dict()["ids"] if is_whole else ids_digest(ids[rows])
    return {"id": name, "part_ids": digest}


def _holds(columns: Columns, name: str, ids: Any) -> bool:
    kind = columns.first(name).type
    if isinstance(ids, np.ndarray):
        return pa.types.is_integer(kind) and np.array_equal(columns[name].to_numpy(), ids)
    return is_text(kind) and bool(columns[name].equals(ids))


def _model_digest(model: Any) -> str:
    digest = blake2b(digest_size=16)
    try:
        layers = json.dumps(_plain(model.get_config(), {}), default=str, sort_keys=True)
    except Exception:  # of a model that does not say what it is made of
        layers = ""
    heads = getattr(model, "output_names", ())
    heads = heads if len(heads) > 1 else ()  # they name columns, but of one alone
    told = f"{type(model).__qualname__}|{heads}|{re.sub(_ADDRESS, '', layers)}"
    digest.update(told.encode())
    for variable in model.weights:
        values = np.ascontiguousarray(keras.ops.convert_to_numpy(variable.value))
        digest.update(f"{values.shape}|{values.dtype}|".encode())
        digest.update(values.view(np.uint8).data if values.ndim else values.tobytes())
    return digest.hexdigest()


def _plain(one: Any, names: Mapping[str, str]) -> Any:
    """Return a configuration without what differs between two models that are made alike.

    Names of layers become their place in the model: Keras counts on in the names that it gives.
    """
    if isinstance(one, Mapping):
        if one.get("class_name") == "__lambda__":  # whose code is written otherwise each time
            return "lambda"
        layers = [each for each in one.get("layers") or () if isinstance(each, Mapping)]
        places = {each["name"]: f"#{at}" for at, each in enumerate(layers) if "name" in each}
        named = not _NAMED.isdisjoint(one)
        return {
            key: _plain(each, {**names, **places})
            for key, each in one.items()
            if key not in _ALIKE and not (named and key == "name")
        }
    if isinstance(one, list | tuple):
        return [_plain(each, names) for each in one]
    return names.get(one, one) if isinstance(one, str) else one
