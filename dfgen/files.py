"""Files that are written whole or not at all, and locks on what is being written."""

import contextlib
import errno
import glob
import os
import platform
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import IO, BinaryIO

import filelock

from dfgen.errors import DfgenError, WriteError, reason, warn
from dfgen.machine import flush_folder

LOCK_SUFFIX = ".dfgen-lock"
"""How the names of lock files end."""

_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP}  # of network drives without locks
_NAME = 50  # characters of a name that its temporary file and its lock repeat: at most 200 bytes
_FORCE = ContextVar("_FORCE", default=False)


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write a file under a temporary name, flush it, and rename it to an absolute `path`.

    If that fails, the old file is unchanged. The new file has the mode of the old one. For a
    symbolic link the file that it points to is replaced.
    """
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name[:_NAME]}.{secrets.token_hex(4)}.tmp")
    try:
        _check_kind(path)
        with open(temporary, "xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if not isinstance(error, OSError) or isinstance(error, DfgenError):
            raise
        raise WriteError(f"{path} cannot be written: {error}. Nothing was changed") from error
    flush_folder(folder)


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
        self._path, self._what, self._advice = path, what, advice
        self._lock = filelock.FileLock(path, timeout=0, thread_local=False, is_singleton=shared)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock, or raise a WriteError if another process or object has it."""
        path, holder = self._path, "another process"
        try:
            with contextlib.suppress(FileNotFoundError), open(path) as file:
                holder = file.read(200) or holder
            self._lock.acquire()
            with open(path, "w") as file:
                file.write(f"process {os.getpid()} on {platform.node()}")
        except filelock.Timeout:
            raise WriteError(f"{self._what} by {holder}: {self._advice}") from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise WriteError(f"{path} cannot be locked: {reason(error)}") from error
            warn(f"{path} cannot be locked: {reason(error)}. Start one process at a time")

    def release(self) -> None:
        """Delete the lock file and give the lock back."""
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self._lock.release(force=True)


@contextlib.contextmanager
def only_writer(path: str) -> Iterator[None]:
    """Raise a WriteError if another process or thread writes to a path with this function.

    Temporary files of killed writers are removed.
    """
    folder, name = os.path.split(os.path.realpath(path))
    hidden = os.path.join(folder, f".{name[:_NAME]}")
    advice = "wait until that has ended, or choose another place"
    with FileLock(hidden + LOCK_SUFFIX, f"{path} is being written", advice):
        for temporary in glob.glob(f"{glob.escape(hidden)}.{'[0-9a-f]' * 8}.tmp"):
            os.unlink(temporary)
        yield


def check_writable(path: str) -> None:
    """Raise a WriteError if the file `path` cannot be created in its folder."""
    _check_kind(path)
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise WriteError(f"{path} cannot be written: there is no folder {folder}. Create it first")
    if not os.access(folder, os.W_OK):
        raise WriteError(f"{path} cannot be written: no permission to write into {folder}")


def _check_kind(path: str) -> None:
    if os.path.exists(path) and not os.path.isfile(path):
        kind = "folder" if os.path.isdir(path) else "device or pipe"
        raise WriteError(f"{path} is a {kind}: give the name of a file, such as pets.parquet")


@contextlib.contextmanager
def overwriting() -> Iterator[None]:
    """Allow files of any kind to be replaced in this context, as `--force` does."""
    token = _FORCE.set(True)
    try:
        yield
    finally:
        _FORCE.reset(token)


def refuse_others(
    path: str,
    kind: str,
    is_own: Callable[[IO[bytes]], bool],
    opened: Callable[[str], IO[bytes]] = lambda path: open(path, "rb"),  # noqa: SIM115
) -> None:
    """Raise a WriteError if a file exists that is neither empty nor of the kind to be written.

    Args:
        path: the file that would be replaced.
        kind: what will be written, for the message.
        is_own: whether the content is of that kind. A ValueError counts as no.
        opened: opens the file, or raises a FileNotFoundError.
    """
    try:
        with opened(path) as file:
            may_go = _FORCE.get() or not file.read(1) or file.seek(0) or is_own(file)
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        may_go = _FORCE.get()
    if not may_go:
        raise WriteError(
            f"{path} already exists, and is no {kind}: it would be lost. Choose another place, or "
            "remove it first; commands replace it with --force"
        )
