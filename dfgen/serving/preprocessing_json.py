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
from dfgen.errors import ArgumentError
from dfgen.samples.features.base import Feature

FORMAT = 1
"""The version of the JSON."""


def to_text(parts: Mapping[str, Any]) -> str:
    """Return the fields of a Preprocessing as JSON.

    Raises:
        ArgumentError: a value cannot be saved, such as a function that cannot be imported by name.
    """
    plain = {name: to_plain(value, name) for name, value in parts.items()}
    data = {"format": FORMAT, "dfgen": __version__, **plain}
    return json.dumps({**data, "digest": digest_of(data)}, indent=1, ensure_ascii=False) + "\n"


def from_text(text: str | bytes, names: list[str], allow_functions: bool) -> dict[str, Any]:
    """Return the fields `names` of a Preprocessing from JSON.

    Raises:
        ArgumentError: it is not such JSON, was edited, is of a newer version, or names functions
            without `allow_functions`.
    """
    try:
        data = json.loads(text)
        if data["format"] > FORMAT:
            raise ArgumentError(f"a newer dfgen saved it in format {data['format']}: update dfgen")
        if data.pop("digest") != digest_of(data):
            raise ArgumentError(
                "the JSON was edited or damaged, and could make other arrays than in training: "
                "save it again"
            )
        return {name: _value(data[name], allow_functions) for name in names}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(
            f"expected the JSON that Preprocessing.save writes: {type(error).__name__}: {error}"
        ) from error


def digest_of(data: Mapping[str, Any]) -> str:
    """Return a digest of all entries, to notice edits."""
    return blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16).hexdigest()


def to_plain(value: Any, what: str) -> Any:
    """Return a value, such as a feature, in types of JSON.

    Args:
        value: a feature, a function, a number, text, or a list, tuple or mapping of these.
        what: its name in messages.

    Example:
        >>> from dfgen.samples.features.classes import Number
        >>> to_plain(Number("age"), "x")["fields"]["column"]
        'age'
    """
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | str | float):
        return value
    if isinstance(value, list | tuple):
        return [to_plain(one, what) for one in value]
    if isinstance(value, Mapping):
        return {"items": [[to_plain(one, what) for one in pair] for pair in value.items()]}
    if isinstance(value, Feature) and is_dataclass(value):
        what = f"{type(value).__name__}({value.columns[0]!r})"
        names = [one.name for one in fields(value)]
        plain = {name: to_plain(getattr(value, name), f"{name} of {what}") for name in names}
        return {"feature": _reference(type(value), what), "fields": plain}
    if callable(value):
        return {"function": _reference(value, what)}
    raise ArgumentError(
        f"{what} has {value!r}, which cannot be saved as JSON; a feature must be a dataclass"
    )


def _value(data: Any, allow_functions: bool) -> Any:
    if isinstance(data, list):
        return tuple(_value(one, allow_functions) for one in data)
    if not isinstance(data, Mapping):
        return data
    if "float" in data:
        return float(data["float"])
    if "items" in data:
        return dict(_value(pair, allow_functions) for pair in data["items"])
    name = data.get("function") or data["feature"]
    module, _, attribute = name.partition(":")
    if module != "dfgen" and not allow_functions:
        raise ArgumentError(
            f"{name!r} would be imported, which runs its code: if you trust the file, give "
            "allow_functions=True"
        )
    try:
        function = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"{name!r} cannot be imported: {error}") from error
    if "function" in data:
        return function
    return function(**{key: _value(one, allow_functions) for key, one in data["fields"].items()})


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
