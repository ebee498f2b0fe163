"""CPUs of this process, files written whole or not at all, and checks of arguments."""

import contextlib
import os
import secrets
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, BinaryIO

from dfgen.errors import ArgumentError, WriteError, brief, did_you_mean


def whole(
    name: str, value: object, *, least: int = 0, most: int | None = None, advice: str = ""
) -> int:
    """Return the value as an int, or raise an ArgumentError that says what was expected."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    limits = f"of {least} or more" if most is None else f"from {least} to {most}"
    meant = _as_whole(value)
    if name.isidentifier() and meant is not None and least <= meant <= (most or meant):
        advice = f"write {name}={meant}"
    advice = advice and f": {advice}"
    raise ArgumentError(f"{name}={brief(value)} is not a whole number {limits}{advice}")


def _as_whole(value: Any) -> int | None:
    """Return the whole number that a text or a float is."""
    if isinstance(value, bool) or not isinstance(value, str | Real):
        return None
    try:
        return int(value) if float(value) == int(value) else None  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None


def flag(name: str, value: object, advice: str = "") -> bool:
    """Return True or False for a bool, of NumPy too, or 0 or 1; or raise an ArgumentError."""
    of_numpy = getattr(getattr(value, "dtype", None), "kind", "") == "b"
    if (isinstance(value, Integral) or (of_numpy and not getattr(value, "shape", ()))) and (
        value in (0, 1)
    ):
        return bool(value)
    advice = advice or f"write {name}=True or {name}=False"
    raise ArgumentError(f"{name} must be True or False, got {brief(value)}: {advice}")


def one_of(
    name: str,
    value: object,
    allowed: Iterable[object],
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Refuse a value that is not among the allowed ones; of other libraries' say what it is here.

    Args:
        name: of the argument.
        value: what it was given.
        allowed: texts, or None.
        elsewhere: value in lower case -> one of those, or what to do instead.
    """
    allowed = tuple(allowed)
    if (value is None or isinstance(value, str)) and value in allowed:
        return
    word = str(getattr(value, "__name__", value)).strip().lower()
    meant = word if word in allowed else elsewhere.get(word, "")
    advice = f': write {name}="{meant}"' if meant in allowed else meant and f": {meant}"
    near = did_you_mean(word, [one for one in allowed if isinstance(one, str)])
    advice = advice or (near and f".{near}")
    raise ArgumentError(f"{name} must be one of {allowed}, got {brief(value)}{advice}")


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
