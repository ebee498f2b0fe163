"""Files that are far are read before their rows are decoded, by readers of their own.

A read over a network is waiting, mostly: at 50 ms each, 2,000 images a second need 100 reads under
way, not 100 threads that decode. When a batch is begun, the paths of its rows are told; whoever
decodes a row then takes what was read of it, or reads it by himself. Results are the same.
"""

import io
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import IO, Any

from dfgen.loading.remote_reads import FarRead, FarReads, FileRead
from dfgen.samples.stores.known_files import Check
from dfgen.samples.stores.store import Store
from dfgen.table.file_columns import content_parts

_PATIENCE = 2.0  # seconds that closing waits for readers, one of which may be stuck


class ReadAhead:
    """Reads files of a store before they are asked for, on daemon threads of its own.

    They start with the first files. They end when nobody holds this object any more, and before
    the interpreter does. A process that was forked has none: a copy starts its own.

    Args:
        store: reads the files.
        most: bytes read and not taken yet, and being read, about.
    """

    def __init__(self, store: Store, most: int) -> None:
        self._arguments = store, most
        self._reads = FarReads(store, most)
        self._finalizer = weakref.finalize(self, _stop, os.getpid(), self._reads)

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadAhead, self._arguments

    def expect(self, paths: Iterable[str], cancelled: Callable[[], bool]) -> "Expected | None":
        """Have files read, for one who comes for them soon; None: there are none.

        Args:
            paths: of the files, as they will be asked for.
            cancelled: whether nobody wants them any more.
        """
        reads: dict[str, FarRead] = {}
        for path in paths:
            if path in reads:
                reads[path].wanted += 1
            else:
                reads[path] = FarRead(path, cancelled)
        if not reads:
            return None
        self._reads.expect([*reads.values()])
        return Expected(self._reads, reads)

    @property
    def counts(self) -> dict[str, int]:
        """How many reads were begun, tried again and hedged, are under way now, and by how many."""
        reads, counts = self._reads, self._reads.counts
        told = {name: counts[name] for name in ("reads", "retries", "hedges")}
        return {**told, "in_flight": reads.running, "readers": len(reads.threads)}

    def close(self) -> None:
        """End the readers."""
        self._finalizer()


def _stop(process: int, reads: FarReads) -> None:
    if process != os.getpid():
        return
    reads.close()
    end = time.monotonic() + _PATIENCE
    for thread in reads.threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, end - time.monotonic()))


class Expected:
    """The files of one chunk that are read ahead."""

    def __init__(self, reads: FarReads, by_path: dict[str, FarRead]) -> None:
        self._reads, self._by_path = reads, by_path

    def take(
        self, path: Any, cancelled: Callable[[], bool], patient: bool = False
    ) -> FileRead | None:
        """Return what was read of a file, waiting for it; None: it is to be read now."""
        read = self._by_path.get(path)
        if read is None or not read.wanted:
            return None
        return self._reads.take(read, cancelled, patient)

    def drop(self) -> None:
        """Forget what was not taken."""
        self._reads.drop([*self._by_path.values()])


class Taken(Expected):
    """Files of one chunk as they were read, on their way to another process."""

    def __init__(self, found: dict[str, FileRead | None]) -> None:
        self._found = found

    def take(
        self, path: Any, cancelled: Callable[[], bool], patient: bool = False
    ) -> FileRead | None:
        """Return what was read of a file."""
        return self._found.get(path)

    def drop(self) -> None:
        """Forget all."""
        self._found.clear()


class FromAhead:
    """A store for the rows of one chunk, which gives what was read ahead and reads the rest."""

    def __init__(self, store: Store, expected: Expected, cancelled: Callable[[], bool]) -> None:
        self._store, self._expected, self._cancelled = store, expected, cancelled

    def read(self, path: Any) -> bytes:
        """Return the bytes of one file."""
        found = self._taken(path)
        data: bytes = self._store.read(path) if found is None else found.data
        return data

    def read_as(self, path: Any, check: Check) -> bytes:
        """Return the bytes of one file, if it is the one that is known."""
        found = self._taken(path)
        if found is None:
            return self._store.read_as(path, check)
        check(found.size, found.mtime_ns)
        return found.data

    def open(self, path: Any) -> IO[bytes]:
        """Open a file, of which all is here where it was read ahead."""
        found = self._taken(path)
        return self._store.open(path) if found is None else io.BytesIO(found.data)

    def _taken(self, content: Any) -> FileRead | None:
        data, path = content_parts(content)
        return self._expected.take(path, self._cancelled) if data is None else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
