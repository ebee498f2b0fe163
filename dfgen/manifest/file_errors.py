"""Errors of readers become errors that name the file."""

import contextlib
import os
import stat
from collections.abc import Iterator

from dfgen.errors import DfgenError, ManifestError, MissingFileError, ReadError, is_outside
from dfgen.limits import DEFAULT, Limits
from dfgen.platform_calls import READING

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


@contextlib.contextmanager
def reading(
    path: str,
    form: str = "",
    missing: str = "",
    advice: str = "",
    limits: Limits = DEFAULT,
    bound: str | None = None,
) -> Iterator[int]:
    """Yield the bytes of a regular file to read; errors raised inside name the file.

    The `bound` is the limit of its bytes, the other arguments are those of `naming`.
    """
    with naming(path, form, missing, advice):
        nbytes = check_file(path)
        if bound is not None and not limits.allows(bound, nbytes):
            raise ManifestError(limits.refusal(bound, nbytes, f"{path} has {nbytes:,} bytes"))
        yield nbytes


@contextlib.contextmanager
def naming(path: str, form: str = "", missing: str = "", advice: str = "") -> Iterator[None]:
    """Have errors raised inside name a file.

    The `form` is what it is read as, such as " as YAML", `missing` the message if it does not
    exist.
    """
    try:
        yield
    except (DfgenError, MemoryError, Warning):
        raise
    except Exception as error:
        raise fault_of(error, path, form, missing, advice) from error


def fault_of(
    error: Exception, path: str, form: str = "", missing: str = "", advice: str = ""
) -> ManifestError | MissingFileError | ReadError:
    """Return the error that names a file, for the error of its reader; see `naming`."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingFileError(missing or f"there is no file {path}. Looked in {os.getcwd()}")
    if is_outside(error):
        message = str(error.__cause__ or error)
        return ReadError(f"{path} cannot be read, and the file is not at fault: {message}")
    return ManifestError(f"{path} cannot be read{form}: {said(error)}{advice}")


def read_bytes(path: str, nbytes: int) -> bytes:
    """Return the bytes of a small file; without a file object in half the time."""
    descriptor = os.open(path, READING)
    try:
        return os.read(descriptor, nbytes)
    finally:
        os.close(descriptor)


def check_file(path: str) -> int:
    """Return the bytes of a file; pipes and devices, which may never end, are refused."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "a device")
        raise ManifestError(f"{path} is {kind}, expected a file")
    return status.st_size


def said(error: Exception) -> str:
    """Return the message of a reader's exception, with its type if that says more."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    plain = isinstance(error, OSError | EOFError | ValueError) and str(error)
    return plain or f"{type(error).__name__}: {error}".removesuffix(": ")
