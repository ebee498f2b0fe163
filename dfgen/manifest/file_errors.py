"""Errors of readers become errors that name the file."""

import contextlib
import mmap
import os
import stat
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from dfgen.errors import (
    ArgumentError,
    ManifestError,
    MissingFileError,
    MissingPackageError,
    ReadError,
    is_outside,
)
from dfgen.limits import DEFAULT, Limits
from dfgen.platform_calls import READING

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode), "a device"),
)
TOLD = (
    ArgumentError,
    ManifestError,
    MissingFileError,
    MissingPackageError,
    ReadError,
    MemoryError,
)
"""Errors that name the file already, or are of none."""


@contextlib.contextmanager
def reading(
    path: str,
    form: str = "",
    missing: str = "",
    advice: str = "",
    limits: Limits = DEFAULT,
    bound: str | None = None,
) -> Iterator[int]:
    """Read one file in it: what is raised there names the file, and what can wait is no file.

    `form` says what it is read as (" as YAML"), `missing` what to say where there is none, `advice`
    what to do where it cannot be read, `bound` which limit holds for its bytes; these are yielded.
    """
    try:
        nbytes = check_file(path)
        if bound is not None and not limits.allows(bound, nbytes):
            raise ManifestError(limits.refusal(bound, nbytes, f"{path} has {nbytes:,} bytes"))
        yield nbytes
    except TOLD:
        raise
    except Exception as error:
        raise fault_of(error, path, form, missing, advice) from error


def fault_of(
    error: Exception, path: str, form: str = "", missing: str = "", advice: str = ""
) -> ManifestError | MissingFileError | ReadError:
    """Return what to raise for what a reader of one file has raised; see `reading`."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return MissingFileError(missing or f"there is no file {path}. Looked in {os.getcwd()}")
    if is_outside(error):
        told = str(error.__cause__ or error)
        return ReadError(f"{path} cannot be read, and the file is not at fault: {told}")
    return ManifestError(f"{path} cannot be read{form}: {said(error)}{advice}")


def read_bytes(path: str, nbytes: int) -> bytes:
    """Return the bytes of one of many small files: without a file object in half the time."""
    descriptor = os.open(path, READING)
    try:
        return os.read(descriptor, nbytes)
    finally:
        os.close(descriptor)


_Decoded = TypeVar("_Decoded")


def read_json(
    path: str, kind: type[_Decoded], expected: str, limits: Limits, bound: str
) -> _Decoded:
    """Return the JSON of a file in a type of msgspec; `expected` says what that is."""
    with reading(path, limits=limits, bound=bound) as nbytes, open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if nbytes else b""
        try:
            start = len(BOM_UTF8) if data[:3] == BOM_UTF8 else 0
            return msgspec.json.decode(memoryview(data)[start:], type=kind)
        except msgspec.ValidationError as error:
            raise ManifestError(
                f"{path} is JSON, but not as {expected}: {str(error)[:1].lower()}{str(error)[1:]}"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ManifestError(
                f"{path} is broken JSON, {error}. Mend the file, or fetch it again"
            ) from None


def check_file(path: str) -> int:
    """Return the bytes of a file; a pipe is waited for, and a device never ends."""
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        kind = next((kind for is_kind, kind in _KINDS if is_kind(status.st_mode)), "something else")
        raise ManifestError(f"{path} is {kind}, expected a file")
    return status.st_size


def said(error: Exception) -> str:
    """Return what an exception of a reader says, with its type where that says more."""
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    plain = isinstance(error, OSError | EOFError | ValueError) and str(error)
    return plain or f"{type(error).__name__}: {error}".removesuffix(": ")
