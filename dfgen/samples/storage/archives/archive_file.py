"""An archive that is open: read at any place, by many threads at a time."""

import os
from threading import Lock

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
