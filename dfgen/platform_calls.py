"""System calls that Linux has and macOS or Windows lack, with their replacements.

macOS lacks `memfd_create`, `posix_fallocate`, `posix_fadvise`, `sched_getaffinity` and
`prctl`. Windows also lacks `fcntl`, `pread`, `sysconf`, signal masks, and folders that can be
opened. No other module asks which system it runs on, except for how paths are written.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from threading import Lock
from types import ModuleType

_fcntl: ModuleType | None = None
with contextlib.suppress(ImportError):
    import fcntl as _fcntl

IS_WINDOWS = sys.platform == "win32"
"""Whether worker processes and caches are rejected: a child inherits no descriptor there."""

HAS_MEMORY_FILES = hasattr(os, "memfd_create")
"""Whether there are files in memory, which other processes open by their path in /proc."""

CAN_READ_AHEAD = hasattr(os, "posix_fadvise")
"""Whether the system accepts hints on which parts of a file will be read."""

STARTS_PROCESSES_ALONE = sys.platform == "linux"
"""Whether dfgen may try worker processes automatically: only where that was measured to pay."""

READING = os.O_RDONLY | getattr(os, "O_BINARY", 0)
"""Flags that open a file to read its bytes without translation."""

_PR_SET_PDEATHSIG = 1
_STEP = 1 << 17  # Linux reads at most its read-ahead per call, usually 128 KiB


def flock(file: int) -> None:
    """Wait for the lock of an open file, and keep it until all its descriptors are closed.

    Raises:
        OSError: the file system has no locks.
    """
    if _fcntl is None:
        raise OSError("there are no locks")
    _fcntl.flock(file, _fcntl.LOCK_EX)


def allowed_cpus() -> int:
    """Return the number of CPUs that this process may run on, or all if that is unknown."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def physical_memory() -> int:
    """Return the bytes of memory of this machine, or `sys.maxsize` if that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


def memory_file(name: str) -> int:
    """Return a file in memory. It ends with its last descriptor."""
    return os.memfd_create(name)


def inherited(handle: int) -> int:
    """Return a descriptor above 2 in place of one that a child process would use as its own."""
    if handle > 2:
        return handle
    higher = inherited(os.dup(handle))
    os.close(handle)
    return higher


def reserve(file: int, start: int, nbytes: int) -> None:
    """Make a file longer by reserved bytes, or by a hole if they cannot be reserved."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, nbytes)
    else:
        os.ftruncate(file, start + nbytes)


def read_at(file: int, nbytes: int, start: int, turns: Lock) -> bytes:
    """Return bytes at an offset of a file that several threads read."""
    if hasattr(os, "pread"):
        return os.pread(file, nbytes, start)
    with turns:
        os.lseek(file, start, os.SEEK_SET)
        return os.read(file, nbytes)


def read_ahead(path: str, extents: Iterable[tuple[int, int]]) -> None:
    """Ask the system to read (start, length) of a file into its cache, without waiting."""
    if not CAN_READ_AHEAD:
        return
    file = os.open(path, os.O_RDONLY)
    try:
        for start, length in extents:
            for at in range(start, start + length, _STEP):
                size = min(_STEP, start + length - at)
                os.posix_fadvise(file, at, size, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(file)


def flush_folder(folder: str) -> None:
    """Flush the file names of a folder to its disk, if the file system can do that."""
    if os.name == "posix":
        with interrupts_blocked(signal.SIGTERM), contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def end_with_parent() -> None:
    """Let Linux kill this process when the thread that started it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def interrupts_blocked(*others: int) -> Iterator[None]:
    """Block SIGINT and other signals in this thread, and so in a process that it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *others})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
