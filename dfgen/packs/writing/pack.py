"""`dfgen.pack`: plan, shards by many workers, the columns of the manifest, and the index last.

Each file appears whole or not at all, so that a run that was killed is gone on with by the next.
"""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Never

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen import __version__
from dfgen.errors import ArgumentError, brief, legible
from dfgen.executors import Made, Work, check_executor, spread
from dfgen.explain.other_libraries import refuse_unknown
from dfgen.limits import Limits, limits_given
from dfgen.loading.state import ids_digest
from dfgen.manifest.io import Path
from dfgen.manifest.schema import with_column
from dfgen.packs.pack_index import TABLE, PackIndex, in_pack, is_pack, open_arrow, read_index
from dfgen.packs.writing.pack_arguments import PackArguments
from dfgen.packs.writing.pack_folder import PackFolder, pack_folder
from dfgen.packs.writing.pack_plan import Mixing, PackPlan, make_plan, mixing
from dfgen.packs.writing.shard_files import (
    PackedShard,
    ShardTask,
    check_same,
    pack_shard,
    write_arrow,
)
from dfgen.progress_bars import progress
from dfgen.stores.store import StorageOptions
from dfgen.system import usable_cpus, whole
from dfgen.table.any_table import Table
from dfgen.table.arrow_types import in_one

_WRITERS = 2  # one writes while the other's files are read
_POOR = 0.95  # of the classes that a batch of a full shuffle has: a warning tells of fewer


@dataclass(frozen=True)
class Packed:
    """The result of packing."""

    index: PackIndex
    problems: pd.DataFrame  # the rows that have no file in it: id, path and problem
    mixing: Mixing | None  # of its classes, where rows kept their order


