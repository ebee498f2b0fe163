"""CPUs of this process, files written whole or not at all, and checks of arguments."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable
from numbers import Integral
from typing import BinaryIO

from dfgen.errors import ArgumentError, WriteError


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


def check_writable(path: str) -> None:
    """Raise a WriteError if the file `path` cannot be made for want of its folder."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise WriteError(f"{path} is a folder: give the name of a file, such as pets.parquet")
    if not os.path.isdir(folder):
        what = "is a file" if os.path.exists(folder) else "does not exist"
        raise WriteError(
            f"{path} cannot be written: its folder {folder} {what}. "
            "Create the folder first, or choose another place"
        )
    if not os.access(folder, os.W_OK):
        raise WriteError(
            f"{path} cannot be written: no permission to write into {folder}. "
            "Change the permission, or choose another place"
        )


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Have a file written beside an absolute `path`, flush it, rename it, and flush the folder.

    Where it cannot be written, what was there stays.
    """
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(beside, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        if isinstance(error, OSError):
            raise WriteError(f"{path} cannot be written: {error}. Nothing was changed") from error
        raise
    try:
        if os.name == "posix":  # others cannot open a folder
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
    except OSError as error:
        raise WriteError(
            f"{path} was written, but its folder could not be flushed to the disk: {error}. "
            "After a loss of power it may be missing, or be what it was before: write it again"
        ) from error
