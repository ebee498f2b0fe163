"""The two files of a cache: how they are opened, written and mapped into memory."""

import contextlib
import errno
import mmap
import os
import struct
from typing import Any

import numpy as np

from dfgen.samples.features.spec import Values

HEADER_BYTES = 64
"""Bytes of an index before its records."""
_MAGIC = b"dfgen: an index of cached pixels, format 2"
_OLDER = b"dfgen: an index of cached pixels, format 1"  # its checksums did not see order
_HEADER = struct.Struct("<56sQ")
_REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)


def open_slots(index: str, pixels: str, size: int) -> tuple[int, int, bool]:
    """Open both files, made if they can be; return them, and whether they may be written to."""
    header = _HEADER.pack(_MAGIC, size)
    flags = os.O_RDWR | os.O_CREAT
    try:
        first = os.open(index, flags, 0o666)
    except OSError as error:
        if error.errno not in _REFUSED:
            raise
        flags, first = os.O_RDONLY, os.open(index, os.O_RDONLY)
    try:
        if os.fstat(first).st_size < len(header) and flags != os.O_RDONLY:
            write_at(first, memoryview(header), 0)
        if os.pread(first, HEADER_BYTES, 0) != header:
            raise OSError(errno.EINVAL, f"{index} is no index of slots of {size:,} bytes")
        second = os.open(pixels, flags, 0o666)
    except OSError:
        os.close(first)
        raise
    return first, second, flags != os.O_RDONLY


def remove_older(index: str, pixels: str) -> None:
    """Remove both files if an earlier version of dfgen made them; who has them open goes on."""
    with contextlib.suppress(OSError), open(index, "rb") as file:
        for path in (pixels, index) if file.read(len(_OLDER)) == _OLDER else ():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def close_files(*files: int) -> None:
    """Close files by their descriptors."""
    for file in files:
        os.close(file)


def write_at(file: int, data: memoryview, place: int) -> None:
    """Write all of some bytes at a place."""
    while data:
        written = os.pwrite(file, data, place)
        data, place = data[written:], place + written


def lengthen(file: int, start: int, nbytes: int) -> None:
    """Have a file end so many bytes after `start`, with room on the disk for them."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, start, nbytes)
    else:
        os.ftruncate(file, start + nbytes)


def mapped_array(file: int, count: int, dtype: np.dtype[Any], offset: int) -> Values:
    """Return the numbers in a file from `offset` on, shared with whoever writes them."""
    memory = mmap.mmap(file, offset + count * dtype.itemsize, access=mmap.ACCESS_READ)
    return np.frombuffer(memory, dtype, count, offset)
