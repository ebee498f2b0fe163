"""Reads files of annotations: errors name the file, and limits bound its size.

Text is UTF-8 or UTF-16, with or without a byte order mark.
"""

import codecs
import contextlib
import json
import mmap
import os
import re
import stat
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from dfgen.errors import DfgenError, ManifestError, MissingFileError, ReadError, is_outside
from dfgen.limits import DEFAULT, Limits
from dfgen.machine import READING

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
        if bound is not None:
            limits.check(bound, nbytes, f"{path} has {nbytes:,} bytes", ManifestError)
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


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_NO_JSON = re.compile(rb"NaN|Infinity")
_Decoded = TypeVar("_Decoded")


def read_text(
    path: str,
    form: str = "",
    limits: Limits = DEFAULT,
    bound: str = "header_bytes",
    advice: str = "",
) -> str:
    """Return the text of a file of at most as many bytes as a bound of the limits."""
    with reading(path, form, advice=advice, limits=limits, bound=bound) as nbytes:
        return decoded_text(read_bytes(path, nbytes))


def decoded_text(data: bytes) -> str:
    """Return UTF-8 or UTF-16 as text without byte order mark."""
    return data.decode(encoding_of(data))


def encoding_of(start: bytes) -> str:
    """Return the encoding of a file by its first bytes, which may be a byte order mark."""
    return "utf-16" if start[:2] in _UTF16 else "utf-8-sig"


def lines_of(text: str) -> list[tuple[int, str]]:
    """Return the lines that are not blank, stripped, with their numbers."""
    lines = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    return [(number, line.strip()) for number, line in lines if line.strip()]


def read_json(path: str, kind: type[_Decoded], expected: str, limits: Limits) -> _Decoded:
    """Return the JSON of a file in a type of msgspec; `expected` describes the type.

    NaN and Infinity are read as null: they are not JSON, but many programs write them.
    """
    note = ""
    with reading(path, limits=limits, bound="file_bytes") as nbytes, open(path, "rb") as file:
        data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if nbytes else b""
        try:
            if encoding_of(data) == "utf-16":
                data = decoded_text(data[:]).encode()
            data = memoryview(data)[len(codecs.BOM_UTF8) * (data[:3] == codecs.BOM_UTF8) :]
            try:
                return msgspec.json.decode(data, type=kind)
            except msgspec.DecodeError as error:
                if isinstance(error, msgspec.ValidationError) or not _NO_JSON.search(data):
                    raise
            note = " (NaN and Infinity are read as null)"
            content = json.loads(bytes(data), parse_constant=lambda name: None)
            return msgspec.json.decode(json.dumps(content), type=kind)
        except msgspec.ValidationError as error:
            raise ManifestError(f"{path} is JSON, but not {expected}: {error}{note}") from None
        except (msgspec.DecodeError, ValueError) as error:
            raise ManifestError(
                f"{path} is broken JSON, {error}. Write the file again, or take another copy"
            ) from None
