"""Where whatever a reader of one file raises becomes an error that names the file."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from dfgen.errors import ArgumentError, ManifestError, MissingFileError
from dfgen.limits import DEFAULT, Limits

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)
TOLD = (ArgumentError, ManifestError, MissingFileError)
"""What names the file already."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_OF_MACHINE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE}


@contextlib.contextmanager
def reading(path: str, form: str = "", missing: str = "", advice: str = "") -> Iterator[None]:
    """Read one file in it: what is raised there names the file, and what can wait is no file.

    Errors that name it already pass as they are, and so does MemoryError.

    Args:
        path: of the file, as the message calls it.
        form: what it was read as, such as `" as YAML"`.
        missing: what to say where there is none.
        advice: what to do where it cannot be read, such as `". Fetch it again"`.

    Raises:
        MissingFileError: there is no such file.
        ManifestError: it is a folder, pipe, socket or device, or its reader raised something.

    Example:
        >>> with reading("data.yaml", " as YAML"):  # doctest: +SKIP
        ...     yaml.safe_load(Path("data.yaml").read_bytes())
    """
    try:
        check_file(path)
        yield
    except (*TOLD, MemoryError):
        raise
    except Exception as error:
        raise fault_of(error, path, form, missing, advice) from error


def fault_of(
    error: Exception, path: str, form: str = "", missing: str = "", advice: str = ""
) -> ManifestError | MissingFileError:
    """Return what to raise for what a reader of one file has raised; see `reading`.

    Example:
        >>> fault_of(KeyError("a"), "data.yaml", " as YAML")
        ManifestError("data.yaml cannot be read as YAML: KeyError: 'a'")
    """
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingFileError(missing or f"there is no file {path}. Looked in {os.getcwd()}")
    return ManifestError(f"{path} cannot be read{form}: {said(error)}{advice}")


def read_bytes(path: str, limits: Limits = DEFAULT) -> bytes:
    """Return the bytes of a small file, of which there are many; waits for no pipe.

    Raises:
        OSError: it cannot be read.
        ManifestError: it is no file, or has more than `limits.header_bytes`.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        check_file(path)  # no socket can be opened
        raise
    try:
        status = os.fstat(descriptor)
        _refuse_other(path, status.st_mode)
        if not limits.allows("header_bytes", status.st_size):
            what = f"{path} has {status.st_size:,} bytes"
            raise ManifestError(limits.refusal("header_bytes", status.st_size, what))
        parts = []
        while part := os.read(descriptor, status.st_size + 4096):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def check_file(path: str) -> None:
    """Raise if a path is no file: opening a pipe waits for ever, and reading a device never ends.

    Example:
        >>> check_file(os.devnull)
        Traceback (most recent call last):
        dfgen.errors.ManifestError: /dev/null is a device, expected a file
    """
    _refuse_other(path, os.stat(path).st_mode)


def _refuse_other(path: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), "something else")
        raise ManifestError(f"{path} is {kind}, expected a file")


def said(error: Exception) -> str:
    """Return what an exception of a reader says, with its type where that says more.

    Example:
        >>> said(KeyError("a")), said(ValueError("no number"))
        ("KeyError: 'a'", 'no number')
    """
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    plain = isinstance(error, OSError | EOFError | ValueError) and str(error)
    return plain or f"{type(error).__name__}: {error}".removesuffix(": ")


def problem_of(error: ManifestError | MissingFileError) -> str:
    """Return the problem of the one row that a file is of; raise what is no fault of the file."""
    if is_of_machine(error):
        raise error
    return str(error)


def is_of_machine(error: Exception) -> bool:
    """Whether a read failed for want of descriptors, memory, disk or network: no file is at fault.

    Example:
        >>> is_of_machine(OSError(errno.EMFILE, "Too many open files"))
        True
    """
    cause = error.__cause__ or error
    return isinstance(cause, OSError) and cause.errno in _OF_MACHINE
