"""Gains of packing smaller JPEGs, if crops are drawn that no cache can keep."""

import time
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa

from dfgen.errors import DfgenError
from dfgen.loading.remedies import Remedy
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.spec import each, unwatched
from dfgen.samples.pixels.smaller_jpeg import smaller_jpeg
from dfgen.samples.pixels.upright import size_of_image
from dfgen.samples.reader import SampleReader
from dfgen.samples.storage.stores import store_of

_MAX_SIDE, _QUALITY = 512, 92  # what `dfgen.pack` takes if it is told nothing else
_ROWS = 3  # files that are decoded, made smaller, and decoded again
_TIMES = 3
_MOST = 0.7  # of the time: where more is left, a pack is hardly worth its disk


def jpeg_remedies(reader: SampleReader, rows: int) -> list[Remedy]:
    """Return what a pack of smaller JPEGs would leave of the stages of a reader, and its bytes.

    Named where photographs are twice as large as in such a pack, and crops of at most half its size
    are made of them. How long it takes to decode both is measured on a few files, some 0.6 s for
    those of 3000x2000.

    Args:
        reader: makes the samples.
        rows: of the manifest.
    """
    files = [bound for bound in reader.features if bound.files is not None]
    if len(files) != 1 or not _is_cropped(files[0]):
        return []
    tried = np.unique(np.linspace(0, len(reader) - 1, _ROWS).astype(int)).tolist()
    try:
        found = [_tried(files[0], reader, row) for row in tried]
    except DfgenError:  # of a file that is far away or broken: training tells
        return []
    now, then, nbytes = np.array(found).sum(axis=0).tolist()
    if then > _MOST * now:
        return []
    room = f"{nbytes / len(found) * rows / 1e6:,.1f} MB of disk"
    what = f'dfgen.pack(..., format="jpeg"), which keeps {_MAX_SIDE} pixels a side, {room}'
    return [Remedy(what, dict.fromkeys(("decode", "resize"), then / now), is_stored=True)]


def _is_cropped(bound: BoundFeature) -> bool:
    """Whether something is an image in files of its own, of which one size is made."""
    feature, is_stored = bound.feature, bound.packed is not None or bound.pixels is not None
    is_image = feature.has_geometry and not feature.follows and not feature.keeps_sizes
    return is_image and not is_stored and not bound.has_lists and len(feature.columns) == 1


def _tried(bound: BoundFeature, reader: SampleReader, row: int) -> tuple[float, float, int]:
    """Return the seconds that a file takes, those that a smaller one does, and the bytes of that.

    Raises:
        DfgenError: it cannot be read.
    """
    image, store = bound.feature, reader.store
    value = image.at(bound.values, row)
    size, spec = size_of_image(value, store), each(image.made_spec)[0]
    if max(size) < 2 * _MAX_SIDE or 2 * max(spec.shape[:2]) > _MAX_SIDE:
        return 0.0, 1.0, 0
    data = store.read(value)
    smaller = smaller_jpeg(data, _MAX_SIDE, _QUALITY, "rgb", store.limits)
    memory = store_of([pa.array([data, smaller])], store.limits)
    out: Any = np.empty(spec.shape, spec.dtype)
    given = image.draw(np.random.default_rng(row))
    now, then = inf, inf
    for _ in range(_TIMES):  # other programs only make it slower
        began = time.perf_counter()
        image.read(data, out, memory, unwatched, given)
        between = time.perf_counter()
        image.read(smaller, out, memory, unwatched, given)
        now = min(now, between - began)
        then = min(then, time.perf_counter() - between)
    return now, then, len(smaller)
