"""Remote files, and rows of the next window, read on threads before they are needed."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial

from dfgen.errors import ArgumentError
from dfgen.loading.order.epochs import Plan
from dfgen.loading.order.windows import Windowed
from dfgen.loading.workers.pool import Pool, Worker
from dfgen.machine import machine_memory
from dfgen.packs.rows import PackSource
from dfgen.samples.reader import SampleReader

READERS = 64
"""Threads that read. Each waits for the network most of the time."""

_LOOK = 1.0  # seconds between two looks whether the threads were ended
_MOST = 1 << 28  # bytes of files that are kept or being read
_MEAN = 1 << 18  # bytes of a file, before the first one was read
_RECENT = 8  # windows that are not read again, of all passes that run at the same time


class Prefetch:
    """Reads files in the order in which they are expected, within a bound of bytes.

    Args:
        read: returns the bytes of a path.
    """

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read_file, self._pool = read, Pool(READERS, Worker)
        self._expected, self._sizes = Counter[str](), dict[str, int]()
        self._reads = dict[str, Future[bytes]]()
        self._queue = deque[tuple[str, Future[bytes]]]()
        self._kept, self._running, self._mean = 0, 0, float(_MEAN)
        self._lock = threading.RLock()

    def expect(self, paths: Iterable[str]) -> None:
        """Begin to read files. Each is kept until it was dropped as often as expected."""
        with self._lock:
            for path in paths:
                self._expected[path] += 1
                if path not in self._reads:
                    self._reads[path] = read = Future[bytes]()
                    self._queue.append((path, read))
            self._start()

    def take(self, path: str) -> bytes | None:
        """Return the bytes of a file; wait if it is being read.

        Returns None if it is not expected, or its read has not started: then the caller reads it.
        """
        read = self._reads.get(path)
        if read is None or read.cancel():
            return None
        while not wait([read], _LOOK).done:
            if self._pool.closed:
                return None
        return read.result()

    def drop(self, paths: Iterable[str]) -> None:
        """Forget expected files."""
        with self._lock:
            for path in paths:
                self._expected[path] -= 1
                if not self._expected[path]:
                    del self._expected[path]
                    self._reads.pop(path).cancel()
                    self._kept -= self._sizes.pop(path, 0)
            self._start()

    def close(self) -> None:
        """End the threads."""
        self._pool.close()

    def _start(self) -> None:
        """Start reads while there are threads and room for them."""
        while self._queue and self._running < READERS:
            nbytes = self._kept + self._running * self._mean
            if nbytes and nbytes + self._mean > _MOST:
                break
            path, read = self._queue.popleft()
            if read.set_running_or_notify_cancel():
                self._running += 1
                with suppress(ArgumentError):  # closed meanwhile
                    self._pool.submit(partial(self._work, path, read))

    def _work(self, path: str, read: Future[bytes], worker: Worker) -> None:
        try:
            read.set_result(self._read_file(path))
        except Exception as error:  # raised by `take`
            read.set_exception(error)
        with self._lock:
            self._running -= 1
            size = 0 if read.exception() else len(read.result())
            self._mean += (size - self._mean) / 100 if size else 0
            if self._reads.get(path) is read:
                self._sizes[path] = size
                self._kept += size
            self._start()


class NextWindow:
    """Reads the files of a window and of the next one when one of its batches begins.

    It runs in a thread, so that no batch waits. If it fails, as without memory, the rows are read
    later.
    """

    def __init__(self, reader: SampleReader) -> None:
        self._reader, self._pool = reader, Pool(1, Worker)
        packs = [one.rows for one in reader.sources.values() if isinstance(one, PackSource)]
        nbytes = max((one.nbytes for one in packs), default=0)
        self._is_small = len(packs) == len(reader.sources) and nbytes < machine_memory() // 4
        self._recent: deque[tuple[Windowed, int, int]] = deque(maxlen=_RECENT)

    def begin(self, order: Windowed, epoch: int, step: int, plan: Plan) -> None:
        """Note that a batch begins, which may have rows of several windows."""
        start, end = step * plan.batch_size, plan.rows
        window_of = partial(order.window, epoch)
        last = window_of(end - 1)
        # the same rows in each epoch: once is enough if the page cache keeps them
        once = self._is_small and plan.shard[1] == 1 and not window_of(order.places - 1)
        for at in range(window_of(start), window_of(min(start + plan.batch_size, end) - 1) + 2):
            its_epoch, number = (epoch, at) if at <= last else (epoch + 1, 0)
            window = (order, 0, 0) if once else (order, its_epoch, number)
            if window not in self._recent:
                self._recent.append(window)
                self._pool.submit(partial(self._read, *window, plan))

    def close(self) -> None:
        """End the thread."""
        self._pool.close()

    def _read(self, order: Windowed, epoch: int, window: int, plan: Plan, worker: Worker) -> None:
        with suppress(Exception):  # the read of a row raises it again
            for _ in self._reader.ahead(order.rows_of(epoch, window, plan)):
                if worker.abandoned:
                    return
