"""The commands `build-manifest` and `split`: their options are the arguments of recipes."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer
import typer.core

from dfgen.commands.options import (
    Dask,
    Force,
    Json,
    Manifest,
    Processes,
    Workers,
    beside,
    by_split,
    counted,
    lines_of,
    one_or_more,
    print_json,
    shares_of,
)
from dfgen.errors import ArgumentError

READERS = {
    (list,): lambda option, values: tuple(values or ()),
    (str, list): one_or_more,
    (str, list, dict): by_split,
    (dict,): shares_of,
}
"""Type of an argument in TOML -> how its repeated option is read; others are taken as given."""

_FIRST = ("source", "pattern", "labels", "on", "split")
_PANELS = {
    "Files and labels": (
        "path_column", "sep", "decimal", "encoding", "sheet", "root", "id", "category", "label",
        "unmatched", "facts",
    ),
    "Splits": ("folds", "stratify", "group", "order", "group_duplicates", "seed"),
}  # fmt: skip
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}
_ANNOTATIONS = "Annotations and lists, instead of a folder"
_GROWTH = "A manifest that grows"


class BuildCommand(typer.core.TyperCommand):
    """Makes its options when they are asked for: the help of `dfgen` needs no source."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options, those of every source among them."""
        if not self.params:
            made = self.made()
            self.params, self.callback = made.params, made.callback
        return super().get_params(ctx)

    def made(self) -> Any:
        """Return a command with all options."""
        from dfgen.manifest.building.recipe import all_arguments
        from dfgen.manifest.sources import SOURCES

        arguments = all_arguments()
        owners = {
            name: [f"--{source}" for source in SOURCES if name in SOURCES[source].arguments]
            for name in arguments
        }
        names = [*_FIRST, *(name for name in arguments if name not in _FIRST)]
        options = [
            _parameter(name, arguments[name], owners[name], _PANEL_OF.get(name, _ANNOTATIONS))
            for name in names
        ]
        return _command(_build, arguments, options)


class CheckCommand(BuildCommand):
    """Its options are those arguments of a recipe that say which rows there are, in which files."""

    def made(self) -> Any:
        """Return a command with all options."""
        from dfgen.manifest.building.recipe import Recipe, all_arguments
        from dfgen.manifest.sources.source import arguments_of

        taken = ("labels", "source", *arguments_of(Recipe))
        arguments = {name: all_arguments()[name] for name in taken if name != "unmatched"}
        arguments["source"] = replace(arguments["source"], help="Folder of the files, or its URL.")
        places = {"labels": "TABLE", "source": "FOLDER"}
        options = [
            _parameter(*each, panel=_PANEL_OF.get(each[0]), place=places.get(each[0]))
            for each in arguments.items()
        ]
        return _command(_check, arguments, options)


class SplitCommand(BuildCommand):
    """Its options are the arguments of a recipe that say how rows are divided."""

    def made(self) -> Any:
        """Return a command with all options."""
        from dfgen.manifest.sources.source import arguments_of
        from dfgen.manifest.splitting.split_rules import Splitting

        arguments = arguments_of(Splitting)
        return _command(_split, arguments, [_parameter(*each) for each in arguments.items()])


def _command(
    run: Callable[..., None], arguments: Mapping[str, Any], options: list[inspect.Parameter]
) -> Any:
    """Return the command that runs a function with the arguments, read, as the first of its own."""

    def read(**values: Any) -> None:
        given = {name: _read(name, arguments[name], values.pop(name)) for name in arguments}
        run(given, **values)

    parameters = [*options, *list(inspect.signature(run).parameters.values())[1:]]
    signature = inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in parameters])
    read.__signature__ = signature  # type: ignore[attr-defined]
    read.__annotations__ = {}
    app = typer.Typer(add_completion=False)
    app.command()(read)
    return typer.main.get_command(app)


