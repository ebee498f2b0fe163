"""The options of a command, read from the source of its function; and its executor.

To import the function would take half a second.
"""

import ast
import inspect
import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

import dfgen
from dfgen.errors import ArgumentError, MissingPackageError, WorkerError, quote, reason, whole
from dfgen.executors import Made
from dfgen.machine import end_with_parent

_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss|ucx|ucxx)://)?(?:\[.+\]|[^/:]+):\d+")

LEFT_OUT = ("executor", "limits", "storage_options")  # arguments that have no option
_ENUM: Any = Enum
Reader = Callable[[str, Any], Any]
"""Makes the value of an argument of the option's name and of what Typer returns."""


@contextmanager
def executor_of(processes: int | None, dask: str | None) -> Iterator[Made | None]:
    """Yield the executor of `--processes` or `--dask`; None: threads of this process."""
    if processes is not None and dask is not None:
        raise ArgumentError("--processes are on this machine, --dask is a cluster: leave one out")
    if processes is None and dask is None:
        yield None
    elif dask is not None:
        with _client(dask) as client:
            yield client.get_executor(pure=False)
    else:
        number = whole("processes", processes, least=1)
        context, others = multiprocessing.get_context("spawn"), multiprocessing.active_children()
        try:
            yield partial(ProcessPoolExecutor, number, context, _begin)  # again if some died
        finally:
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()


def _begin() -> None:
    """Have a worker end silently on Ctrl-C, and when the command is killed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        advice = '--dask needs Dask: pip install "keras-dfgen[dask]"'
        raise MissingPackageError(advice) from None
    if not _ADDRESS.fullmatch(address):  # Client would try for a minute
        raise ArgumentError(
            f"--dask {quote(address)} is not the address of a scheduler: expected one as "
            "tcp://10.0.0.1:8786, which `dask scheduler` prints"
        )
    try:
        return Client(address, set_as_default=False)
    except Exception as error:  # of sockets, or of the text of the address
        raise WorkerError(
            f"--dask {address}: no scheduler answers: {reason(error)}. `dask scheduler` starts one"
        ) from error


def definition(module: str, name: str) -> ast.FunctionDef:
    """Return the definition of a function, following imports to where it is."""
    loader: Any = dfgen.__spec__.loader
    place, source = os.path.join(dfgen.__path__[0], *module.split(".")[1:]), b""
    for path in (f"{place}.py", f"{place}/__init__.pyi", f"{place}/__init__.py"):
        with suppress(OSError):
            source = source or loader.get_data(path)
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and name in (
            each.asname or each.name for each in node.names
        ):
            return definition(str(node.module), name)
    raise LookupError(f"{module} has no function {name}")


class Option(NamedTuple):
    """The option of an argument."""

    name: str
    parameter: inspect.Parameter  # as Typer takes it
    read: Reader | None


def options_of(
    function: ast.FunctionDef, names: dict[str, str], panels: Mapping[str, str]
) -> Iterator[Option]:
    """Yield the options of a function, each with the first sentence that `Args:` says of it.

    Args:
        function: what the command runs.
        names: argument -> name of its option, if that has another one.
        panels: the first argument of each panel of the help -> the title of the panel.
    """
    args, panel = function.args, None
    section = f"{ast.get_docstring(function)}\n".partition("\nArgs:\n")[2]
    entries = re.findall(r"^ {4}(\w+): (.*?)(?=^ {0,4}\S|^$)", section, re.M | re.S)
    texts = {name: " ".join(text.split()) for name, text in entries}
    defaults = [None] * (len(args.args) - len(args.defaults)) + [*args.defaults, *args.kw_defaults]
    for each, node in zip([*args.args, *args.kwonlyargs], defaults, strict=True):
        name, text = each.arg, texts.get(each.arg, "")
        panel = panels.get(name, panel)
        if name not in LEFT_OUT:
            positional = each in args.args and name not in ("out", *names)
            option = name if positional else f"--{names.get(name, name).replace('_', '-')}"
            default = inspect.Parameter.empty if node is None else ast.literal_eval(node)
            annotation = ast.unparse(each.annotation or each)
            yield Option(option, *_parameter(name, option, annotation, default, text, panel))


def _parameter(
    name: str, option: str, annotation: str, default: Any, text: str, panel: str | None
) -> tuple[inspect.Parameter, Reader | None]:
    """Return the parameter of an option, and what reads its value.

    Its choices are those of a `Literal`, else the values that `text` has in backticks and quotes.
    """
    kind, several, metavar, read = next(row for word, row in _KINDS.items() if word in annotation)
    quoted = re.findall(r'`"([a-z0-9_]+)"`', text) if annotation.startswith("str") else []
    choices = re.findall(r"'(\w+)'", annotation) or quoted
    if isinstance(default, tuple):
        default = ",".join(map(str, default)) or None
    elif default is False:
        default = None
    if len({*choices}) > 1:
        kind = _ENUM("Choice", {choice: choice for choice in choices}, type=str)
        metavar, read = None, lambda _, choice: choice.value
        default = kind(default) if isinstance(default, str) else default
    sentence = re.split(r"(?<=\.)\s(?=[A-Z])", text)[0].replace("`", "").replace("[", r"\[")
    how: dict[str, Any] = {"help": sentence[:1].upper() + sentence[1:], "rich_help_panel": panel}
    if option == name:
        shown = typer.Argument(metavar=name.upper(), **how)
    else:
        negation = f"/--no-{option[2:]}" if default is True else ""
        shown = typer.Option(option + negation, metavar=metavar, **how)
    kind = list[kind] if several else kind  # type: ignore[valid-type]
    hint, keyword = Annotated[kind | None, shown], inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=hint), read


def _shares(option: str, texts: list[str]) -> dict[str, float]:
    try:
        return {name: float(share) for name, _, share in (text.partition("=") for text in texts)}
    except ValueError:
        received, example = " ".join(texts), f"{option} train=0.8"
        raise ArgumentError(f"{option} {received}: expected NAME=SHARE, as in {example}") from None


def _size(option: str, text: str) -> tuple[int, int]:
    try:
        height, width = map(int, text.split(","))
    except ValueError:
        raise ArgumentError(f"{option} {text}: expected H,W, as in {option} 224,224") from None
    return height, width


def _paths(option: str, texts: list[str]) -> Any:
    splits = [
        text.partition("=")[::2] for text in texts if "=" in text and not os.path.exists(text)
    ]
    if splits and len(splits) < len(texts):
        raise ArgumentError(f"{option} SPLIT=PATH: some paths have no split. Name that of each")
    return dict(splits) or (texts if len(texts) > 1 else texts[0])


_KINDS: dict[str, tuple[Any, bool, str | None, Reader | None]] = {
    "float]": (str, True, "NAME=SHARE", _shares),
    "Mapping": (str, True, "[SPLIT=]PATH", _paths),
    "OfSplits": (str, True, "[SPLIT=]PATH", _paths),
    "Sequence": (str, True, "NAME", None),
    "Iterable": (str, True, "NAME", None),
    "tuple": (str, False, "H,W", _size),
    "Literal": (str, False, None, None),
    "bool": (bool, False, None, None),
    "Path": (str, False, "PATH", None),
    "str": (str, False, "TEXT", None),
    "int": (int, False, "NUMBER", None),
    "float": (float, False, "NUMBER", None),
}
"""Part of an annotation -> type of the option, whether it is repeated, its metavar and reader."""
