"""Prefetch: reads remote files on threads before they are asked for."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from weakref import finalize

READERS = 64
"""Threads that read: each waits for a network most of the time."""

_MOST = 1 << 28  # bytes that are kept and being read
_MEAN = 1 << 18  # bytes of a file, before the first one was read


@dataclass
class _Read:
    """A file that is read once, for everybody who expects it."""

    expected: int = 0  # times
    began: bool = False
    is_left: bool = False  # to whoever asked for it before it began
    data: bytes | Exception | None = None


class Prefetch:
    """Reads files in the order in which they are expected, within a bound of bytes.

    A process that was forked has no threads: there nothing is prefetched.

    Args:
        read: returns the bytes of a path.
    """

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._arguments = (read,)
        self._process, self._state = os.getpid(), _State(read)
        self._close = finalize(self, self._state.close)

    def __reduce__(self) -> tuple[Any, ...]:
        return Prefetch, self._arguments

    def expect(self, paths: Iterable[str]) -> None:
        """Begin to read files. They are kept until they are dropped as often as expected."""
        if self._process == os.getpid():
            self._state.expect(paths)

    def take(self, path: str, until_read: bool = False) -> bytes | None:
        """Return the bytes of a file, and wait if it is being read, or until it is.

        Returns None if it was not expected, or its read has not begun: then the caller reads it.
        """
        return self._state.take(path, until_read) if self._process == os.getpid() else None

    def drop(self, paths: Iterable[str]) -> None:
        """Forget files that were expected."""
        if self._process == os.getpid():
            self._state.drop(paths)

    def close(self) -> None:
        """End the threads."""
        self._close()


class _State:
    """What threads share. It does not refer to its Prefetch, so that can be collected."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read_file = read
        self._reads: dict[str, _Read] = {}
        self._queue = deque[str]()
        self._threads: list[threading.Thread] = []
        self._held = self._running = 0
        self._mean, self._closed = float(_MEAN), False
        self._changed = threading.Condition()

    def expect(self, paths: Iterable[str]) -> None:
        with self._changed:
            for path in paths:
                if path not in self._reads:
                    self._reads[path] = _Read()
                    self._queue.append(path)
                self._reads[path].expected += 1
            while len(self._threads) < min(READERS, len(self._queue)):
                thread = threading.Thread(target=self._work, name="dfgen-prefetch", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads
                    break
                self._threads.append(thread)
            self._changed.notify_all()

    def take(self, path: str, until_read: bool) -> bytes | None:
        if path not in self._reads:
            return None
        with self._changed:
            read = self._reads.get(path)
            if read is None:
                return None
            read.is_left = not (read.began or until_read)
            while not read.is_left and read.data is None and not self._closed:
                self._changed.wait()
            data = read.data
        if isinstance(data, Exception):
            raise data
        return data

    def drop(self, paths: Iterable[str]) -> None:
        with self._changed:
            for path in paths:
                read = self._reads[path]
                read.expected -= 1
                if not read.expected:
                    del self._reads[path]
                    self._held -= len(read.data) if isinstance(read.data, bytes) else 0
            self._changed.notify_all()

    def close(self) -> None:
        self._closed = True
        if self._changed.acquire(timeout=0.1):  # may run as garbage collection of a holder
            self._changed.notify_all()
            self._changed.release()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(2)

    def _work(self) -> None:
        while (path := self._next()) is not None:
            try:
                data: Any = self._read_file(path)
            except Exception as error:  # whoever takes the file raises it
                data = error
            with self._changed:
                self._running -= 1
                if isinstance(data, bytes):
                    self._mean += (len(data) - self._mean) / 100
                read = self._reads.get(path)
                if read is not None and read.began and read.data is None:
                    read.data = data
                    self._held += len(data) if isinstance(data, bytes) else 0
                self._changed.notify_all()
            del data

    def _next(self) -> str | None:
        with self._changed:
            while not self._closed:
                while self._queue and self._queue[0] not in self._reads:
                    self._queue.popleft()
                taken = self._held + self._running * self._mean
                if self._queue and (not taken or taken + self._mean <= _MOST):
                    path = self._queue.popleft()
                    read = self._reads[path]
                    if not (read.began or read.is_left):
                        read.began = True
                        self._running += 1
                        return path
                else:
                    self._changed.wait()
        return None
