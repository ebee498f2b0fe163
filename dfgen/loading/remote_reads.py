"""Reads of far files: begun in order, within a bound of bytes, tried again, and hedged."""

import math
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

from dfgen.errors import ReadError, may_pass
from dfgen.loading.workers.retries import WAITS, waited
from dfgen.samples.stores.store import Store

_KEPT = 200  # reads
_LEAST = 20  # reads from which on a late one can be told
_EVERY = 10  # reads between two looks at all of them
_HIGH = 0.95  # of reads are no slower than a slow one, which is no late one yet
_LATE = 2.0  # times a slow one
_SOONEST = 0.1  # seconds before which none is late: a hiccup of this machine, mostly
_USUAL = 0.05  # seconds of a read while none has been
_SIZE = 1 << 18  # bytes of a file while none has been read


class ReadPace:
    """The pace of the last reads: `usual` and `late` seconds, and their mean `size`."""

    def __init__(self) -> None:
        self.usual = _USUAL
        self.late = math.inf
        self.size: float = _SIZE
        self._seconds: deque[float] = deque(maxlen=_KEPT)
        self._noted = 0

    def note(self, seconds: float, size: int) -> None:
        """Note what one read took."""
        self._seconds.append(seconds)
        self._noted += 1
        self.size += (size - self.size) / min(self._noted, _KEPT)
        if self._noted <= _LEAST or self._noted % _EVERY == 0:
            ordered = sorted(self._seconds)
            self.usual = ordered[len(ordered) // 2]
            if self._noted >= _LEAST:
                slow = ordered[int(_HIGH * (len(ordered) - 1))]
                self.late = max(_SOONEST, _LATE * slow)


FIRST_READERS, MOST_READERS = 32, 128
_REST = 1.0  # seconds after which an idle reader looks again whether it is to end
_PATIENCE = 0.1  # seconds after which who waits for a read looks again whether it is late
_HEDGES = 0.05  # of all reads: so much more is asked of a server at most
_UNWANTED = "nobody wants this row any more"


class FileRead(NamedTuple):
    """The part of a file that a store has read."""

    data: bytes
    size: int  # what it has said of the file meanwhile
    mtime_ns: int | None

    @classmethod
    def by(cls, store: Store, path: str) -> "FileRead":
        """Read a file by a store."""
        seen: list[tuple[int, int | None]] = []
        data = store.read_as(path, lambda *facts: seen.append(facts))
        return cls(data, *seen[-1])


@dataclass(eq=False)
class FarRead:
    """A read of one file that some rows of a chunk will ask for."""

    path: str
    cancelled: Callable[[], bool]  # whether nobody wants its chunk any more
    wanted: int = 1  # how often it will be asked for
    running: int = 0  # tries under way: none before the first, between two, and after all
    began: float = 0.0
    found: FileRead | None = None

    def is_unwanted(self) -> bool:
        """Whether nobody will ask for it."""
        return self.wanted < 1 or self.cancelled()


@dataclass(eq=False)
class FarReads:
    """The reads that readers and decoders share: those to be begun, under way and done.

    Readers begin reads in the order in which they are wanted, as long as what they have read and
    are reading is within `most` bytes. Whoever comes for a read that is not begun, or that waits
    for its next try, reads by itself: so nobody waits for the bound, and what cannot be read
    raises where it would without reading ahead. There are few readers at first, and more while
    those who decode have to wait.

    A read that takes far longer than others is asked for once more, and what answers first counts:
    a hedged request (Dean and Barroso, "The Tail at Scale", 2013).

    Args:
        store: reads the files.
        most: bytes read and not taken yet, and being read, about.
    """

    store: Store
    most: int
    counts: Counter[str] = field(default_factory=Counter)
    threads: list[threading.Thread] = field(default_factory=list)
    closed: bool = False

    def __post_init__(self) -> None:
        self._pace = ReadPace()
        self._queue: deque[FarRead] = deque()
        self._under_way: deque[FarRead] = deque()  # not hedged yet, the oldest first
        self.running = self._held = self._idle = 0
        self._grown = 0.0
        self._lock = threading.Lock()
        self._work, self._done = threading.Condition(self._lock), threading.Condition(self._lock)

    # For those who decode

    def expect(self, reads: Sequence[FarRead]) -> None:
        """Have files read as soon as readers come to them."""
        with self._lock:
            self._queue.extend(reads)
            if not self.threads:
                self._start(FIRST_READERS)
            self._work.notify(len(reads))

    def take(
        self, read: FarRead, cancelled: Callable[[], bool], patient: bool = False
    ) -> FileRead | None:
        """Return what was read, once; None: whoever asks is to read by himself.

        Args:
            read: what to take.
            cancelled: whether nobody wants it any more.
            patient: whether to wait for one that is not begun, too: who takes all files of a chunk
                before he reads any, in their order, waits for nothing that waits for him.
        """
        with self._lock:
            while (
                read.found is None
                and (read.running or (patient and self.threads and not read.began))
                and not self.closed
            ):
                if cancelled():
                    raise ReadError(_UNWANTED)
                self._grow()
                self._done.wait(_PATIENCE)
                self._work.notify()  # one who looks whether it is late
            found = read.found
            read.wanted -= 1
            if found is None:
                self._grow()
            elif not read.wanted:
                self._free(read)
            return found

    def drop(self, reads: Sequence[FarRead]) -> None:
        """Forget what nobody wants any more."""
        with self._lock:
            for read in reads:
                read.wanted = 0  # it may stay in the queue a while
                if read.found is not None:
                    self._free(read)

    def _free(self, read: FarRead) -> None:
        self._held -= len(read.found.data)  # type: ignore[union-attr]
        read.found = None
        if self._queue:  # a reader that finds nothing to do has cost as much as a third of a read
            self._work.notify()

    def _grow(self) -> None:
        """Start more readers where all are busy, but not before those started last have read."""
        now = perf_counter()
        if self._idle or not self._queue or not self._has_room():
            return
        if now - self._grown >= 2 * self._pace.usual:  # more than are of use cost time on the CPU
            self._start(min(len(self.threads) // 2, MOST_READERS - len(self.threads)))

    def _start(self, count: int) -> None:
        self._grown = perf_counter()
        for _ in range(count if not self.closed else 0):
            name = f"dfgen-read-{len(self.threads)}"
            thread = threading.Thread(target=_work, args=(self,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no more: those that there are do
                return
            self.threads.append(thread)

    # For readers

    def next(self) -> FarRead | None:
        """Return what to read now, when there is something; None: nothing ever more."""
        with self._lock:
            while not self.closed:
                read = self._late() or self._first()
                if read is not None:
                    self._begin(read)
                    return read
                self._idle += 1
                self._work.wait(_REST)
                self._idle -= 1
        return None

    def _late(self) -> FarRead | None:
        ahead, now = self._under_way, perf_counter()
        while ahead and (ahead[0].is_unwanted() or ahead[0].found or not ahead[0].running):
            ahead.popleft()
        if not ahead or now - ahead[0].began < self._pace.late:
            return None
        if self.counts["hedges"] > _HEDGES * self.counts["reads"]:
            return None
        self.counts["hedges"] += 1
        return ahead.popleft()

    def _first(self) -> FarRead | None:
        while self._queue and self._queue[0].is_unwanted():
            self._queue.popleft()
        if not self._queue or not self._has_room():
            return None
        read = self._queue.popleft()
        read.began = perf_counter()
        self._under_way.append(read)
        self.counts["reads"] += 1
        return read

    def _has_room(self) -> bool:
        taken = self._held + self.running * self._pace.size
        return not taken or taken + self._pace.size <= self.most

    def _begin(self, read: FarRead) -> None:
        read.running += 1
        self.running += 1

    def again(self, read: FarRead, wait: float) -> bool:
        """Begin the next try of a read after about so many seconds, if anybody wants it then."""
        spread = random.uniform(0.5, 1.5)  # or they come back all at once
        waited(wait * spread, lambda: self.closed or read.is_unwanted())
        with self._lock:
            if self.closed or read.is_unwanted():
                return False
            self._begin(read)
            self.counts["retries"] += 1
            return True

    def end(self, read: FarRead, found: FileRead | None, seconds: float) -> bool:
        """Note how a try has ended; return whether the read needs another one."""
        with self._lock:
            read.running -= 1
            self.running -= 1
            if found is not None:
                self._pace.note(seconds, len(found.data))
                if read.wanted and read.found is None and not self.closed:
                    read.found = found
                    self._held += len(found.data)
            self._done.notify_all()
            return read.found is None and not read.running and not read.is_unwanted()

    def close(self) -> None:
        """End the readers, each when what it reads has come.

        This may run as garbage is collected in a thread that has the lock: then they look in vain
        once more before they end.
        """
        self.closed = True
        if self._lock.acquire(timeout=_PATIENCE):
            try:
                self._queue.clear()
                self._under_way.clear()
                self._work.notify_all()
                self._done.notify_all()
            finally:
                self._lock.release()


def _work(reads: FarReads) -> None:
    while (read := reads.next()) is not None:
        waits = iter(WAITS)
        while _fails_for_now(reads, read):
            wait = next(waits, None)
            if wait is None or not reads.again(read, wait):
                break
        del read  # or the thread would keep the bytes until its next one


def _fails_for_now(reads: FarReads, read: FarRead) -> bool:
    """Try a read once; return whether it is worth another try."""
    began, found, passes = perf_counter(), None, False
    try:
        found = FileRead.by(reads.store, read.path)
    except BaseException as error:  # whoever wants it reads it again, and raises that
        passes = may_pass(error)
    return reads.end(read, found, perf_counter() - began) and passes
