"""The command line: one function a command, each a thin layer over the function of its name.

Imports that cost time stand inside the functions, so that `dfgen --help` answers at once.
"""

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any

import typer
import typer.core

from dfgen import __version__
from dfgen.commands.build_manifest import (
    BuildCommand,
    CheckCommand,
    SplitCommand,
    build_command,
    check_command,
    split_command,
)
from dfgen.commands.manifests import (
    diff_command,
    recipe_command,
    update_labels_command,
    verify_command,
)
from dfgen.commands.options import (
    Force,
    Json,
    Root,
    Workers,
    height_and_width,
    part_of,
    print_json,
    silence,
)
from dfgen.commands.pack_cache import cache, pack_command
from dfgen.errors import DfgenError


def predict_command(
    model: Annotated[str, typer.Argument(help="The model, saved by Keras.", metavar="MODEL.keras")],
    manifest: Annotated[str, typer.Argument(help="The rows.", metavar="M.parquet")],
    out: Annotated[
        str,
        typer.Option(help="The file to write, or to go on with after a kill.", metavar="P.parquet"),
    ],
    preprocessing: Annotated[
        str | None,
        typer.Option(help="File of SavePreprocessing. Default: MODEL.keras.json.", metavar="FILE"),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Only rows of this split.", metavar="NAME")
    ] = None,
    root: Root = None,
    batch_size: Annotated[int, typer.Option(help="Rows of a batch.")] = 32,
    views: Annotated[
        int | None,
        typer.Option(help="Average of this many passes with random crops and flips. Default: off."),
    ] = None,
    arrays: Annotated[
        str | None,
        typer.Option(help="Folder for masks and other arrays, a file a row.", metavar="DIR"),
    ] = None,
    on_error: Annotated[
        str,
        typer.Option(help="Rows that cannot be read: mark them, or stop.", metavar="skip|raise"),
    ] = "skip",
    shard: Annotated[
        str | None,
        typer.Option(help="Predict part I (from 0) of N.", metavar="I/N"),
    ] = None,
    workers: Workers = None,
    allow_functions: Annotated[
        bool,
        typer.Option("--allow-functions", help="Run functions that the preprocessing names."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write the rows of a manifest with the predictions of a saved model."""
    with silence():
        from dfgen.training.predictions.predict_frame import predict_saved

    predicted = predict_saved(
        model,
        manifest,
        out,
        preprocessing=preprocessing,
        split=split,
        views=views,
        arrays=arrays,
        allow_functions=allow_functions,
        root=root,
        batch_size=batch_size,
        on_error=on_error,
        shard=part_of("--shard", shard),
        workers=workers,
    )
    if as_json:
        print_json({"out": out, **predicted})
        return
    lost = f", {predicted['problems']:,} without a prediction" * bool(predicted["problems"])
    print(f"Wrote {out}: {predicted['rows']:,} rows{lost}")


def report_command(
    manifest: Annotated[str, typer.Argument(help="The manifest.", metavar="M.parquet")],
    out: Annotated[str, typer.Option(help="The page to write.", metavar="F.html")],
    predictions: Annotated[
        str | None,
        typer.Option(
            help="Predictions of `dfgen predict`. The page then shows the mistakes.",
            metavar="P.parquet",
        ),
    ] = None,
    caption: Annotated[
        list[str] | None,
        typer.Option(help="A column below each picture; repeat for several.", metavar="COL"),
    ] = None,
    rows: Annotated[int, typer.Option(help="Most rows of the gallery, 1 to 2000.")] = 600,
    seed: Annotated[int, typer.Option(help="Another seed draws other rows.")] = 0,
    root: Root = None,
    workers: Workers = None,
    force: Force = False,
) -> None:
    """Write one HTML file that shows the content of a manifest, to look at and to send."""
    from dfgen.explore.report_file import report

    report(
        manifest, out, predictions=predictions, caption=caption or None, rows=rows, seed=seed,
        root=root, workers=workers,
    )  # fmt: skip
    print(f"Wrote {out}: {os.path.getsize(out) / 1e6:.1f} MB")


INTERRUPTED = 130
"""Exit code after Ctrl-C, as of a shell."""
TERMINATED = 143
"""Exit code after SIGTERM."""
_STANDS = {
    "pack": "Finished shards stay. To go on after them, run the same command",
    "predict": "Finished batches stay beside the file. To go on after them, run the same command",
    "cache": "Some of its files may be gone. To go on, run the same command",
}
_WHOLE = "No file is half written: each is as it was, or whole. To start over, run the same command"
COMPARING = ("check", "diff", "verify")
"""Commands that exit with 1 where they find a difference, and with 2 where they fail, as `diff`."""


@contextlib.contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show warnings of what users gave, dfgen's, as messages: the line of code is of no use."""
    with warnings.catch_warnings():
        shown = warnings.showwarning
        warnings.filterwarnings("always", ".* names files in ", UserWarning)

        def show(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if category is UserWarning:
                print(f"dfgen: {message}", file=sys.stderr)
            else:
                shown(message, category, *where, **more)

        warnings.showwarning = show
        yield


class _Terminated(KeyboardInterrupt):
    """SIGTERM: a command ends as by Ctrl-C, and leaves no temporary file."""


def _terminate(*_: Any) -> None:
    raise _Terminated


@contextlib.contextmanager
def _sigterm_told() -> Iterator[None]:
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Commands(typer.core.TyperGroup):
    """Prints what dfgen warns of and refuses, a message each, on stderr; exit code 1 if refused.

    After Ctrl-C or SIGTERM it says what stands.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            with _sigterm_told(), _plain_warnings():
                return super().invoke(ctx)
        except DfgenError as error:
            print(f"dfgen: {error}", file=sys.stderr)
            raise typer.Exit(2 if ctx.invoked_subcommand in COMPARING else 1) from None
        except KeyboardInterrupt as interrupt:
            name = ctx.invoked_subcommand
            print(f"dfgen {name}: stopped. {_STANDS.get(name, _WHOLE)}", file=sys.stderr)
            by_sigterm = isinstance(interrupt, _Terminated)
            raise typer.Exit(TERMINATED if by_sigterm else INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Example: dfgen demo",
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"dfgen {__version__}")
        raise typer.Exit


@app.callback()
def _feed(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Feed Keras models from a table of files."""


_EXAMPLES = {
    "build-manifest": "imgs --pattern '{kind}/{id}.jpg' --split train=0.8 --split val=0.2 --out "
    "pets.parquet",
    "check": "labels.csv imgs",
    "verify": "pets.parquet --decode",
    "update-labels": "pets.parquet to_fix.csv",
    "diff": "old.parquet pets.parquet",
    "split": "pets.parquet --split train=0.8 --split val=0.2 --stratify kind",
    "recipe": "pets.parquet --out pets.toml",
    "pack": "pets.parquet --out packed --image-size 224,224",
    "predict": "model.keras pets.parquet --out predicted.parquet",
    "report": "pets.parquet --out pets.html",
    "bench": "pets.parquet --image-size 224,224 --model MobileNetV2",
    "demo": "--keep digits",
}


def _command(
    name: str, panel: str = "Manifests", **how: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    example = f"Example: dfgen {name} {_EXAMPLES[name]}"
    return app.command(name, epilog=example, rich_help_panel=panel, **how)


_TRAINING = "Training and looking"
_command("build-manifest", cls=BuildCommand)(build_command)
_command("check", cls=CheckCommand)(check_command)
_command("verify")(verify_command)
_command("update-labels")(update_labels_command)
_command("diff")(diff_command)
_command("split", cls=SplitCommand)(split_command)
_command("recipe")(recipe_command)
_command("report", _TRAINING)(report_command)
_command("pack", _TRAINING)(pack_command)
_command("predict", _TRAINING)(predict_command)
app.add_typer(cache, name="cache", rich_help_panel=_TRAINING)


@_command("demo", _TRAINING)
def demo_command(
    keep: Annotated[
        str | None,
        typer.Option(help="Folder that keeps the files, with photographs as well.", metavar="DIR"),
    ] = None,
    train: Annotated[
        bool, typer.Option(help="Train on the digits. --no-train leaves the photographs alone.")
    ] = True,
    force: Force = False,
) -> None:
    """Train three models on scanned digits and show each step. It takes a minute."""
    if not (train or keep):
        raise typer.BadParameter("--no-train leaves nothing without --keep DIR: give the folder")
    with silence():
        from dfgen.demo import keep_photographs, run

    if train and not run(partial(app, standalone_mode=False), keep):
        raise typer.Exit(1)
    if keep:
        keep_photographs(keep)


@_command("bench", _TRAINING)
def bench_command(
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
    model: Annotated[
        str | None,
        typer.Option(
            help="Train a model of keras.applications, and say how long it waits.", metavar="NAME"
        ),
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", help="Write all figures.", metavar="FILE")
    ] = None,
    force: Force = False,
) -> None:
    """Measure how fast batches come from your files, and name the limit."""
    height, width = height_and_width("--image-size", image_size)
    with silence():
        from dfgen.bench import report

    if json_file:
        report.check_output(json_file)
    result = report.bench(
        manifest,
        rows=rows,
        image_size=(height, width),
        batch_size=batch_size,
        workers=workers,
        antialias=antialias,
        model=model,
    )
    print(report.table(result))
    if json_file:
        report.write(result, json_file)
