"""The command line: the options of a command are the arguments of the function that it runs."""

import ast
import contextlib
import functools
import inspect
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

import typer
import typer.core

import dfgen
from dfgen.commands import results
from dfgen.commands.options import Option, definition, options_of
from dfgen.errors import DfgenError
from dfgen.files import overwriting

COMPARING = ("diff", "verify")
"""Commands that exit with 1 if they find a difference, and with 2 if they fail, as `diff`."""


class Command(NamedTuple):
    """A function as a command."""

    function: str
    run: Callable[[Callable[..., Any], dict[str, Any]], results.Result]
    example: str
    panel: str = "Manifests"
    panels: Mapping[str, str] = MappingProxyType({})  # first argument of each -> title


_USE = "Training and looking"
COMMANDS = {
    "build-manifest": Command(
        "dfgen.build_manifest", results.show_build,
        "imgs --pattern '{kind}/{id}.jpg' --split train=0.8 --split val=0.2 --out m.parquet",
        panels={"voc": "Annotations", "pattern": "Files and labels", "split": "Splits"}
        | {"update": "Output and work"},
    ),
    "split": Command("dfgen.split", results.show_split, "m.parquet --folds 5 --stratify kind"),
    "verify": Command("dfgen.verify", results.show_differences, "m.parquet --decode"),
    "update-labels": Command("dfgen.update_labels", results.show_corrections, "m.parquet fix.csv"),
    "diff": Command("dfgen.diff", results.show_differences, "old.parquet new.parquet"),
    "report": Command("dfgen.explore.report", results.show_report, "m.parquet --out m.html", _USE),
    "pack": Command("dfgen.pack", results.show_pack, "m.parquet --out p --image-size 64,64", _USE),
    "bench": Command("dfgen.bench.bench", results.show_bench, "m.parquet --model VGG16", _USE),
    "demo": Command("dfgen.demo.demo", results.show_demo, "--keep demo", _USE),
}  # fmt: skip
_OTHER_NAMES = {"shares": "split"}  # argument -> its option, if that has another name


def _replace(ctx: typer.Context, force: bool) -> None:
    if force:
        ctx.with_resource(overwriting())


def _run(
    command: Command,
    options: list[Option],
    *,
    processes: Annotated[
        int | None, typer.Option(help="Processes, instead of threads.", metavar="NUMBER")
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(help="Scheduler of a Dask cluster to use.", metavar="tcp://HOST:8786"),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a file of another kind, too.", callback=_replace),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
    **values: Any,
) -> None:
    """Run the function of a command with the values of its options, and print the result."""
    from dfgen.commands.options import executor_of

    given = {}
    for name, parameter, read in options:
        if (value := values[parameter.name]) not in (None, []):
            given[parameter.name] = read(name, value) if read else value
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with executor_of(processes, dask) as executor, _messages() as messages:
        given |= {} if executor is None else {"executor": executor}
        module, _, name = command.function.rpartition(".")
        figures, text, code = command.run(getattr(import_module(module), name), given)
    if as_json:
        print(json.dumps({**figures, "warnings": messages}, ensure_ascii=False))
    else:
        print(*(f"Warning: {message}" for message in messages), text, sep="\n")
    if code:
        raise typer.Exit(code)


@functools.cache
def _command(name: str) -> Any:
    """Return the Click command of a function."""
    command = COMMANDS[name]
    module, _, last = command.function.rpartition(".")
    function = definition(module, last)
    options = [*options_of(function, _OTHER_NAMES, command.panels)]
    has = {argument.arg for argument in [*function.args.args, *function.args.kwonlyargs]}
    own = ["processes", "dask"] * ("executor" in has) + ["force"] * bool({"out", "keep"} & has)
    own += ["as_json"] * (name != "demo")  # which prints as it goes
    parameters = [option.parameter for option in options]
    parameters += [inspect.signature(_run).parameters[each] for each in own]

    def run(**values: Any) -> None:
        _run(command, options, **values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    text = str(ast.get_docstring(function)).partition("\n")[0]
    if name in COMPARING:
        text += "\n\nExit code: 0 if there is no difference, 1 if there is one, 2 after an error."
    made = typer.Typer(add_completion=False)
    example = f"Example: dfgen {name} {command.example}"
    made.command(name, help=text, epilog=example, rich_help_panel=command.panel)(run)
    return typer.main.get_command(made)


@contextlib.contextmanager
def _messages() -> Iterator[list[str]]:
    """Collect the warnings of dfgen; print them before an error."""
    messages: list[str] = []

    def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
        if category is UserWarning:
            messages.append(str(message))
        else:
            shown(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        shown, warnings.showwarning = warnings.showwarning, show
        try:
            yield messages
        except DfgenError:
            for message in messages:
                print(f"Warning: {message}", file=sys.stderr)
            raise


class _Commands(typer.core.TyperGroup):
    """Makes a command when it is asked for; prints errors and Ctrl-C as one message on stderr."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None if there is no such one."""
        return _command(cmd_name) if cmd_name in COMMANDS else None

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except DfgenError as error:
            print(f"dfgen: {error}", file=sys.stderr)
            raise typer.Exit(2 if ctx.invoked_subcommand in COMPARING else 1) from None
        except KeyboardInterrupt:
            advice = "No file is half written: run the same command again, which may continue"
            print(f"dfgen {ctx.invoked_subcommand}: stopped. {advice}", file=sys.stderr)
            raise typer.Exit(130) from None  # as shells do


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Example: dfgen demo",
)


def _show_version(shown: bool) -> None:
    if shown:
        print(f"dfgen {dfgen.__version__}")
        raise typer.Exit


@app.callback()
def _feed(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Feed Keras models from a table of files."""
