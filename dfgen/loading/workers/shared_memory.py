"""Memory that a worker process shares with its parent: a header, then the arrays of a chunk."""

import mmap
import os
import tempfile
import warnings
from collections.abc import Mapping
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dfgen.samples.features.base import Spec

HEADER = 64
"""Bytes: whether a row is being read, which, and since when, each 8 bytes."""


def shared_memory(size: int) -> tuple[IO[bytes], mmap.mmap]:
    """Return memory without a name, that a child may inherit: nothing stays behind after a kill.

    It is reserved now, since memory that turns out not to be there kills whoever writes to it.
    """
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("dfgen"), "r+b", buffering=0)
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return file, mmap.mmap(file.fileno(), size)
        except OSError as error:
            file.close()
            warnings.warn(
                f"{size:,} bytes of shared memory are not available ({error.strerror}): workers "
                f"use a temporary file in {tempfile.gettempdir()}",
                stacklevel=2,
            )
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - as long as the process
    file.truncate(size)
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
