"""Writes a pack: plan, shards by many workers, the columns of the manifest, and the index last.

Each file appears whole or not at all, so that a run that was killed is gone on with by the next.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from dfgen import __version__
from dfgen.binding.row_ids import plain_ids
from dfgen.errors import ArgumentError, brief
from dfgen.limits import Limits, limits_given
from dfgen.loading.state import ids_digest
from dfgen.manifest.io import Path
from dfgen.manifest.schema import with_column
from dfgen.manifest.tables import Table
from dfgen.packs.pack_index import TABLE, PackIndex, in_pack, is_pack, open_arrow, read_index
from dfgen.packs.writing.arrow_writing import write_arrow
from dfgen.packs.writing.pack_arguments import PackArguments
from dfgen.packs.writing.pack_folder import PackFolder, pack_folder
from dfgen.packs.writing.pack_plan import Mixing, PackPlan, make_plan, mixing
from dfgen.packs.writing.shard_files import PackedShard, ShardTask, check_same, pack_shard
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.system import usable_cpus, whole
from dfgen.table.arrow_types import in_one

_AHEAD = 1024  # shards that an executor may have at a time
_WRITERS = 2  # one writes while the other's files are read


@dataclass(frozen=True)
class Packed:
    """The result of packing.

    Args:
        index: of the pack.
        problems: the rows that have no file in it: id, path and problem.
        mixing: how well its classes mix, where rows kept their order.
    """

    index: PackIndex
    problems: pd.DataFrame
    mixing: Mixing | None


def run_pack(
    manifest: Path | Table,
    out: Path,
    arguments: PackArguments,
    root: Path | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    limits: Limits | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Packed:
    """Do what `pack` says, and return all that is known of the pack."""
    if workers is not None:
        whole("workers", workers, least=1)
    submits = callable(getattr(executor, "submit", None)) and not isinstance(executor, type)
    if executor is not None and not submits:
        raise ArgumentError(
            f"executor must be a concurrent.futures.Executor, got {brief(executor)}: leave it out, "
            "or give a ProcessPoolExecutor()"
        )
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
    plan: PackPlan, place: PackFolder, workers: int, executor: Executor | None
) -> list[PackedShard]:
    """Return all shards; those that a run before this one has written are read, not made."""
    found = place.begin(plan)
    left = [number for number in range(len(plan)) if number not in found]
    place.check_space(plan, left)
    there = sum(shard.file.rows for shard in found.values())
    with tqdm(
        total=len(plan.order), initial=there, desc="Packing", unit=" rows", disable=None
    ) as bar:

        def done(count: int) -> None:
            with bar.get_lock():
                bar.update(count)

        with _workers(workers, executor, done) as (submit, ahead):
            for number, shard in _in_order(plan, left, submit, ahead):
                found[number] = shard
                place.note(number, shard)
                if executor is not None:
                    done(shard.file.rows)
    return [found[number] for number in range(len(plan))]


Submit = Callable[[ShardTask], "Future[PackedShard]"]


@contextmanager
def _workers(
    workers: int, executor: Executor | None, done: Callable[[int], object]
) -> Iterator[tuple[Submit, int]]:
    """Yield what runs the task of a shard, and how many of them at a time.

    All of its own threads work on the rows of one shard, then of the next, so that none is idle at
    the end.
    """
    if executor is not None:
        yield lambda task: executor.submit(pack_shard, task), _AHEAD
        return
    readers, writers = ThreadPoolExecutor(workers), ThreadPoolExecutor(_WRITERS)
    try:
        make = partial(pack_shard, run=readers.map, done=done, spare=[])
        yield lambda task: writers.submit(make, task), _WRITERS
    finally:
        readers.shutdown(wait=False, cancel_futures=True)  # which ends what waits for them
        writers.shutdown(cancel_futures=True)


def _in_order(
    plan: PackPlan, numbers: list[int], submit: Submit, ahead: int
) -> Iterator[tuple[int, PackedShard]]:
    """Yield shards as they are done, in their order, with a few in the making."""
    pending = deque[tuple[int, Future[PackedShard]]]()
    try:
        for number in numbers:
            if len(pending) == ahead:
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
    """Return the columns of the manifest in the order of the pack, with what packing has found."""
    problems = pa.chunked_array([shard.problems for shard in shards], pa.string())
    table = plan.table.take(pa.array(plan.order)).unify_dictionaries()
    return with_column(table, "problem", problems.combine_chunks())


def _finish(
    plan: PackPlan, place: PackFolder, table: pa.Table, shards: list[PackedShard]
) -> PackIndex:
    """Write the columns of the manifest, and last what says that the pack is whole."""
    path = in_pack(plan.folder, TABLE)
    parts = table.combine_chunks().to_batches()  # one, so that its columns are read by the map
    index = PackIndex(
        folder=plan.folder,
        rows=len(table),
        shards=tuple(shard.file for shard in shards),
        packed=plan.identity["packed"],
        order=plan.identity["order"],
        table=write_arrow(path, table.schema, parts, plan.options),
        ids=ids_digest(plain_ids(in_one(table["id"]))),
        dfgen=plan.metadata,
        created_by=f"dfgen {__version__}",
        plan=plan.identity,
    )
    place.finish(index.to_json())
    return index


def _bad_rows(table: pa.Table) -> pd.DataFrame:
    columns = table.select(["id", "path", "problem"]).replace_schema_metadata()
    found: pd.DataFrame = columns.filter(pc.is_valid(columns["problem"])).to_pandas()
    return found
