"""`dfgen.pack`: what callers give, and what they are told; `run_pack` does it."""

import warnings
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, Never

import pandas as pd

from dfgen.errors import legible
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits
from dfgen.manifest.io import Path
from dfgen.manifest.tables import Table
from dfgen.packing.pack_arguments import PackArguments
from dfgen.packing.pack_run import Packed, run_pack

_POOR = 0.95  # of the classes that a batch of a full shuffle has: what is less is told


def pack(
    manifest: Path | Table,
    out: Path,
    *,
    format: str = "pixels",
    image_size: Any = None,
    color_mode: str = "rgb",
    resize: str = "stretch",
    interpolation: str = "bilinear",
    antialias: bool = True,
    max_side: int | None = None,
    quality: int | None = None,
    shard_size: int | str = "256MB",
    keep_order: bool = False,
    seed: int = 0,
    root: Path | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Write a manifest and its files as a few large files: a pack.

    Use it where decoding limits training, or where many small files lie on a slow disk: pixels are
    then read at the speed of memory, and files in big pieces. `dfgen pack` does the same job. A
    pack is a folder of Arrow files, which pandas, DuckDB and Polars open; the guide "More data than
    memory" describes them. All columns of the manifest are in it. Rows stand in a permuted order,
    so that neighbours mix as in a full shuffle.

    A file of the pack appears whole or not at all, and `_manifest.json` last. Broken off, even by
    SIGKILL, the same call goes on after the last whole file. A row whose file cannot be used stays,
    with null, and `problem` says why.

    Args:
        manifest: a file, or a frame or another table.
        out: the folder of the pack, made if it is not there, or its URL, as
            `"s3://bucket/packed"`; it holds nothing else.
        format: `"pixels"` (default): decoded, uint8; `"original"`: files as they are; `"jpeg"`:
            images made smaller, to `max_side`.
        image_size: of pixels, (height, width); None (default): that of all images, which must have
            the same; `"own"`: each keeps its own.
        color_mode: of pixels and JPEGs, `"rgb"` (default), `"rgba"` (not of JPEG) or `"grayscale"`.
        resize: of pixels, as of `dfgen.Image`: `"stretch"` (default), `"crop"`, `"pad"` or
            `"crop_or_pad"`.
        interpolation: of pixels, as of `dfgen.Image`.
        antialias: of pixels, as of `dfgen.Image`.
        max_side: of JPEGs, the longer side in pixels; default 512. Smaller files stay as they are
            if they are JPEG and need no turning; others are encoded anew, upright, without EXIF.
        quality: of JPEGs, 1 to 100; default 92.
        shard_size: bytes of a file, about, as a number or a text; default `"256MB"`.
        keep_order: leave the rows in the order of the manifest, in which neighbours may be of one
            class: a warning says how many classes a batch will then have.
        seed: another seed permutes otherwise.
        root: folder where the stored paths start, if not the one that the manifest names.
        workers: threads that read and decode; None: as many as this process may use CPUs.
        executor: any `concurrent.futures.Executor`, one task a file of the pack, instead of
            `workers`; its workers read and write at the same paths.
        limits: `dfgen.Limits`: what one file may ask for.
        storage_options: what opens URLs, those of files and that of `out`; see `Sequence`.
        **unknown: none: arguments of other libraries are named with what they are called here.

    Returns:
        The rows without a file in the pack: id, path, problem. A warning counts them.

    Raises:
        ArgumentError: arguments that cannot be together, or images of different sizes.
        MissingFileError: there is no such manifest, or none of a few of its files.
        ManifestError: it cannot be packed, or `out` holds another pack.
        WriteError: `out` is not empty, another process packs into it, or it cannot be written;
            what is whole stays.
        UnknownArgumentError: an argument that is not there.

    Example:
        >>> dfgen.pack("pets.parquet", "packed", image_size=(256, 256))  # doctest: +SKIP
    """
    refuse_unknown(pack, unknown)
    arguments = PackArguments(
        format, image_size, color_mode, resize, interpolation, antialias, max_side, quality,
        shard_size, keep_order, seed,
    )  # fmt: skip
    done = run_pack(manifest, out, arguments, root, workers, executor, limits, storage_options)
    for line in _lines(done):
        warnings.warn(legible(line, 1_000), stacklevel=2)
    return done.problems


def _lines(done: Packed) -> list[str]:
    """Return what should be told of a pack."""
    found = []
    if len(done.problems):
        row_id, _, problem = done.problems.astype(object).iloc[0]
        found.append(
            f"{len(done.problems):,} of {done.index.rows:,} rows have no file in the pack, but "
            f"null: the first is id={row_id!r}: {problem}"
        )
    if done.mixing is not None and done.mixing.packed < _POOR * done.mixing.shuffled:
        found.append(f"{done.mixing}: leave out keep_order=True")
    return found
