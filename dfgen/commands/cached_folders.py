"""The commands for folders of cached pixels: cache info, cache clear."""

from dataclasses import asdict
from typing import Annotated

import typer

from dfgen.commands.options import Json, print_json

Folder = Annotated[str, typer.Argument(help="The folder that cache= was given.", metavar="DIR")]


def info_command(folder: Folder, as_json: Json = False) -> None:
    """Say what a cache holds: images and bytes, by how they were decoded."""
    from dfgen.samples.storage.cache.cache_folder import cached_settings

    found = cached_settings(folder)
    if as_json:
        print_json({"settings": [asdict(one) for one in found]})
        return
    for one in found:
        made = " ".join(f"{name}={value}" for name, value in one.settings.items())
        print(f"{one.name}  {one.images:,} images, {one.bytes:,} bytes  {made}")
    images, nbytes = sum(one.images for one in found), sum(one.bytes for one in found)
    print(f"{images:,} images, {nbytes:,} bytes")


def clear_command(folder: Folder) -> None:
    """Remove a cache, and nothing that is not dfgen's own; what trains from it goes on."""
    from dfgen.samples.storage.cache.cache_folder import clear_folder

    print(f"Removed {clear_folder(folder):,} bytes")


cache = typer.Typer(no_args_is_help=True, help="Look at, and remove, cached pixels.")
cache.command("info")(info_command)
cache.command("clear")(clear_command)
