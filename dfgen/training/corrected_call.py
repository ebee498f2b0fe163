"""Calls with arguments that are not there: all of them told at once, and the call as it should be.

`renamed_arguments.py` says what went where.
"""

import inspect
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Never

import numpy as np

from dfgen.errors import UnknownArgumentError, did_you_mean
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image import Image
from dfgen.training.renamed_arguments import LEFT_OUT, RENAMED, preprocessing

_OF_IMAGES = {"image_size": "size", "color_mode": "color_mode", "scale": "scale"}
"""Arguments of Sequence for a bare column name -> of Image."""

_IMAGE = [name for name in inspect.signature(Image).parameters if name not in ("column", "size")]

_SUBSETS = {"training": 'df[df.split == "train"]', "validation": 'df[df.split == "val"]'}


def asked_of(function: Callable[..., Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those arguments of a function, by its `locals()`, that are not its defaults."""
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind is not one.VAR_KEYWORD]
    return {one.name: values[one.name] for one in named if values[one.name] is not one.default}


def refuse_unknown(
    name: str, unknown: Mapping[str, Any], asked: Mapping[str, Any], known: Iterable[str]
) -> Never:
    """Raise an error that translates all arguments that a function does not have.

    Args:
        name: of the function: `"Sequence"`.
        unknown: they and their values.
        asked: the arguments that it has and was given, with their values.
        known: all arguments that it has.
    """
    known = list(known)
    fault = f"{name} has no argument {', '.join(unknown)}"
    if not any(one in RENAMED or one in _IMAGE for one in unknown):
        hints = "".join(did_you_mean(one, known) for one in unknown)
        raise UnknownArgumentError(f"{fault}. Arguments: {', '.join(known)}.{hints}")
    lines = [f"{one}{_told(one, value, known)}" for one, value in unknown.items()]
    call = corrected_call(name, unknown, asked)
    told = "\n  ".join([f"{fault}:", *lines])
    raise UnknownArgumentError(told if call is None else f"{told}\nWrite {call}")


def _told(name: str, value: Any, known: Iterable[str]) -> str:
    """Return where one argument went, behind its name."""
    if name not in RENAMED:
        if name in _IMAGE:
            return f" is an argument of the image: x=dfgen.Image(..., {name}=...)"
        return " is no argument." + (did_you_mean(name, known) or " Leave it out")
    to, advice, _ = RENAMED[name]
    if name == "preprocessing_function" and preprocessing(value)[0] == "scale":
        to, mode = preprocessing(value)
        advice = "leave it out: that model scales pixels itself" if mode is LEFT_OUT else ""
    if not to:
        return f": {advice}"
    feature, _, argument = to.rpartition(".")
    where = f"{argument} of dfgen.{feature}" if feature else argument
    return f" is now {where}" + (f": {advice}" if advice else "")


def corrected_call(name: str, unknown: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    """Return a call that says with arguments of dfgen what was said with others, for pasting.

    None where arguments belong into an image, and it is not told into which.
    """
    asked, of_image = dict(given), dict[str, Any]()
    for one, value in unknown.items():
        to, value = _translated(one, value)
        feature, _, argument = to.rpartition(".")
        if not to or value is LEFT_OUT or feature not in ("", "Image"):
            continue
        both = argument == "flip" and of_image.get("flip", value) != value
        target = of_image if feature else asked
        target[argument] = "horizontal_and_vertical" if both else value
    if of_image.get("dtype") == "float32" and asked.get("scale") is not None:
        del of_image["dtype"]  # which it is by itself
    x = asked.get("x", "path")
    if of_image and not isinstance(x, str):
        return None
    if of_image:
        moved = {to: asked.pop(key) for key, to in _OF_IMAGES.items() if key in asked}
        asked["x"] = _Source(f"dfgen.Image({_arguments({'column': x} | moved | of_image)})")
    frame = asked.pop("manifest", None)
    if frame is None or not isinstance(frame, str):
        frame = _Source(_SUBSETS.get(str(unknown.get("subset")), "df"))
    inputs = {key: asked.pop(key) for key in ("x", "y") if key in asked}
    return f"dfgen.{name}({_arguments({'manifest': frame} | inputs | asked)})"


def _translated(name: str, value: Any) -> tuple[str, Any]:
    """Return the argument that an unknown one is here, and its value."""
    if name == "preprocessing_function":
        return preprocessing(value)
    if name not in RENAMED:
        return f"Image.{name}", value if name in _IMAGE else LEFT_OUT
    return RENAMED[name].to, RENAMED[name].value(value)


class _Source(str):
    """Python source, shown as it is."""


def _arguments(values: Mapping[str, Any]) -> str:
    """Return arguments as source, the first of them without its name."""
    first, *others = values.items()
    return ", ".join([_shown(*first), *(f"{name}={_shown(name, value)}" for name, value in others)])


def _shown(name: str, value: Any) -> str:
    """Return a value as source; what is no plain value by a name that it may have."""
    if isinstance(value, _Source):
        return value
    if name == "storage_options":  # it may hold keys
        return name
    if isinstance(value, str | os.PathLike):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, np.generic | np.ndarray):
        return _shown(name, value.tolist())
    if isinstance(value, float | int | None):
        return repr(value)
    if isinstance(value, Feature) and "<" not in repr(value):
        return f"dfgen.{value!r}"
    if isinstance(value, list | tuple):
        inner = ", ".join(_shown("", one) for one in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown('', k)}: {_shown('', v)}" for k, v in value.items()) + "}"
    called = str(getattr(value, "__name__", ""))
    return called if called.isidentifier() else name or "..."
