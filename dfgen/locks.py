"""Locks that end with the process that holds them, however that ends: flock.

The kernel keeps the account of who holds one, not the existence of a file: a process that was
killed holds nothing, and the file that stands for a lock may lie there for ever. Between the
machines of a network drive they hold as far as it has them: NFS does, unless it is mounted with
`nolock` or `local_lock=flock`. Windows has no flock: there nothing is locked.
"""

import contextlib
import os
import platform
import warnings
import weakref
from collections.abc import Callable

from dfgen.errors import WriteError
from dfgen.platform_calls import HAS_LOCKS, after_fork, flock

LOCK_SUFFIX = ".dfgen-lock"
"""How the files end that stand for locks."""


def lock(file: int, wait: bool = False) -> bool | None:
    """Lock an open file; True: it is this process's, False: another's, None: nothing locks it here.

    It is locked until its descriptor and all copies of that are closed.
    """
    try:
        flock(file, wait)
    except BlockingIOError:
        return False
    except OSError:  # such as ENOLCK, of a network drive without locks; and on Windows
        return None
    return True


def is_at(file: int, path: str) -> bool:
    """Return whether an open file is the one at a path, and not one that stood there before."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False


class FileLock:
    """A lock on what a path stands for, such as a folder or a file that is to be written.

    A child that forks does not hold it, and a copy holds nothing.

    Args:
        path: of the file that is locked; made, and deleted by `release`.
        what: what is whose, such as "pets.parquet is being written", for the WriteError where
            another process holds the lock.
        advice: what to do then.
        of_process: whether this process may take it again while it still holds it, as after a
            `fit` that failed, which some traceback keeps alive.

    Example:
        >>> lock = FileLock("x.dfgen-lock", "x is in use", "wait")  # doctest: +SKIP
        >>> with lock:  # doctest: +SKIP
        ...     write("x")
    """

    def __init__(self, path: str, what: str, advice: str, of_process: bool = False) -> None:
        self._path, self._what, self._advice, self._of_process = path, what, advice, of_process
        self._held: weakref.finalize[..., FileLock] | None = None
        after_fork(_letting_go(weakref.ref(self)))

    def __reduce__(self) -> tuple[type["FileLock"], tuple[str, str, str, bool]]:
        return FileLock, (self._path, self._what, self._advice, self._of_process)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock, if it is not held already."""
        while self._held is None and HAS_LOCKS:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise WriteError(f"{self._path} cannot be made: {error.strerror}") from error
            held = lock(file)
            if held is False:
                file = self._again(file)
            elif held is None:
                warnings.warn(
                    f"{self._path} cannot be locked, for its file system has no locks: see to it "
                    "that no other process writes there at the same time",
                    stacklevel=2,
                )
            if is_at(file, self._path):
                _sign(file)
                self._held = weakref.finalize(self, os.close, file)
            else:  # deleted in between by who held it
                os.close(file)

    def release(self) -> None:
        """Let it go, if it is held, and delete its file."""
        if self._held is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            self.let_go()

    def let_go(self) -> None:
        """Let it go, as does the end of the process."""
        if self._held is not None:
            self._held()
            self._held = None

    def _again(self, file: int) -> int:
        """Return another descriptor of a lock that this process holds already, or refuse."""
        holder = os.pread(file, 200, 0).decode(errors="replace") or "another process"
        for name in os.listdir("/dev/fd") if self._of_process else ():
            other = int(name)
            with contextlib.suppress(OSError):  # that of the listing itself
                same = os.path.samestat(os.fstat(other), os.fstat(file))
                if same and other != file and lock(other):
                    os.close(file)
                    return os.dup(other)
        os.close(file)
        raise WriteError(f"{self._what} by {holder}: {self._advice}")


def _sign(file: int) -> None:
    """Write into a locked file who holds it; that it cannot be written does not matter."""
    with contextlib.suppress(OSError):
        os.ftruncate(file, 0)
        os.pwrite(file, f"process {os.getpid()} on {platform.node()}".encode(), 0)


def _letting_go(reference: "weakref.ref[FileLock]") -> Callable[[], None]:
    def let_go() -> None:
        if (held := reference()) is not None:
            held.let_go()

    return let_go
