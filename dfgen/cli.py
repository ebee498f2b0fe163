"""The command line: one function a command, each a thin layer over the function of the same name.

Imports that cost time stand inside the functions, so that `dfgen --help` answers at once.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
import typer.core

from dfgen import commands
from dfgen.errors import ArgumentError, DfgenError

COMPARING = ("diff", "verify")
"""Commands that exit with 1 where they find a difference, and with 2 where they fail, as `diff`."""


class _Commands(typer.core.TyperGroup):
    """Prints what dfgen refuses as one message on stderr, with exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except DfgenError as error:
            print(f"dfgen: {error}", file=sys.stderr)
            raise typer.Exit(2 if ctx.invoked_subcommand in COMPARING else 1) from None


app = typer.Typer(
    cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False
)


@app.callback()
def main() -> None:
    """Feed Keras models from a table of files."""


@app.command("build-manifest")
def build_manifest(
    folder: Annotated[
        str | None,
        typer.Argument(
            help="Folder of images; every one below it becomes a row. Or a recipe, a .toml file.",
            metavar="[FOLDER | RECIPE.toml]",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            help="The Parquet file to write. Default: that of --update, else beside the recipe.",
            metavar="M.parquet",
        ),
    ] = None,
    pattern: Annotated[
        str | None,
        typer.Option(
            help="Path below the folder, as in '{kind}/{id:int}.jpg': fields are columns."
        ),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Label table: .csv, .tsv, .jsonl or .parquet.")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            help="Key of file and label: a pattern field, name, stem or relpath = the column.",
            metavar="FIELD[=COLUMN]",
        ),
    ] = None,
    path_column: Annotated[
        str | None, typer.Option(help="Column of the label table that names the files.")
    ] = None,
    root: Annotated[str | None, typer.Option(help="Folder where relative paths start.")] = None,
    id: Annotated[
        str | None, typer.Option(help="Column of unique ids. Default: {id}, id, or the path.")
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="Column of whole numbers that are classes. Repeatable.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Column to keep as label. Repeatable. Default: all.")
    ] = None,
    unmatched: Annotated[
        str | None,
        typer.Option(
            help="Files without labels, labels without file: error, keep or drop. Default: error."
        ),
    ] = None,
    facts: Annotated[
        str | None, typer.Option(help="What to read of each file: none or header. Default: header.")
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(help="A split and its share, as train=0.8. Repeatable.", metavar="NAME=SHARE"),
    ] = None,
    stratify: commands.Stratify = None,
    group: commands.Group = None,
    seed: Annotated[
        int | None, typer.Option(help="Another seed gives another split. Default: 0.")
    ] = None,
    update: Annotated[
        str | None,
        typer.Option(
            help="Manifest that grows: opens only new or changed files, keeps ids and splits.",
            metavar="OLD.parquet",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Threads that read headers. Default: all CPUs.")
    ] = None,
    as_json: commands.Json = False,
) -> None:
    """Build a manifest from a folder of files, a table of labels, or both."""
    from dfgen.manifest.build import build
    from dfgen.manifest.compare import since, tally
    from dfgen.manifest.growing import read_old
    from dfgen.manifest.recipe_file import resolve
    from dfgen.manifest.summary import figures, summarize

    given = dict(
        source=folder,
        pattern=pattern,
        labels=labels,
        on=on,
        path_column=path_column,
        root=root,
        id=id,
        category=tuple(category or ()),
        label=tuple(label or ()),
        unmatched=unmatched,
        facts=facts,
        split=commands.shares_of(split) if split else None,
        stratify=stratify,
        group=group,
        seed=seed,
    )
    out = out or update or _beside(folder)
    old = read_old(update) if update else None
    recipe = resolve(given, old.recipe if old else None)
    frame, report = build(recipe, out, workers, old)
    changes = tally(since(old, frame)) if old else None
    if as_json:
        print(json.dumps({**figures(frame, report), "changes": changes, "out": out}))
        return
    print(summarize(frame, report))
    if changes is not None:
        print(f"Since {update}: {commands.counted(changes)}")
    print(f"Wrote {out}")


app.command()(commands.verify)
app.command()(commands.diff)
app.command()(commands.split)
app.command()(commands.recipe)


@app.command()
def demo(
    keep: Annotated[
        str | None,
        typer.Option(help="Folder for the files. Default: a temporary one.", metavar="DIR"),
    ] = None,
) -> None:
    """Train three models on scanned digits, showing each step; takes a minute."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silence():  # while it loads, TensorFlow logs at any level
        from dfgen.demo import run

    if not run(keep):
        raise typer.Exit(1)


@app.command()
def bench(
    manifest: Annotated[str, typer.Argument(help="The manifest to measure.", metavar="M.parquet")],
    rows: Annotated[
        int | None, typer.Option(help="Rows, chosen at random. Default: a second of decoding.")
    ] = None,
    image_size: Annotated[
        str, typer.Option(help="Height and width of the images in pixels.", metavar="H,W")
    ] = "256,256",
    batch_size: Annotated[int, typer.Option(help="Images of a batch.")] = 32,
    workers: Annotated[int | None, typer.Option(help="Threads. Default: all CPUs.")] = None,
    antialias: Annotated[bool, typer.Option(help="Filter images before shrinking.")] = True,
    against: Annotated[
        list[str] | None,
        typer.Option(
            help="Measure a peer beside: tf.data, torch, keras, or all of them that are "
            "installed. Repeatable."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Train a model of keras.applications, and say how long it waits.", metavar="NAME"
        ),
    ] = None,
    png: Annotated[str | None, typer.Option(help="Draw the rates.", metavar="FILE")] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", help="Write all figures.", metavar="FILE")
    ] = None,
) -> None:
    """Measure how fast batches come from your files, and say what limits them."""
    size = _image_size(image_size)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silence():  # while it loads, TensorFlow logs at any level
        from dfgen.bench import report
        from dfgen.bench.run import bench as run

    report.check_outputs(png, json_file)
    result = run(
        manifest,
        rows=rows,
        image_size=size,
        batch_size=batch_size,
        workers=workers,
        antialias=antialias,
        against=tuple(against or ()),
        model=model,
    )
    print(report.table(result))
    if png:
        report.write_png(result, png)
    if json_file:
        report.write_json(result, json_file)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what goes to stderr, C++ included."""
    stderr = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def _beside(recipe: str | None) -> str:
    """Return the manifest of a recipe: of the same name, beside it."""
    if not (recipe or "").endswith(".toml"):
        raise ArgumentError("Say with --out where to write the manifest, as in --out pets.parquet.")
    return f"{str(recipe).removesuffix('.toml')}.parquet"


def _image_size(text: str) -> tuple[int, int]:
    """Return (height, width) of `H,W`."""
    try:
        height, width = map(int, text.split(","))
    except ValueError:
        raise ArgumentError(f"--image-size {text}: expected H,W, as in 224,224.") from None
    return height, width
