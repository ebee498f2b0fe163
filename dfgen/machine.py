"""The machine: its system calls, CPUs, memory, and threads.

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
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
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

_GROUPS, _ROOT = "/proc/self/cgroup", "/sys/fs/cgroup"
_MEMORY_FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Version of cgroups -> files of the limit and the use, and the key of the unused page cache."""

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


def python_command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of a process that runs a module of this process's path."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return [sys.executable, "-P", "-m", module, *arguments], {**os.environ, "PYTHONPATH": path}


@contextlib.contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads. Tasks that have not started at the end are cancelled."""
    pool = ThreadPoolExecutor(number)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use: its affinity mask and cgroup quotas."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    for version, folder in _cgroups("cpu"):
        names = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            quota, period = " ".join((folder / name).read_text() for name in names).split()
            cpus = min(cpus, -(-int(quota) // int(period)) if int(quota) > 0 else cpus)
    return max(1, cpus)


@cache
def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of this process's cgroup if that has less.

    `sys.maxsize` if nothing is known. It is read once in a process.
    """
    memory = sys.maxsize
    with contextlib.suppress(AttributeError, OSError, ValueError):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([memory, *(limit for limit, _ in _cgroup_memory())])


def free_memory() -> int:
    """Return the bytes of memory that this process may still use, on Linux."""
    with open("/proc/meminfo") as file:
        facts = dict(line.split(":") for line in file)
    free = int(facts["MemAvailable"].split()[0]) << 10
    return max(0, min([free, *(limit - used for limit, used in _cgroup_memory())]))


def _cgroup_memory() -> Iterator[tuple[int, int]]:
    """Yield limit and use of memory of each cgroup. Page cache that can be dropped is not used."""
    for version, folder in _cgroups("memory"):
        limit, use, cache = _MEMORY_FILES[version]
        with contextlib.suppress(OSError, ValueError, KeyError):  # "max": no limit
            stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
            used = int((folder / use).read_text()) - int(stat[cache])
            yield int((folder / limit).read_text()), used


def _cgroups(controller: str) -> Iterator[tuple[int, Path]]:
    """Yield version and folder of each cgroup around this process, inner ones first."""
    with contextlib.suppress(OSError), open(_GROUPS) as file:
        for line in file:
            _, controllers, path = line.strip().split(":", 2)
            if not controllers or controller in controllers.split(","):
                base = Path(_ROOT, controllers and controller)
                folder = base / path.lstrip("/")
                for group in (folder, *folder.parents):
                    yield (1 if controllers else 2), group
                    if group == base:
                        break