def _parameter(
    name: str,
    argument: Any,
    sources: list[str] | None = None,
    panel: str | None = None,
    place: str | None = None,
) -> inspect.Parameter:
    """Return an option, or an argument where it has a `place` on the command line."""
    kind = next((kind for kind in (bool, int) if kind in argument.accepts), str)
    several = argument.accepts in READERS and not argument.from_file
    text = argument.help
    if sources:
        text += f" With {' or '.join(filter(None, (', '.join(sources[:-1]), sources[-1])))}."
    place = place or (argument.metavar if name == "source" else None)
    shown = (typer.Argument if place else typer.Option)(
        help=text,
        metavar=place or argument.metavar or "|".join(argument.choices) or None,
        rich_help_panel=None if name in _FIRST else panel,
    )
    hint = Annotated[(list[str] if several else kind) | None, shown]  # type: ignore[valid-type]
    needed = inspect.Parameter.empty if place and name == "labels" else None
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=needed, annotation=hint)


def _read(name: str, argument: Any, value: Any) -> Any:
    option = f"--{name.replace('_', '-')}"
    if argument.from_file:
        return lines_of(option, value)
    read = READERS.get(argument.accepts)
    return read(option, value) if read else value


def build_command() -> None:
    """Build a manifest from a folder of files, a table of labels, or annotations."""


def _build(
    given: Mapping[str, Any],
    out: Annotated[
        str | None,
        typer.Option(
            help="The Parquet file to write. Default: that of --update, else beside the recipe.",
            metavar="M.parquet",
        ),
    ] = None,
    update: Annotated[
        str | None,
        typer.Option(
            help="The older manifest. Only new or changed files are opened; ids and splits stay.",
            metavar="OLD.parquet",
            rich_help_panel=_GROWTH,
        ),
    ] = None,
    workers: Processes = None,
    dask: Dask = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    from dfgen.commands.executor import executor_of
    from dfgen.manifest.building.file_facts import Access
    from dfgen.manifest.building.pipeline import Build
    from dfgen.manifest.diff import since, tally

    out = out or update or _beside(given["source"])
    with executor_of(workers, dask) as executor:
        build = Build.of(given, update, out, Access(executor=executor))
        frame, report = build.run()
    old = build.old
    changes = tally(since(old.table, old.metadata, frame)) if old else None
    _show(frame, report, out, as_json, {"changes": changes} if changes else {})
    if changes and not as_json:
        print(f"Since {update}: {counted(changes)}", file=beside(out))
    if not as_json:
        print(f"Wrote {out}", file=beside(out))


def _beside(recipe: str | None) -> str:
    """Return the manifest of a recipe: of the same name, beside it."""
    if not (recipe or "").endswith(".toml"):
        raise ArgumentError("say with --out where to write the manifest, as in --out pets.parquet")
    return f"{str(recipe).removesuffix('.toml')}.parquet"


def check_command() -> None:
    """List all faults of a table of labels, its files and their join, before a manifest is built.

    Exit code: 0 if nothing is found, 1 if something is, 2 if they cannot be checked.
    """


def _check(given: Mapping[str, Any], workers: Workers = None, as_json: Json = False) -> None:
    from dfgen.manifest.building.check import run_check
    from dfgen.manifest.building.file_facts import Access

    found = run_check(given, Access(workers))
    if as_json:
        print_json(found.figures())
    else:
        print(found)
    raise typer.Exit(int(len(found.findings) > 0))


def split_command() -> None:
    """Give all rows of a manifest a new split, or folds."""


def _split(
    given: Mapping[str, Any],
    manifest: Manifest,
    out: Annotated[
        str | None, typer.Option(help="The file to write. Default: the manifest itself.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    from dfgen.manifest.building.build import make_split
    from dfgen.manifest.building.summary import BuildReport
    from dfgen.manifest.splitting.split_rules import Splitting

    out = out or manifest
    how = Splitting(**{name: value for name, value in given.items() if value is not None})
    frame, warnings = make_split(manifest, how, out)
    _show(frame, BuildReport(warnings=warnings), out, as_json)
    if not as_json:
        print(f"Wrote {out}", file=beside(out))


def _show(frame: Any, report: Any, out: str, as_json: bool, more: Mapping[str, Any] = {}) -> None:
    """Print what was made, in words or as JSON."""
    from dfgen.manifest.building.summary import figures, summarize

    if as_json:
        print_json({"out": out, **figures(frame, report), **more}, beside(out))
    else:
        print(summarize(frame, report), file=beside(out))
