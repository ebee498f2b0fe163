"""How an epoch takes rows: by class, by shares, weights or shapes, in windows of files."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns, InPack
from dfgen.errors import ArgumentError, ManifestError, brief, listed
from dfgen.limits import Amount, bytes_given
from dfgen.loading.order.draws import MOST_PLACES, balance_of, proportions_of
from dfgen.loading.order.row_order import Buckets, Drawing, Draws
from dfgen.loading.order.windows import Windows, fitting, windows_of
from dfgen.packs.rows import PackRows
from dfgen.samples.bound_feature import Sizes
from dfgen.samples.reader import BoundRows
from dfgen.samples.sources.file_source import StoredRows
from dfgen.spec import IntArray
from dfgen.system import one_of, whole
from dfgen.table.arrow_types import is_text, value_type

_WINDOW = "1GB"
_BLOCKS = 64  # of a window: of labels in order, 64 blocks mix far more classes than 16


_BUCKETS = {
    "shape": (
        2,
        "images that keep their own sizes, but x has none: give image_size=None, or "
        'dfgen.Image("path", size=None)',
    ),
    "length": (
        1,
        "arrays of unequal length, but x has none: give dfgen.Audio(..., seconds=None), "
        'dfgen.Array("path", shape=(None, ...)), dfgen.Column("tokens", np.array, shape=(None,)), '
        "or lists of images with max_items=",
    ),
}
"""Word of `bucket_by` -> axes of the sizes that it goes by, and what has such."""
DrawnBy = str | Mapping[str, Mapping[Any, float]] | None
"""As of `dfgen.Sequence`: a column, or column -> what it holds -> its share of an epoch."""


@dataclass(frozen=True)
class Ordering:
    """How an epoch takes rows beside a plain shuffle, by the arguments of `dfgen.Sequence`."""

    balance: DrawnBy = None
    rows_per_epoch: int | None = None
    bucket_by: str | None = None
    window: Amount = None

    @cached_property
    def window_bytes(self) -> int:
        """The bytes of a window."""
        return window_bytes(self.window)

    def drawing(
        self,
        columns: Columns,
        rows: BoundRows,
        sizes: Iterable[Sizes],
        batch_size: int,
        stored: Mapping[str, StoredRows],
        packs: Mapping[str, InPack],
    ) -> tuple[Drawing, dict[str, str | None]]:
        """Return how rows are taken, and argument -> what tells that from other ways."""
        balance, balanced = row_draws(columns, self.balance, self.rows_per_epoch, rows)
        buckets, bucketed_by = _bucketed(sizes, self.bucket_by, batch_size)
        packed = next((held.rows for held in packs.values() if held.rows.numbers is None), None)
        otherwise = bool(balance or buckets)
        windows, windowed_by = windowed(stored, packed, self.window, otherwise, batch_size)
        told = {"balance": balanced, "bucket_by": bucketed_by, "window": windowed_by}
        return Drawing(balance, buckets, windows), told


def _bucketed(
    image_sizes: Iterable[Sizes], bucket_by: str | None, batch_size: int
) -> tuple[Buckets | None, str | None]:
    """Return the Buckets by the first image or array of its own size, and what tells them."""
    one_of("bucket_by", bucket_by, (None, *_BUCKETS))
    if bucket_by is None:
        return None, None
    axes, advice = _BUCKETS[bucket_by]
    sizes = next((one for one in image_sizes if one.shape[1] == axes), None)
    if sizes is None:
        raise ArgumentError(f'bucket_by="{bucket_by}" gathers {advice}')
    buckets = Buckets(sizes, whole("batch_size", batch_size, least=1))
    digest = blake2b(sizes.tobytes(), digest_size=8).hexdigest()
    return buckets, f"{bucket_by} {buckets.window} {digest}"


def window_bytes(window: Amount) -> int:
    """Return the bytes of a window, as of `dfgen.Sequence`; None: 1 GB."""
    nbytes = bytes_given("window", _WINDOW if window is None else window)
    if nbytes < 1:
        raise ArgumentError(f"window must be above 0, got {window!r}")
    return nbytes


def windowed(
    stored: Mapping[str, StoredRows],
    packed: PackRows | None,
    window: Amount,
    otherwise: bool,
    batch_size: int,
) -> tuple[Windows | None, str | None]:
    """Return the Windows of rows of packs and array files, and what tells them from others.

    Blocks are shards. Of array files they are consecutive rows of a file, whole chunks of it where
    these are no more than half of the window, and a 64th part of that.

    Args:
        stored: name of a feature -> its rows in array files.
        packed: where all rows lie in packs; None: they do not.
        window: bytes of a window, as of `dfgen.Sequence`; None: 1 GB of rows in such files.
        otherwise: whether rows are drawn in another way, which only a given window forbids.
        batch_size: by which rows that were mixed when packed are dealt to lanes.
    """
    nbytes = window_bytes(window)
    if packed is not None:
        return (
            (None, None) if window is None and otherwise else _of_shards(packed, nbytes, batch_size)
        )
    if not stored and window is not None:
        raise ArgumentError(
            f"window={window!r} is for rows of large files, and x and y name none: leave it out, "
            'or read rows of arrays, dfgen.Array("path", shape=..., index="index")'
        )
    if not stored or (window is None and otherwise):
        return None, None
    row_bytes = sum(one.row_bytes for one in stored.values())
    chunk = max(one.chunk for one in stored.values())
    chunk = chunk if 2 * chunk * row_bytes <= nbytes else 1  # else it is not kept in memory
    rows = max(1, nbytes // _BLOCKS // row_bytes // chunk) * chunk
    first = next(iter(stored.values()))
    found = windows_of(_blocks(first, rows), fitting(nbytes, rows * row_bytes))
    return found, f"{nbytes} {found.digest}"


def _of_shards(rows: PackRows, nbytes: int, batch_size: int) -> tuple[Windows, str]:
    """Return the Windows of all rows of a pack, whose blocks are shards."""
    found = Windows(rows.starts, fitting(nbytes, rows.shard_bytes), None, batch_size)
    return found, f"{nbytes} {found.digest}"


def _blocks(stored: StoredRows, rows: int) -> IntArray:
    """Return the number of the block of each row, of files in the order in which they occur."""
    blocks = stored.indices // rows
    lowest = blocks.min()  # below 0 there is no row: reading it tells so
    found: IntArray = stored.numbers * (blocks.max() - lowest + 1) + blocks - lowest
    return found


def row_draws(
    columns: Columns, balance: DrawnBy, rows_per_epoch: int | None, reader: BoundRows
) -> tuple[Draws | None, str | None]:
    """Return how the rows of an epoch are drawn, and what tells that from other ways.

    By the weights of a column of floats, which may change, by the classes of any other, or by the
    shares of what one holds.
    """
    if balance is None and rows_per_epoch is not None:
        raise ArgumentError(
            f"rows_per_epoch={rows_per_epoch!r} is for rows that are drawn: give balance=, a "
            "column of weights or classes. Without it every row comes once an epoch; for steps of "
            "another number fit(seq.repeat(), steps_per_epoch=...)"
        )
    if balance is None:
        return None, None
    places = len(columns)
    if rows_per_epoch is not None:
        places = whole("rows_per_epoch", rows_per_epoch, least=1, most=MOST_PLACES)
    if isinstance(balance, Mapping):
        name, weights = weights_of_shares(columns, balance)
        return proportions_of(weights, places), f"{name} as shares"
    values = columns[columns.check("balance", balance)]
    if pa.types.is_floating(values.type):
        given = values.to_numpy(zero_copy_only=False)
        weights = _checked_weights(f'balance="{balance}"', given, reader)
        return proportions_of(weights, places), f"{balance} as weights"
    numbers = _class_numbers(balance, values)
    digest = blake2b(numbers.tobytes(), digest_size=8).hexdigest()
    return balance_of(numbers, places), f"{balance} {digest}"


def _class_numbers(balance: str, values: pa.Array) -> npt.NDArray[np.int64]:
    kind = value_type(values.type)
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise ManifestError(
            f'balance="{balance}": the column holds {values.type}, expected one class in each '
            "row, as text, whole numbers or booleans, or its weight, as floats"
        )
    values = values.cast(kind)  # nulls may stand among the categories
    if values.null_count:
        raise ManifestError(
            f'balance="{balance}": {values.null_count:,} rows have no class; drop them: '
            f"df = df[df[{balance!r}].notna()]"
        )
    names = pc.unique(values)
    ranked = names.take(pc.sort_indices(names))
    numbers: npt.NDArray[np.int64] = pc.index_in(values, value_set=ranked).to_numpy()
    return numbers.astype(np.int64)


def _checked_weights(
    where: str, weights: npt.NDArray[Any], reader: BoundRows
) -> npt.NDArray[np.float64]:
    """Return weights that rows can be drawn by, or name the first row that has none."""
    weights = weights.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise ManifestError(
            f"{where}: {reader.where(int(bad[0]))} has the weight {weights[bad[0]]}: expected "
            f"finite numbers of 0 or more ({bad.size:,} of {len(weights):,} are not)"
        )
    if not weights.any():
        raise ManifestError(
            f"{where}: the weights of all {len(weights):,} rows are 0, from "
            f"{reader.where(0)} on: no row can be drawn. Give some a weight above 0"
        )
    return weights


def weights_of_shares(
    columns: Columns, balance: Mapping[str, Mapping[Any, float]]
) -> tuple[str, npt.NDArray[np.float64]]:
    """Return the column, and the weight of each row: its part of the share of its value."""
    name, shares = next(iter(balance.items()), (None, None))
    if len(balance) != 1 or not isinstance(shares, Mapping) or not shares:
        raise ArgumentError(
            f"balance must be a column, or shares of what one holds, got {brief(balance)}: write "
            'balance={"source": {"ours": 0.7, "theirs": 0.3}}'
        )
    column, given = columns.check("balance", name), list(shares.values())
    if not all(isinstance(share, Real) and 0 <= share <= 2**53 for share in given):
        raise ArgumentError(f"shares must be numbers from 0 to 1, got balance={dict(balance)!r}")
    if abs((total := sum(given)) - 1) > 1e-6:
        instead = ""
        if total > 0:
            parts = {one: round(share / total, 4) for one, share in shares.items()}
            instead = f": in the same proportion they are {parts}"
        raise ArgumentError(
            f"the shares of balance={{{column!r}: ...}} sum to {total:g}, expected 1{instead}"
        )
    values = columns[column]
    values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
    counts = _counts(column, values, shares)
    if counts.keys() != shares.keys():
        without = [one for one in counts if one not in shares]
        absent = [one for one in shares if one not in counts]
        what = f"holds {listed(without)}, without a share" if without else ""
        what = what or f"does not hold {listed(absent)}, which has one"
        raise ManifestError(
            f"balance={{{column!r}: ...}}: the column {what}: expected a share of each value in "
            "it, 0 of those that are not to be drawn, and of no others"
        )
    places = pc.index_in(values, value_set=pa.array([*shares], values.type)).to_numpy()
    each = np.array([share / counts[one] for one, share in shares.items()])
    weights: npt.NDArray[np.float64] = each[places]
    return column, weights


def _counts(column: str, values: pa.ChunkedArray, shares: Mapping[Any, float]) -> dict[Any, int]:
    """Return value -> its rows, of a column of whose type the values with a share may be."""
    is_bool = pa.types.is_boolean(values.type)
    known = [one for one in shares if one is not None]
    if not pa.types.is_nested(values.type) and all(
        isinstance(one, bool | np.bool_) == is_bool for one in known
    ):
        return {one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()}
    raise ManifestError(
        f"balance={{{column!r}: ...}}: the column is of {values.type}, and its shares are of "
        f"{listed(known)}: expected a column of text, numbers or booleans, and a share of each of "
        "its values, written as it is there"
    )
