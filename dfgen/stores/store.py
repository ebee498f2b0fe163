"""Store: the interface of local, archived and remote files; and the store of local files."""

import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, DfgenError, brief, unreadable
from dfgen.limits import DEFAULT, Limits, refuse_bytes
from dfgen.machine import READING, read_ahead
from dfgen.spec import IntArray

FIRST = 1 << 15
"""Bytes of a remote file that `begin` fetches: they hold most headers."""

MOST_OPEN = 128
"""Files that a store keeps open: a process may have 256 to 1024 of them."""

_MORE = 1 << 17  # bytes of the second request for the same file; each further one doubles

_HEADER = 1 << 13  # bytes of a file that hold most headers
_FIRST = 1 << 17  # bytes of the first read: most files are read whole by it
_GAP = 1 << 16  # bytes between two ranges that are read with them


class StorageOptions(dict[str, Any]):
    """The `storage_options=` of a user. Its repr shows no value, because values may be keys."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        if values is not None and not isinstance(values, Mapping):
            raise ArgumentError(
                f"storage_options must be a dict such as {{'region': 'eu-central-1'}}, got a "
                f"{type(values).__name__}"
            )
        super().__init__(values or {})

    def __repr__(self) -> str:
        return f"StorageOptions({', '.join(map(brief, self))})"


class Head(NamedTuple):
    """What a store knows about a file without reading it.

    Args:
        size: in bytes.
        mtime_ns: None if unknown.
        version: differs if the contents differ, as an ETag does.
        problem: why it cannot be read although it exists.
    """

    size: int
    mtime_ns: int | None
    version: object = None
    problem: str | None = None


class Store:
    """Base class of stores. Subclasses implement `_read` and `head`, and may override the rest.

    A store can be pickled. Files and connections that are open stay behind.

    Args:
        limits: of one file.
        options: open remote stores.
        folder: where relative paths start; "" is the current working folder.
    """

    def __init__(
        self,
        limits: Limits = DEFAULT,
        options: Mapping[str, Any] | None = None,
        folder: str = "",
    ) -> None:
        self.limits, self.options, self.folder = limits, StorageOptions(options), folder

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.limits, self.options, self.folder)

    def read(self, path: Any, size: int | None = None) -> bytes:
        """Return the bytes of a file.

        Args:
            path: of the file.
            size: that the manifest has; None compares nothing.

        Raises:
            MissingFileError: the file does not exist.
            DecodeError: it is empty, or has another size.
            ReadError: it cannot be read now.
        """
        raise NotImplementedError

    def head(self, path: Any) -> Head:
        """Return size and time of a file; raises as `read`."""
        raise NotImplementedError

    def begin(self, path: Any) -> tuple[Head, IO[bytes]]:
        """Return the head of a file and the open file, with one request if it is remote."""
        head = self.head(path)
        return head, io.BytesIO(b"" if head.problem else self.read(path))

    def range(self, path: Any, start: int, stop: int) -> bytes:
        """Return the bytes of a file from `start` to before `stop`, fewer at its end."""
        with self.begin(path)[1] as file:
            file.seek(start)
            return file.read(stop - start)

    def list(self, prefix: str) -> Iterator[tuple[str, Head]]:
        """Yield path and head of all files below a folder."""
        raise ArgumentError(f"{prefix}: files there cannot be listed")

    def write(self, path: str, data: bytes) -> None:
        """Write a file: whole or not at all."""
        raise ArgumentError(f"{path}: files there cannot be written")

    def close(self) -> None:
        """Close open files and connections. They are opened again when needed."""


def check_size(size: int, expected: int | None) -> None:
    """Raise a DecodeError if a file is empty, or does not have the size of the manifest."""
    if expected is not None and size != expected:
        raise DecodeError(
            f"the file has {size:,} bytes, but the manifest has {expected:,}: it has changed. "
            "Update the manifest with build_manifest(update=...) or verify(..., write=True), or "
            "drop its column bytes"
        )
    if not size:
        raise DecodeError("the file is empty (0 bytes)")


def file_of_ranges(
    size: int, fetch: Callable[[int, int], bytes], first: bytes = b"", step: int = _MORE
) -> IO[bytes]:
    """Return an open file that fetches `(start, stop)` when needed, at least `step` bytes."""
    return io.BufferedReader(_Ranges(size, fetch, first, step), 1 << 13)


class _Ranges(io.RawIOBase):
    def __init__(
        self, size: int, fetch: Callable[[int, int], bytes], first: bytes, step: int
    ) -> None:
        self._size, self._fetch, self._at = size, fetch, 0
        self._start, self._kept, self._step = 0, first, step

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
        wanted = min(len(buffer), max(0, self._size - self._at))
        place = self._at - self._start
        if wanted and not 0 <= place < len(self._kept):
            stop = min(self._size, self._at + max(wanted, self._step))
            self._start, place, self._kept = self._at, 0, self._fetch(self._at, stop)
            self._step *= 2
        data = self._kept[place : place + wanted]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


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
