"""Files that are written whole or not at all."""

import contextlib
import glob
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import IO, BinaryIO

from dfgen.errors import DfgenError, WriteError
from dfgen.locks import LOCK_SUFFIX, FileLock
from dfgen.platform_calls import flush_folder

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
    advice = ""
    if not os.path.isdir(folder):
        what = "is a file" if os.path.exists(folder) else "does not exist"
        advice = f"its folder {folder} {what}. Create the folder first"
    elif not os.access(folder, os.W_OK):
        advice = f"no permission to write into {folder}. Change the permission"
    if advice:
        raise WriteError(f"{path} cannot be written: {advice}, or choose another place")


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
    with contextlib.suppress(OSError, ValueError):
        try:
            file = opened(path)
        except FileNotFoundError:
            return
        with file:
            if _FORCE.get() or not file.read(1) or file.seek(0) or is_own(file):
                return
    if not _FORCE.get():
        raise WriteError(
            f"{path} already exists, and is no {kind}: it would be lost. Choose another place, or "
            "remove it first; commands replace it with --force"
        )
