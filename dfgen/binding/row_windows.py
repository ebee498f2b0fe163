"""Windows of rows that lie in large files: how many bytes are shuffled together."""

from collections.abc import Mapping

import numpy as np

from dfgen.binding.rows_of_arrays import RowLayout
from dfgen.errors import ArgumentError
from dfgen.limits import Amount, bytes_given
from dfgen.loading.order.permutation import Integers
from dfgen.loading.order.windows import Windows, fitting, windows_of
from dfgen.samples.storage.mapped_shards.pack_rows import PackRows

_WINDOW = "1GB"
_BLOCKS = 64  # of a window: of labels in order, 64 blocks mix far more classes than 16


def window_bytes(window: Amount) -> int:
    """Return the bytes of a window, as of `dfgen.Sequence`; None: 1 GB."""
    nbytes = bytes_given("window", _WINDOW if window is None else window)
    if nbytes < 1:
        raise ArgumentError(f"window must be above 0, got {window!r}")
    return nbytes


def windowed(
    layouts: Mapping[str, RowLayout], packed: PackRows | None, window: Amount, otherwise: bool
) -> tuple[Windows | None, str | None]:
    """Return the Windows of rows of packs and array files, and what tells them from others.

    Blocks are shards. Of array files they are consecutive rows of a file, whole chunks of it where
    these are no more than half of the window, and a 64th part of that.

    Args:
        layouts: name of a feature -> how its rows lie in array files.
        packed: where all rows lie in packs; None: they do not.
        window: bytes of a window, as of `dfgen.Sequence`; None: 1 GB of rows in such files.
        otherwise: whether rows are drawn in another way, which only a given window forbids.

    Raises:
        ArgumentError: a window is given, and is no size, or no rows lie in such files.
    """
    nbytes = window_bytes(window)
    if packed is not None:
        return (None, None) if window is None and otherwise else _of_shards(packed, nbytes)
    if not layouts and window is not None:
        raise ArgumentError(
            f"window={window!r} is for rows of large files, and x and y name none: leave it out, "
            'or read rows of arrays, dfgen.Array("path", shape=..., index="index")'
        )
    if not layouts or (window is None and otherwise):
        return None, None
    row_bytes = sum(layout.row_bytes for layout in layouts.values())
    chunk = max(layout.chunk for layout in layouts.values())
    chunk = chunk if 2 * chunk * row_bytes <= nbytes else 1  # else it is not kept in memory
    rows = max(1, nbytes // _BLOCKS // row_bytes // chunk) * chunk
    first = next(iter(layouts.values()))
    found = windows_of(_blocks(first, rows), fitting(nbytes, rows * row_bytes))
    return found, f"{nbytes} {found.digest}"


def _of_shards(rows: PackRows, nbytes: int) -> tuple[Windows, str]:
    """Return the Windows of rows in packs, whose blocks are shards, whatever rows are taken."""
    per_window = fitting(nbytes, rows.shard_bytes)
    if rows.starts is not None:
        found = Windows(rows.starts, per_window)
    else:
        found = windows_of(rows.of(np.arange(len(rows)))[0].astype(np.int64), per_window)
    return found, f"{nbytes} {found.digest}"


def _blocks(layout: RowLayout, rows: int) -> Integers:
    """Return the number of the block of each row, of files in the order in which they occur."""
    blocks = layout.indices // rows
    lowest = blocks.min()  # below 0 there is no row: reading it tells so
    found: Integers = layout.files * (blocks.max() - lowest + 1) + blocks - lowest
    return found
