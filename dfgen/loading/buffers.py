"""Batch buffers, aligned so that TensorFlow and JAX read them in place."""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.samples.features import Spec

ALIGNMENT = 64
"""Bytes. TensorFlow and JAX copy an array whose address is no multiple of this."""


def empty_batch(specs: dict[str, Spec], size: int) -> dict[str, npt.NDArray[Any]]:
    """Return an array of shape (size, ...) for each spec, each with memory of its own.

    One memory for all would keep an epoch's images for as long as its labels are kept.
    """
    return {name: _empty((size, *spec.shape), spec.dtype) for name, spec in specs.items()}


def _empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    nbytes = prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    offset = -raw.ctypes.data % ALIGNMENT
    return raw[offset : offset + nbytes].view(dtype).reshape(shape)
