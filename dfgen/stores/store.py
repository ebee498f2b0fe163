"""Store: the interface of local, archived and remote files."""

import io
import os
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, NamedTuple

from dfgen.errors import ArgumentError, DecodeError, brief
from dfgen.limits import DEFAULT, Limits

FIRST = 1 << 15
"""Bytes of a remote file that `begin` fetches: they hold most headers."""

MOST_OPEN = 128
"""Files that a store keeps open: a process may have 256 to 1024 of them."""

_MORE = 1 << 17  # bytes of the second request for the same file; each further one doubles


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
