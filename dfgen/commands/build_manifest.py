"""The command `build-manifest`."""

from typing import Annotated

import typer

from dfgen.commands.options import (
    Group,
    Json,
    Stratify,
    by_split,
    counted,
    lines_of,
    print_json,
    shares_of,
)
from dfgen.errors import ArgumentError


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
        str | None,
        typer.Option(
            help="Label of --voc: class of largest, first, all or each box. Default: largest."
        ),
    ] = None,
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
    stratify: Stratify = None,
    group: Group = None,
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
    as_json: Json = False,
) -> None:
    """Build a manifest from a folder of files, a table of labels, or annotations."""
    from dfgen.manifest.building.pipeline import build
    from dfgen.manifest.building.recipe_file import resolve
    from dfgen.manifest.building.summary import figures, summarize
    from dfgen.manifest.building.update.previous import read_old
    from dfgen.manifest.diff import since, tally

    given = dict(
        source=folder,
        voc=voc,
        coco=by_split("--coco", coco),
        yolo=yolo,
        metadata=metadata,
        listing=listing,
        arrays=arrays[0] if arrays and len(arrays) == 1 else arrays,
        images=by_split("--images", images),
        box_label=box_label,
        class_names=lines_of("--class-names", class_names),
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
        split=shares_of(split) if split else None,
        stratify=stratify,
        group=group,
        seed=seed,
    )
    out = out or update or _beside(folder)
    old = read_old(update) if update else None
    recipe = resolve(given, old.recipe if old else None)
    frame, report = build(recipe, out, workers, old)
    changes = {"changes": tally(since(old, frame))} if old else {}
    if as_json:
        print_json({"out": out, **figures(frame, report), **changes})
        return
    print(summarize(frame, report))
    if changes:
        print(f"Since {update}: {counted(changes['changes'])}")
    print(f"Wrote {out}")


def _beside(recipe: str | None) -> str:
    """Return the manifest of a recipe: of the same name, beside it."""
    if not (recipe or "").endswith(".toml"):
        raise ArgumentError("Say with --out where to write the manifest, as in --out pets.parquet.")
    return f"{str(recipe).removesuffix('.toml')}.parquet"
