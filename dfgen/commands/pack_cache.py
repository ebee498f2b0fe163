"""The commands `pack`, `cache info` and `cache clear`."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from dfgen.commands.manifests import SHOWN
from dfgen.commands.options import (
    Dask,
    Json,
    Manifest,
    Processes,
    Root,
    height_and_width,
    print_json,
)

_PIXELS, _JPEG = "Only with --format pixels", "Only with --format jpeg"

Folder = Annotated[str, typer.Argument(help="The folder of cache=.", metavar="DIR")]


def info_command(folder: Folder, as_json: Json = False) -> None:
    """List the content of a cache: images by their settings, blocks of packs, and bytes."""
    from dfgen.samples.stores.cache.cache_folder import cached_settings

    found = cached_settings(folder)
    if as_json:
        print_json({"settings": [asdict(one) for one in found]})
        return
    for one in found:
        made = " ".join(f"{name}={value}" for name, value in one.settings.items())
        kept = "blocks" if "of" in one.settings else "images"
        print(f"{one.name}  {one.images:,} {kept}, {one.bytes:,} bytes  {made}")
    images = sum(one.images for one in found if "of" not in one.settings)
    nbytes = sum(one.bytes for one in found)
    print(f"{images:,} images, {nbytes:,} bytes")


def clear_command(folder: Folder) -> None:
    """Remove a cache, and no file of others; a training that uses it goes on."""
    from dfgen.samples.stores.cache.cache_folder import clear_folder

    print(f"Removed {clear_folder(folder):,} bytes")


cache = typer.Typer(
    no_args_is_help=True,
    help="List or remove cached pixels.",
    epilog="Example: dfgen cache info cache",
)
cache.command("info", epilog="Example: dfgen cache info cache")(info_command)
cache.command("clear", epilog="Example: dfgen cache clear cache")(clear_command)


def pack_command(
    manifest: Manifest,
    out: Annotated[
        str,
        typer.Option(
            help="The folder of the pack, or its URL (s3://...); it holds nothing else.",
            metavar="DIR",
        ),
    ],
    format: Annotated[
        str,
        typer.Option(
            help="Decoded pixels, the files as they are, or JPEGs made smaller.",
            metavar="pixels|original|jpeg",
        ),
    ] = "pixels",
    image_size: Annotated[
        str | None,
        typer.Option(
            help="Height and width in pixels, or own: each image keeps its size. Default: the size "
            "that all images share.",
            metavar="H,W",
            rich_help_panel=_PIXELS,
        ),
    ] = None,
    color_mode: Annotated[
        str,
        typer.Option(help="Channels.", metavar="rgb|rgba|grayscale", rich_help_panel=_PIXELS),
    ] = "rgb",
    resize: Annotated[
        str,
        typer.Option(
            help="Method to reach that size.",
            metavar="stretch|crop|pad|crop_or_pad",
            rich_help_panel=_PIXELS,
        ),
    ] = "stretch",
    interpolation: Annotated[
        str,
        typer.Option(
            help="Interpolation between pixels.",
            metavar="bilinear|nearest|area",
            rich_help_panel=_PIXELS,
        ),
    ] = "bilinear",
    antialias: Annotated[
        bool, typer.Option(help="Filter before shrinking.", rich_help_panel=_PIXELS)
    ] = True,
    max_side: Annotated[
        int | None,
        typer.Option(help="Longer side in pixels. Default: 512.", rich_help_panel=_JPEG),
    ] = None,
    quality: Annotated[
        int | None, typer.Option(help="1 to 100. Default: 92.", rich_help_panel=_JPEG)
    ] = None,
    shard_size: Annotated[str, typer.Option(help="Approximate bytes of a file.")] = "256MB",
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order", help="Keep the order of the manifest, and say how classes mix."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Another seed gives another order.")] = 0,
    root: Root = None,
    workers: Processes = None,
    dask: Dask = None,
    as_json: Json = False,
) -> None:
    """Write a manifest and its files as a few large files, which are read in big pieces."""
    from dfgen.commands.executor import executor_of
    from dfgen.packs.writing.pack import run_pack
    from dfgen.packs.writing.pack_arguments import PackArguments

    size: Any = image_size
    if size not in (None, "own"):
        size = height_and_width("--image-size", size, ", or own")
    arguments = PackArguments(
        format, size, color_mode, resize, interpolation, antialias, max_side, quality,
        shard_size, keep_order, seed,
    )  # fmt: skip
    with executor_of(workers, dask) as executor:
        done = run_pack(manifest, out, arguments, root, executor=executor)
    _show(done, out, as_json)


def _show(done: Any, out: str, as_json: bool) -> None:
    index, problems = done.index, done.problems
    nbytes = sum(file.bytes for file in (*index.shards, index.table))
    if as_json:
        rows = problems.to_dict("records")
        mixed = {"mixing": done.mixing._asdict()} if done.mixing else {}
        shards = len(index.shards)
        print_json(
            {"out": out, "rows": index.rows, "shards": shards, "bytes": nbytes, "problems": rows}
            | mixed
        )
        return
    if len(problems):
        print(problems.head(SHOWN).to_string(index=False, max_colwidth=60))
        more = f", {len(problems) - SHOWN} more; --json lists all" * (len(problems) > SHOWN)
        print(f"{len(problems)} of {index.rows} rows have no file in the pack{more}")
    if done.mixing is not None:
        print(done.mixing)
    print(f"Wrote {out}: {index.rows} rows, {nbytes / 1e6:,.1f} MB in {len(index.shards)} shards")
