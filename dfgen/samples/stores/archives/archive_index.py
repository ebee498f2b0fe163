"""The index of an archive: where each member lies, in a few arrays, found by its name."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError
from dfgen.platform_calls import READING, read_at

ArchiveVersion = tuple[int, int, int]
"""Size, time of the last change, and number of a file: what tells that it is another."""


class ArchiveFile:
    """An open archive, read by many threads at a time; closed with the last of them."""

    def __init__(self, path: str, dataset: None = None) -> None:
        self.descriptor = -1
        self.descriptor = os.open(path, READING)
        self.version = version_of(os.fstat(self.descriptor))
        self.path, self._lock = path, Lock()

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.descriptor >= 0:
            close(self.descriptor)  # without `os`, which is gone when Python has nearly ended

    @property
    def size(self) -> int:
        """In bytes."""
        return self.version[0]

    def read(self, nbytes: int, start: int) -> bytes:
        """Return so many bytes from a place on; fewer at the end of the file."""
        data = self._read(nbytes, start)
        if len(data) == nbytes or not data:
            return data
        parts, there = [data], len(data)
        while there < nbytes and (data := self._read(nbytes - there, start + there)):
            parts.append(data)
            there += len(data)
        return b"".join(parts)

    def _read(self, nbytes: int, start: int) -> bytes:
        return read_at(self.descriptor, nbytes, start, self._lock)


def version_of(status: os.stat_result) -> ArchiveVersion:
    """Return the version of a file by its status."""
    return status.st_size, status.st_mtime_ns, status.st_ino


WholeNumbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Contents:
    """The members of an archive that are files, in its order; a repeated name comes again.

    Args:
        names: `/`-separated, as they are there but for `./` in front.
        starts: where each begins, in bytes: a zip's local header, a tar's data.
        packed: bytes that it takes in the archive.
        sizes: its own bytes.
        times: of its last change, in nanoseconds since 1970.
        checks: CRC-32 of its bytes; None: the archive has none.
        methods: how it is packed, by zip's numbers: 0 is not at all; None: none is.
        problems: place of a member -> why it cannot be read.
    """

    names: list[str]
    starts: WholeNumbers
    packed: WholeNumbers
    sizes: WholeNumbers
    times: WholeNumbers
    checks: WholeNumbers | None = None
    methods: WholeNumbers | None = None
    problems: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Index:
    """Finds the members of one version of an archive by name: 30 to 45 bytes each, no objects.

    Names are kept as sorted 64-bit `hashes`; of one that is there twice the last counts, as for
    unzip and tar. `columns` are starts, packed, sizes, times, checks and methods of `Contents`;
    `fault` is why the archive cannot be read.
    """

    version: ArchiveVersion
    hashes: WholeNumbers = field(default_factory=lambda: np.empty(0, np.int64))
    columns: tuple[WholeNumbers, ...] = ()
    problems: Mapping[int, str] = field(default_factory=dict)
    fault: str = ""

    def find(self, name: str) -> int | None:
        """Return the place of a member, or None."""
        key = hash(name)
        place = int(self.hashes.searchsorted(key))
        there = place < len(self.hashes) and self.hashes.item(place) == key
        return place if there else None


def make_index(contents: Contents, version: ArchiveVersion) -> Index:
    """Return the index of what an archive holds."""
    hashes = np.fromiter(map(hash, contents.names), np.int64, len(contents.names))
    order = np.argsort(hashes, kind="stable")
    last = np.append(hashes[order][1:] != hashes[order][:-1], True)[: len(order)]
    order = order[last]
    zeros = np.zeros(len(hashes), np.uint8)
    columns = [contents.starts, contents.packed, contents.sizes, contents.times]
    columns += [zeros if each is None else each for each in (contents.checks, contents.methods)]
    problems = contents.problems
    if problems:
        places = {old: place for place, old in enumerate(order.tolist()) if old in problems}
        problems = {place: problems[old] for old, place in places.items()}
    return Index(version, hashes[order], tuple(_small(each[order]) for each in columns), problems)


def _small(numbers: WholeNumbers) -> WholeNumbers:
    ends = numbers.min(initial=0), numbers.max(initial=0)
    return numbers.astype(np.promote_types(*map(np.min_scalar_type, ends)))


def damaged(what: str) -> DecodeError:
    """Return the error of an archive that is not what it should be."""
    return DecodeError(f"the archive is damaged or cut short: {what}. Fetch or make it again")
