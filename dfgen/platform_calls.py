"""Calls that not every system has, each with what stands in for it where it is missing.

Linux has all. macOS lacks `memfd_create`, `posix_fallocate`, `posix_fadvise`, `sched_getaffinity`,
`RWF_NOWAIT` and `prctl`. Windows lacks these and `fcntl`, `pread`, `pwrite`, `madvise`, `fchown`,
`sysconf`, signal masks, forks, and folders that can be opened; SIGTERM ends a process there at
once, noticed by nobody. No other module asks which system it is on, but for how paths are written.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from types import ModuleType

_fcntl: ModuleType | None = None
with contextlib.suppress(ImportError):
    import fcntl as _fcntl

IS_WINDOWS = sys.platform == "win32"
"""Whether worker processes and caches are refused: a child inherits no descriptor there."""

HAS_LOCKS = _fcntl is not None
"""Whether a file can be locked, as far as its file system has locks."""

HAS_MEMORY_FILES = hasattr(os, "memfd_create")
"""Whether there are files in memory, which other processes open by their path in /proc."""

CAN_READ_AHEAD = hasattr(os, "posix_fadvise")
"""Whether the system can be told what of a file will be read, and what was written for good."""

STARTS_PROCESSES_ALONE = sys.platform == "linux"
"""Whether dfgen may try worker processes that nobody asked for: where it was measured to pay."""

READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)
"""Flags that open a file to read its bytes as they are."""

_PR_SET_PDEATHSIG = 1
_STEP = 1 << 17  # Linux reads no more for one call than its read-ahead is long, 128 KiB mostly
_STRETCH = 1 << 23  # bytes of which the first and the last tell whether all are in the cache


def flock(file: int, wait: bool) -> None:
    """Lock an open file until its descriptor and all copies of that are closed.

    Raises:
        BlockingIOError: another one has locked it.
        OSError: nothing locks it here.
    """
    if _fcntl is None:
        raise OSError("there are no locks")
    _fcntl.flock(file, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))


def allowed_cpus() -> int:
    """Return the number of CPUs that this process may run on, of all where nobody tells."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def physical_memory() -> int:
    """Return the bytes of memory of this machine; `sys.maxsize` where nobody tells."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def memory_file(name: str) -> int:
    """Return a file in memory, where there are such; gone with the last that has it open."""
    return os.memfd_create(name)


def inherited(handle: int) -> int:
    """Return a descriptor that a child may inherit: 0 to 2 are its own, and may be closed here."""
    if handle > 2 or _fcntl is None:
        return handle
    found: int = _fcntl.fcntl(handle, _fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(handle)
    return found


def reserve(file: int, start: int, nbytes: int) -> None:
    """Make a file longer by bytes that are there; by a hole, where they cannot be reserved."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, nbytes)
    else:
        os.ftruncate(file, start + nbytes)


def read_at(file: int, nbytes: int, start: int, turns: Lock) -> bytes:
    """Return bytes from a place of a file that many threads read, in turns where they move it."""
    if hasattr(os, "pread"):
        return os.pread(file, nbytes, start)
    with turns:
        os.lseek(file, start, os.SEEK_SET)
        return os.read(file, nbytes)


def read_ahead(path: str, extents: Iterable[tuple[int, int]]) -> None:
    """Have the system read (start, length) of a file into its cache, without waiting, if it can."""
    if not CAN_READ_AHEAD:
        return
    file = os.open(path, os.O_RDONLY)
    try:
        for start, length in extents:
            for stretch in range(start, start + length, _STRETCH):
                stop = min(stretch + _STRETCH, start + length)
                if not _is_cached(file, stretch, stop - 1):
                    for at in range(stretch, stop, _STEP):
                        os.posix_fadvise(file, at, min(_STEP, stop - at), os.POSIX_FADV_WILLNEED)
    finally:
        os.close(file)


def _is_cached(file: int, *places: int) -> bool:
    """Return whether bytes of a file are in the system's cache; False where it cannot be told."""
    if not hasattr(os, "RWF_NOWAIT"):
        return False
    try:
        return all(os.preadv(file, [bytearray(1)], at, os.RWF_NOWAIT) for at in places)
    except OSError:  # it is not there, or the file system cannot tell
        return False


def replace_open(beside: str, path: str) -> bool:
    """Give a file that is open, and locked, its name; False where it must be closed before."""
    if os.name == "posix":
        os.replace(beside, path)
    return os.name == "posix"


def give_owner(file: int, owner: int, group: int) -> None:
    """Give a file an owner and a group, each as far as that is allowed."""
    if hasattr(os, "fchown"):
        for user, users in ((owner, -1), (-1, group)):
            with contextlib.suppress(OSError):
                os.fchown(file, user, users)


def flush_folder(folder: str) -> None:
    """Write to its disk which files a folder has, where folders can be opened."""
    if os.name != "posix":
        return
    with interrupts_blocked(signal.SIGTERM):  # one to this thread would leave the folder open
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def after_fork(call: Callable[[], object]) -> None:
    """Have something called in each child that is forked, where processes fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def end_with_parent() -> None:
    """Have Linux end this process with the thread that started it, busy as it may be."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def interrupts_blocked(*others: int) -> Iterator[None]:
    """Block SIGINT, and other signals, in this thread, and so in a process that it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *others})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
