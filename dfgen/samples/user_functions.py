"""Functions of the user's own: looked at before they run, and their lines shown where they fail."""

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

from dfgen.errors import ArgumentError, DfgenError, brief

_KERAS = (
    "it works on tensors: put it into the model, as one of its first layers. Random flips and "
    'crops are x=dfgen.Image("path", flip=..., crop=...), preprocess_input is scale="tf", "torch" '
    'or "caffe"'
)
_TORCH = (
    'it works on torch tensors and PIL images: write x=dfgen.Image("path", flip="horizontal", '
    'crop="random_resized"), or dfgen.albumentations(A.Compose([...]))'
)
_FOREIGN = {
    "albumentations": "write dfgen.albumentations(A.Compose([...]))",
    "fastai": _TORCH,
    "keras": _KERAS,
    "tensorflow": _KERAS,
    "tf_keras": _KERAS,
    "torchvision": _TORCH,
    "transformers": "write its mean and deviation as scale=(image_mean, image_std)",
}
"""Package -> what to write instead of its transforms, which do not take a dict of arrays."""


def check_transform(name: str, function: object, of: str) -> None:
    """Refuse a `transform` or `batch_transform` that cannot be called, as far as can be seen.

    Args:
        name: of the argument.
        function: what it was given; None is none.
        of: what the function is told and returns, "sample" or "batch".
    """
    if function is None:
        return
    package = _package(function)
    if package:
        raise ArgumentError(
            f"{name}={brief(function)} is of {package}, expected a function {name}({of}, rng) of a "
            f"dict of NumPy arrays: {_FOREIGN[package]}"
        )
    call = f"{name}({of}, rng)"
    advice = f'write def {name}({of}, rng): {of}["image"] = ...; return {of}'
    if not callable(function):
        if isinstance(function, list | tuple):
            advice = f"write one function that calls them in turn: {advice.removeprefix('write ')}"
        elif isinstance(function, str):
            advice += '. Random flips and crops are x=dfgen.Image("path", flip=..., crop=...)'
        raise ArgumentError(
            f"{name}={brief(function)} is no function, expected {call} -> {of}: {advice}"
        )
    if isinstance(function, type) and not issubclass(function, dict):
        raise ArgumentError(
            f"{name}={function.__name__} is a class, expected {call} -> {of}: give an object of "
            f"it, {name}={function.__name__}(...)"
        )
    check_call(name, function, 2, call, advice)


def check_call(name: str, function: Callable[..., Any], count: int, call: str, advice: str) -> None:
    """Refuse a function that does not take `count` arguments, unless its signature is unknown.

    `name` is the argument that it was given for, `call` how it is called, `advice` what to do.
    """
    signature = _signature(function)
    try:
        if signature is not None:
            signature.bind(*[None] * count)
    except TypeError:
        raise ArgumentError(
            f"{name}={_written(function)} cannot be called as {call}: {advice}"
        ) from None


def with_own_lines(error: DfgenError, cause: BaseException) -> DfgenError:
    """Return an error with the traceback of its cause in the user's function as a note.

    Keras and other processes cut the chain of exceptions.
    """
    lines = cause.__traceback__
    while lines is not None and lines.tb_frame.f_globals.get("__name__", "").startswith("dfgen."):
        lines = lines.tb_next
    if lines is not None:
        text = "".join(traceback.format_exception(type(cause), cause, lines))
        error.add_note(f"In your function:\n{text.rstrip()}")
    return error


def called(function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of the user's; a process that it forks ends where it would come back."""
    process = os.getpid()
    try:
        return function(*given)
    finally:
        if os.getpid() != process:
            os._exit(0)


def is_ctrl_c(error: BaseException) -> bool:
    """Whether the user has interrupted the program, rather than a function raised it."""
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    )


def raised(error: BaseException) -> str:
    """Return what a function of the user's raised, in one line."""
    return f"raised {type(error).__name__}: {' '.join(str(error).split())}"


def unwrapped(function: Any) -> Any:
    """Return what a `functools.partial` calls, however often it is wrapped."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def pickled_by_value(value: object, **options: Any) -> bytes:
    """Pickle, functions of a notebook or script by value, with the files that hold their lines.

    cloudpickle leaves the name of the file out since 3.1.3, and tracebacks would show no line.
    `options` are those of `pickle.Pickler`.
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


def _package(function: object) -> str:
    """Return which library's code would run, or made what cannot be called; "": another's."""
    function = unwrapped(function)
    made: Any = function if inspect.isroutine(function) else type(function)
    made = function if isinstance(function, type) else made
    modules = (getattr(of, "__module__", "") for of in (made, getattr(made, "__call__", None)))  # noqa: B004
    packages = (str(module).partition(".")[0] for module in modules)
    return next((package for package in packages if package in _FOREIGN), "")


def _signature(function: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None


def _written(function: Any) -> str:
    """Return a function as it is defined, such as `flip(image)`."""
    inner = unwrapped(function)
    name = getattr(inner, "__qualname__", type(inner).__name__).rpartition("<locals>.")[2]
    return f"{name}{_signature(function) or '(...)'}"
