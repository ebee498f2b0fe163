"""Memory that worker processes share with their parent.

Each has one for its chunks: a header, then their arrays. All have one for what they are sent at
their start: a column of gigabytes is there once, not once a process.
"""

import errno
import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Mapping
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import WorkerError, warn
from dfgen.platform_calls import HAS_MEMORY_FILES, inherited, memory_file, reserve
from dfgen.samples.user_functions import pickled_by_value
from dfgen.spec import Spec

HEADER = 64
"""Bytes: whether a row is being read, which, and since when, each 8 bytes."""

_LARGE = 1 << 20  # bytes of a buffer that is shared; smaller ones are sent to every process


class SharedPickle:
    """An object pickled once for several processes, with its large buffers in memory they share.

    Args:
        value: the object; functions of a notebook or script go by value.
    """

    def __init__(self, value: object) -> None:
        self._places: list[tuple[int, int]] = []  # offset and size of each buffer
        self._offsets: dict[tuple[int, int], int] = {}
        self._size, parts = 0, list[tuple[int, memoryview]]()
        self._pickled = pickled_by_value(
            value, protocol=5, buffer_callback=lambda buffer: self._place(buffer.raw(), parts)
        )
        self.handles: tuple[int, ...] = ()
        if not parts:
            return
        file, memory = shared_memory(self._size)
        with file, memory:
            for offset, raw in parts:
                memory[offset : offset + raw.nbytes] = raw
            handle = inherited(os.dup(file.fileno()))
        weakref.finalize(self, os.close, handle)
        self.handles = (handle,)

    def _place(self, raw: memoryview, parts: list[tuple[int, memoryview]]) -> bool:
        """Say that a buffer stays in the pickle, or give it a place; the same one has one place."""
        if raw.nbytes < _LARGE:
            return True
        key = (np.frombuffer(raw, np.uint8).ctypes.data, raw.nbytes)
        if key not in self._offsets:
            self._offsets[key] = self._size
            parts.append((self._size, raw))
            self._size += _aligned(raw.nbytes)
        self._places.append((self._offsets[key], raw.nbytes))
        return False

    @property
    def message(self) -> tuple[Any, ...]:
        """The message that a child with the inherited `handles` gives to `shared_object`."""
        return self._pickled, self.handles, self._size, self._places


def shared_object(message: tuple[Any, ...]) -> Any:
    """Return the object of a SharedPickle in a child; what it changes there is its own."""
    pickled, handles, size, places = message
    memory = memoryview(b"")
    if handles:
        memory = memoryview(mmap.mmap(handles[0], size, access=mmap.ACCESS_COPY))
    return pickle.loads(pickled, buffers=[memory[at : at + nbytes] for at, nbytes in places])


def shared_memory(size: int) -> tuple[IO[bytes], mmap.mmap]:
    """Return memory without a name, that a child may inherit: nothing stays behind after a kill.

    It is reserved now, since memory that turns out not to be there kills whoever writes to it.
    """
    if HAS_MEMORY_FILES:
        file: IO[bytes] = os.fdopen(inherited(memory_file("dfgen")), "r+b", buffering=0)
        try:
            reserve(file.fileno(), 0, size)
            return file, mmap.mmap(file.fileno(), size)
        except OSError as error:
            file.close()
            if error.errno in (errno.EMFILE, errno.ENFILE):  # of mmap, which has its own
                raise
            warn(
                f"{size:,} bytes of shared memory are not available ({error.strerror}): workers "
                f"use a temporary file in {tempfile.gettempdir()}"
            )
    with tempfile.TemporaryFile(buffering=0) as opened:
        file, left = os.fdopen(inherited(os.dup(opened.fileno())), "r+b", buffering=0), size
    try:
        while left:
            left -= file.write(bytes(min(left, 1 << 20)))
        file.seek(0)
    except OSError as error:
        file.close()
        raise WorkerError(
            f"{size:,} bytes that workers share have no room in {tempfile.gettempdir()}: {error}. "
            "Set TMPDIR to a folder with room, make the batches smaller, or use threads"
        ) from error
    return file, mmap.mmap(file.fileno(), size)


def shared_arrays(memory: mmap.mmap, specs: Mapping[str, Spec]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a chunk in shared memory."""
    arrays, offset = dict[str, npt.NDArray[Any]](), HEADER
    for name, spec in specs.items():
        shape, dtype = spec.shape, spec.dtype
        if dtype.hasobject:  # pointers mean nothing elsewhere: these travel in the reply
            arrays[name] = np.empty(shape, dtype)
            continue
        arrays[name] = np.frombuffer(memory, dtype, prod(shape), offset).reshape(shape)
        offset += _aligned(arrays[name].nbytes)
    return arrays


def room(specs: Mapping[str, Spec], size: int) -> int:
    """Return the bytes of the arrays of so many rows."""
    return sum(_aligned(size * prod(s.shape) * s.dtype.itemsize) for s in specs.values())


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
