"""A Preprocessing as JSON."""

import json
from collections.abc import Mapping
from typing import Any

from dfgen import __version__
from dfgen.binding.nested import map_leaves
from dfgen.errors import ArgumentError
from dfgen.samples.features.feature_json import feature_of, named, plain_feature, reference

FORMAT = 1
"""The version of the JSON; a newer dfgen reads all older ones."""


def to_text(parts: Mapping[str, Any]) -> str:
    """Return the fields of a Preprocessing as JSON.

    Raises:
        ArgumentError: one holds what cannot be saved, such as a function without a name.
    """
    transform = parts["transform"]
    data = {
        "format": FORMAT,
        "dfgen": __version__,
        "x": map_leaves(str, parts["x"]),
        "y": map_leaves(str, parts["y"]),
        "inputs": {name: plain_feature(each) for name, each in parts["inputs"].items()},
        "targets": {name: each and plain_feature(each) for name, each in parts["targets"].items()},
        "data_format": parts["data_format"],
        "transform": None if transform is None else reference(transform, "the transform"),
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def from_text(text: str | bytes, allow_functions: bool) -> dict[str, Any]:
    """Return the fields of a Preprocessing from JSON.

    Raises:
        ArgumentError: it is none, it is of a newer version, or names what may not be imported.
    """
    data = _checked(text)
    try:
        transform = data["transform"]
        return {
            "x": map_leaves(str, data["x"]),
            "y": map_leaves(str, data["y"]),
            "inputs": {n: feature_of(one, allow_functions) for n, one in data["inputs"].items()},
            "targets": {
                n: one and feature_of(one, allow_functions) for n, one in data["targets"].items()
            },
            "data_format": data["data_format"],
            "transform": None if transform is None else named(transform, allow_functions),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(
            f"the preprocessing is damaged: {type(error).__name__}: {error}. Save it anew"
        ) from error


def _checked(text: str | bytes) -> Any:
    """Return what JSON holds, if it is a preprocessing that this version reads."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"this is no JSON of a preprocessing: {error}") from error
    version = data.get("format") if isinstance(data, dict) and "inputs" in data else None
    if not isinstance(version, int):
        raise ArgumentError("this is JSON, but no preprocessing that dfgen has saved")
    if version > FORMAT:
        raise ArgumentError(
            f"the preprocessing was saved by dfgen {data.get('dfgen')} in format {version}, but "
            f"dfgen {__version__} knows those up to {FORMAT}: update dfgen"
        )
    return data
