"""A Preprocessing as JSON."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from importlib import import_module
from typing import Any

import numpy as np

from dfgen import __version__
from dfgen.binding.nested import map_leaves
from dfgen.errors import ArgumentError
from dfgen.samples.features.base import Feature

FORMAT = 1
"""The version of the JSON."""


def to_text(parts: Mapping[str, Any]) -> str:
    """Return the fields of a Preprocessing as JSON.

    Raises:
        ArgumentError: a value cannot be saved, such as a function that cannot be imported by name.
    """
    transform = parts["transform"]
    data = {
        "format": FORMAT,
        "dfgen": __version__,
        "x": map_leaves(str, parts["x"]),
        "y": map_leaves(str, parts["y"]),
        "inputs": {name: plain_feature(one) for name, one in parts["inputs"].items()},
        "targets": {name: one and plain_feature(one) for name, one in parts["targets"].items()},
        "data_format": parts["data_format"],
        "transform": None if transform is None else _reference(transform, "the transform"),
    }
    return json.dumps({**data, "digest": _digest(data)}, indent=1, ensure_ascii=False) + "\n"


def from_text(text: str | bytes, allow_functions: bool) -> dict[str, Any]:
    """Return the fields of a Preprocessing from JSON.

    Raises:
        ArgumentError: it is not such JSON, was edited, is of a newer version, or names functions
            without `allow_functions`.
    """
    try:
        data = json.loads(text)
        if data["format"] > FORMAT:
            raise ArgumentError(f"a newer dfgen saved it in format {data['format']}: update dfgen")
        if data.pop("digest") != _digest(data):
            raise ArgumentError(
                "the JSON was edited or damaged, and could make other arrays than in training: "
                "save it again"
            )
        parts = {name: map_leaves(str, data[name]) for name in "xy"}
        for name in ("inputs", "targets"):
            features = data[name].items()
            parts[name] = {key: one and _feature(one, allow_functions) for key, one in features}
        transform = data["transform"]
        parts["transform"] = transform and _named(transform, allow_functions)
        return {**parts, "data_format": data["data_format"]}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"expected the JSON that Preprocessing.save writes: {type(error).__name__}: {error}"
        ) from error


def _digest(data: Mapping[str, Any]) -> str:
    return blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16).hexdigest()


def plain_feature(feature: Feature) -> dict[str, Any]:
    """Return a feature as plain data.

    Example:
        >>> from dfgen.samples.features.number import Number
        >>> plain_feature(Number("age"))["fields"]["column"]
        'age'
    """
    what = f"{type(feature).__name__}({feature.columns[0]!r})"
    if not is_dataclass(feature):
        raise ArgumentError(
            f"{what} cannot be saved, because its class does not list its fields: make it a frozen "
            "dataclass"
        )
    values = {
        one.name: _plain(getattr(feature, one.name), f"{one.name} of {what}")
        for one in fields(feature)
    }
    return {"feature": _reference(type(feature), what), "fields": values}


def _feature(data: Mapping[str, Any], allow_functions: bool) -> Feature:
    kind = _named(data["feature"], allow_functions)
    values = {name: _value(one, allow_functions) for name, one in data["fields"].items()}
    feature: Feature = kind(**values)
    return feature


def _reference(value: Any, what: str) -> str:
    """Return the name to import a class or function by, "module:name"."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str):
        if module.startswith("dfgen.") and getattr(import_module("dfgen"), name, None) is value:
            return f"dfgen:{name}"
        if module != "__main__" and getattr(import_module(module), name, None) is value:
            return f"{module}:{name}"
    raise ArgumentError(
        f"{what} is {value!r}, which another process cannot import: define it at the top of a "
        "module"
    )


def _named(name: str, allow_functions: bool) -> Any:
    module, _, attribute = name.partition(":")
    if module != "dfgen" and not allow_functions:
        raise ArgumentError(
            f"{name!r} would be imported, which runs its code: if you trust the file, give "
            "allow_functions=True"
        )
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"{name!r} cannot be imported: {error}") from error


def _plain(value: Any, what: str) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(one, what) for one in value]
    if isinstance(value, Mapping):
        return {"items": [[_plain(one, what) for one in pair] for pair in value.items()]}
    if callable(value):
        return {"function": _reference(value, what)}
    raise ArgumentError(f"{what} has {value!r}, which cannot be saved as JSON")


def _value(data: Any, allow_functions: bool) -> Any:
    if isinstance(data, list):
        return tuple(_value(one, allow_functions) for one in data)
    if not isinstance(data, Mapping):
        return data
    if "function" in data:
        return _named(data["function"], allow_functions)
    if "float" in data:
        return float(data["float"])
    return dict(_value(pair, allow_functions) for pair in data["items"])
