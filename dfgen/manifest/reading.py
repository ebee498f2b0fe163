"""Where whatever a reader of one file raises becomes an error that names the file."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from dfgen.errors import ArgumentError, ManifestError, MissingFileError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)
TOLD = (ArgumentError, ManifestError, MissingFileError)
"""What names the file already."""
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
        _refuse_no_file(path)
        yield
    except (*TOLD, MemoryError):
        raise
    except (FileNotFoundError, NotADirectoryError):
        missing = missing or f"there is no file {path}. Looked in {os.getcwd()}"
        raise MissingFileError(missing) from None
    except Exception as error:
        raise ManifestError(f"{path} cannot be read{form}: {said(error)}{advice}") from error


def _refuse_no_file(path: str) -> None:
    mode = os.stat(path).st_mode
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
    if isinstance(error.__cause__, OSError) and error.__cause__.errno in _OF_MACHINE:
        raise error
    return str(error)
