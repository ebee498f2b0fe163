"""Locks on what is being written. They end with their process, even if it is killed."""

import contextlib
import errno
import os
import platform

import filelock

from dfgen.errors import WriteError, reason, warn

LOCK_SUFFIX = ".dfgen-lock"
"""How the names of lock files end."""

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}  # of network drives without locks


class FileLock:
    """A lock on a folder, or on a file that will be written.

    Args:
        path: the lock file. It is created, and deleted by `release`.
        what: what is locked, for messages: "pets.parquet is being written".
        advice: what to do if another process has the lock.
        shared: whether objects of this process with the same path share the lock.

    Example:
        >>> with FileLock("x.dfgen-lock", "x is in use", "wait"):  # doctest: +SKIP
        ...     write("x")
    """

    def __init__(self, path: str, what: str, advice: str, shared: bool = False) -> None:
        self._arguments = path, what, advice, shared
        self._lock = filelock.FileLock(path, timeout=0, thread_local=False, is_singleton=shared)

    def __reduce__(self) -> tuple[type["FileLock"], tuple[str, str, str, bool]]:
        return FileLock, self._arguments  # a copy is not locked, unless it shares the lock

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock, or raise a WriteError if another process or object has it."""
        path, what, advice, _ = self._arguments
        holder = ""
        try:
            with contextlib.suppress(FileNotFoundError), open(path) as file:
                holder = file.read(200)
            self._lock.acquire()
            with open(path, "w") as file:
                file.write(f"process {os.getpid()} on {platform.node()}")
        except filelock.Timeout:
            raise WriteError(f"{what} by {holder or 'another process'}: {advice}") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise WriteError(f"{path} cannot be locked: {reason(error)}") from error
            warn(f"{path} cannot be locked: {reason(error)}. Start one process at a time")

    def release(self) -> None:
        """Delete the lock file and give the lock back."""
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                os.unlink(self._arguments[0])
            self._lock.release(force=True)
