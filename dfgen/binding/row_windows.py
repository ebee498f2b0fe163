"""Windows of rows that lie in large files: how many bytes are shuffled together."""

from collections.abc import Iterable
from math import prod
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, DfgenError
from dfgen.limits import Amount, bytes_given
from dfgen.loading.order.permutation import Integers
from dfgen.loading.order.windows import Windows, fitting, windows_of
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.storage.pack_rows import PackRows
from dfgen.samples.storage.store import Store

_WINDOW = "1GB"
_BLOCKS = 64  # of a window: of labels in order, 64 blocks mix far more classes than 16


class _Layout(NamedTuple):
    """How rows of an array file lie in it."""

    row_bytes: int
    chunk: int  # rows that are unpacked together


def windowed(
    features: Iterable[BoundFeature], window: Amount, store: Store, otherwise: bool
) -> tuple[Windows | None, str | None]:
    """Return the Windows of rows of array files, and what tells them from others.

    Blocks are consecutive rows of a file, whole chunks of it, a 64th part of the window.

    Args:
        features: bound to the rows.
        window: bytes of a window, as of `dfgen.Sequence`; None: 1 GB of rows in such files.
        store: where the files are.
        otherwise: whether rows are drawn in another way, which only a given window forbids.

    Raises:
        ArgumentError: a window is given, and is no size, or no rows lie in such files.
    """
    nbytes = bytes_given("window", _WINDOW if window is None else window)
    if nbytes < 1:
        raise ArgumentError(f"window must be above 0, got {window!r}")
    features = tuple(features)
    packed = next(
        (b.packed for b in features if b.packed is not None and b.packed.all_packed), None
    )
    if packed is not None:
        return (None, None) if window is None and otherwise else _of_shards(packed, nbytes)
    by_rows = [bound for bound in features if bound.array_rows is not None]
    if not by_rows and window is not None:
        raise ArgumentError(
            f"window={window!r} is for rows of large files, and x and y name none: leave it out, "
            'or read rows of arrays, dfgen.Array("path", shape=..., index="index")'
        )
    if not by_rows or (window is None and otherwise):
        return None, None
    layouts = [_layout(bound, store) for bound in by_rows]
    row_bytes = sum(layout.row_bytes for layout in layouts)
    chunk = max(layout.chunk for layout in layouts)
    rows = max(1, nbytes // _BLOCKS // row_bytes // chunk) * chunk
    found = windows_of(_blocks(by_rows[0], rows), fitting(nbytes, rows * row_bytes))
    return found, f"{nbytes} {found.digest}"


def _of_shards(rows: PackRows, nbytes: int) -> tuple[Windows, str]:
    """Return the Windows of rows in packs, whose blocks are shards, whatever rows are taken."""
    if rows.starts is not None:
        found = Windows(rows.starts, fitting(nbytes, rows.shard_bytes))
    else:
        found = windows_of(rows.of(np.arange(len(rows)))[0], fitting(nbytes, rows.shard_bytes))
    return found, f"{nbytes} {found.digest}"


def _layout(bound: BoundFeature, store: Store) -> _Layout:
    """Return how the rows of the first file lie; of one that cannot be read, as they come out."""
    first = bound.array_rows[0].as_py()  # type: ignore[index]
    try:
        array = store.array(first["path"], bound.feature.dataset)
    except (DfgenError, OSError):  # reading it tells more
        return _Layout(sum(prod(s.shape) * s.dtype.itemsize for s in bound.specs.values()), 1)
    chunks = getattr(array, "chunks", None) or (1,)
    return _Layout(max(1, prod(array.shape[1:]) * array.dtype.itemsize), chunks[0])


def _blocks(bound: BoundFeature, rows: int) -> Integers:
    """Return the number of the block of each row, of files in the order in which they occur."""
    values: pa.StructArray = bound.array_rows
    files = pc.dictionary_encode(values.field("path")).indices.to_numpy().astype(np.int64)
    blocks = values.field("index").to_numpy() // rows
    lowest = blocks.min()  # below 0 there is no row: reading it tells so
    found: Integers = files * (blocks.max() - lowest + 1) + blocks - lowest
    return found
