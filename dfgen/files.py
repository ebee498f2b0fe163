"""Files that are written whole or not at all."""

import contextlib
import io
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import IO, BinaryIO

from dfgen.errors import DfgenError, WriteError
from dfgen.locks import LOCK_SUFFIX, FileLock, is_at, lock
from dfgen.platform_calls import flush_folder, give_owner, replace_open

NFS_NAME = ".nfs"
"""How a network drive names a file that is removed while somebody has it open, until that ends."""

_NAME = 50  # characters of a name that stand in the name of a file beside it: at most 200 bytes
_REPLACES = ContextVar("_REPLACES", default=False)
_STANDARD = {"stdout": 1, "stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev/(stdout|stderr)|(?:dev|proc/self)/fd/([0-9]+))")


def check_writable(path: str) -> None:
    """Raise a WriteError if the file `path` cannot be made for want of its folder."""
    if os.path.isdir(path):
        raise WriteError(f"{path} is a folder: give the name of a file, such as pets.parquet")
    if is_special(path):
        return
    folder = os.path.dirname(os.path.realpath(path))
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


@contextlib.contextmanager
def overwriting() -> Iterator[None]:
    """Let files of any kind be replaced in this context: what `--force` asks for."""
    token = _REPLACES.set(True)
    try:
        yield
    finally:
        _REPLACES.reset(token)


def refuse_others(
    path: str,
    kind: str,
    is_own: Callable[[IO[bytes]], bool],
    opened: Callable[[str], IO[bytes]] = lambda path: open(path, "rb"),  # noqa: SIM115
) -> None:
    """Raise a WriteError if there is a file of another kind; one without a byte is of any.

    Args:
        path: which will be replaced.
        kind: what will be written, as the message calls it.
        is_own: tells by the content whether a file is of that kind; a ValueError says no.
        opened: opens it; raises a FileNotFoundError if there is none.
    """
    if _REPLACES.get() or is_special(path):
        return
    with contextlib.suppress(OSError, ValueError):
        try:
            file = opened(path)
        except FileNotFoundError:
            return
        with file:
            if not file.read(1) or file.seek(0) or is_own(file):
                return
    raise WriteError(
        f"{path} is there already, and is no {kind}: it would be lost. Choose another place, or "
        "remove it first; commands replace it with --force"
    )


def write_whole(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Have a file written beside an absolute `path`, flush it, rename it, and flush the folder.

    If it cannot be written, what was there stays. For a symbolic link the file that it points to
    is replaced. The new file has the mode of the old one, and its owner and group where the process
    may give them. A device or a pipe, such as /dev/stdout, is written to, all at once.

    Remains of a killed process beside `path` are removed. Whether its writer lives tells a lock;
    where there are no locks (`dfgen.locks`), it stays.
    """
    target = path if is_special(path) else os.path.realpath(path)
    folder, name = os.path.split(target)
    try:
        if is_special(path):
            _write_into(path, write)
            return
        _remove_dead(folder, name)
        _replace(target, write, *_made_beside(folder, name))
    except DfgenError:  # of what was to be written
        raise
    except OSError as error:
        changed = (
            "The bytes written so far are there" if is_special(path) else "Nothing was changed"
        )
        raise WriteError(f"{path} cannot be written: {error}. {changed}") from error
    _flush_folder(path, folder)


def only_writer(path: str) -> contextlib.AbstractContextManager[object]:
    """Return a context in which no other process, nor thread, that asks for it writes to a path.

    Raises:
        WriteError: another one is in it.
    """
    if is_special(path):
        return contextlib.nullcontext()
    folder, name = os.path.split(os.path.realpath(path))
    advice = "wait until that has ended, or choose another place"
    beside = os.path.join(folder, f".{name[:_NAME]}{LOCK_SUFFIX}")
    return FileLock(beside, f"{path} is being written", advice)


def is_special(path: str) -> bool:
    """Return whether a path is that of a device, a pipe or an open descriptor, and of no file."""
    if _DESCRIPTOR.fullmatch(path):
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write_into(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write to what is no file, and may have no place to go back to, once all is made."""
    made = io.BytesIO()
    write(made)
    found = _DESCRIPTOR.fullmatch(path)
    number = found and int(found[2] or _STANDARD[found[1]])
    with open(path if number is None else os.dup(number), "wb") as file:
        file.write(made.getbuffer())


def _made_beside(folder: str, name: str) -> tuple[str, BinaryIO]:
    """Return a new file for what will be called so, locked, and its path."""
    while True:
        path = os.path.join(folder, f".{name[:_NAME]}.{secrets.token_hex(4)}.tmp")
        file = open(path, "xb")  # noqa: SIM115 - whoever asked for it closes it
        lock(file.fileno(), wait=True)
        if is_at(file.fileno(), path):
            return path, file
        file.close()  # removed before it was locked, as one that nobody writes any more


def _remove_dead(folder: str, name: str) -> None:
    """Remove what was begun for a file of this name by processes that are no more."""
    begun = re.compile(rf"\.{re.escape(name[:_NAME])}\.[0-9a-f]{{8}}\.tmp")
    for found in filter(begun.fullmatch, os.listdir(folder)):
        path = os.path.join(folder, found)
        with contextlib.suppress(OSError), open(path, "r+b") as file:  # or another user's, or gone
            if lock(file.fileno()):
                os.unlink(path)


def _replace(path: str, write: Callable[[BinaryIO], object], beside: str, file: BinaryIO) -> None:
    """Write a new file, and give it the name and the mode of an old one."""
    try:
        with file:
            write(file)
            file.flush()
            with contextlib.suppress(FileNotFoundError):
                _make_alike(file, os.stat(path))
            os.fsync(file.fileno())
            replaced = replace_open(beside, path)  # its lock ends when it is closed
        if not replaced:
            os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


def _make_alike(file: BinaryIO, known: os.stat_result) -> None:
    """Give a file the mode of another, and its owner and group as far as that is allowed."""
    give_owner(file.fileno(), known.st_uid, known.st_gid)
    os.chmod(file.name, stat.S_IMODE(known.st_mode))


def _flush_folder(path: str, folder: str) -> None:
    try:
        flush_folder(folder)
    except OSError as error:
        raise WriteError(
            f"{path} was written, but its folder could not be flushed to the disk: {error}. "
            "After a loss of power it may be missing or old: write it again"
        ) from error
