"""Attributes that a Sequence lacks, and those that cannot be set."""

from typing import Any

from dfgen.errors import brief, did_you_mean
from dfgen.explain.other_libraries import HERE
from dfgen.training.sequence_arguments import SequenceArguments

_ARGUMENTS = "manifest", "x", "y", "shuffle", *SequenceArguments.__annotations__


def no_such_name(given: object, name: str) -> AttributeError:
    """Return the error that a Sequence has no such attribute, with what it has instead."""
    kind = type(given).__name__
    fault = f"{kind!r} object has no attribute {name!r}"
    if "_loader" not in vars(given):
        return AttributeError(
            f"{fault}, as __init__ of dfgen.Sequence has not run: a subclass calls "
            "super().__init__(df, ...). Batches of your own making are a keras.utils.PyDataset",
            name=name,
        )
    told = f": {HERE[name]}" if name in HERE else ""
    return AttributeError(fault + told, name=name, obj=given)


def check_set(given: object, name: str, value: Any) -> None:
    """Refuse to set a public attribute of a Sequence, which would change nothing.

    A class that a user derives may have attributes of its own.

    Raises:
        AttributeError: it is one that a Sequence or nobody has.
    """
    if name.startswith("_"):
        return
    kinds = type(given).__mro__
    owner = next((one for one in kinds if name in vars(one)), None)
    module = (owner or kinds[0]).__module__.partition(".")[0]
    is_free = owner is not None or name not in _ARGUMENTS or "_loader" not in vars(given)
    if is_free and module not in ("dfgen", "keras", "builtins"):
        return
    advice = f": make a new one, dfgen.Sequence(df, ..., {name}={brief(value)})"
    if name not in _ARGUMENTS:
        near = "" if owner is not None else did_you_mean(name, _ARGUMENTS)
        advice = f".{near} Its arguments are given as it is made: dfgen.Sequence(df, ...)"
    raise AttributeError(
        f"{name} = {brief(value)} would change nothing in a Sequence that is made already{advice}",
        name=name,
        obj=given,
    )
