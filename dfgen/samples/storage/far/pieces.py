"""Large parts of files far away: a few big requests at a time, straight into memory."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from zlib import crc32

import numpy as np

from dfgen.errors import ReadError
from dfgen.samples.features.spec import Values
from dfgen.samples.storage.store import Store

PIECE = 1 << 23
"""Bytes of a request: it takes far longer than a server takes to answer."""

_IN_FLIGHT = 8


def fetch(store: Store, path: str, runs: Iterable[tuple[int, int]], into: Values) -> None:
    """Fill parts of the memory of a file with its bytes, several requests at a time.

    Args:
        store: reads it.
        path: of the file.
        runs: where each part begins, and where it ends.
        into: uint8, as long as the file.

    Raises:
        ReadError: fewer bytes have come than were asked for.
    """

    def one(piece: tuple[int, int]) -> None:
        into[slice(*piece)] = np.frombuffer(_piece(store, path, *piece), np.uint8)

    pieces = [piece for run in runs for piece in _pieces(*run)]
    if len(pieces) == 1:
        one(pieces[0])
        return
    pool = ThreadPoolExecutor(_IN_FLIGHT)
    try:
        for _ in pool.map(one, pieces):
            pass
    finally:
        pool.shutdown(cancel_futures=True)


def whole_file(store: Store, path: str, nbytes: int) -> Values:
    """Return all bytes of a file."""
    into = np.empty(nbytes, np.uint8)
    fetch(store, path, [(0, nbytes)], into)
    return into


def checksum_far(store: Store, path: str, nbytes: int) -> str:
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
