"""Retries of reads that failed for want of a disk, of descriptors or of memory."""

import errno
import time
from collections.abc import Callable

from dfgen.errors import DfgenError, ReadError, is_outside, reason
from dfgen.loading.metrics import IDLE
from dfgen.spec import Watch

WAITS = (0.1, 0.4, 1.2, 2.4)
"""Seconds before each retry. Network drives usually come back within their sum."""

_SLICE = 0.05  # seconds between two looks at whether the row is still wanted

_DISK = "check the disk or the network (dmesg tells more), then resume from the last backup"
_FILES = "allow more open files, as by ulimit -n 65536, or use fewer workers"
_MEMORY = "give the process more memory, or make workers, max_queue_size or batch_size smaller"
_ADVICE = {
    errno.EIO: _DISK,
    errno.ESTALE: _DISK,
    errno.EMFILE: _FILES,
    errno.ENFILE: _FILES,
    errno.ENOMEM: _MEMORY,
}


def retry(
    read: Callable[[], None],
    error: Exception,
    where: Callable[[], str],
    watch: Watch,
    cancelled: Callable[[], bool],
) -> None:
    """Repeat a failed read after each of `WAITS` while its error is one of `_ADVICE`.

    A missing or corrupt file, and a server that obstore has retried, are not retried.

    Args:
        read: reads the row.
        error: of the first try.
        where: returns the id and paths of the row.
        watch: callback for timing; waiting is idle.
        cancelled: whether the row is no longer wanted.

    Raises:
        ReadError: no retry has helped.
        Exception: an error that is not retried.
    """
    start = time.monotonic()
    try:
        for seconds in WAITS:
            if _errno(error) is None:
                raise error
            watch(IDLE)
            if not waited(seconds, cancelled):
                raise error
            try:
                return read()
            except Exception as another:
                error = another
        if (number := _errno(error)) is None:
            raise error
        message = str(error)
        if not isinstance(error, ReadError):
            message = f"{where()}: out of memory: {reason(error)}"
        raise ReadError(
            f"{message}; tried {len(WAITS) + 1} times in {time.monotonic() - start:.1f} seconds. "
            f'The file is not at fault, so on_error="skip" does not skip its row: {_ADVICE[number]}'
        ) from error
    finally:
        del error  # its traceback refers to this frame


def _errno(error: BaseException) -> int | None:
    """Return the errno of an error that is worth a retry, else None."""
    if not is_outside(error):
        return None
    while isinstance(error, DfgenError) and error.__cause__ is not None:
        error = error.__cause__
    number = error.errno if isinstance(error, OSError) else errno.ENOMEM  # as decoders report it
    return number if number in _ADVICE else None


def waited(seconds: float, cancelled: Callable[[], bool]) -> bool:
    """Wait; return False as soon as `cancelled` returns True."""
    end = time.monotonic() + seconds
    while not cancelled():
        if time.monotonic() >= end:
            return True
        time.sleep(_SLICE)
    return False
