"""Memory that worker processes share with their parent.

Each process has some for its chunks: a header and their arrays. All of them share the large arrays
of the pickle that they receive at their start, so that a column of gigabytes exists once.
"""

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

from dfgen.platform_calls import HAS_MEMORY_FILES, inherited, memory_file, reserve
from dfgen.samples.transforms import pickled_by_value
from dfgen.spec import Spec

HEADER = 64
"""Bytes: whether a file is being read, of which row, and since when, 8 bytes each."""

_LARGE = 1 << 20  # bytes; smaller buffers stay in the pickle


class SharedPickle:
    """An object pickled once for several processes, its large buffers in shared memory.

    Args:
        value: the object; functions of a notebook or script are pickled by value.
    """

    def __init__(self, value: object) -> None:
        raws, ends = list[memoryview](), [0]

        def is_small(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes >= _LARGE:
                raws.append(raw)
                ends.append(ends[-1] + _aligned(raw.nbytes))
            return raw.nbytes < _LARGE

        pickled = pickled_by_value(value, protocol=5, buffer_callback=is_small)
        self.handles: tuple[int, ...] = ()
        """Descriptors that children inherit."""
        if raws:
            file, memory = shared_memory(ends[-1])
            weakref.finalize(self, file.close)
            with memory:
                for raw, start in zip(raws, ends, strict=False):
                    memory[start : start + raw.nbytes] = raw
            self.handles = (file.fileno(),)
        places = [(start, start + raw.nbytes) for raw, start in zip(raws, ends, strict=False)]
        self.message = pickled, self.handles, places
        """The argument of `shared_object`."""


def shared_object(message: tuple[Any, ...]) -> Any:
    """Return the object of a SharedPickle in a child; its changes stay private to the child."""
    pickled, handles, places = message
    memory = memoryview(b"")
    if handles:
        memory = memoryview(mmap.mmap(handles[0], 0, access=mmap.ACCESS_COPY))
    return pickle.loads(pickled, buffers=[memory[start:stop] for start, stop in places])


def shared_memory(size: int) -> tuple[IO[bytes], mmap.mmap]:
    """Return memory without a name that a child may inherit: a kill leaves nothing behind.

    It is reserved now, because memory that is missing later kills the process that writes to it.

    Raises:
        OSError: there is no room, or no descriptor is left.
    """
    if HAS_MEMORY_FILES:
        handle = memory_file("dfgen")
    else:
        with tempfile.TemporaryFile(buffering=0) as file:
            handle = os.dup(file.fileno())
    shared: IO[bytes] = os.fdopen(inherited(handle), "r+b", buffering=0)
    try:
        if HAS_MEMORY_FILES:
            reserve(shared.fileno(), 0, size)
        else:
            left = size
            while left:
                left -= shared.write(bytes(min(left, 1 << 20)))
        return shared, mmap.mmap(shared.fileno(), size)
    except BaseException:
        shared.close()
        raise


def shared_arrays(memory: mmap.mmap, specs: Mapping[str, Spec]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a chunk in shared memory; arrays of objects are outside of it."""
    arrays, offset = dict[str, npt.NDArray[Any]](), HEADER
    for name, spec in specs.items():
        if spec.dtype.hasobject:
            arrays[name] = np.empty(spec.shape, spec.dtype)
            continue
        array = np.frombuffer(memory, spec.dtype, prod(spec.shape), offset)
        arrays[name] = array.reshape(spec.shape)
        offset += _aligned(array.nbytes)
    return arrays


def room(specs: Mapping[str, Spec], size: int) -> int:
    """Return the bytes of the arrays of so many rows."""
    return sum(_aligned(size * prod(s.shape) * s.dtype.itemsize) for s in specs.values())


def _aligned(nbytes: int) -> int:
    return -(-nbytes // 64) * 64
