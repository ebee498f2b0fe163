"""Chunks of HDF5 that are unpacked once and not for each row; a bounded number is in memory."""

from itertools import count
from math import prod
from threading import RLock
from typing import Any

import numpy as np
import numpy.typing as npt

_SHARE = 4  # a block of more than this part of all is not kept: others would not be


class UnpackedBlocks:
    """Keeps those blocks that were asked for last, of all arrays together, for all threads.

    Args:
        most: bytes that they may take.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._blocks: dict[tuple[int, int], npt.NDArray[Any]] = {}
        self._asked: dict[tuple[int, int], int] = {}  # when; of blocks that were dropped too
        self._count = count()
        self._held = 0
        self._lock = RLock()  # where an array is collected meanwhile, `forget` takes it again

    def get(self, array: Any, start: int, stop: int) -> npt.NDArray[Any]:
        """Return rows `start` to `stop` of an array."""
        key = id(array), start
        self._asked[key] = next(self._count)
        found = self._blocks.get(key)
        if found is not None:
            return found
        with self._lock:  # h5py unpacks one at a time anyway
            found = self._blocks.get(key)
            if found is None:
                found = array[start:stop]
                while self._blocks and self._held + found.nbytes > self.most:
                    self._drop(min(self._blocks, key=self._asked.__getitem__))
                self._blocks[key] = found
                self._held += found.nbytes
        return found

    def forget(self, array: Any) -> None:
        """Give up the blocks of an array that is closed."""
        with self._lock:
            for key in [key for key in [*self._asked] if key[0] == id(array)]:
                if key in self._blocks:
                    self._drop(key)
                del self._asked[key]

    def _drop(self, key: tuple[int, int]) -> None:
        self._held -= self._blocks.pop(key).nbytes


class UnpackedRows:
    """The rows of an HDF5 array in chunks, of which whole blocks are unpacked."""

    def __init__(self, array: Any, blocks: UnpackedBlocks) -> None:
        self.array, self._blocks = array, blocks
        self.shape, self.dtype, self.chunks = array.shape, array.dtype, array.chunks

    def __del__(self) -> None:
        self._blocks.forget(self.array)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        start = index - index % self.chunks[0]
        block = self._blocks.get(self.array, start, start + self.chunks[0])
        return np.asarray(block[index - start])

    def take(self, indices: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
        """Fill `out`, of the same dtype, with rows that are there."""
        starts = indices - indices % self.chunks[0]
        for start in np.unique(starts).tolist():
            here = np.flatnonzero(starts == start)
            block = self._blocks.get(self.array, start, start + self.chunks[0])
            out[here] = block[indices[here] - start]


def unpacked(array: Any, blocks: UnpackedBlocks) -> Any:
    """Return the rows of an open array file, HDF5 in chunks by whole blocks where these are small.

    Others stay as they are: a block of them would crowd out all others.
    """
    chunks = getattr(array, "chunks", None)
    if chunks is None:
        return array
    nbytes = chunks[0] * prod(array.shape[1:]) * array.dtype.itemsize
    return UnpackedRows(array, blocks) if nbytes * _SHARE <= blocks.most else array
