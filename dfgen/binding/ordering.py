"""The order of rows, by the arguments of `dfgen.Sequence`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.checks import flag, one_of
from dfgen.errors import ArgumentError, ManifestError, brief
from dfgen.loading.order.buckets import Bucketed
from dfgen.loading.order.draws import Drawn, drawn_by_shares, drawn_by_weights
from dfgen.loading.order.epochs import InOrder, Order, Shuffled
from dfgen.loading.order.windows import Windowed, Windows, fitting, windows_of
from dfgen.packs.rows import PackRows, PackSource
from dfgen.samples.bound_feature import Sizes
from dfgen.samples.reader import BoundRows
from dfgen.samples.sources.file_source import StoredRows
from dfgen.spec import IntArray
from dfgen.table.arrow_types import is_text, value_type

Balance = str | Mapping[str, Mapping[Any, float]] | None
"""A column, or column -> value -> its share of an epoch."""

_BLOCKS = 64  # of a window: with labels in order, 64 blocks mix far more classes than 16
_BUCKETS = {
    "shape": (2, "images of their own sizes: give image_size=None"),
    "length": (1, "arrays of unequal length: give shape=(None, ...) or seconds=None"),
}
"""Value of `bucket_by` -> axes of the sizes that it uses, and what has them."""


@dataclass(frozen=True)
class Ordering:
    """The arguments of `dfgen.Sequence` that decide the order of rows."""

    balance: Balance = None
    sampling_weight: str | None = None
    bucket_by: str | None = None
    shuffle: bool = True
    batch_size: int = 32
    window: int = 10**9  # bytes of rows in large files that are shuffled together

    def order(
        self,
        columns: Columns,
        rows: BoundRows,
        sizes: Iterable[Sizes],
        stored: Mapping[str, StoredRows],
        packs: Mapping[str, PackSource],
    ) -> Order:
        """Return the order of the rows of a table, by seed 0; some lie in array files or packs."""
        shuffle = flag("shuffle", self.shuffle)
        one_of("bucket_by", self.bucket_by, (None, *_BUCKETS))
        for name in ("balance", "sampling_weight", "bucket_by"):
            if getattr(self, name) is not None and not shuffle:
                raise ArgumentError(f"{name}= needs shuffle=True: leave one of them out")
        if self.balance is not None and self.sampling_weight is not None:
            raise ArgumentError("balance= and sampling_weight= both draw rows: leave one out")
        if not shuffle:
            return InOrder(len(columns))
        order: Order = self._draws(columns, rows) or Shuffled(len(columns))
        if self.bucket_by is not None:
            axes, need = _BUCKETS[self.bucket_by]
            fitting = [one for one in sizes if one.shape[1] == axes]
            if not fitting:
                raise ArgumentError(f'bucket_by="{self.bucket_by}" needs {need}')
            return Bucketed(order, fitting[0], self.batch_size, self.bucket_by)
        if isinstance(order, Shuffled) and (windows := self._windows(stored, packs)):
            return Windowed(windows)
        return order

    def _draws(self, columns: Columns, rows: BoundRows) -> Order | None:
        if self.sampling_weight is not None:
            return _by_weight(columns, self.sampling_weight, rows)
        if isinstance(self.balance, Mapping):
            return _by_share(columns, self.balance)
        return None if self.balance is None else _by_class(columns, self.balance)

    def _windows(
        self, stored: Mapping[str, StoredRows], packs: Mapping[str, PackSource]
    ) -> Windows | None:
        packed = next((held.rows for held in packs.values() if held.rows.numbers is None), None)
        if packed is not None:
            return _of_shards(packed, self.batch_size, self.window)
        return _of_blocks(stored, self.window) if stored else None


def _of_shards(rows: PackRows, batch_size: int, window: int) -> Windows:
    """Return windows of the shards of a pack."""
    return Windows(rows.starts, fitting(window, rows.shard_bytes), None, batch_size)


def _of_blocks(stored: Mapping[str, StoredRows], window: int) -> Windows:
    """Return windows of consecutive rows of array files; a block is whole chunks of a file.

    A chunk larger than half of a window is not kept in memory, so blocks ignore it.
    """
    row_bytes = sum(one.row_bytes for one in stored.values())
    chunk = max(one.chunk for one in stored.values())
    chunk = chunk if 2 * chunk * row_bytes <= window else 1
    rows = max(1, window // _BLOCKS // row_bytes // chunk) * chunk
    first = next(iter(stored.values()))
    blocks = first.indices // rows
    lowest = blocks.min()  # a row below 0 does not exist: reading it raises
    numbers: IntArray = first.numbers * (blocks.max() - lowest + 1) + blocks - lowest
    return windows_of(numbers, fitting(window, rows * row_bytes))


def _by_class(columns: Columns, balance: str) -> Drawn:
    values = _values(columns, balance)
    names = pc.unique(values)
    ranked = names.take(pc.sort_indices(names))
    numbers = pc.index_in(values, value_set=ranked).to_numpy().astype(np.int64)
    return drawn_by_shares(numbers, [1] * len(ranked), f"balanced by {balance}")


def _by_share(columns: Columns, balance: Mapping[str, Mapping[Any, float]]) -> Drawn:
    name, shares = next(iter(balance.items()), ("", {}))
    if len(balance) != 1 or not isinstance(shares, Mapping) or not shares:
        raise ArgumentError(
            f"balance={brief(balance)}: expected a column, or the shares of its values, as "
            '{"source": {"ours": 0.7, "theirs": 0.3}}'
        )
    if not all(isinstance(one, int | float | np.number) and one >= 0 for one in shares.values()):
        raise ArgumentError(f"balance={dict(balance)!r}: expected shares of 0 or more")
    if abs(sum(shares.values()) - 1) > 1e-6:
        raise ArgumentError(
            f"balance={{{name!r}: ...}}: the shares sum to {sum(shares.values()):g}, expected 1"
        )
    shares = {
        key.item() if isinstance(key, np.generic) else key: share for key, share in shares.items()
    }
    values = _values(columns, name)
    found = pc.unique(values).to_pylist()
    if {*map(repr, found)} != {*map(repr, shares)}:
        raise ManifestError(
            f"balance={{{name!r}: ...}} has shares of {brief([*shares])}, but the values of the "
            f"column are {brief(found)}: give each of them a share, 0 to leave it out"
        )
    numbers = pc.index_in(values, value_set=pa.array([*shares], values.type)).to_numpy()
    return drawn_by_shares(numbers.astype(np.int64), shares.values(), f"shares of {name}")


def _values(columns: Columns, name: str) -> pa.Array:
    """Return a column of classes: text, whole numbers or booleans, one in each row."""
    values = columns[columns.check("balance", name)]
    kind = value_type(values.type)
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise ManifestError(
            f'balance="{name}": the column holds {values.type}, expected classes, as text, whole '
            "numbers or booleans. To draw rows by weight, give sampling_weight="
        )
    values = values.cast(kind)  # nulls may stand among the categories
    if values.null_count:
        raise ManifestError(
            f'balance="{name}": {values.null_count:,} rows have no class: drop them with '
            f"df[df[{name!r}].notna()]"
        )
    return values


def _by_weight(columns: Columns, name: str, rows: BoundRows) -> Drawn:
    values = columns[columns.check("sampling_weight", name)]
    if not (pa.types.is_floating(values.type) or pa.types.is_integer(values.type)):
        raise ManifestError(
            f'sampling_weight="{name}": the column holds {values.type}, expected numbers'
        )
    weights: npt.NDArray[np.float64] = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size or not weights.any():
        row = int(bad[0]) if bad.size else 0
        raise ManifestError(
            f'sampling_weight="{name}": {rows.where(row)} has the weight {weights[row]}: expected '
            f"finite numbers of 0 or more, not all 0 ({bad.size:,} rows are not finite or below 0)"
        )
    return drawn_by_weights(weights, f"drawn by {name}")
