"""Loose files on a mounted file system."""

import copy
import os
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any, Self

from dfgen.errors import DecodeError, DfgenError, unreadable
from dfgen.limits import Limits, refuse_bytes
from dfgen.platform_calls import READING
from dfgen.samples.stores.array_files import ArrayRows, open_rows
from dfgen.samples.stores.known_files import Check
from dfgen.samples.stores.store import Head, Store

_HEADER = 1 << 13  # bytes of a file that hold most headers: told, it asks the system for less
_FIRST = 1 << 17  # bytes asked for at once: most files come whole, before their size is known


@dataclass(frozen=True)
class Files(Store, tells=True):
    """Files by their path; a relative one stays what it is where a function changes the folder."""

    folder: str = field(default="", repr=False, compare=False, kw_only=True)

    def within(self, limits: Limits | None, options: Any = None) -> Self:
        """Return the same for some limits, of the working folder of now."""
        other = copy.copy(super().within(limits, options))
        with suppress(OSError):  # it was removed: relative paths lead nowhere
            vars(other)["folder"] = os.getcwd()
        return other

    def _at(self, path: str) -> str:
        return path if path[:1] == "/" or not self.folder else os.path.join(self.folder, path)

    def read(self, path: str) -> bytes:
        """Return the bytes of one file."""
        return _read(self._at(path), self.limits)

    def read_as(self, path: str, check: Check) -> bytes:
        """Return the bytes of one file, if it is the one that is known, by its open descriptor."""
        return _read(self._at(path), self.limits, check)

    def head(self, path: str) -> Head:
        """Return size and time of one file, without opening it."""
        try:
            status = os.stat(self._at(path))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise unreadable(error) from error
        # a pipe would be waited for
        problem = None if stat.S_ISREG(status.st_mode) else "not a regular file"
        # half the time of Head(...), which counts where 10^6 files are compared
        return tuple.__new__(Head, (status.st_size, status.st_mtime_ns, status.st_ino, problem))

    def open(self, path: str) -> IO[bytes]:
        """Open a file of which the header alone will be read."""
        return open(self._at(path), "rb", _HEADER)

    def open_rows(self, path: str, dataset: str | None = None) -> ArrayRows:
        """Open an array file, of which nothing is read but the header."""
        return open_rows(self._at(path), dataset, self.limits)


def _read(path: str, limits: Limits, check: Check | None = None) -> bytes:
    """Return the bytes of a file, with as few calls as can be: each gives the GIL away.

    A file that ends before `_FIRST` bytes is not asked for its size, unless that is compared: then
    what a file system hands out in smaller parts is read to its end.
    """
    try:
        descriptor = os.open(path, READING)
        try:
            size = 0
            if check is not None:
                status = os.fstat(descriptor)
                size = status.st_size
                check(size, status.st_mtime_ns)
            data = os.read(descriptor, _FIRST)
            if not data:
                raise DecodeError("the file is empty (0 bytes)")
            if len(data) == _FIRST or len(data) < size:
                data += _rest(descriptor, len(data), limits)
        finally:
            os.close(descriptor)
        if len(data) > limits.most["file_bytes"]:  # quicker than to call
            refuse_bytes(len(data), limits)
        return data
    except (DfgenError, MemoryError):
        raise
    except Exception as error:
        raise unreadable(error) from error


def _rest(descriptor: int, there: int, limits: Limits) -> bytes:
    parts, size = [], os.fstat(descriptor).st_size
    refuse_bytes(size, limits)
    # a device and the files of /proc have no size
    while part := os.read(descriptor, max(size - there, 1 if size else _FIRST)):
        parts.append(part)
        there += len(part)
        refuse_bytes(there, limits)
    return b"".join(parts)
