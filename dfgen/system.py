"""CPUs of this process, and checks of arguments."""

import os
from collections.abc import Iterable
from numbers import Integral

from dfgen.errors import ArgumentError


def whole(name: str, value: object, *, least: int = 0, most: int | None = None) -> int:
    """Return the value as an int, or raise an ArgumentError that says what was expected."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    limits = f"of {least} or more" if most is None else f"from {least} to {most}"
    raise ArgumentError(f"{name}={value!r} is not a whole number {limits}")


def one_of(name: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse a value that is not among the allowed ones."""
    if value not in tuple(allowed):
        raise ArgumentError(f"{name} must be one of {tuple(allowed)}, got {value!r}")


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use: its affinity mask and cgroup quota."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    cpus = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(cpus, _cgroup_cpus("/sys/fs/cgroup") or cpus))


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
