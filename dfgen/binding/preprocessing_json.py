"""A Preprocessing as JSON."""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from importlib import import_module
from typing import Any

import numpy as np

from dfgen import __version__
from dfgen.binding.nested import leaves, map_leaves
from dfgen.errors import ArgumentError, brief
from dfgen.samples.features.base import Feature


def plain_feature(feature: Feature) -> dict[str, Any]:
    """Return a feature as plain data.

    Example:
        >>> from dfgen.samples.features.number import Number
        >>> plain_feature(Number("age"))["fields"]["column"]
        'age'
    """
    name = type(feature).__name__
    what = f"{name}({feature.columns[0]!r})"
    if not is_dataclass(feature):
        raise ArgumentError(
            f"{what} cannot be saved, because it does not list its fields: write "
            f"@dataclasses.dataclass(frozen=True) above class {name}"
        )
    values = {
        one.name: _plain(getattr(feature, one.name), f"{one.name} of {what}")
        for one in fields(feature)
    }
    return {"feature": reference(type(feature), what), "fields": values}


def feature_of(data: Any, allow_functions: bool, entry: str) -> Feature:
    """Return a feature of plain data.

    Args:
        data: what `plain_feature` has returned.
        allow_functions: import what the data names outside of dfgen, which runs code.
        entry: where it stands, for the error.
    """
    name = _part(data, "feature", str, entry)
    kind = named(name, allow_functions)
    if not (isinstance(kind, type) and issubclass(kind, Feature)):
        raise ArgumentError(f"{name!r} is no feature")
    given, values = _part(data, "fields", dict, entry), dict[str, Any]()
    for key, value in given.items():
        with _naming(f"{entry}.fields.{key}"):
            values[key] = _value(value, allow_functions)
    known = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    strange = [key for key in values if key not in known]
    if strange:
        raise ArgumentError(
            f"{kind.__name__} has no field {strange[0]!r}: it was saved by a newer version"
        )
    with _naming(f"{entry}.fields"):  # fields made since it was saved have their defaults
        return kind(**values)


def _part(data: Any, key: str, kind: Any, entry: str) -> Any:
    """Return what an entry holds by a key, if it is of a kind."""
    if not isinstance(data, Mapping) or key not in data:
        raise _damaged(f"{entry} lacks {key!r}")
    if not isinstance(data[key], kind):
        raise _damaged(f"{key!r} of {entry} is {brief(data[key])}")
    return data[key]


def _damaged(fault: str) -> ArgumentError:
    return ArgumentError(f"the preprocessing is damaged: {fault}. Save it anew")


@contextmanager
def _naming(entry: str) -> Iterator[None]:
    """Name an entry in errors of what it holds."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise _damaged(f"{entry}: {type(error).__name__}: {error}") from error


def reference(given: Any, what: str) -> str:
    """Return what a class or function is imported by, "module:name"."""
    module, name = getattr(given, "__module__", None), getattr(given, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str):
        if module.startswith("dfgen.") and getattr(import_module("dfgen"), name, None) is given:
            return f"dfgen:{name}"
        if module != "__main__" and getattr(import_module(module), name, None) is given:
            return f"{module}:{name}"
    raise ArgumentError(
        f"{what} is {given!r}, which cannot be saved: another process could not import it. Define "
        "it by its own name at the top of a module"
    )


def named(name: str, allow_functions: bool) -> Any:
    """Return the class or function of that `reference`."""
    module, _, attribute = name.partition(":")
    if module != "dfgen" and not allow_functions:
        raise ArgumentError(
            f"{name!r} would be imported, which runs its code: if you trust the file, say "
            "allow_functions=True"
        )
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"{name!r} cannot be imported: {error}") from error


def _plain(value: Any, what: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list | tuple):
        return [_plain(one, what) for one in value]
    if isinstance(value, Mapping):
        return {"items": [[_plain(one, what) for one in pair] for pair in value.items()]}
    if callable(value):
        return {"function": reference(value, what)}
    raise ArgumentError(f"{what} holds {value!r}, which cannot be saved as JSON")


def _value(data: Any, allow_functions: bool) -> Any:
    if isinstance(data, list):
        return tuple(_value(one, allow_functions) for one in data)
    if not isinstance(data, Mapping):
        return data
    if "function" in data:
        return named(data["function"], allow_functions)
    if "float" in data:
        return float(data["float"])
    pairs = (_value(pair, allow_functions) for pair in data["items"])
    return dict(pairs)


FORMAT = 1
"""The version of the JSON; a newer dfgen reads all older ones."""
_WRITTEN = "Give the file that Preprocessing.save or to_json() has written"


def _digest(data: Mapping[str, Any]) -> str:
    """Return a digest of all entries but itself."""
    told = json.dumps({**data, "digest": ""}, sort_keys=True)
    return blake2b(told.encode(), digest_size=16).hexdigest()


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
    data["digest"] = _digest(data)
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def from_text(text: str | bytes, allow_functions: bool) -> dict[str, Any]:
    """Return the fields of a Preprocessing from JSON."""
    data = _checked(text)
    inputs, targets = (_part(data, name, dict, "it") for name in ("inputs", "targets"))
    transform = _part(data, "transform", str | None, "it")
    made = {
        "x": map_leaves(str, _part(data, "x", object, "it")),
        "y": map_leaves(str, _part(data, "y", object, "it")),
        "inputs": {n: feature_of(one, allow_functions, f"inputs.{n}") for n, one in inputs.items()},
        "targets": {
            n: None if one is None else feature_of(one, allow_functions, f"targets.{n}")
            for n, one in targets.items()
        },
        "data_format": _part(data, "data_format", str, "it"),
        "transform": None if transform is None else named(transform, allow_functions),
    }
    for tree, features in (("x", inputs), ("y", targets)):
        if sorted(leaves(made[tree])) != sorted(features):
            raise _damaged(f"its {tree} names {data[tree]!r}, and there are {[*features]!r}")
    if data.get("digest", _digest(data)) != _digest(data):
        raise ArgumentError(
            "the preprocessing was edited since it was saved, and would make other arrays than the "
            'model was trained on. Save it again, or remove its "digest" if the change is intended'
        )
    return made


def _checked(text: str | bytes) -> Any:
    """Return what JSON holds, if it is a preprocessing that this version reads."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ArgumentError(f"this is no JSON of a preprocessing: {error}. {_WRITTEN}") from error
    is_one = isinstance(data, dict) and {"inputs", "targets"} & data.keys()
    version = data.get("format") if is_one else None
    if type(version) is not int or version < 1:
        raise ArgumentError(
            "this is JSON, but no preprocessing that dfgen has saved: its format is "
            f"{brief(version)}. {_WRITTEN}"
        )
    if version > FORMAT:
        raise ArgumentError(
            f"the preprocessing was saved by dfgen {data.get('dfgen')} in format {version}, but "
            f"dfgen {__version__} knows those up to {FORMAT}: update dfgen"
        )
    return data
