"""Prefetch: reads remote files on threads before they are needed."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from dfgen.errors import ArgumentError
from dfgen.loading.workers.pool import Pool, Worker

READERS = 64
"""Threads that read. Each waits for the network most of the time."""

_MOST = 1 << 28  # bytes of files that are kept or being read
_MEAN = 1 << 18  # bytes of a file, before the first one was read


@dataclass
class _Read:
    """A file that is read once."""

    expected: int = 0  # times
    started: bool = False
    is_left: bool = False  # to the caller, who needed it before its read had started
    data: bytes | Exception | None = None


class Prefetch:
    """Reads files in the order in which they are expected, within a bound of bytes.

    Args:
        read: returns the bytes of a path.
    """

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read_file, self._pool = read, Pool(READERS, Worker, grows=True)
        self._reads: dict[str, _Read] = {}
        self._queue = deque[str]()
        self._kept, self._running, self._mean = 0, 0, float(_MEAN)
        self._changed = threading.Condition()

    def expect(self, paths: Iterable[str]) -> None:
        """Begin to read files. Each is kept until it was dropped as often as expected."""
        with self._changed:
            for path in paths:
                if path not in self._reads:
                    self._reads[path] = _Read()
                    self._queue.append(path)
                self._reads[path].expected += 1
            self._start()

    def take(self, path: str) -> bytes | None:
        """Return the bytes of a file; wait if it is being read.

        Returns None if it is not expected, or its read has not started: then the caller reads it.
        """
        if path not in self._reads:
            return None
        with self._changed:
            read = self._reads.get(path)
            if read is None:
                return None
            read.is_left = not read.started
            while read.started and read.data is None and not self._pool.closed:
                self._changed.wait()
        if isinstance(read.data, Exception):
            raise read.data
        return read.data

    def drop(self, paths: Iterable[str]) -> None:
        """Forget expected files."""
        with self._changed:
            for path in paths:
                read = self._reads[path]
                read.expected -= 1
                if not read.expected:
                    del self._reads[path]
                    self._kept -= len(read.data) if isinstance(read.data, bytes) else 0
            self._start()

    def close(self) -> None:
        """End the threads."""
        self._pool.close()
        with self._changed:
            self._changed.notify_all()

    def _start(self) -> None:
        """Start reads while there are threads and room for them."""
        while self._queue and self._running < READERS:
            nbytes = self._kept + self._running * self._mean
            if nbytes and nbytes + self._mean > _MOST:
                break
            path = self._queue.popleft()
            read = self._reads.get(path)
            if read is not None and not (read.started or read.is_left):
                read.started = True
                self._running += 1
                with suppress(ArgumentError):  # closed meanwhile
                    self._pool.submit(partial(self._work, path))

    def _work(self, path: str, worker: Worker) -> None:
        data: bytes | Exception | None = None
        if not worker.abandoned:
            try:
                data = self._read_file(path)
            except Exception as error:  # raised by `take`
                data = error
        with self._changed:
            self._running -= 1
            size = len(data) if isinstance(data, bytes) else 0
            self._mean += (size - self._mean) / 100 if size else 0
            read = self._reads.get(path)
            if read is not None and read.started and read.data is None:
                read.data = data
                self._kept += size
            self._start()
            self._changed.notify_all()
