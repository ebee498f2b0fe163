"""Reads the facts of files, in threads: of all, or of those alone that changed since.

A file may also be decoded to its end. What its decoder says then is the problem, behind
`UNDECODABLE`, and stays that of the file, which its header cannot tell, until the file is changed.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, is_outside, reason
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.file_errors import fault_of
from dfgen.manifest.schema import FACTS, SCHEMA, with_column
from dfgen.progress_bars import progress
from dfgen.samples.pixels.formats import read_header
from dfgen.samples.pixels.headers import Header
from dfgen.samples.stores.known_files import are_same_times
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_of
from dfgen.samples.stores.store import Head, Store
from dfgen.samples.whole_files import Whole, decode_whole
from dfgen.system import threads, usable_cpus, whole
from dfgen.table.arrow_types import is_text, text_where
from dfgen.table.file_columns import Content

TASK = 256
DECODED = 32
STATS = 512
FAR = 8
FAR_READERS = 64  # of 20 ms each, 3,200 files a second
SLOW = 50e-6  # seconds to stat a file, ten times what a local disk takes

UNDECODABLE = "cannot be decoded"
"""The kind of the problem of a file whose header is fine."""

NOT_THERE = "the file does not exist"

_Found = tuple[Head | None, Header | None, Whole | None, str | None]
"""Facts from the store, the header and all of a file, and what is wrong with it."""

_COMPARED = {"path", "bytes", "mtime_ns", "format", "problem"}
"""Facts that an older manifest must have so that files need not be opened again."""

# Whole numbers that may be missing are pandas's nullable types: a float is no count of bytes.
PANDAS_TYPES = {
    pa.int64(): pd.Int64Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int8(): pd.Int8Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


def facts_schema() -> pa.Schema:
    """Return the columns of facts as Arrow has them."""
    return pa.schema({name: fact.type for name, fact in SCHEMA.items()})


@dataclass(frozen=True)
class Access:
    """How files are opened: threads (None: the usual), what one may ask for, what opens URLs."""

    workers: int | None = None
    limits: Limits = DEFAULT
    options: StorageOptions | None = None

    def __post_init__(self) -> None:
        if self.workers is not None:
            whole("workers", self.workers)

    def threads(self, store: Store) -> int:
        """Return how many threads read: where each waits for a network, many more than CPUs."""
        return self.workers or (FAR_READERS if store.far else usable_cpus())


USUAL = Access()


def read_facts(files: Any, access: Access = USUAL, decode: bool = False) -> pa.Table:
    """Read size, time and header of each file, in threads; with `decode` all of it.

    The files are a list of paths, or a column of Arrow that may hold their bytes, of which one at
    a time becomes a Python object. A file with a fault keeps its row: `problem` says what is wrong,
    as `kind` or `kind: details`. The columns are those of `SCHEMA`, null where unknown. Of a file
    far away one request tells all but what only `decode` does.
    """
    if isinstance(files, list):
        files = pa.array(files, pa.string())
    store = store_of([files], access.limits, access.options)
    task = FAR if store.far else DECODED if decode else TASK
    tasks = [files[start : start + task] for start in range(0, len(files), task)]
    parts, what = [], "Decoding files" if decode else "Reading headers"
    with (
        threads(access.threads(store)) as pool,
        progress(len(files), what, " files") as bar,
    ):
        for facts in pool.map(partial(_read_many, store=store, decode=decode), tasks):
            parts += facts
            bar.update(sum(map(len, facts)))
    return pa.Table.from_batches(parts, facts_schema())


def refresh_facts(
    paths: pa.ChunkedArray,
    known: pa.Table | None = None,
    access: Access = USUAL,
    decode: bool = False,
    listed: pa.Table | None = None,
    full: bool = False,
) -> pa.Table:
    """Read the facts of files, opening only those that are new or changed since they were `known`.

    A file is unchanged if size and time of the last change are. Files that had a problem are opened
    again. With `decode` all are opened, and decoded to their end; with `full` so are those that are
    opened, and files without a known digest are. `listed` has the sizes and times that a listing of
    a bucket has told just now; each of the others is asked for its own.
    """
    paths = paths.combine_chunks().dictionary_encode()  # several rows may share a file
    names, codes = pa.chunked_array([paths.dictionary]), paths.indices
    if known is None or not set(known.column_names) >= _COMPARED:
        return read_facts(names.to_pylist(), access, decode or full).take(codes)
    known = _of_readable(known, decode)
    places = pc.index_in(names, value_set=known["path"].cast(names.type))
    known = known.select(list(FACTS)).cast(facts_schema()).take(places)
    if decode:
        read = read_facts(names.to_pylist(), access, decode)
        same = pc.and_(_same(known, read["bytes"], read["mtime_ns"]), pc.is_null(read["problem"]))
        same = pc.and_(same, pc.fill_null(pc.equal(known["digest"], read["digest"]), True))
        changed = pc.invert(same).to_numpy()
        read = read.filter(pa.array(changed))
    else:
        same = _same(known, *_sizes_and_times(names.to_pylist(), listed, access))
        same = pc.and_(same, pc.is_valid(known["digest"])) if full else same
        changed = pc.invert(same).to_numpy()
        read = read_facts(names.filter(pa.array(changed)).to_pylist(), access, full)
    order = np.argsort(changed, kind="stable")  # the unchanged first
    rows = np.empty_like(order)
    rows[order] = np.arange(len(order))
    facts = pa.concat_tables([known.filter(pa.array(~changed)), read]).take(pa.array(rows))
    return facts if len(names) == len(paths) else facts.take(codes)


def problems_now(rows: pa.Table, facts: pa.Table) -> pa.ChunkedArray:
    """Return the problem of each row: that of its file now, else the known one of its labels.

    A problem of a row whose header could be read was not one of the file.
    """
    if not {"problem", "format"} <= set(rows.column_names):
        return facts["problem"]
    known = rows["problem"].cast(pa.string())
    of_labels = pc.and_not(pc.is_valid(rows["format"]), is_undecodable(known))
    return pc.coalesce(facts["problem"], text_where(of_labels, known))


def is_undecodable(problems: Any) -> Any:
    """Say of each problem whether it is one that only decoding finds."""
    return pc.fill_null(pc.starts_with(problems, UNDECODABLE), False)


def _of_readable(known: pa.Table, decode: bool) -> pa.Table:
    """Return the path and facts of files whose header could be read.

    Their problem, as long as they are unchanged, is what only decoding finds; none where they are
    to be decoded.
    """
    known = known.filter(pc.or_(pc.is_null(known["problem"]), pc.is_valid(known["format"])))
    problems = known["problem"].cast(pa.string())
    stays = pc.and_not(is_undecodable(problems), decode)
    known = with_column(known, "problem", text_where(stays, problems))
    for name in FACTS - set(known.column_names):
        known = known.append_column(name, pa.nulls(len(known), SCHEMA[name].type))
    return known.select(["path", *FACTS])


def _same(known: pa.Table, sizes: Any, times: Any) -> pa.ChunkedArray:
    """Say of each file whether its size and time are those known."""
    now, then = (pc.fill_null(each, -1).to_numpy() for each in (times, known["mtime_ns"]))
    same = pc.and_(pc.equal(known["bytes"], sizes), pa.array(are_same_times(now, then)))
    return pc.fill_null(same, False)


def _sizes_and_times(paths: list[str], listed: pa.Table | None, access: Access) -> tuple[Any, Any]:
    """Return size and time of each file: by the listing that has them all, else by asking each."""
    if listed is not None:
        places = pc.index_in(pa.array(paths, listed["path"].type), value_set=listed["path"])
        if not places.null_count:
            found = listed.take(places)
            return found["bytes"], found["mtime_ns"]
    return stat_files(paths, access)


def stat_files(paths: list[str], access: Access = USUAL) -> tuple[pa.Array, pa.Array]:
    """Return size and time of the last change of each file; -1 where there is none.

    Threads begin where a file takes long, as behind a network. On a local disk they only wait for
    each other: two take a quarter longer than one, twelve twice as long.
    """
    store = store_of([pa.array(paths, pa.string())], options=access.options)
    stat_many, task = partial(_stat_many, store=store), FAR if store.far else STATS
    tasks = iter([paths[start : start + task] for start in range(0, len(paths), task)])
    parts = [np.empty((2, 0), np.int64)]
    with (
        threads(access.threads(store)) as pool,
        progress(len(paths), "Comparing files", " files") as bar,
    ):
        for some in () if store.far else tasks:
            start = time.perf_counter()
            parts.append(stat_many(some))
            bar.update(len(some))
            if time.perf_counter() - start > SLOW * len(some):
                break
        for part in pool.map(stat_many, tasks):
            parts.append(part)
            bar.update(part.shape[1])
    sizes, times = np.concatenate(parts, axis=1)
    return pa.array(sizes), pa.array(times)


def _stat_many(paths: list[str], store: Store) -> npt.NDArray[np.int64]:
    try:
        heads = [store.head(path) for path in paths]  # no map, which a StopIteration would end
        sizes, times, *_ = zip(*heads, strict=True)
        if None in times:
            times = tuple(-1 if time is None else time for time in times)
        return np.array([sizes, times], np.int64)
    except MemoryError:
        raise
    except Exception:
        if len(paths) == 1:
            return np.full((2, 1), -1)
        return np.concatenate([_stat_many([path], store) for path in paths], axis=1)


def _read_many(files: Any, store: Store, decode: bool) -> list[pa.RecordBatch]:
    one_by_one = (content.as_py() for content in files)  # bytes take memory
    contents = files.to_pylist() if is_text(files.type) else one_by_one
    found = [_read(content, store, decode) for content in contents]
    try:
        return [_facts(found)]
    except MemoryError:
        raise
    except Exception:  # something that no fact can hold, or be made of
        return [_facts_of_one(*one) for one in found]


def _facts_of_one(
    head: Head | None, header: Header | None, whole: Whole | None, problem: str | None
) -> pa.RecordBatch:
    for known in ((head, header, whole), (head, None, None)):
        try:
            return _facts([(*known, problem)])
        except MemoryError:
            raise
        except Exception as error:
            problem = f"its facts cannot be kept: {reason(error)}"
    return _facts([(None, None, None, problem)])


def _facts(found: list[_Found]) -> pa.RecordBatch:
    heads, headers, wholes, problems = zip(*found, strict=True)
    arrays = []
    for fact in SCHEMA.values():
        told = ((fact.of_head, heads), (fact.of_header, headers), (fact.of_whole, wholes))
        read, known = next((pair for pair in told if pair[0]), (None, problems))
        if read is None:
            values = problems
        elif any(problems) or known is wholes:
            values = tuple(None if one is None else read(one) for one in known)
        else:
            values = tuple(map(read, known))
        arrays.append(pa.array(values, fact.type))
    return pa.record_batch(arrays, schema=facts_schema())


def _read(path: Content, store: Store, decode: bool) -> _Found:
    """Return what the store and the header say of a file, and what is wrong with it."""
    head = None
    try:
        store = store if decode else store.look(path)
        head = store.head(path)
        if decode and not head.problem:
            whole = decode_whole(path, store)
            return head, whole.header, whole, whole.fault and f"{UNDECODABLE}: {whole.fault}"
        return head, None if head.problem else read_header(path, store), None, head.problem
    except FileNotFoundError:  # dfgen's MissingFileError is one too
        return head, None, None, NOT_THERE
    except (ArgumentError, MemoryError):
        raise
    except Exception as error:  # of a store or a reader, which may be anybody's
        if is_outside(error):
            raise fault_of(error, str(path)) from error
        return head, None, None, str(error) or type(error).__name__
