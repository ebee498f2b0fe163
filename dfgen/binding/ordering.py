"""The order of the rows, and the weight of each row in the loss."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, brief, did_you_mean, listed, warn
from dfgen.explain.labels import warn_of_lookalikes
from dfgen.loading.order.draws import Drawn, drawn_by_shares, drawn_by_weights
from dfgen.loading.order.epochs import Bucketed, InOrder, Order, Shuffled
from dfgen.loading.order.windows import Windowed, fitting, windows_of
from dfgen.loading.pending_batch import Weights
from dfgen.packs.rows import PackSource
from dfgen.samples.features.classes import Number
from dfgen.samples.reader import BoundFeature, BoundRows, RowLengths
from dfgen.samples.sources import RowSource, StoredRows
from dfgen.spec import Tree, leaves
from dfgen.table.arrow_types import TEXT, nulls, value_type

_MOST = float(np.finfo(np.float32).max)

_BLOCKS = 64  # of a window: with labels in order, 64 blocks mix far more classes than 16
_BUCKETS = {
    "shape": (2, "images of their own sizes: give image_size=None"),
    "length": (1, "arrays of unequal length: give shape=(None, ...) or seconds=None"),
}
"""Value of `bucket_by` -> axes of the sizes that it uses, and what has them."""


def row_weights(
    columns: Columns, targets: Tree, arguments: SequenceArguments
) -> tuple[Weights | None, dict[str, Weights]]:
    """Return the weight of each row for all targets, and name of a target -> a further factor.

    `sample_weight` and `class_weight` are multiplied. None means 1.

    Args:
        columns: of the manifest.
        targets: the bound features of y, nested as y.
        arguments: with `sample_weight` and `class_weight`.
    """
    if targets is None:
        raise ArgumentError("sample_weight and class_weight weight a loss, but there is no y")
    by_column = _by_target("sample_weight", arguments.sample_weight, targets)
    by_class = _by_target("class_weight", arguments.class_weight, targets)
    shared = by_column.pop("", None)
    weights = None if shared is None else _column_weights(columns, "sample_weight", shared)
    own = dict[str, Weights]()
    for bound in leaves(targets):
        column, classes = by_column.get(bound.name), by_class.get(bound.name)
        at = "" if isinstance(targets, BoundFeature) else f"[{bound.name!r}]"
        if column is not None:
            own[bound.name] = _column_weights(columns, f"sample_weight{at}", column)
        if classes is not None:
            factor = _class_weights(bound, classes, len(columns), f"class_weight{at}")
            own[bound.name] = factor * own.get(bound.name, np.float32(1))
    if isinstance(targets, BoundFeature) and own:  # Keras takes one array
        weights, own = own[targets.name] * (np.float32(1) if weights is None else weights), {}
    return weights, own


def _by_target(argument: str, value: Any, targets: Tree) -> dict[str, Any]:
    """Return name of a target -> its part of an argument; "" stands for all targets."""
    names = [bound.name for bound in leaves(targets)]
    nested = isinstance(value, Mapping | list | tuple)
    if value is None or (argument == "sample_weight" and not nested):
        return {} if value is None else {"": value}
    if isinstance(targets, BoundFeature):
        parts = [*value.values()] if isinstance(value, Mapping) else []
        if argument == "class_weight" and not any(isinstance(one, Mapping | str) for one in parts):
            return {targets.name: value}
    elif isinstance(targets, Mapping):
        if isinstance(value, Mapping) and value.keys() <= targets.keys():
            return dict(value)
    elif isinstance(value, list | tuple) and len(value) == len(names):
        return dict(zip(names, value, strict=True))
    stray = [key for key in value if key not in names] if isinstance(value, Mapping) else []
    raise ArgumentError(
        f"{argument}={brief(value)} does not fit y, whose targets are {listed(names)}: nest it as "
        f"y.{did_you_mean(str(stray[0]), names) if stray else ''}"
    )


def _column_weights(columns: Columns, argument: str, name: object) -> Weights:
    column = columns.check(argument, name)
    values = columns[column]
    missing = nulls(values)
    weights: Weights = np.zeros(len(columns), np.float32)
    if not missing.any():
        weights = Number(column, dtype="float32").bind(columns)
    bad = missing | ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        row = int(bad.argmax())
        raise ManifestError(
            f'{argument}="{column}" is {values[row]} in row {row}: expected finite numbers of 0 or '
            f"more in each row, but {bad.sum():,} of {len(bad):,} rows have none"
        )
    return weights


def _class_weights(target: BoundFeature, class_weight: Any, rows: int, called: str) -> Weights:
    names = target.feature.class_names if isinstance(target.values, np.ndarray) else None
    if names is None:
        raise ArgumentError(
            f"{called}={brief(class_weight)} is for one class per row, but the target "
            f"{target.name!r} is {type(target.feature).__name__}: give sample_weight, a column of "
            "weights, or make the target dfgen.Category(...)"
        )
    if not len(target.values):  # no row has a class
        return np.ones(rows, np.float32)
    labels = target.values if target.present is None else target.values[target.present]
    counts = np.bincount(labels, minlength=len(names))
    if isinstance(class_weight, str) and class_weight == "balanced":
        # Source: compute_class_weight("balanced") of scikit-learn.
        weights = len(labels) / (np.count_nonzero(counts) * counts.clip(min=1))
    else:
        by_index = _by_index(names, class_weight, called)
        weights = np.array([by_index.get(index, 1.0) for index in range(len(names))])
        if left := [name for i, name in enumerate(names) if counts[i] and i not in by_index]:
            warn(
                f"{called} has no weight for {listed(left)} of column "
                f"{target.feature.columns[0]!r}, whose rows then weigh 1: give each class a weight"
            )
    return np.asarray(weights[target.values], np.float32)


def _by_index(names: tuple[Any, ...], class_weight: Any, called: str) -> dict[int, Any]:
    """Return class index -> weight. The keys are all class names, or all class indices."""
    known = f"Classes: {listed(names)}, or 0 to {len(names) - 1}"
    if not isinstance(class_weight, Mapping):
        raise ArgumentError(
            f'{called}={brief(class_weight)}: expected a dict of class -> weight, or "balanced". '
            f"{known}"
        )
    texts = [*map(str, names)]
    by_name = {key: texts.index(str(key)) for key in class_weight if str(key) in texts}
    indices = range(len(names))
    by_place = {k: int(k) for k in class_weight if isinstance(k, int | np.integer) and k in indices}
    complete = [one for one in (by_name, by_place) if len(one) == len(class_weight)]
    if not complete:
        stray = next(key for key in class_weight if key not in (by_name or by_place))
        raise ArgumentError(f"{called} has the unknown class {stray!r}. {known}")
    if complete[0] != complete[-1]:
        raise ArgumentError(
            f"{called} has the keys {[*class_weight]}, which could be names or indices of classes. "
            f"{known}. Rename the classes, or give sample_weight, a column of weights"
        )
    for key, weight in class_weight.items():
        if not (isinstance(weight, int | float | np.number) and 0 <= weight <= _MOST):
            raise ArgumentError(
                f"{called} has the weight {weight!r} for class {key!r}: expected 0 to {_MOST:.2g}"
            )
    return {complete[0][key]: weight for key, weight in class_weight.items()}


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
    """Return windows of shards of a pack, or of consecutive rows of array files, or None.

    Shards count as a whole, even if few of their rows are used. Some rows of a pack that take less
    than a window are shuffled as without the pack. A block of array files is whole chunks of a
    file. A chunk larger than half of a window is not kept in memory, so blocks ignore it.
    """
    window = arguments.window
    for source in sources:
        if isinstance(source, PackSource) and (
            source.rows.numbers is None or source.rows.nbytes > window
        ):
            starts, by_shard = source.rows.blocks()
            blocks = fitting(window, source.rows.shard_bytes)
            return Windowed(starts, blocks, by_shard, arguments.batch_size)
    stored = [source for source in sources if isinstance(source, StoredRows)]
    if not stored:
        return None
    row_bytes = sum(one.row_bytes for one in stored)
    chunk = max(one.chunk for one in stored)
    chunk = chunk if 2 * chunk * row_bytes <= window else 1
    rows = max(1, window // _BLOCKS // row_bytes // chunk) * chunk
    of_file = stored[0].indices // rows
    lowest = of_file.min()  # reading a row below 0 raises
    of_row = stored[0].numbers * (of_file.max() - lowest + 1) + of_file - lowest
    return windows_of(of_row, fitting(window, rows * row_bytes))


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
    if not (kind in TEXT or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
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
