"""Pages of memory-mapped files: given back when they were read, asked for before they are."""

import mmap
import os
from typing import Any

import numpy as np
import numpy.typing as npt

_STEP = 1 << 17  # Linux reads no more for one call than its read-ahead is long, 128 KiB mostly


def mapping_of(array: Any) -> mmap.mmap | None:
    """Return the mapping that an array is a view of, if it is of one."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array


def give_back(mapping: mmap.mmap) -> None:
    """Take what was read of a mapped file out of this process; the system's cache keeps it."""
    if hasattr(mmap, "MADV_DONTNEED"):  # which Windows lacks
        mapping.madvise(mmap.MADV_DONTNEED)


def read_ahead(path: str, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> None:
    """Have the system read parts of a file into its cache, without waiting, where it can do so."""
    if not hasattr(os, "posix_fadvise"):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            for at in range(start, start + length, _STEP):
                size = min(_STEP, start + length - at)
                os.posix_fadvise(descriptor, at, size, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(descriptor)
