"""An archive that is open: read at any place, by many threads at a time, also as a file."""

import io
import os
from collections.abc import Callable
from threading import Lock
from typing import IO, Any

ArchiveVersion = tuple[int, int, int]
"""Size, time of the last change, and number of a file: what tells that it is another."""


class ArchiveFile:
    """An open archive, read at any place by many threads at a time; closed with the last of them.

    Args:
        path: of the archive.
        dataset: None.
    """

    def __init__(self, path: str, dataset: None = None) -> None:
        self.descriptor = -1
        self.descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self.version = version_of(os.fstat(self.descriptor))
        self.path, self._lock = path, Lock()

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    @property
    def size(self) -> int:
        """In bytes."""
        return self.version[0]

    def read(self, nbytes: int, start: int) -> bytes:
        """Return so many bytes from a place on; fewer at the end of the file."""
        data = self._read(nbytes, start)
        if len(data) == nbytes or not data:
            return data
        parts, there = [data], len(data)
        while there < nbytes and (data := self._read(nbytes - there, start + there)):
            parts.append(data)
            there += len(data)
        return b"".join(parts)

    if hasattr(os, "pread"):

        def _read(self, nbytes: int, start: int) -> bytes:
            return os.pread(self.descriptor, nbytes, start)

    else:  # Windows

        def _read(self, nbytes: int, start: int) -> bytes:
            with self._lock:
                os.lseek(self.descriptor, start, os.SEEK_SET)
                return os.read(self.descriptor, nbytes)


def version_of(status: os.stat_result) -> ArchiveVersion:
    """Return the version of a file by its status."""
    return status.st_size, status.st_mtime_ns, status.st_ino


class _Part(io.RawIOBase):
    """Bytes that a function returns from a place on, as a file."""

    def __init__(self, size: int, read: Callable[[int, int], bytes]) -> None:
        self._size, self._read_at, self._at = size, read, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        nbytes = min(len(buffer), max(0, self._size - self._at))
        data = self._read_at(nbytes, self._at) if nbytes else b""
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def as_file(size: int, read: Callable[[int, int], bytes], buffer: int) -> IO[bytes]:
    """Return a file of so many bytes, which `read(nbytes, start)` returns."""
    return io.BufferedReader(_Part(size, read), buffer)
