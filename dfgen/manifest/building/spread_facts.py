"""Facts read over an executor, each task by a worker that has the same files."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import WorkerError
from dfgen.executors import AHEAD, Made, Outcome, Work, spread
from dfgen.manifest.building.file_facts import (
    FAR_READERS,
    Access,
    SomeFacts,
    facts_of_one,
    facts_schema,
    read_here,
)
from dfgen.samples.stores.schemes import store_at, store_of
from dfgen.samples.stores.store import Head

SPANS = {False: (1_000, 100_000), True: (32, 10_000)}
"""Least and most files of a task: of headers, of whole files. The most take up to a minute."""

_OF_A_WORKER = 16  # tasks, so that no worker is idle at the end for long


def spread_facts(
    files: pa.Array, access: Access, decode: bool, executor: Made
) -> Iterator[SomeFacts]:
    """Yield facts of paths as they come, each with the place of the first of its files.

    A file that ends each worker has a problem.

    Raises:
        WorkerError: the executor takes no tasks, or a worker cannot open a file that is there.
    """
    there = replace(access, executor=None, kept=None)

    def ends_worker(span: range, told: str) -> pa.Table:
        facts = facts_of_one(_head(files[span.start].as_py(), access), None, None, told)
        return pa.Table.from_batches([facts])

    work = Work[range](
        read_span,
        lambda span: (files[span.start : span.stop].to_pylist(), there, decode),
        lambda span: f"{len(span):,} files, from {files[span.start]} to {files[span.stop - 1]}",
        _halves,
        ends_worker,
        "run it again with another executor"
        + (f", and it goes on: {access.kept.folder} has the facts" if access.kept else ""),
    )
    for span, outcome in spread(executor, work, partial(_spans, len(files), decode)):
        facts = outcome.result
        _check_access(files[span.start : span.stop], facts, access, outcome)
        yield span.start, facts.to_batches()


def read_span(paths: list[str], access: Access, decode: bool) -> pa.Table:
    """Read the facts of some files in a worker, in one thread where none waits for a network."""
    files = pa.array(paths, pa.string())
    far = store_of([files], access.limits, access.options).far
    access = replace(access, workers=access.workers or (FAR_READERS if far else 1))
    parts = [batch for _, facts in read_here(files, access, decode) for batch in facts]
    return pa.Table.from_batches(parts, facts_schema()).combine_chunks()


def _spans(files: int, decode: bool, workers: int | None) -> list[range]:
    least, most = SPANS[decode]
    size = min(max(files // (_OF_A_WORKER * (workers or AHEAD)), least), most)
    return [range(start, min(start + size, files)) for start in range(0, files, size)]


def _halves(span: range) -> tuple[range, ...]:
    middle = len(span) // 2
    return (span[:middle], span[middle:]) if middle else ()


def _check_access(paths: pa.Array, facts: Any, access: Access, outcome: Outcome) -> None:
    """Raise if the first file that a worker cannot find or ask for can be found here."""
    lost = pc.indices_nonzero(pc.is_null(facts["bytes"]))
    if not len(lost):
        return
    path, problem = (column[lost[0].as_py()].as_py() for column in (paths, facts["problem"]))
    if _head(path, access) is not None:
        raise WorkerError(
            f"{path} is there, and the worker on {outcome.host} says: {problem}. Its workers need "
            "the same files at the same paths: mount them there"
        )


def _head(path: str, access: Access) -> Head | None:
    try:
        return store_at(path, access.limits, access.options).head(path)
    except Exception:
        return None
