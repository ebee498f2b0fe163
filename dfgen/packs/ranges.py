"""Files of which only what is asked for is read, a range of bytes at a time."""

import io
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any
from zlib import crc32

import numpy as np

from dfgen.errors import ReadError
from dfgen.spec import Values
from dfgen.stores.store import Store

PIECE = 1 << 23
"""Bytes of a request: it takes far longer than a server takes to answer."""

_IN_FLIGHT = 8


def request_each(request: Callable[[Any], None], items: Iterable[Any], at_once: int) -> None:
    """Make a request for each item, so many at a time; after one that fails no more begin."""
    pool = ThreadPoolExecutor(at_once)
    try:
        for _ in pool.map(request, items):
            pass
    finally:
        pool.shutdown(cancel_futures=True)


def fetch(store: Store, path: str, runs: Iterable[tuple[int, int]], into: Values) -> None:
    """Fill parts of the memory of a file with its bytes, several requests at a time.

    `runs` are where each part begins and ends, `into` is uint8, as long as the file. ReadError if
    fewer bytes come.
    """

    def one(piece: tuple[int, int]) -> None:
        into[slice(*piece)] = np.frombuffer(_piece(store, path, *piece), np.uint8)

    pieces = [piece for run in runs for piece in _pieces(*run)]
    if len(pieces) > 1:
        request_each(one, pieces, _IN_FLIGHT)
    elif pieces:
        one(pieces[0])


def whole_file(store: Store, path: str, nbytes: int) -> Values:
    """Return all bytes of a file."""
    into = np.empty(nbytes, np.uint8)
    fetch(store, path, [(0, nbytes)], into)
    return into


def checksum_of(store: Store, path: str, nbytes: int) -> str:
    """Return the CRC-32 of a file, 8 hexadecimal digits; it holds one piece at a time."""
    value = 0
    for piece in _pieces(0, nbytes):
        value = crc32(_piece(store, path, *piece), value)
    return f"{value:08x}"


def _pieces(start: int, stop: int) -> Iterator[tuple[int, int]]:
    return ((at, min(at + PIECE, stop)) for at in range(start, stop, PIECE))


def _piece(store: Store, path: str, start: int, stop: int) -> bytes:
    data = store.range(path, start, stop)
    if len(data) != stop - start:
        raise ReadError(
            f"the file cannot be read: {len(data):,} bytes have come from {start:,} on, and "
            f"{stop - start:,} were asked for"
        )
    return data


_FIRST = 1 << 15
"""Bytes asked for first: they hold most headers, and cost hardly more than one."""

_MORE = 1 << 17  # at least so many with each further request
_HEADER = 1 << 13  # bytes of a file that hold most headers


def as_file(size: int, read: Callable[[int, int], bytes], buffer: int = _HEADER) -> IO[bytes]:
    """Return a file of so many bytes, which `read(nbytes, start)` returns; not at once, maybe."""
    return io.BufferedReader(_Ranges(size, read), buffer)


def remote_file(size: int, fetch: Callable[[int, int], bytes], first: bytes = b"") -> IO[bytes]:
    """Return a file that each read asks `fetch(start, stop)` for, but for its `first` bytes."""
    return as_file(size, _Fetched(size, fetch, first).read)


class _Ranges(io.RawIOBase):
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


class _Fetched:
    """Keeps what was fetched, for headers; each further request asks for twice as much."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes], first: bytes) -> None:
        self._size, self._fetch = size, fetch
        self._start, self._kept, self._more = 0, first, _MORE

    def read(self, nbytes: int, start: int) -> bytes:
        if not self._start <= start <= self._start + len(self._kept):  # elsewhere
            self._start, self._kept, self._more = start, b"", _MORE
        place = start - self._start
        if place == len(self._kept):
            self._kept += self._fetch(start, min(self._size, start + max(nbytes, self._more)))
            self._more *= 2
        return self._kept[place : place + nbytes]
