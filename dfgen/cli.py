"""The command line: one function a command, each a thin layer over the function of the same name.

Imports that cost time stand inside the functions, so that `dfgen --help` answers at once.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer
import typer.core

from dfgen.errors import ArgumentError, DfgenError


class _Commands(typer.core.TyperGroup):
    """Prints what dfgen refuses as one message on stderr, with exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except DfgenError as error:
            print(f"dfgen: {error}", file=sys.stderr)
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=_Commands, add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False
)


@app.callback()
def main() -> None:
    """Feed Keras models from a table of files."""


@app.command("build-manifest")
def build_manifest(
    out: Annotated[str, typer.Option(help="The Parquet file to write.", metavar="M.parquet")],
    folder: Annotated[
        str | None, typer.Argument(help="Folder of images; every one below it becomes a row.")
    ] = None,
    voc: Annotated[
        str | None,
        typer.Option(help="Folder of Pascal VOC's XML files.", metavar="ANNOTATIONS"),
    ] = None,
    coco: Annotated[
        list[str] | None,
        typer.Option(help="JSON file of COCO. Repeatable.", metavar="[SPLIT=]FILE.json"),
    ] = None,
    yolo: Annotated[
        str | None, typer.Option(help="YOLO's data.yaml, or folder to classify.")
    ] = None,
    metadata: Annotated[
        str | None, typer.Option(help="Hugging Face's metadata file, or its folder.")
    ] = None,
    listing: Annotated[
        str | None,
        typer.Option(help="Table of paths and sizes, or an S3 Inventory's manifest.json."),
    ] = None,
    arrays: Annotated[
        list[str] | None, typer.Option(help="File of arrays, .npy or HDF5. Repeatable.")
    ] = None,
    images: Annotated[
        list[str] | None,
        typer.Option(help="Images of --voc or --coco. Repeatable.", metavar="[SPLIT=]FOLDER"),
    ] = None,
    box_label: Annotated[
        str, typer.Option(help="Label of --voc: class of largest, first, all or each box.")
    ] = "largest",
    class_names: Annotated[
        str | None, typer.Option(help="Text file of the classes of --voc, one a line.")
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
        str, typer.Option(help="Files without labels, labels without file: error, keep or drop.")
    ] = "error",
    facts: Annotated[
        str, typer.Option(help="What to read of each file: none or header.")
    ] = "header",
    split: Annotated[
        list[str] | None,
        typer.Option(help="A split and its share, as train=0.8. Repeatable.", metavar="NAME=SHARE"),
    ] = None,
    stratify: Annotated[
        str | None, typer.Option(help="Column whose classes get exactly these shares.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column whose groups stay whole.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed gives another split.")] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Threads that read headers. Default: all CPUs.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one JSON object.")
    ] = False,
) -> None:
    """Build a manifest from a folder of files, a table of labels, or annotations."""
    from dfgen.manifest.build import build
    from dfgen.manifest.recipe import Recipe
    from dfgen.manifest.summary import summarize, to_json

    recipe = Recipe(
        source=folder,
        voc=voc,
        coco=_by_split("--coco", coco),
        yolo=yolo,
        metadata=metadata,
        listing=listing,
        arrays=arrays[0] if arrays and len(arrays) == 1 else arrays,
        images=_by_split("--images", images),
        box_label=box_label,
        class_names=_lines(class_names),
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
        split=_shares(split) if split else None,
        stratify=stratify,
        group=group,
        seed=seed,
    )
    frame, report = build(recipe, out, workers)
    if as_json:
        print(to_json(frame, report, out))
    else:
        print(summarize(frame, report))
        print(f"Wrote {out}")


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
    json: Annotated[str | None, typer.Option(help="Write all figures.", metavar="FILE")] = None,
) -> None:
    """Measure how fast batches come from your files, and say what limits them."""
    size = _image_size(image_size)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silence():  # while it loads, TensorFlow logs at any level
        from dfgen.bench import report
        from dfgen.bench.run import bench as run

    report.check_outputs(png, json)
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
    if json:
        report.write_json(result, json)


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


def _shares(texts: list[str]) -> dict[str, float]:
    """Return the shares of `NAME=SHARE` texts."""
    shares = {}
    for text in texts:
        name, _, share = text.partition("=")
        try:
            shares[name] = float(share)
        except ValueError:
            raise ArgumentError(f"--split {text}: expected NAME=SHARE, as in train=0.8.") from None
    return shares


def _by_split(option: str, texts: list[str] | None) -> Any:
    """Return one path, several of the same images, or those of each split, `SPLIT=PATH`."""
    if not texts:
        return None
    splits: dict[str, list[str]] = {}
    for text in texts:
        name, is_split, path = text.partition("=")
        if not is_split or os.path.exists(text):
            name, path = "", text
        splits.setdefault(name, []).append(path)
    if "" in splits and len(splits) > 1:
        raise ArgumentError(f"{option} {splits[''][0]}: the others name a split. Name that of all.")
    plain = {name: paths[0] if len(paths) == 1 else paths for name, paths in splits.items()}
    return plain.get("", plain)


def _lines(path: str | None) -> tuple[str, ...]:
    """Return the lines of a text file."""
    if path is None:
        return ()
    try:
        with open(path, encoding="utf-8") as file:
            return tuple(line.strip() for line in file if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"--class-names {path} cannot be read: {error}.") from None


def _image_size(text: str) -> tuple[int, int]:
    """Return (height, width) of `H,W`."""
    try:
        height, width = map(int, text.split(","))
    except ValueError:
        raise ArgumentError(f"--image-size {text}: expected H,W, as in 224,224.") from None
    return height, width
