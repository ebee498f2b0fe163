"""Reads that failed for no fault of their file: tried again after a while, then raised."""

import errno
import os
import time
from collections.abc import Callable

import numpy as np

from dfgen.errors import (
    MissingFileError,
    ReadError,
    is_outside,
    may_pass,
    reason,
)
from dfgen.loading.metrics import IDLE
from dfgen.samples.reader import SampleReader
from dfgen.spec import Watch
from dfgen.stores.stores import has_store, scheme_of

WAITS = (0.1, 0.4, 1.2, 2.4)
"""Seconds before each further try: about those that a network drive takes to come back."""

_SLICE = 0.05  # seconds after which a worker that waits looks whether anybody wants its row

_NEAR, _SPREAD = 4, 60  # other rows that are looked at: on each side of one, and among all

_DESCRIPTORS = "have more files open, ulimit -n 65536, or fewer workers"
_MEMORY = "give the process more memory, or make workers, max_queue_size or batch_size smaller"
_DISK = "look after the disk or the network (dmesg tells more), then train on from the last backup"
_FOLDER = "mount or restore the folder, then train on from the last backup, or correct the paths"
_ADVICE = {errno.EMFILE: _DESCRIPTORS, errno.ENFILE: _DESCRIPTORS, errno.ENOMEM: _MEMORY}


def read_again(
    read: Callable[[], None],
    error: Exception,
    reader: SampleReader,
    row: int,
    watch: Watch,
    cancelled: Callable[[], bool],
) -> None:
    """Try the read of a row again after each of `WAITS`, where its file is not at fault.

    That is memory, descriptors, the disk and the network; and a file that is not there, nor is the
    folder that it was in, or what else it held, so that others are gone with it, or that is there
    again by now. A folder of one row alone is gone with that, and its row is a bad one.

    Args:
        read: the row, from its beginning.
        error: what the first try raised.
        reader: knows the paths of the row.
        row: which.
        watch: is told that nothing is done while it waits.
        cancelled: whether nobody wants the row any more; then what the last try raised is raised.

    Raises:
        ReadError: no try has helped. It names what failed, how often, and what to do.
        Exception: what is the fault of the file or of a program, as it was.
    """
    began = time.monotonic()
    try:
        for wait in WAITS:
            if not _is_worth_it(error, reader, row):
                raise error
            watch(IDLE)
            if not waited(wait, cancelled):
                raise error
            try:
                return read()
            except Exception as again:
                error = again
        if not _is_worth_it(error, reader, row):
            raise error
        spent = time.monotonic() - began
        raise _failed(error, reader, row, spent) from error
    finally:
        del error  # its traceback knows this frame: a circle, otherwise


def _failed(error: Exception, reader: SampleReader, row: int, spent: float) -> ReadError:
    return ReadError(
        f"{_told(error, reader, row)}; tried {len(WAITS) + 1} times in {spent:.1f} seconds. "
        f'That is no fault of the row, which on_error="skip" would skip: {_advice(error)}'
    )


def _is_worth_it(error: Exception, reader: SampleReader, row: int) -> bool:
    if not isinstance(error, MissingFileError):
        return may_pass(error)
    if _gone_folder(reader, row) is not None:
        return True
    loose = _loose(reader, row)  # looked for after their folder, which may come back meanwhile
    return all(map(os.path.exists, loose)) and len(loose) == len([*reader.paths(row)])


def waited(seconds: float, cancelled: Callable[[], bool]) -> bool:
    """Wait; False where nobody wants to wait any more."""
    end = time.monotonic() + seconds
    while not cancelled():
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, _SLICE))
    return False


def _gone_folder(reader: SampleReader, row: int) -> str | None:
    """Return the first folder of the row's files that is gone or empty, and not for it alone."""
    folders = (os.path.dirname(path) or "." for path in _loose(reader, row))
    gone = (folder for folder in folders if not _holds_something(folder))
    return next((folder for folder in gone if _others_are_gone(reader, row, folder)), None)


def _holds_something(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is not None
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        return not is_outside(error)


def _others_are_gone(reader: SampleReader, row: int, folder: str) -> bool:
    """Whether of a handful of other rows a file was there too, or none of their files is there."""
    while not os.path.lexists(above := os.path.dirname(folder) or "."):
        folder = above
    near = range(max(0, row - _NEAR), min(len(reader), row + _NEAR + 1))
    others = {*near, *np.linspace(0, len(reader) - 1, _SPREAD, dtype=int).tolist()} - {row}
    paths = [path for other in sorted(others) for path in _loose(reader, other)]
    below = os.path.join(folder, "")
    return any(path.startswith(below) for path in paths) or not any(map(os.path.exists, paths))


def _loose(reader: SampleReader, row: int) -> list[str]:
    """Return the paths of a row's files, as they are read; none of those that have an address."""
    paths = [path for _, path in reader.paths(row) if not has_store(scheme_of(path))]
    return [os.path.join(reader.store.folder, path) for path in paths]


def _told(error: Exception, reader: SampleReader, row: int) -> str:
    if isinstance(error, MissingFileError):
        folder = _gone_folder(reader, row)
        if folder and os.path.isdir(folder):
            return f"{error}, and its folder {folder!r} is empty"
        return f"{error}, nor does its folder {folder!r}" if folder else str(error)
    if isinstance(error, ReadError):
        return str(error)
    return f"{reader.where(row)}: out of memory: {reason(error)}"


def _advice(error: Exception) -> str:
    if isinstance(error, MissingFileError):
        return _FOLDER
    if not isinstance(error, ReadError):
        return _MEMORY
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    return _ADVICE.get(getattr(cause, "errno", None) or 0, _DISK)
