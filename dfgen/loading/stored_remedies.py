"""Gains of keeping decoded pixels, in a cache or a pack, and the room that they take."""

import os
import shutil
import sys
import time
from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np

from dfgen.limits import DEFAULT, Limits
from dfgen.loading.jpeg_remedies import jpeg_remedies
from dfgen.loading.metrics import OF_FILES
from dfgen.loading.remedies import Remedy
from dfgen.samples.features.spec import Spec
from dfgen.samples.reader import SampleReader
from dfgen.samples.storage.cache.cache_folder import SPARE_PART
from dfgen.system import free_memory

_TRIED = 64 << 20  # bytes that are copied to see how long it takes, more than CPUs keep by them
_LEAST = 0.1  # share of the images: a cache that holds less is hardly worth its folder

OWN_WORK = "own work"
"""Work for each row beside the stages: where whole chunks are copied, there is none."""


def stored_remedies(
    reader: SampleReader,
    limits: Limits = DEFAULT,
    rows: int | None = None,
    pack: Callable[[Any], str] | None = None,
) -> list[Remedy]:
    """Return what keeping the pixels of a reader's images would leave of its stages.

    None where no image has pixels that may be kept, where they are kept already, or where there is
    no room for a tenth of them. How long copying takes is measured, in some 0.05 s.

    Args:
        reader: makes the samples.
        limits: `cache` bounds what is kept.
        rows: of the manifest; None: those of the reader.
        pack: returns the command that packs the pixels that such an Image makes of a file; it is
            named where all of them have room on the disk.
    """
    transforms = reader.transform is not None
    files = [bound for bound in reader.features if bound.files is not None]
    steps = [bound.kept(transforms, reader.store) for bound in files if bound.packed is None]
    kept = [found[0] for found in steps if not isinstance(found, str)]
    rows = len(reader) if rows is None else rows
    if not kept:
        return jpeg_remedies(reader, rows)
    if reader.cached or sys.platform == "win32":
        return []
    specs = [image.spec for image in kept]
    needed = rows * sum(map(_nbytes, specs))
    disk = shutil.disk_usage(os.curdir)
    room = disk.free - disk.free // SPARE_PART if limits.cache_bytes is None else limits.cache_bytes
    share = min(1.0, max(0, min(room, disk.free)) / needed) if needed else 0.0
    if share < _LEAST:
        return []
    copying = sum(map(_seconds_to_copy, specs))
    what = f'cache="cache", {amount(share * needed)} of disk'
    if share < 1:
        what += f", which is room for {share:.0%} of the images"
    if share * needed > _free_memory():
        what += ", more than the memory that is free, so the disk must read as fast"
    found = [_remedy(f"{what}, from the second epoch on", share, copying)]
    if pack is not None and len(kept) == len(files) == 1 and needed < disk.free:
        found.append(_remedy(f"{pack(kept[0])}, {amount(needed)} of disk", 1.0, copying))
    return found


def amount(nbytes: float) -> str:
    """Return bytes for people to read.

    Example:
        >>> amount(12_345_678), amount(3e12), amount(1_000)
        ('12.3 MB', '3,000.0 GB', '0.0 MB')
    """
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"


def _free_memory() -> float:
    try:
        return free_memory()
    except OSError:  # there is no /proc
        return inf


def _remedy(what: str, share: float, copying: float) -> Remedy:
    left = dict.fromkeys((*OF_FILES, OWN_WORK), 1 - share)
    return Remedy(what, left, share * copying, is_stored=True)


def _nbytes(spec: Spec) -> int:
    return int(prod(spec.shape) * spec.dtype.itemsize)


def _seconds_to_copy(spec: Spec) -> float:
    """Return how long it takes to copy the pixels of one row from memory into a batch."""
    count = max(2, _TRIED // _nbytes(spec))
    pixels = np.zeros((count, *spec.shape), spec.dtype)
    pixels[:] = 1  # or all rows would be the same page
    rows = np.random.default_rng(0).permutation(count)
    out = np.ones((32, *spec.shape), spec.dtype)
    began = time.perf_counter()
    for first in range(0, count, 32):
        some = rows[first : first + 32]
        np.take(pixels, some, axis=0, out=out[: len(some)], mode="clip")
    return (time.perf_counter() - began) / count
