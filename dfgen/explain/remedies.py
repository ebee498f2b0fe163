"""Advice that would make samples sooner, by what features do and how large their files are."""

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np

from dfgen.errors import DfgenError
from dfgen.limits import DEFAULT, Limits
from dfgen.loading.metrics import OF_FILES
from dfgen.packs.packed_pixels import PackedSource
from dfgen.platform_calls import IS_WINDOWS
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources.cached_pixels import cache_steps
from dfgen.samples.sources.file_source import StoredRows
from dfgen.samples.stores.cache.cache_folder import SPARE_PART
from dfgen.spec import Spec
from dfgen.system import free_memory

_MEASURED = 8  # files whose sizes are read
_COPIED = 2e9  # bytes that a worker copies in a second
_LEAST = 0.1  # share of the images: a cache that holds less is hardly worth its folder


@dataclass(frozen=True)
class Remedy:
    """Something that makes batches sooner."""

    what: str  # to write, or to do
    left: Mapping[str, float]  # stage -> the share of its seconds that is left; the others stay
    costs: float = 0.0  # seconds of a worker for each row


def remedies(reader: SampleReader) -> list[Remedy]:
    """Return what would make the samples of a reader sooner, beside functions of the user's.

    Headers of a few files are read, no pixels. A file that cannot be read is passed over.
    """
    found: dict[str, Mapping[str, float]] = {}
    for bound in reader.features:
        if bound.image is not None:
            found = bound.image.speedups(_surplus(bound, reader)) | found
    return [Remedy(what, left) for what, left in found.items()]


def _surplus(bound: BoundFeature, reader: SampleReader) -> float:
    """Return how many times as many pixels the files have as are used, of some the least."""
    found = []
    decoded = isinstance(reader.source(bound), PackedSource | StoredRows)
    rows = np.unique(np.linspace(0, len(reader) - 1, _MEASURED).astype(int)).tolist()
    for row in () if decoded else rows:
        if bound.has(row):
            try:
                value = bound.feature.at(bound.values, row)
                found.append(bound.image.oversampling(value, reader.store))
            except DfgenError:
                continue
    return min(found, default=1.0)


def stored_remedies(
    reader: SampleReader,
    limits: Limits = DEFAULT,
    rows: int | None = None,
    pack: Callable[[Any], str] | None = None,
) -> list[Remedy]:
    """Return what keeping the pixels of a reader's images would leave of its stages.

    None where no image has pixels that may be kept, where they are kept already, or where there is
    no room for a tenth of them. There are so many `rows` in the manifest, by default those of the
    reader. `pack` returns the command that packs what an Image makes of a file; it is named where
    all have room on the disk.
    """
    transforms = reader.transform is not None
    files = [bound for bound in reader.features if bound.files is not None]
    loose = [bound for bound in files if reader.source(bound).files.packed is None]
    steps = [cache_steps(one, reader.source(one), transforms, reader.store) for one in loose]
    kept = [found[0] for found in steps if not isinstance(found, str)]
    rows = len(reader) if rows is None else rows
    if not kept or reader.cached or IS_WINDOWS:
        return []
    nbytes = sum(_nbytes(image.spec) for image in kept)
    needed = rows * nbytes
    disk = shutil.disk_usage(os.curdir)
    room = disk.free - disk.free // SPARE_PART if limits.cache_bytes is None else limits.cache_bytes
    share = min(1.0, max(0, min(room, disk.free)) / needed) if needed else 0.0
    if share < _LEAST:
        return []
    what = f'cache="cache", {amount(share * needed)} of disk'
    if share < 1:
        what += f", which is room for {share:.0%} of the images"
    if share * needed > _free_memory():
        what += ", more than the memory that is free, so the disk must read as fast"
    found = [_remedy(f"{what}, from the second epoch on", share, nbytes)]
    if pack is not None and len(kept) == len(files) == 1 and needed < disk.free:
        found.append(_remedy(f"{pack(kept[0])}, {amount(needed)} of disk", 1.0, nbytes))
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


def _remedy(what: str, share: float, nbytes: int) -> Remedy:
    return Remedy(what, dict.fromkeys(OF_FILES, 1 - share), share * nbytes / _COPIED)


def _nbytes(spec: Spec) -> int:
    return int(prod(spec.shape) * spec.dtype.itemsize)
