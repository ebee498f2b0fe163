"""A file far away of which only what is asked for comes, a range of bytes at a time."""

import io
from collections.abc import Callable
from typing import Any

FIRST = 1 << 15
"""Bytes asked for first: they hold most headers, and cost hardly more than one."""

_MORE = 1 << 17  # at least so many with each further request


class RangeFile(io.RawIOBase):
    """A file that can be read and sought in, by `fetch(start, stop) -> bytes`.

    What was fetched is kept: it is for headers, of which little is read. Of a file that is read on
    and on, each request asks for twice as much as the one before.

    Args:
        size: of the file, in bytes.
        fetch: returns the bytes from start to stop.
        first: bytes that it begins with, where there are some already.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes], first: bytes = b"") -> None:
        self._size, self._fetch = size, fetch
        self._start, self._kept, self._at, self._more = 0, first, 0, _MORE

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place, which costs nothing."""
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def tell(self) -> int:
        """Return where it is."""
        return self._at

    def readinto(self, out: Any) -> int:
        """Read into a buffer."""
        data = self.read(len(out))
        out[: len(data)] = data
        return len(data)

    def read(self, size: int | None = -1) -> bytes:
        """Read so many bytes, or all that follow."""
        stop = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if stop <= self._at:
            return b""
        start = self._at
        if start < self._start or start > self._start + len(self._kept):  # elsewhere
            self._start, self._kept, self._more = start, b"", _MORE
        if (missing := stop - self._start - len(self._kept)) > 0:
            end = stop - missing
            self._kept += self._fetch(end, min(self._size, max(stop, end + self._more)))
            self._more *= 2
        data = self._kept[start - self._start : stop - self._start]
        self._at = start + len(data)
        return data

    def readall(self) -> bytes:
        """Read all that follow."""
        return self.read()
