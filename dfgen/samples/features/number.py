"""Number: numbers of columns."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.samples.features.arguments import checked_missing, column_names, number_dtype
from dfgen.samples.features.base import Encoded
from dfgen.samples.features.casting import cast
from dfgen.spec import Present, Values
from dfgen.table import arrow_types as arrow


@dataclass(frozen=True, repr=False)
class Number(Encoded):
    """Numbers as they are: a scalar of one column, a vector of several.

    Args:
        column: an integer, float, decimal or boolean column without nulls; or a list of those,
            which gives an array of shape (columns,).
        dtype: default None: float32 where a column holds floats, else int32.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row in which one of the columns
            is null holds zeros, and weighs 0 in the loss of this target.

    Raises:
        ArgumentError: neither a name nor names, or a dtype that holds no numbers.

    Example:
        >>> Number("age")({"age": 41.5})
        array(41.5, dtype=float32)
        >>> Number(["age", "height"])({"age": 41, "height": 1.7})
        array([41. ,  1.7], dtype=float32)
    """

    column: str | tuple[str, ...]
    dtype: str | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        checked_missing(self.missing)
        names = column_names(self.column)
        if not isinstance(self.column, str):
            object.__setattr__(self, "column", names)
        if self.dtype is not None:
            object.__setattr__(self, "dtype", number_dtype(self.dtype))

    def encode(self, *values: pa.Array) -> Values:
        """Return whole columns as numbers; refuse nulls, text, and what the dtype cannot hold."""
        floats = any(arrow.are_fractions(array.type) for array in values)
        dtype = np.dtype(self.dtype or (np.float32 if floats else np.int32))
        arrays = [_numbers(*pair, dtype) for pair in zip(self.columns, values, strict=True)]
        return arrays[0] if isinstance(self.column, str) else np.stack(arrays, axis=1)

    def label_numbers(self, values: Values, data: bytes | None = None) -> Values | None:
        """Return the numbers of every row."""
        return values

    def truth(self, values: Values, rows: slice, lacking: Present) -> pa.Array:
        """Return the numbers of some rows; of several columns lists."""
        found = values[rows]
        return pa.array(found, mask=lacking) if found.ndim == 1 else arrow.lists_of(found, lacking)

    def frozen(self, values: Values) -> "Number":
        """Return it with the dtype that its columns have told."""
        return replace(self, dtype=values.dtype.name)


def _numbers(column: str, values: pa.Array, dtype: np.dtype[Any]) -> Values:
    kind = values.type
    if not (arrow.are_numbers(kind) or pa.types.is_boolean(kind)):
        numbers = f", for numbers df[{column!r}] = pd.to_numeric(df[{column!r}])"
        raise ManifestError(
            f"column {column!r} holds {kind}, Number needs numbers. "
            f"For classes write dfgen.Category({column!r}){numbers * arrow.is_text(kind)}"
        )
    if pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    missing = np.flatnonzero(arrow.nulls(values))
    if len(missing):
        raise ManifestError(
            f"column {column!r} has {len(missing):,} missing values, the first in row "
            f"{missing[0]}; drop or fill them: df = df[df[{column!r}].notna()], {arrow.OR_IGNORE}",
            row=int(missing[0]),
        )
    if arrow.are_fractions(kind) and dtype.kind != "f":
        raise ManifestError(f"column {column!r} holds floats, {dtype} cannot hold them")
    try:
        return cast(values.to_numpy(zero_copy_only=False), dtype)
    except OverflowError as error:
        beyond = kind == pa.uint64() and pc.max(values).as_py() >= 2**63
        wider = "float64" if dtype.kind == "f" else "uint64" if beyond else "int64"
        raise ManifestError(
            f"column {column!r} {error}: write dfgen.Number({column!r}, dtype={wider!r})"
        ) from None
