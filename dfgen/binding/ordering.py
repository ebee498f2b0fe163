"""The epoch order, by the arguments of `dfgen.Sequence`."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, brief
from dfgen.explain.names import warn_of_lookalikes
from dfgen.loading.order.draws import Drawn, drawn_by_shares, drawn_by_weights
from dfgen.loading.order.epochs import Bucketed, InOrder, Order, Shuffled
from dfgen.loading.order.windows import Windowed, fitting, windows_of
from dfgen.packs.rows import PackSource
from dfgen.samples.bound_feature import RowLengths
from dfgen.samples.reader import BoundRows
from dfgen.samples.sources import RowSource, StoredRows
from dfgen.spec import IntArray
from dfgen.table.arrow_types import is_text, value_type

_BLOCKS = 64  # of a window: with labels in order, 64 blocks mix far more classes than 16
_BUCKETS = {
    "shape": (2, "images of their own sizes: give image_size=None"),
    "length": (1, "arrays of unequal length: give shape=(None, ...) or seconds=None"),
}
"""Value of `bucket_by` -> axes of the sizes that it uses, and what has them."""


def order_of(
    arguments: SequenceArguments,
    columns: Columns,
    rows: BoundRows,
    sizes: Iterable[RowLengths],
    sources: list[RowSource],
) -> Order:
    """Return the epoch order of the rows, by seed 0.

    Args:
        arguments: of the Sequence.
        columns: of its manifest.
        rows: of its manifest, for messages.
        sizes: of images and arrays whose shape differs between rows.
        sources: of rows; those of packs and array files are shuffled in windows.
    """
    if not arguments.shuffle:
        for name in ("balance", "sampling_weight", "bucket_by"):
            if getattr(arguments, name) is not None:
                raise ArgumentError(f"{name}= needs shuffle=True: leave one of them out")
        return InOrder(len(columns))
    if arguments.balance is not None and arguments.sampling_weight is not None:
        raise ArgumentError("balance= and sampling_weight= both draw rows: leave one out")
    order: Order | None = None
    if arguments.sampling_weight is not None:
        order = _by_weight(columns, arguments.sampling_weight, rows)
    elif arguments.balance is not None:
        order = _balanced(columns, arguments.balance)
    if arguments.bucket_by is not None:
        axes, need = _BUCKETS[arguments.bucket_by]
        alike = [one for one in sizes if one.shape[1] == axes]
        if not alike:
            raise ArgumentError(f'bucket_by="{arguments.bucket_by}" needs {need}')
        base = order or Shuffled(len(columns))
        return Bucketed(base, alike[0], arguments.batch_size, arguments.bucket_by)
    return order or _windows(arguments, sources) or Shuffled(len(columns))


def _windows(arguments: SequenceArguments, sources: list[RowSource]) -> Windowed | None:
    """Return windows of shards of a pack, or of consecutive rows of array files.

    A block of these is whole chunks of a file. A chunk larger than half of a window is not kept in
    memory, so blocks ignore it.
    """
    window = arguments.window
    for source in sources:
        if isinstance(source, PackSource) and source.rows.numbers is None:
            blocks = fitting(window, source.rows.shard_bytes)
            return Windowed(source.rows.starts, blocks, None, arguments.batch_size)
    stored = [source for source in sources if isinstance(source, StoredRows)]
    if not stored:
        return None
    row_bytes = sum(one.row_bytes for one in stored)
    chunk = max(one.chunk for one in stored)
    chunk = chunk if 2 * chunk * row_bytes <= window else 1
    rows = max(1, window // _BLOCKS // row_bytes // chunk) * chunk
    first = stored[0]
    of_file = first.indices // rows
    lowest = of_file.min()  # reading a row below 0 raises
    numbers: IntArray = first.numbers * (of_file.max() - lowest + 1) + of_file - lowest
    return windows_of(numbers, fitting(window, rows * row_bytes))


def _balanced(columns: Columns, balance: str | Mapping[str, Any]) -> Drawn:
    """Return draws of the classes of a column, equally often or by their shares."""
    name, shares = balance, None
    if isinstance(balance, Mapping):
        name, shares = next(iter(balance.items()), ("", {}))
        values_of = [*shares.values()] if isinstance(shares, Mapping) else []
        are_shares = all(isinstance(one, int | float | np.number) and one >= 0 for one in values_of)
        if len(balance) != 1 or not are_shares or abs(sum(values_of) - 1) > 1e-6:
            raise ArgumentError(
                f"balance={brief(balance)}: expected a column, or the shares of its values of 0 or "
                'more, which sum to 1, as {"source": {"ours": 0.7, "theirs": 0.3}}'
            )
    values = columns[columns.check("balance", name)]
    kind = value_type(values.type)
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise ManifestError(
            f'balance="{name}": the column holds {values.type}, expected classes, as text, whole '
            "numbers or booleans. To draw rows by weight, give sampling_weight="
        )
    warn_of_lookalikes(str(name), values, columns.source)
    values = values.cast(kind)  # nulls may stand among the categories
    if values.null_count:
        raise ManifestError(
            f'balance="{name}": {values.null_count:,} rows have no class: drop them, '
            f"df = df[df[{name!r}].notna()]"
        )
    classes, title = pc.unique(values), f"balanced by {name}"
    if shares is None:
        classes = classes.take(pc.sort_indices(classes))
        shares = dict.fromkeys(range(len(classes)), 1)
    else:
        keys = [key.item() if isinstance(key, np.generic) else key for key in shares]
        if {*map(repr, classes.to_pylist())} != {*map(repr, keys)}:
            raise ManifestError(
                f"balance={{{name!r}: ...}} has shares of {brief(keys)}, but the column has the "
                f"values {brief(classes.to_pylist())}: give each a share, 0 to leave it out"
            )
        classes, title = pa.array(keys, kind), f"shares of {name}"
    numbers = pc.index_in(values, value_set=classes).to_numpy().astype(np.int64)
    return drawn_by_shares(numbers, shares.values(), title)


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
