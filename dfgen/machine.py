"""CPUs and memory of this process, its threads, and commands that start others."""

import contextlib
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dfgen.platform_calls import allowed_cpus, physical_memory

_MEMORY_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""Controller of cgroups -> files with a limit and the use, and the key of the unused page cache."""


def python_command(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of a process that runs a module found as in this one."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    return [sys.executable, "-P", "-m", module, *arguments], {**os.environ, "PYTHONPATH": path}


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use: its affinity mask and cgroup quota."""
    cpus = allowed_cpus()
    return max(1, min(cpus, _cgroup_cpus("/sys/fs/cgroup") or cpus))


@contextlib.contextmanager
def threads(number: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads; what has not begun is dropped when it is left, as by Ctrl-C."""
    pool = ThreadPoolExecutor(number)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _cgroup_cpus(folder: str) -> int | None:
    """Return the CPUs of a container's quota, rounded up; cgroup version 2, then 1."""
    try:
        with open(f"{folder}/cpu.max") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        try:
            with open(f"{folder}/cpu/cpu.cfs_quota_us") as file:
                quota = file.read().strip()
            with open(f"{folder}/cpu/cpu.cfs_period_us") as file:
                period = file.read().strip()
        except OSError:
            return None
    if not quota.isdigit() or not period.isdigit() or not int(period):
        return None  # "max" or -1: no limit
    return -(-int(quota) // int(period))


def machine_memory() -> int:
    """Return the bytes of memory that there are for this process, in use or not.

    They are those of its cgroup, if it has fewer; `sys.maxsize` where nobody tells.
    """
    return min([physical_memory(), *(most for most, _ in _cgroup_memory())])


def free_memory() -> int:
    """Return the bytes of memory that this process may still take, on Linux: its cgroups' too."""
    with open("/proc/meminfo") as file:
        facts = dict(line.split(":") for line in file)
    free = int(facts["MemAvailable"].split()[0]) << 10
    return max(0, min([free, *(most - used for most, used in _cgroup_memory())]))


def _cgroup_memory(
    groups: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup"
) -> list[tuple[int, int]]:
    """Return limit and use of the memory of each cgroup around this process.

    Page cache that the system would give up first is not in use.
    """
    found = list[tuple[int, int]]()
    with contextlib.suppress(OSError), open(groups) as file:
        for line in file:
            _, controllers, path = line.strip().split(":", 2)
            name = "memory" if "memory" in controllers.split(",") else controllers
            base = Path(root, name)
            folder = base / path.lstrip("/")
            for group in (folder, *folder.parents) if name in _MEMORY_FILES else ():
                limit, use, cache = _MEMORY_FILES[name]
                with contextlib.suppress(OSError, ValueError, KeyError):  # "max": no limit
                    rows = (group / "memory.stat").read_text().splitlines()
                    stat = dict(row.split() for row in rows)
                    used = int((group / use).read_text()) - int(stat[cache])
                    found.append((int((group / limit).read_text()), used))
                if group == base:
                    break
    return found
