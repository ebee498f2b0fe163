"""Pages of memory-mapped files: given back when they were read, asked for before they are."""

import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.platform_calls import CAN_READ_AHEAD, is_cached, will_read

_STEP = 1 << 17  # Linux reads no more for one call than its read-ahead is long, 128 KiB mostly
_STRETCH = 1 << 23  # bytes of which the first and the last tell whether all are in the cache


def mapping_of(array: Any) -> mmap.mmap | None:
    """Return the mapping that an array is a view of, if it is of one."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array


def read_ahead(path: str, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
    """Have the system read parts of a file into its cache, without waiting, where it can do so."""
    if not CAN_READ_AHEAD:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            for stretch in range(start, start + length, _STRETCH):
                stop = min(stretch + _STRETCH, start + length)
                if not is_cached(descriptor, stretch, stop - 1):
                    for at in range(stretch, stop, _STEP):
                        size = min(_STEP, stop - at)
                        will_read(descriptor, at, size)
    finally:
        os.close(descriptor)
