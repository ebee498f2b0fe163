"""Reads the facts of files, here or by an executor: of all files, or of changed ones.

A file may also be decoded to its end. Then the message of its decoder is its problem, after
`UNDECODABLE`, and stays its problem until the file changes, because the header is fine.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError, WorkerError
from dfgen.executors import AHEAD, Made, Outcome, Work, spread
from dfgen.machine import threads
from dfgen.manifest.building.file_facts import (
    FAR,
    FAR_READERS,
    UNDECODABLE,
    USUAL,
    Access,
    SomeFacts,
    batch_of,
    read_here,
)
from dfgen.manifest.paths import is_url
from dfgen.manifest.schema import FACTS, SCHEMA, with_column
from dfgen.progress_bars import progress
from dfgen.stores.store import Head, Store
from dfgen.stores.stores import store_at, store_of, without_store
from dfgen.table.arrow_types import TEXT

SPANS = {False: (1_000, 100_000), True: (32, 10_000)}
"""Least and most files of a task, of headers and of whole files. The most take up to a minute."""


def read_facts(files: Any, access: Access = USUAL, decode: bool = False) -> pa.Table:
    """Read size, time and header of each file; with `decode` the whole file.

    The files are an Arrow column of paths or bytes; one at a time becomes a Python object.
    A file with a fault keeps its row: `problem` has the reason, as `kind` or `kind: details`. The
    columns are those of `SCHEMA`, null if unknown.
    """
    paths = files.type in TEXT
    kept = access.kept if paths else None
    batches = dict[int, list[pa.RecordBatch]]()
    if access.executor and paths:
        reading = spread_facts(files, access, decode, access.executor)
    else:
        reading = read_here(files, access, decode)
    with progress(len(files), "Decoding files" if decode else "Reading headers", " files") as bar:
        for start, facts in reading:
            batches[start], number = facts, sum(map(len, facts))
            if kept:
                kept.add(files[start : start + number], facts)
            bar.update(number)
    in_order = chain.from_iterable(batches[start] for start in sorted(batches))
    return pa.Table.from_batches(in_order, SCHEMA)


def refresh_facts(
    paths: pa.ChunkedArray,
    known: pa.Table | None = None,
    access: Access = USUAL,
    decode: bool = False,
    listed: pa.Table | None = None,
    full: bool = False,
) -> pa.Table:
    """Read the facts of files, opening only files that are new or have changed.

    A file is unchanged if its size and time are. Files with a problem are opened again. `known` are
    older facts with the column `path`, `listed` sizes and times that a bucket has just listed.
    `decode` opens all files, and decodes them to their end; `full` decodes the files that are
    opened, and opens files without digest.
    """
    if len(addresses := without_store(paths.filter(is_url(paths)))):
        raise ManifestError(
            f"{addresses[0]} is an address that dfgen cannot open: mount its files, and build the "
            'manifest with that folder as root= (--root), or with facts="none" (--facts none)'
        )
    paths = paths.combine_chunks().dictionary_encode()
    names, codes = paths.dictionary, paths.indices
    tables = [known, access.kept.read() if access.kept else None]
    needed = {"path", "bytes", "mtime_ns", "format", "problem"}
    comparable = [each for each in tables if each and needed <= {*each.column_names}]
    if not comparable:
        return read_facts(names, access, decode or full).take(codes)
    known = pa.concat_tables(_readable(each, decode) for each in reversed(comparable))
    places = pc.index_in(names, value_set=known["path"].cast(names.type))
    known = known.select(list(FACTS)).take(places)
    if decode:
        read = read_facts(names, access, decode)
        same = pc.and_(_are_same(known, read), pc.is_null(read["problem"]))
        same = pc.and_(same, pc.fill_null(pc.equal(known["digest"], read["digest"]), True))
    else:
        same = _are_same(known, stat_files(names, access, listed))
        same = pc.and_(same, pc.is_valid(known["digest"])) if full else same
    changed = pc.invert(same).to_numpy()
    mask = pa.array(changed)
    read = read.filter(mask) if decode else read_facts(names.filter(mask), access, full)
    order = np.argsort(changed, kind="stable")  # the unchanged first
    facts = pa.concat_tables([known.filter(pa.array(~changed)), read])
    facts = facts.take(pa.array(np.argsort(order)))
    return facts if len(names) == len(paths) else facts.take(codes)


def problems_now(rows: pa.Table, facts: pa.Table) -> pa.ChunkedArray:
    """Return the problem of each row: of its file now, else the known one of its labels.

    The problem of a row whose header could be read is not one of the file.
    """
    if not {"problem", "format"} <= set(rows.column_names):
        return facts["problem"]
    known = rows["problem"].cast(pa.string())
    of_labels = pc.and_not(pc.is_valid(rows["format"]), is_undecodable(known))
    return pc.coalesce(facts["problem"], pc.if_else(of_labels, known, None))


def is_undecodable(problems: Any) -> Any:
    """Return for each problem whether only decoding finds it."""
    return pc.fill_null(pc.starts_with(problems, UNDECODABLE), False)


def _readable(known: pa.Table, decode: bool) -> pa.Table:
    """Return the path and facts of files whose header could be read.

    Their problem is the one that only decoding finds; none if they will be decoded.
    """
    known = known.filter(pc.or_(pc.is_null(known["problem"]), pc.is_valid(known["format"])))
    problems = known["problem"].cast(pa.string())
    stays = pc.and_not(is_undecodable(problems), decode)
    known = with_column(known, "problem", pc.if_else(stays, problems, None))
    for name in FACTS - set(known.column_names):
        known = known.append_column(name, pa.nulls(len(known), SCHEMA.field(name).type))
    paths = pa.field("path", pa.string())
    return known.select(["path", *FACTS]).cast(pa.schema([paths, *SCHEMA]))


def _are_same(known: pa.Table, now: pa.Table) -> pa.ChunkedArray:
    """Return for each file whether its size and time are the known ones."""
    times = [pc.fill_null(each["mtime_ns"], -1).to_numpy() for each in (now, known)]
    same = pc.and_(pc.equal(known["bytes"], now["bytes"]), pa.array(_same_times(*times)))
    return pc.fill_null(same, False)


def _same_times(times: Any, known: Any) -> Any:
    """Return which times are equal; copies and archives cut them to ms, seconds, or 2 seconds."""
    apart = np.abs(times - known)
    cut = (times % 10**9 == 0) | (known % 10**9 == 0)
    return (apart < 10**6) | (cut & (apart <= 2 * 10**9))


def stat_files(paths: pa.Array, access: Access = USUAL, listed: pa.Table | None = None) -> pa.Table:
    """Return `bytes` and `mtime_ns` of each file, of the listing if it has all; -1: no such file.

    Threads begin if a file takes long, as behind a network. On a local disk twelve take twice as
    long as one.
    """
    if listed is not None:
        places = pc.index_in(paths.cast(listed["path"].type), value_set=listed["path"])
        if not places.null_count:
            return listed.take(places)
    store = store_of([paths], options=access.options)
    stat_many, task = partial(_stat_many, store=store), FAR if store.far else 512
    starts = range(0, len(paths), task)
    tasks = (paths[start : start + task].to_pylist() for start in starts)
    parts = [np.empty((2, 0), np.int64)]
    with (
        threads(access.threads(store)) as pool,
        progress(len(paths), "Comparing files", " files") as bar,
    ):
        for some in () if store.far else tasks:
            start = time.perf_counter()
            parts.append(stat_many(some))
            bar.update(len(some))
            if time.perf_counter() - start > 50e-6 * len(some):  # ten times as on a local disk
                break
        for part in pool.map(stat_many, tasks):
            parts.append(part)
            bar.update(part.shape[1])
    return pa.table([*np.concatenate(parts, axis=1)], ["bytes", "mtime_ns"])


def _stat_many(paths: list[str], store: Store) -> npt.NDArray[np.int64]:
    try:
        heads = [store.head(path) for path in paths]  # map() would end at a StopIteration
        sizes, times, *_ = zip(*heads, strict=True)
        return np.array([sizes, [-1 if one is None else one for one in times]], np.int64)
    except MemoryError:
        raise
    except Exception:
        if len(paths) == 1:
            return np.full((2, 1), -1)
        return np.concatenate([_stat_many([path], store) for path in paths], axis=1)


def spread_facts(
    files: pa.Array, access: Access, decode: bool, executor: Made
) -> Iterator[SomeFacts]:
    """Yield facts of paths as they come, with the index of the first file.

    A file that crashes every worker gets a problem.
    """
    there = replace(access, executor=None, kept=None)

    def ends_worker(span: range, reason: str) -> pa.Table:
        head = _head(files[span.start].as_py(), access)
        return pa.Table.from_batches([batch_of([(head, None, None, reason)])])

    work = Work[range](
        read_span,
        lambda span: (files[span.start : span.stop].to_pylist(), there, decode),
        lambda span: f"{len(span):,} files, from {files[span.start]} to {files[span.stop - 1]}",
        _halves,
        ends_worker,
        "run it again with another executor"
        + (f", and it continues: {access.kept.folder} has the facts" if access.kept else ""),
    )
    for span, outcome in spread(executor, work, partial(_spans, len(files), decode)):
        facts = outcome.result
        _check_access(files[span.start : span.stop], facts, access, outcome)
        yield span.start, facts.to_batches()


def read_span(paths: list[str], access: Access, decode: bool) -> pa.Table:
    """Read the facts of some files in a worker, in one thread if none waits for a network."""
    files = pa.array(paths, pa.string())
    far = store_of([files], access.limits, access.options).far
    access = replace(access, workers=access.workers or (FAR_READERS if far else 1))
    parts = [batch for _, facts in read_here(files, access, decode) for batch in facts]
    return pa.Table.from_batches(parts, SCHEMA).combine_chunks()


def _spans(files: int, decode: bool, workers: int | None) -> list[range]:
    least, most = SPANS[decode]
    tasks = 16 * (workers or AHEAD)  # so that no worker is idle at the end for long
    size = min(max(files // tasks, least), most)
    return [range(start, min(start + size, files)) for start in range(0, files, size)]


def _halves(span: range) -> tuple[range, ...]:
    middle = len(span) // 2
    return (span[:middle], span[middle:]) if middle else ()


def _check_access(paths: pa.Array, facts: Any, access: Access, outcome: Outcome) -> None:
    """Raise if the first file that a worker cannot find exists here."""
    lost = pc.indices_nonzero(pc.is_null(facts["bytes"]))
    if not len(lost):
        return
    path, problem = (column[lost[0].as_py()].as_py() for column in (paths, facts["problem"]))
    if _head(path, access) is not None:
        raise WorkerError(
            f"{path} exists here, but the worker on {outcome.host} says: {problem}. Workers need "
            "the same files at the same paths: mount them there"
        )


def _head(path: str, access: Access) -> Head | None:
    try:
        return store_at(path, access.limits, access.options).head(path)
    except Exception:
        return None
