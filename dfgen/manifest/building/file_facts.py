"""Reads the facts of files in threads of this process: size, time, header, and all of a file.

A file that a decoder refuses has a problem that begins with `UNDECODABLE`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from dfgen.errors import ArgumentError, is_outside, reason
from dfgen.executors import Made, check_executor
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.building.kept_facts import KeptFacts
from dfgen.manifest.file_errors import fault_of
from dfgen.manifest.schema import SCHEMA
from dfgen.samples.pixels.formats import read_header
from dfgen.samples.pixels.headers import Header
from dfgen.samples.stores.remote.store_options import StorageOptions
from dfgen.samples.stores.schemes import store_of
from dfgen.samples.stores.store import Head, Store
from dfgen.samples.whole_files import Whole, decode_whole
from dfgen.system import threads, usable_cpus, whole
from dfgen.table.arrow_types import is_text
from dfgen.table.file_columns import Content

TASK = 256
DECODED = 32
FAR = 8
FAR_READERS = 64  # of 20 ms each, 3,200 files a second

UNDECODABLE = "cannot be decoded"
"""The kind of the problem of a file whose header is fine."""

NOT_THERE = "the file does not exist"

SomeFacts = tuple[int, list[pa.RecordBatch]]
_Found = tuple[Head | None, Header | None, Whole | None, str | None]
"""Facts from the store, the header and all of a file, and what is wrong with it."""


def facts_schema() -> pa.Schema:
    """Return the columns of facts as Arrow has them."""
    return pa.schema({name: fact.type for name, fact in SCHEMA.items()})


@dataclass(frozen=True)
class Access:
    """How files are opened.

    Args:
        workers: threads; None: the usual.
        limits: what one file may ask for.
        options: open URLs.
        executor: reads in place of this process; None: none.
        kept: where facts are kept until the manifest is written; None: nowhere.
    """

    workers: int | None = None
    limits: Limits = DEFAULT
    options: StorageOptions | None = None
    executor: Made | None = None
    kept: KeptFacts | None = None

    def __post_init__(self) -> None:
        check_executor(self.executor)
        if self.workers is not None:
            whole("workers", self.workers)

    def threads(self, store: Store) -> int:
        """Return how many threads read: where each waits for a network, many more than CPUs."""
        return self.workers or (FAR_READERS if store.far else usable_cpus())


USUAL: Access = Access()


def read_here(files: Any, access: Access, decode: bool) -> Iterator[SomeFacts]:
    """Yield the place of the first of some files, and the facts of all of them, in their order."""
    store = store_of([files], access.limits, access.options)
    task = FAR if store.far else DECODED if decode else TASK
    starts = range(0, len(files), task)
    tasks = [files[start : start + task] for start in starts]
    with threads(access.threads(store)) as pool:
        read = partial(_read_many, store=store, decode=decode)
        yield from zip(starts, pool.map(read, tasks), strict=True)


def _read_many(files: Any, store: Store, decode: bool) -> list[pa.RecordBatch]:
    one_by_one = (content.as_py() for content in files)  # bytes take memory
    contents = files.to_pylist() if is_text(files.type) else one_by_one
    found = [_read(content, store, decode) for content in contents]
    try:
        return [_facts(found)]
    except MemoryError:
        raise
    except Exception:  # something that no fact can hold, or be made of
        return [facts_of_one(*one) for one in found]


def facts_of_one(
    head: Head | None, header: Header | None, whole: Whole | None, problem: str | None
) -> pa.RecordBatch:
    """Return the facts of one file; what cannot be kept of it is its problem."""
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
