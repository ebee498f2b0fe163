"""CPUs and memory of this process, its threads, and commands that start others."""

import contextlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dfgen.platform_calls import allowed_cpus, physical_memory

_GROUPS, _ROOT = "/proc/self/cgroup", "/sys/fs/cgroup"
_MEMORY_FILES = {
    2: ("memory.max", "memory.current", "inactive_file"),
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Version of cgroups -> files of the limit and the use, and the key of the unused page cache."""


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
    cpus = allowed_cpus()
    for version, folder in _cgroups("cpu"):
        names = ["cpu.max"] if version == 2 else ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            quota, period = " ".join((folder / name).read_text() for name in names).split()
            cpus = min(cpus, -(-int(quota) // int(period)) if int(quota) > 0 else cpus)
    return max(1, cpus)


def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of this process's cgroup if that has less."""
    return min([physical_memory(), *(limit for limit, _ in _cgroup_memory())])


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
