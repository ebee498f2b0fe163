"""Advice that would make samples sooner, by what features do and how large their files are."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, prod
from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.errors import DfgenError
from dfgen.limits import DEFAULT, Limits
from dfgen.loading.metrics import OF_FILES
from dfgen.packs.packed_pixels import PackedSource
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.pixels.smaller_jpeg import smaller_jpeg
from dfgen.samples.pixels.upright import size_of_image
from dfgen.samples.reader import SampleReader
from dfgen.samples.sources.cached_pixels import cache_steps
from dfgen.samples.sources.stored_rows import StoredRows
from dfgen.samples.stores.cache.cache_folder import SPARE_PART
from dfgen.samples.stores.schemes import store_of
from dfgen.spec import Spec, each, unwatched
from dfgen.system import free_memory

OWN_WORK = "own work"
"""Work for each row beside the stages: where whole chunks are copied, there is none."""

_MEASURED = 8  # files whose sizes are read
_COPIED = 64 << 20  # bytes that are copied to see how long it takes, more than CPUs keep by them
_LEAST = 0.1  # share of the images: a cache that holds less is hardly worth its folder
_MAX_SIDE, _QUALITY = 512, 92  # what `dfgen.pack` takes if it is told nothing else
_DECODED = 3  # files that are decoded, made smaller, and decoded again
_TIMES = 3
_MOST = 0.7  # of the time: where more is left, a pack is hardly worth its disk


@dataclass(frozen=True)
class Remedy:
    """Something that makes batches sooner."""

    what: str  # to write, or to do
    left: Mapping[str, float]  # stage -> the share of its seconds that is left; the others stay
    costs: float = 0.0  # seconds of a worker for each row
    is_stored: bool = False  # whether it keeps what is made of files on a disk


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
    for row in () if decoded else _some(reader, _MEASURED):
        if bound.has(row):
            try:
                value = bound.feature.at(bound.values, row)
                found.append(bound.image.oversampling(value, reader.store))
            except DfgenError:
                continue
    return min(found, default=1.0)


def _some(reader: SampleReader, number: int) -> list[int]:
    return np.unique(np.linspace(0, len(reader) - 1, number).astype(int)).tolist()  # type: ignore[no-any-return]


def stored_remedies(
    reader: SampleReader,
    limits: Limits = DEFAULT,
    rows: int | None = None,
    pack: Callable[[Any], str] | None = None,
) -> list[Remedy]:
    """Return what keeping the pixels of a reader's images would leave of its stages.

    None where no image has pixels that may be kept, where they are kept already, or where there is
    no room for a tenth of them. How long copying takes is measured, in some 0.05 s. There are so
    many `rows` in the manifest, by default those of the reader. `pack` returns the command that
    packs what an Image makes of a file; it is named where all have room on the disk.
    """
    transforms = reader.transform is not None
    files = [bound for bound in reader.features if bound.files is not None]
    loose = [bound for bound in files if reader.source(bound).files.packed is None]
    steps = [cache_steps(one, reader.source(one), transforms, reader.store) for one in loose]
    kept = [found[0] for found in steps if not isinstance(found, str)]
    rows = len(reader) if rows is None else rows
    if not kept:
        return _of_smaller_jpegs(reader, files, rows)
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
    count = max(2, _COPIED // _nbytes(spec))
    pixels = np.zeros((count, *spec.shape), spec.dtype)
    pixels[:] = 1  # or all rows would be the same page
    rows = np.random.default_rng(0).permutation(count)
    out = np.ones((32, *spec.shape), spec.dtype)
    began = time.perf_counter()
    for first in range(0, count, 32):
        some = rows[first : first + 32]
        np.take(pixels, some, axis=0, out=out[: len(some)], mode="clip")
    return (time.perf_counter() - began) / count


def _of_smaller_jpegs(reader: SampleReader, files: list[BoundFeature], rows: int) -> list[Remedy]:
    """Return what a pack of smaller JPEGs would leave of the stages, and its bytes.

    Named where photographs are twice as large as in such a pack, and crops of at most half its size
    are made of them. How long it takes to decode both is measured on a few files, some 0.6 s for
    those of 3000x2000.
    """
    if len(files) != 1 or not _is_cropped(files[0], reader):
        return []
    try:
        found = [_decoded(files[0], reader, row) for row in _some(reader, _DECODED)]
    except DfgenError:  # of a remote or damaged file: training tells
        return []
    now, then, nbytes = np.array(found).sum(axis=0).tolist()
    if then > _MOST * now:
        return []
    room = f"{nbytes / len(found) * rows / 1e6:,.1f} MB of disk"
    what = f'dfgen.pack(..., format="jpeg"), which keeps {_MAX_SIDE} pixels a side, {room}'
    return [Remedy(what, dict.fromkeys(("decode", "resize"), then / now), is_stored=True)]


def _is_cropped(bound: BoundFeature, reader: SampleReader) -> bool:
    """Whether something is an image in files of its own, of which one size is made."""
    feature, source = bound.feature, reader.source(bound)
    is_stored = source.files.packed is not None or isinstance(source, StoredRows)
    is_image = feature.is_image and not feature.follows and not bound.variable_size
    return is_image and not is_stored and not bound.has_lists and len(feature.columns) == 1


def _decoded(bound: BoundFeature, reader: SampleReader, row: int) -> tuple[float, float, int]:
    """Return the seconds that a file takes, those of a smaller one, and the bytes of that."""
    image, store = bound.feature, reader.store
    value = image.at(bound.values, row)
    size, spec = size_of_image(value, store), each(image.after_transform)[0]
    if max(size) < 2 * _MAX_SIDE or 2 * max(spec.shape[:2]) > _MAX_SIDE:
        return 0.0, 1.0, 0
    data = store.read(value)
    smaller = smaller_jpeg(data, _MAX_SIDE, _QUALITY, "rgb", store.limits)
    memory = store_of([pa.array([data, smaller])], store.limits)
    out: Any = np.empty(spec.shape, spec.dtype)
    drawn = image.draw(np.random.default_rng(row))
    now, then = inf, inf
    for _ in range(_TIMES):  # other programs only make it slower
        began = time.perf_counter()
        image.read(data, out, memory, unwatched, drawn)
        between = time.perf_counter()
        image.read(smaller, out, memory, unwatched, drawn)
        now = min(now, between - began)
        then = min(then, time.perf_counter() - between)
    return now, then, len(smaller)
