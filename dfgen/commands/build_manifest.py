"""The command `build-manifest`: its options are the arguments of the sources and of recipes."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import typer
import typer.core

from dfgen.commands.options import (
    Force,
    Json,
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
    "Files and labels": ("path_column", "root", "id", "category", "label", "unmatched", "facts"),
    "Splits": ("folds", "stratify", "group", "order", "group_duplicates", "seed"),
}
_ANNOTATIONS = "Annotations and lists, instead of a folder"
_WRITING = "What is written, and how"


def build_command() -> None:
    """Build a manifest from a folder of files, a table of labels, or annotations."""


class BuildCommand(typer.core.TyperCommand):
    """Makes its options when they are asked for: the help of `dfgen` needs no source."""

    def get_params(self, ctx: Any) -> Any:
        """Return the options, those of every source among them."""
        if not self.params:
            made = _made()
            self.params, self.callback = made.params, made.callback
        return super().get_params(ctx)


def _made() -> Any:
    from dfgen.manifest.building.recipe import all_arguments
    from dfgen.manifest.sources import SOURCES

    arguments = all_arguments()
    owners = {
        name: [f"--{source}" for source in SOURCES if name in SOURCES[source].arguments]
        for name in arguments
    }

    def run(**values: Any) -> None:
        given = {name: _read(name, arguments[name], values.pop(name)) for name in arguments}
        _build(given, **values)

    ours = list(inspect.signature(_build).parameters.values())[1:]
    names = [*_FIRST, *(name for name in arguments if name not in _FIRST)]
    theirs = [_parameter(name, arguments[name], owners[name]) for name in names]
    signature = inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in (*theirs, *ours)])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {}
    app = typer.Typer(add_completion=False)
    app.command()(run)
    return typer.main.get_command(app)


def _parameter(name: str, argument: Any, sources: list[str]) -> inspect.Parameter:
    kind = next((kind for kind in (bool, int) if kind in argument.accepts), str)
    several = argument.accepts in READERS and not argument.from_file
    text = argument.help
    if sources:
        text += f" With {' or '.join(filter(None, (', '.join(sources[:-1]), sources[-1])))}."
    make = typer.Argument if name == "source" else typer.Option
    panels = (panel for panel, names in _PANELS.items() if name in names)
    shown = make(
        help=text,
        metavar=argument.metavar or "|".join(argument.choices) or None,
        rich_help_panel=None if name in _FIRST else next(panels, _ANNOTATIONS),
    )
    hint = Annotated[(list[str] if several else kind) | None, shown]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)


def _read(name: str, argument: Any, value: Any) -> Any:
    option = f"--{name.replace('_', '-')}"
    if argument.from_file:
        return lines_of(option, value)
    read = READERS.get(argument.accepts)
    return read(option, value) if read else value


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
            help="Manifest that grows: opens only new or changed files, keeps ids and splits.",
            metavar="OLD.parquet",
            rich_help_panel=_WRITING,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Threads that read headers. Default: all CPUs.", rich_help_panel=_WRITING
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    from dfgen.manifest.building.pipeline import run_recipe
    from dfgen.manifest.building.recipe_file import resolve
    from dfgen.manifest.building.summary import figures, summarize
    from dfgen.manifest.diff import since, tally
    from dfgen.manifest.row_matching import read_old

    out = out or update or _beside(given["source"])
    old = read_old(update) if update else None
    recipe = resolve(given, old.recipe if old else None, update or "")
    frame, report = run_recipe(recipe, out, workers, old)
    changes = {"changes": tally(since(old, frame))} if old else {}
    file = beside(out)
    if as_json:
        print_json({"out": out, **figures(frame, report), **changes}, file)
        return
    print(summarize(frame, report), file=file)
    if changes:
        print(f"Since {update}: {counted(changes['changes'])}", file=file)
    print(f"Wrote {out}", file=file)


def _beside(recipe: str | None) -> str:
    """Return the manifest of a recipe: of the same name, beside it."""
    if not (recipe or "").endswith(".toml"):
        raise ArgumentError("say with --out where to write the manifest, as in --out pets.parquet")
    return f"{str(recipe).removesuffix('.toml')}.parquet"
