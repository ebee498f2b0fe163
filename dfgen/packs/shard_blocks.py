"""ShardBlocks: what was fetched of a shard in a store, kept on this machine.

A block is as many bytes of the file as its `SlotFile` has in a slot, from a multiple of that on;
the last one of a file is filled up with zeros.
"""

import time
from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np

from dfgen.packs.pack_shards import ShardFile
from dfgen.packs.slot_file import NOWHERE, SlotFile
from dfgen.spec import IntArray, Present, Values

Extent = tuple[int, int]
"""The place in a file at which some bytes begin, and that at which they end."""

_LEAST, _MOST = 1 << 12, 1 << 18
_OF_A_SHARD = 1 << 9  # at least: hosts share those in which their rows meet
_TRIES, _WAIT = 50, 0.001  # seconds: another process has the lock, for a moment


def block_bytes(files: Iterable[ShardFile]) -> int:
    """Return how large the blocks of some shards are, a power of 2.

    Example:
        >>> block_bytes([ShardFile("s3://bucket/shard-00000.arrow", 0, 9, 256 * 10**6, {})])
        262144
    """
    largest = max(file.nbytes for file in files)
    return min(_MOST, max(_LEAST, 1 << (largest // _OF_A_SHARD).bit_length()))


class ShardBlocks:
    """The blocks of one shard.

    Args:
        slots: keep them, for all threads, processes and runs that use the same folder.
        name: tells the contents of this shard from all others.
        memory: as long as the file, uint8, where blocks are put.
    """

    def __init__(self, slots: SlotFile, name: str, memory: Values) -> None:
        self._slots, self._memory = slots, memory
        [self._size] = slots.spec.shape
        count = -(-len(memory) // self._size)
        names = (f"{block} of {name}".encode() for block in range(count))
        keys = b"".join(blake2b(one, digest_size=16).digest() for one in names)
        self._keys = np.frombuffer(keys, "<u8").reshape(-1, 2)
        self._there = np.zeros(count, np.bool_)

    def lacking(self, runs: Iterable[Extent]) -> tuple[list[Extent], int]:
        """Put the blocks of some runs that are kept into memory; return what is to be fetched.

        These are whole blocks, or just what is wanted of them where no more can be kept. The other
        number is that of the bytes that were put.
        """
        wanted, size = np.zeros_like(self._there), self._size
        for start, stop in runs:
            wanted[start // size : -(-stop // size)] = True
        wanted &= ~self._there
        missing = self._missing(wanted)
        whole, pieces = self._slots.keeps, set[Extent]()
        for start, stop in runs:
            for block in range(start // size, -(-stop // size)):
                if missing[block]:
                    first, last = self._extent(block)
                    pieces.add((first, last) if whole else (max(start, first), min(stop, last)))
        return _joined(pieces), int((wanted & ~missing).sum()) * size

    def fetched(self, runs: Iterable[Extent]) -> None:
        """Note that some runs have come into memory."""
        self._there[self._whole(runs)] = True

    def keep(self, runs: Iterable[Extent]) -> None:
        """Keep the whole blocks of runs that have come, but those that others have kept."""
        blocks = self._whole(runs)
        for block, kept in self._found(blocks):
            if kept is None and self._slots.keeps:
                self._put(block)

    def _missing(self, wanted: Present) -> Present:
        """Put those of some blocks that are kept into memory; return the others."""
        missing, blocks = wanted.copy(), np.flatnonzero(wanted)
        for block, kept in self._found(blocks):
            if kept is not None:
                part = self._memory[slice(*self._extent(block))]
                part[:] = kept[: len(part)]
                self._there[block], missing[block] = True, False
        self._slots.count("cache_misses", int(missing.sum()))
        self._slots.count("cache_hits", len(blocks) - int(missing.sum()))
        return missing

    def _found(self, blocks: IntArray) -> Iterator[tuple[int, Values | None]]:
        """Yield blocks with what is kept of each, None where that is nothing, or damaged."""
        self._slots.refresh()
        slots = self._slots.find(self._keys[blocks])
        for block, slot in zip(blocks.tolist(), slots.tolist(), strict=True):
            yield block, None if slot == NOWHERE else self._slots.at(slot)

    def _put(self, block: int) -> None:
        content = self._memory[slice(*self._extent(block))]
        if len(content) < self._size:
            content = np.concatenate([content, np.zeros(self._size - len(content), np.uint8)])
        first, second = self._keys[block].tolist()
        for _ in range(_TRIES):
            slot = self._slots.put((first, second), (0, 0), content)
            if slot != NOWHERE or not self._slots.keeps:
                return
            time.sleep(_WAIT)

    def _whole(self, runs: Iterable[Extent]) -> IntArray:
        """Return the blocks of which some runs have all bytes."""
        end, whole = len(self._memory), np.zeros_like(self._there)
        for start, stop in runs:
            last = len(whole) if stop == end else stop // self._size
            whole[-(-start // self._size) : last] = True
        return np.flatnonzero(whole)

    def _extent(self, block: int) -> Extent:
        return block * self._size, min((block + 1) * self._size, len(self._memory))


def _joined(pieces: Iterable[Extent]) -> list[Extent]:
    """Return pieces of a file as runs, of which none touches another."""
    runs: list[Extent] = []
    for start, stop in sorted(pieces):
        if runs and start <= runs[-1][1]:
            start, stop = runs[-1][0], max(stop, runs.pop()[1])
        runs.append((start, stop))
    return runs
