"""`dfgen.pack`: a plan, shards on many workers, the columns of the manifest, and the index last.

Each file appears whole or not at all, so the next run continues after a killed one.
"""

import os
import re
import secrets
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from glob import glob
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen import __version__
from dfgen.errors import ArgumentError, WriteError, legible, listed, reason, whole
from dfgen.executors import Made, Work, check_executor, spread
from dfgen.files import LOCK_SUFFIX, FileLock, write_whole
from dfgen.limits import Limits, limits_given
from dfgen.loading.receipts import ids_digest
from dfgen.machine import usable_cpus
from dfgen.manifest.io import Path
from dfgen.manifest.schema import with_column
from dfgen.packing.pack_plan import PackPlan, make_plan
from dfgen.packing.packers import PackArguments
from dfgen.packing.write_shard import WrittenShard, check_same, read_shard, write_arrow, write_shard
from dfgen.packs.format import INDEX, PACK_FORMAT, TABLE, Pack, pack_table, read_pack
from dfgen.progress_bars import progress
from dfgen.stores.store import StorageOptions
from dfgen.stores.stores import scheme_of
from dfgen.table.any_table import Table
from dfgen.table.arrow_types import in_one

_WRITERS = 2  # one writes while files of the other are read
_LOCK = f".pack{LOCK_SUFFIX}"
_OURS = re.compile(
    rf"(?:shard-\d{{5,}}\.arrow|{re.escape(TABLE)}|{re.escape(INDEX)}|{re.escape(_LOCK)}"
    r"|\.nfs\w+"  # how NFS calls a file that was removed in use
    rf"|\.(?:shard-\d+\.arrow|manifest\.arrow|_manifest\.json)\.[0-9a-f]{{8}}\.tmp)"
)


