"""Arguments of `build_manifest` of another type than expected."""

from typing import Any

from dfgen.errors import ArgumentError, brief
from dfgen.manifest.sources.source import NAMES, Argument

_WANTED = {str: "text", int: "a whole number", list: "a list", dict: "a dict by split"}
_TABLE = (
    "A frame with id and path is a manifest already: dfgen.Sequence(df), or "
    "dfgen.write_manifest(df, path). A table that names files goes into labels= with "
    "path_column=, one of labels into labels= with on=, beside the folder"
)
_PATHS = (
    "Paths in hand make a frame, which is a manifest already: "
    'dfgen.Sequence(pandas.DataFrame({"id": range(len(paths)), "path": paths}))'
)


def check_type(name: str, value: Any, argument: Argument) -> None:
    """Raise if a value, whose paths are text already, is not of a type that an argument takes."""
    accepts = (str, list, tuple) if argument.accepts == NAMES else argument.accepts
    if (
        value is None
        or argument.choices
        or (isinstance(value, accepts) and not isinstance(value, bool))
    ):
        return
    wanted = " or ".join(_WANTED[kind] for kind in argument.accepts)
    advice = f". {_advice(value)}" if name == "source" else ""
    if name == "pattern":
        advice = ', as in "{kind}/{id}.jpg": fields in braces become columns'
    raise ArgumentError(f"{name}={brief(value)}: expected {wanted}{advice}")


def _advice(value: object) -> str:
    if hasattr(value, "columns") or isinstance(value, dict):
        return f"It is the folder of the files. {_TABLE}"
    if hasattr(value, "__len__") and not isinstance(value, bytes):
        return f"It is the folder of the files. {_PATHS}"
    return "It is the folder of the files"
