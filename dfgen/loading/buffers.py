"""Batch buffers: aligned so that TensorFlow and JAX read them in place, and used again."""

import weakref
from collections import deque
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.spec import Spec

ALIGNMENT = 64
"""Bytes. TensorFlow and JAX copy an array whose address is no multiple of this."""

_WORTH_KEEPING = 1 << 16  # bytes; less is cheaper to allocate anew
_SPARE = 4  # memories kept of each array; in steady use one is given back for each one taken

BatchArrays = dict[str, npt.NDArray[Any]]
"""Name -> array of shape (batch, ...)."""

Raw = npt.NDArray[np.uint8]


class Buffers:
    """Makes the arrays of batches, and takes their memory back when nobody holds a part of them.

    Fresh memory costs a page fault every few kB: filling 9.6 MB of it took twice as long as
    filling the same memory again.
    """

    def __init__(self, specs: dict[str, Spec]) -> None:
        self._specs = specs
        self._free: dict[str, deque[Raw]] = {name: deque(maxlen=_SPARE) for name in specs}

    def __reduce__(self) -> tuple[Any, ...]:
        return Buffers, (self._specs,)

    def batch(self, size: int, specs: Mapping[str, Spec] | None = None) -> BatchArrays:
        """Return an array of shape (size, ...) for each spec, its values undefined.

        Each has memory of its own: one for all would keep images for as long as their labels. The
        specs are those of this batch, where shapes differ by batch.
        """
        specs = specs or self._specs
        return {name: self._array(name, (size, *spec.shape), spec) for name, spec in specs.items()}

    def _array(self, name: str, shape: tuple[Any, ...], spec: Spec) -> npt.NDArray[Any]:
        if spec.dtype.hasobject:
            return np.empty(shape, spec.dtype)
        nbytes = prod(shape) * spec.dtype.itemsize
        free = self._free[name]
        try:
            raw = free.pop()
            if len(raw) < nbytes + ALIGNMENT:
                raise IndexError
        except IndexError:
            raw = np.empty(nbytes + ALIGNMENT, np.uint8)
        offset = -raw.ctypes.data % ALIGNMENT
        # NumPy makes a view of a view point at the array that owns the memory, but never past a
        # memoryview: so whatever is cut from `lease` keeps it alive.
        lease = np.frombuffer(raw.data[offset : offset + nbytes], spec.dtype)
        if nbytes >= _WORTH_KEEPING:
            # A deque, since this may run in the middle of anything, where no lock can be taken.
            weakref.finalize(lease, free.append, raw).atexit = False
        return lease.reshape(shape)