def pack(
    manifest: Path | Table,
    out: Path,
    *,
    format: str = "pixels",
    image_size: tuple[int, int] | None = None,
    color_mode: str = "rgb",
    resize: str = "stretch",
    interpolation: str = "bilinear",
    antialias: bool = True,
    max_side: int | None = None,
    quality: int | None = None,
    shard_size: int | str = "256MB",
    seed: int = 0,
    root: Path | None = None,
    workers: int | None = None,
    executor: Made | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Write a manifest and its files as a few large files: a pack.

    Use it if decoding limits training, or if many small files are on a slow disk. A pack is a
    folder of Arrow files, which pandas, DuckDB and Polars open. All columns of the manifest are in
    it. Rows are in a permuted order, so that neighbours mix as in a full shuffle.

    If packing was interrupted, even by SIGKILL, the same call continues after the last whole file.
    A row whose file cannot be used is null, and `problem` says why.

    Args:
        manifest: a file, or a frame or another table.
        out: the folder of the pack, made if it does not exist. To have it in a bucket, copy it.
        format: `"pixels"`: decoded, uint8; `"original"`: files as they are; `"jpeg"`: images made
            smaller, to `max_side`.
        image_size: of pixels, (height, width); None: that of all images.
        color_mode: of pixels and JPEGs, `"rgb"`, `"rgba"` (not of JPEG) or `"grayscale"`.
        resize: of pixels, as of `dfgen.Image`: `"stretch"`, `"crop"`, `"pad"` or `"crop_or_pad"`.
        interpolation: of pixels, `"bilinear"`, `"nearest"` or `"area"`.
        antialias: of pixels, as of `dfgen.Image`.
        max_side: of JPEGs, the longer side in pixels; default 512. Smaller files stay as they are
            if they are JPEG and need no turning.
        quality: of JPEGs, 1 to 100; default 92.
        shard_size: bytes of a file, about, as a number or a text.
        seed: of the permutation.
        root: folder where the stored paths start, instead of that of the manifest.
        workers: threads that read and decode; None: as many as this process may use CPUs.
        executor: any `concurrent.futures.Executor`, one task per shard, instead of `workers`, or a
            function that makes one; its workers see the same paths. See `build_manifest`.
        limits: `dfgen.Limits`: what one file may ask for.
        storage_options: opens URLs of files; see `Sequence`.

    Returns:
        The rows without a file in the pack: id, path, problem. A warning counts them.

    Raises:
        ArgumentError: arguments that do not fit together, or images of different sizes.
        MissingFileError: there is no such manifest, or its files are missing.
        ManifestError: it cannot be packed, or `out` has another pack.
        WriteError: `out` has other files, another process packs into it, or it cannot be written.
        WorkerError: the executor lost its workers again and again.

    Example:
        >>> dfgen.pack("pets.parquet", "packed", image_size=(256, 256))  # doctest: +SKIP
    """
    arguments = PackArguments(
        format, image_size, color_mode, resize, interpolation, antialias, max_side, quality,
        shard_size, seed,
    )  # fmt: skip
    if workers is not None:
        whole("workers", workers, least=1)
    check_executor(executor)
    place = os.fspath(out)
    if scheme_of(place):
        raise ArgumentError(f"out={place!r} is a URL: pack into a folder, and copy it")
    folder = os.path.abspath(place)
    _check_folder(folder)
    options = StorageOptions(storage_options)
    plan = make_plan(manifest, folder, arguments, root, limits_given(limits), options)
    table = _write(plan, workers or usable_cpus(), executor)
    bad: pd.DataFrame = (
        table.select(["id", "path", "problem"]).filter(pc.is_valid(table["problem"])).to_pandas()
    )
    if len(bad):
        row_id, _, problem = bad.astype(object).iloc[0]
        message = (
            f"{len(bad):,} of {len(table):,} rows have no file in the pack: the first is "
            f"id={row_id!r}: {problem}"
        )
        warnings.warn(legible(message, 1_000), stacklevel=2)
    return bad


def _check_folder(folder: str) -> None:
    """Raise a WriteError if a folder has files that do not belong to a pack."""
    try:
        strangers = [name for name in sorted(os.listdir(folder)) if not _OURS.fullmatch(name)]
    except FileNotFoundError:
        return
    except OSError as error:
        raise WriteError(f"{folder} cannot be packed into: {reason(error)}") from None
    if strangers:
        raise WriteError(
            f"{folder} is not empty: it has {listed(strangers)}. Name a folder that does not exist"
        )


def _write(plan: PackPlan, workers: int, executor: Made | None) -> pa.Table:
    """Write the missing files of a pack, and return its table."""
    folder, index = plan.folder, os.path.join(plan.folder, INDEX)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{folder} cannot be made: {reason(error)}") from None
    advice = "wait until that has ended, or choose another folder"
    with FileLock(os.path.join(folder, _LOCK), f"{folder} is being written", advice):
        _check_folder(folder)
        for name in glob(".*.tmp", root_dir=folder):  # of killed processes
            os.unlink(os.path.join(folder, name))
        if os.path.exists(index):
            found = read_pack(folder)
            check_same(folder, found.plan, plan.identity)
            return pack_table(found)
        id, shards = _shards(plan, workers, executor)
        problems = pa.chunked_array([shard.problems for shard in shards], pa.string())
        table = plan.whole.rows.take(pa.array(plan.order)).unify_dictionaries()
        table = with_column(table, "problem", problems.combine_chunks()).combine_chunks()
        made = Pack(
            format=PACK_FORMAT,
            id=id,
            rows=len(table),
            shards=tuple(shard.file for shard in shards),
            packed=plan.identity["packed"],
            shape=plan.whole.packer.shape,  # type: ignore[arg-type]
            table=write_arrow(os.path.join(folder, TABLE), table),
            ids=ids_digest(in_one(table["id"])),
            dfgen=msgspec.to_builtins(plan.metadata),
            created_by=f"dfgen {__version__}",
            plan=plan.identity,
        )
        write_whole(index, lambda file: file.write(made.to_json()))
        return table


def _shards(plan: PackPlan, workers: int, executor: Made | None) -> tuple[str, list[WrittenShard]]:
    """Return the id of a pack and its shards. Shards of an earlier run are kept."""
    there = [number for number in range(len(plan)) if os.path.exists(plan.path(number))]
    rows = (plan.starts[1:] - plan.starts[:-1]).tolist()
    kept = {n: read_shard(plan.path(n), plan.identity, rows[n]) for n in there}
    shards = {number: shard for number, (_, shard) in kept.items()}
    id = next((id for id, _ in kept.values()), secrets.token_hex(16))
    left = [number for number in range(len(plan)) if number not in shards]
    count = sum(shard.file.rows for shard in shards.values())
    with progress(len(plan.order), "Packing", " rows", initial=count) as bar:
        if executor is None:
            for number, shard in _in_threads(plan, id, left, workers, bar.update):
                shards[number] = shard
        else:
            work = Work[int](
                write_shard,
                lambda number: (plan.task(number, id),),
                plan.path,
                advice="the same call with another executor continues after the whole shards",
            )
            for number, outcome in spread(executor, work, lambda _: left):
                shards[number] = outcome.result
                bar.update(outcome.result.file.rows)
    return id, [shards[number] for number in range(len(plan))]


def _in_threads(
    plan: PackPlan, id: str, numbers: list[int], workers: int, done: Any
) -> Iterator[tuple[int, WrittenShard]]:
    """Yield shards in their order. All threads read for one shard, while another is written."""
    readers, writers = ThreadPoolExecutor(workers), ThreadPoolExecutor(_WRITERS)
    pending = deque[tuple[int, Future[WrittenShard]]]()
    try:
        for number in numbers:
            if len(pending) == _WRITERS:
                first, future = pending.popleft()
                yield first, future.result()
            task = plan.task(number, id)
            pending.append((number, writers.submit(write_shard, task, readers.map, done)))
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    finally:
        readers.shutdown(wait=False, cancel_futures=True)  # or writers wait for them
        writers.shutdown(cancel_futures=True)
