"""What each row counts in the loss, and which class it is drawn for."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.binding.nested import Tree
from dfgen.errors import ArgumentError, ManifestError
from dfgen.loading.order.balance import Balance, balance_of
from dfgen.samples.arrow_types import is_text
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.number import Number


def row_weights(
    columns: Columns,
    targets: Tree,
    sample_weight: str | None,
    class_weight: Mapping[Any, float] | None,
) -> npt.NDArray[np.float32] | None:
    """Return what each row counts in the loss: its own weight times that of its class.

    The targets are what y is bound to, nested as it is.
    """
    if sample_weight is None and class_weight is None:
        return None
    if targets is None:
        raise ArgumentError("sample_weight and class_weight weigh a loss, but there is no y")
    weights = np.ones(len(columns), np.float32)
    if sample_weight is not None:
        name = columns.check("sample_weight", sample_weight)
        weights *= Number(name, dtype="float32").encode(columns[name])
        if not np.isfinite(weights).all():
            row = int(np.isfinite(weights).argmin())
            raise ManifestError(
                f'sample_weight="{name}" is {weights[row]} in row {row}: expected finite numbers'
            )
    if class_weight is not None:
        weights *= _class_weights(targets, class_weight)
    return weights


def balanced(columns: Columns, balance: str | None) -> tuple[Balance | None, str | None]:
    """Return the Balance of a column's classes, and what tells these classes from others."""
    if balance is None:
        return None, None
    values = columns[columns.check("balance", balance)]
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if not (is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise ManifestError(
            f'balance="{balance}": the column holds {kind}, expected one class in each row, as '
            "text, whole numbers or booleans"
        )
    if values.null_count:
        raise ManifestError(
            f'balance="{balance}": {values.null_count:,} rows have no class; drop them: '
            f"df = df[df[{balance!r}].notna()]"
        )
    names = pc.unique(values.cast(kind))
    ranked = names.take(pc.sort_indices(names))
    numbers = pc.index_in(values.cast(kind), value_set=ranked).to_numpy().astype(np.int64)
    return balance_of(numbers), f"{balance} {blake2b(numbers.tobytes(), digest_size=8).hexdigest()}"


def _class_weights(targets: Tree, class_weight: Mapping[Any, float]) -> npt.NDArray[np.float32]:
    numbers = targets.values if isinstance(targets, BoundFeature) else None
    names = targets.feature.class_names if isinstance(numbers, np.ndarray) else None
    if names is None:
        raise ArgumentError(
            "class_weight needs y to be one column of classes. For other targets give "
            "sample_weight, a column of weights"
        )
    weights = np.ones(len(names), np.float32)
    for number, weight in _numbered(names, class_weight).items():
        if not (isinstance(weight, int | float | np.number) and 0 <= weight < float("inf")):
            raise ArgumentError(
                f"class_weight gives class {number} the weight {weight!r}: expected a number of 0 "
                "or more"
            )
        weights[number] = weight
    found: npt.NDArray[np.float32] = weights[numbers]
    return found


def _numbered(class_names: tuple[Any, ...], class_weight: Mapping[Any, Any]) -> dict[int, Any]:
    """Return class number -> weight, of keys that are all class names or all class numbers."""
    known = f"Classes: {', '.join(map(repr, class_names))}, or 0 to {len(class_names) - 1}"
    if not isinstance(class_weight, Mapping):
        raise ArgumentError(f"class_weight must be class -> weight, got {class_weight!r}. {known}")
    number_of = {str(name): number for number, name in enumerate(class_names)}
    stray = [key for key in class_weight if str(key) not in number_of]
    names = None if stray else {number_of[str(key)]: w for key, w in class_weight.items()}
    numbers, places = None, range(len(class_names))
    if all(isinstance(key, int | np.integer) and key in places for key in class_weight):
        numbers = {int(key): weight for key, weight in class_weight.items()}
    if names is not None and numbers is not None and names != numbers:
        raise ArgumentError(
            f"class_weight has the keys {list(class_weight)}, which could be names or numbers of "
            f"classes. {known}. Rename the classes, or give sample_weight, a column of weights"
        )
    found = numbers if names is None else names
    if found is None:
        raise ArgumentError(f"class_weight names the class {stray[0]!r}. {known}")
    return found
