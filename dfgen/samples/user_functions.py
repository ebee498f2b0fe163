"""Functions of the user: checked before they run, run with their traceback kept, and pickled."""

import functools
import inspect
import io
import os
import signal
import threading
import traceback
import types
from collections import ChainMap
from collections.abc import Callable
from typing import Any, ClassVar

from dfgen.errors import ArgumentError, DecodeError, DfgenError, brief, is_outside


def check_transform(name: str, function: object, of: str) -> None:
    """Refuse a `transform` or `batch_transform` that cannot be called as `name(of, rng)`."""
    if function is not None:
        advice = f'write def {name}({of}, rng): {of}["image"] = ...; return {of}'
        check_call(name, function, 2, f"{name}({of}, rng)", advice)


def check_call(name: str, function: Any, count: int, call: str, advice: str) -> None:
    """Refuse what cannot be called with `count` arguments, unless its signature is unknown."""
    if not callable(function):
        raise ArgumentError(f"{name} must be a function {call}, got {brief(function)}: {advice}")
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count)
    except TypeError:
        raise ArgumentError(
            f"{name}={name_of(function)}{signature} cannot be called as {call}: {advice}"
        ) from None


def name_of(function: Any) -> str:
    """Return the name that a function was defined by."""
    inner = unwrapped(function)
    return str(getattr(inner, "__qualname__", type(inner).__name__)).rpartition("<locals>.")[2]


def run(who: str, error_type: type[DfgenError], function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of the user; an error of it becomes one of `error_type`.

    Keras and other processes cut the chain of exceptions, so the traceback is also a note. Ctrl+C
    and, of a decoder, errors of memory and of the system pass as they are.
    """
    process = os.getpid()
    try:
        return function(*given)
    except BaseException as cause:
        if _is_ctrl_c(cause) or (error_type is DecodeError and is_outside(cause)):
            raise
        error = error_type(f"{who} raised {type(cause).__name__}: {' '.join(str(cause).split())}")
        lines = cause.__traceback__
        while lines and lines.tb_frame.f_globals.get("__name__", "").startswith("dfgen."):
            lines = lines.tb_next
        if lines is not None:
            text = "".join(traceback.format_exception(type(cause), cause, lines))
            error.add_note(f"In your function:\n{text.rstrip()}")
        raise error from cause
    finally:
        if os.getpid() != process:  # a process that the function has forked
            os._exit(0)


def _is_ctrl_c(error: BaseException) -> bool:
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    )


def unwrapped(function: Any) -> Any:
    """Return what a `functools.partial` calls, however often it is wrapped."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def pickled_by_value(value: object, **options: Any) -> bytes:
    """Pickle, functions of a notebook or script by value, with the names of their files.

    cloudpickle leaves these names out since 3.1.3, and tracebacks would show no line.
    """
    import cloudpickle

    make_code = cloudpickle.Pickler.dispatch_table[types.CodeType]

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar = ChainMap(
            {types.CodeType: lambda code: (_code_of, (code.co_filename, *make_code(code)))},
            cloudpickle.Pickler.dispatch_table,
        )

    with io.BytesIO() as file:
        Pickler(file, **options).dump(value)
        return file.getvalue()


def _code_of(filename: str, make: Callable[..., types.CodeType], given: Any) -> types.CodeType:
    return make(*given).replace(co_filename=filename)
