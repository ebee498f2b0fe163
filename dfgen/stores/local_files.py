"""Files on mounted file systems."""

import io
import os
import stat
from typing import IO, Any

import numpy as np

from dfgen.errors import DfgenError, unreadable
from dfgen.limits import refuse_bytes
from dfgen.machine import READING, read_ahead
from dfgen.spec import IntArray
from dfgen.stores.store import Head, Store, check_size

_HEADER = 1 << 13  # bytes of a file that hold most headers
_FIRST = 1 << 17  # bytes of the first read: most files are read whole by it
_GAP = 1 << 16  # bytes between two ranges that are read with them


class Files(Store):
    """Files by their paths. Relative paths start at `folder`, also after `os.chdir`."""

    def _at(self, path: str) -> str:
        return path if path[:1] == "/" or not self.folder else os.path.join(self.folder, path)

    def read(self, path: Any, size: int | None = None) -> bytes:
        """Return the bytes of a file, with few system calls, because each releases the GIL."""
        try:
            descriptor = os.open(self._at(path), READING)
            try:
                data = os.read(descriptor, _FIRST)
                if len(data) == _FIRST or (size is not None and len(data) < size):
                    data += self._rest(descriptor, len(data))
            finally:
                os.close(descriptor)
            if len(data) != size or not size:  # faster than the call
                check_size(len(data), size)
            return data
        except (DfgenError, MemoryError):
            raise
        except Exception as error:
            raise unreadable(error) from error

    def _rest(self, descriptor: int, offset: int) -> bytes:
        parts, size = [], os.fstat(descriptor).st_size
        refuse_bytes(size, self.limits)
        while part := os.read(descriptor, max(size - offset, _FIRST)):  # /proc reports no sizes
            parts.append(part)
            offset += len(part)
            refuse_bytes(offset, self.limits)
        return b"".join(parts)

    def head(self, path: Any) -> Head:
        """Return size and time of a file, without opening it."""
        try:
            status = os.stat(self._at(path))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise unreadable(error) from error
        problem = None if stat.S_ISREG(status.st_mode) else "not a regular file"
        # half the time of Head(...), which matters for 10^6 files
        return tuple.__new__(Head, (status.st_size, status.st_mtime_ns, status.st_ino, problem))

    def begin(self, path: Any) -> tuple[Head, IO[bytes]]:
        """Return the head of a file and the open file, or its bytes; a pipe is not opened."""
        head = self.head(path)
        if head.problem or head.size > _HEADER:
            return head, open(os.devnull if head.problem else self._at(path), "rb", _HEADER)
        descriptor = os.open(self._at(path), READING)  # in half the time of a file object
        try:
            return head, io.BytesIO(os.read(descriptor, _HEADER))
        finally:
            os.close(descriptor)


def prefetch(path: str, starts: IntArray, stops: IntArray) -> None:
    """Have the system read ranges of a file, in ascending order, into its page cache."""
    if not len(starts):
        return
    gaps = np.flatnonzero(starts[1:] - stops[:-1] > _GAP) + 1
    firsts, lasts = [0, *gaps], [*(gaps - 1), len(starts) - 1]
    ends = zip(starts[firsts].tolist(), stops[lasts].tolist(), strict=True)
    read_ahead(path, [(start, stop - start) for start, stop in ends])
