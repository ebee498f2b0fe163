"""Batch buffers: aligned so that TensorFlow and JAX read them in place, and reused."""

import weakref
from collections import deque
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.spec import Spec

ALIGNMENT = 64
"""Bytes. TensorFlow and JAX copy an array whose address is not a multiple of this."""

_WORTH_KEEPING = 1 << 16  # bytes; less is cheaper to allocate again
_SPARE = 4  # free buffers of each array

BatchArrays = dict[str, npt.NDArray[Any]]
"""Name -> array of shape (batch, ...)."""

Raw = npt.NDArray[np.uint8]


class Buffers:
    """Allocates the arrays of batches, and reuses their memory when no part of it is in use.

    Fresh memory costs a page fault every few kB: filling 9.6 MB of it takes twice as long.
    """

    def __init__(self, specs: dict[str, Spec]) -> None:
        self._specs = specs
        self._free: dict[str, deque[Raw]] = {name: deque(maxlen=_SPARE) for name in specs}

    def batch(self, size: int, specs: Mapping[str, Spec] | None = None) -> BatchArrays:
        """Return an uninitialised array of shape (size, ...) for each spec.

        Arrays do not share memory: labels that are kept would keep the images. `specs`: of this
        batch, if shapes differ between batches.
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
        # The base of a NumPy view is the array that owns the memory, but never beyond a memoryview:
        # so each view of `lease` keeps it alive.
        lease = np.frombuffer(raw.data[offset : offset + nbytes], spec.dtype)
        if nbytes >= _WORTH_KEEPING:
            # a deque needs no lock; this may run in the middle of anything
            weakref.finalize(lease, free.append, raw).atexit = False
        return lease.reshape(shape)