def pack(
    manifest: Path | Table,
    out: Path,
    *,
    format: str = "pixels",
    image_size: tuple[int, int] | str | None = None,
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
    executor: Made | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **unknown: Never,
) -> pd.DataFrame:
    """Write a manifest and its files as a few large files: a pack.

    Use it where decoding limits training, or where many small files lie on a slow disk: pixels are
    then read at the speed of memory, and files in big pieces. `dfgen pack` does the same job. A
    pack is a folder of Arrow files, which pandas, DuckDB and Polars open; the guide "Pack a data
    set" describes them. All columns of the manifest are in it. Rows stand in a permuted order,
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
        interpolation: of pixels, `"bilinear"` (default), `"nearest"` or `"area"`.
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
            `workers`, or a function that makes one; its workers read and write at the same paths.
            See `build_manifest`.
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
        WorkerError: the executor lost its workers again and again, or they have another dfgen.
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
    lines = []
    if len(done.problems):
        row_id, _, problem = done.problems.astype(object).iloc[0]
        lines.append(
            f"{len(done.problems):,} of {done.index.rows:,} rows have no file in the pack, but "
            f"null: the first is id={row_id!r}: {problem}"
        )
    if done.mixing is not None and done.mixing.packed < _POOR * done.mixing.shuffled:
        lines.append(f"{done.mixing}: leave out keep_order=True")
    return lines


def run_pack(
    manifest: Path | Table,
    out: Path,
    arguments: PackArguments,
    root: Path | None = None,
    workers: int | None = None,
    executor: Made | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Packed:
    """Do what `pack` says, and return all that is known of the pack."""
    if workers is not None:
        whole("workers", workers, least=1)
    check_executor(executor)
    if not isinstance(out, str | os.PathLike):
        raise ArgumentError(f"out must be the path of a folder, got {brief(out)}")
    opened = StorageOptions(storage_options)
    place = pack_folder(os.fspath(out), opened)
    place.check()
    plan = make_plan(manifest, place.folder, arguments, root, limits_given(limits), opened)
    with place.alone():
        place.check()
        if is_pack(place.folder, opened):
            index = read_index(place.folder, opened)
            check_same(place.folder, index.plan, plan.identity)
            table = open_arrow(index.path(index.table), opened).read_all()
        else:
            shards = _shards(plan, place, workers or usable_cpus(), executor)
            table = _table(plan, shards)
            index = _finish(plan, place, table, shards)
    mixed = mixing(table, plan.starts, plan.nbytes) if arguments.keep_order else None
    return Packed(index, _bad_rows(table), mixed)


def _shards(
    plan: PackPlan, place: PackFolder, workers: int, executor: Made | None
) -> list[PackedShard]:
    """Return all shards; those that a run before this one has written are read, not made."""
    shards = place.begin(plan)
    left = [number for number in range(len(plan)) if number not in shards]
    place.check_space(plan, left)
    there = sum(shard.file.rows for shard in shards.values())
    with progress(len(plan.order), "Packing", " rows", initial=there) as bar:

        def done(count: int) -> None:
            with bar.get_lock():
                bar.update(count)

        made = (
            _here(plan, left, workers, done) if executor is None else _spread(plan, left, executor)
        )
        for number, shard in made:
            shards[number] = shard
            place.note(number, shard)
            if executor is not None:
                done(shard.file.rows)
    return [shards[number] for number in range(len(plan))]


def _spread(
    plan: PackPlan, numbers: list[int], executor: Made
) -> Iterator[tuple[int, PackedShard]]:
    work = Work[int](
        pack_shard,
        lambda number: (plan.task(number),),
        plan.path,
        advice="the same call with another executor goes on after the shards that are whole",
    )
    for number, outcome in spread(executor, work, lambda _: numbers):
        yield number, outcome.result


def _here(
    plan: PackPlan, numbers: list[int], workers: int, done: Callable[[int], object]
) -> Iterator[tuple[int, PackedShard]]:
    """Yield shards that threads make, in their order.

    All work on the rows of one shard, then of the next, so that none is idle at the end.
    """
    readers, writers = ThreadPoolExecutor(workers), ThreadPoolExecutor(_WRITERS)
    try:
        make = partial(pack_shard, run=readers.map, done=done, spare=[])
        yield from _in_order(plan, numbers, lambda task: writers.submit(make, task))
    finally:
        readers.shutdown(wait=False, cancel_futures=True)  # which ends what waits for them
        writers.shutdown(cancel_futures=True)


def _in_order(
    plan: PackPlan, numbers: list[int], submit: Callable[[ShardTask], "Future[PackedShard]"]
) -> Iterator[tuple[int, PackedShard]]:
    """Yield shards as they are done, in their order, with a few in the making."""
    pending = deque[tuple[int, Future[PackedShard]]]()
    try:
        for number in numbers:
            if len(pending) == _WRITERS:
                first, future = pending.popleft()
                yield first, future.result()
            pending.append((number, submit(plan.task(number))))
        while pending:
            first, future = pending.popleft()
            yield first, future.result()
    finally:
        for _, future in pending:
            future.cancel()


def _table(plan: PackPlan, shards: list[PackedShard]) -> pa.Table:
    """Return the columns of the manifest in the order of the pack, with the problems of packing."""
    problems = pa.chunked_array([shard.problems for shard in shards], pa.string())
    table = plan.whole.rows.take(pa.array(plan.order)).unify_dictionaries()
    return with_column(table, "problem", problems.combine_chunks())


def _finish(
    plan: PackPlan, place: PackFolder, table: pa.Table, shards: list[PackedShard]
) -> PackIndex:
    """Write the columns of the manifest, and last what says that the pack is whole."""
    path = in_pack(plan.folder, TABLE)
    table = table.combine_chunks()  # one batch, so that its columns are read by the map
    index = PackIndex(
        folder=plan.folder,
        rows=len(table),
        shards=tuple(shard.file for shard in shards),
        packed=plan.identity["packed"],
        order=plan.identity["order"],
        table=write_arrow(path, table, plan.whole.options),
        ids=ids_digest(in_one(table["id"])),
        dfgen=msgspec.to_builtins(plan.metadata),
        created_by=f"dfgen {__version__}",
        plan=plan.identity,
    )
    place.finish(index.to_json())
    return index


def _bad_rows(table: pa.Table) -> pd.DataFrame:
    columns = table.select(["id", "path", "problem"]).replace_schema_metadata()
    found: pd.DataFrame = columns.filter(pc.is_valid(columns["problem"])).to_pandas()
    return found
