"""Number: numbers of columns."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfgen.checks import one_of
from dfgen.errors import ManifestError
from dfgen.samples.features.base import ColumnSource, NamingColumns, TableFeature
from dfgen.samples.features.feature_checks import cast, column_names, number_dtype, set_fields
from dfgen.spec import Spec, Values
from dfgen.table import arrow_types as arrow


@dataclass(frozen=True, repr=False)
class Number(TableFeature):
    """Numbers: a scalar from one column, a vector from several.

    Args:
        column: an integer, float, decimal or boolean column without nulls; or a list of those,
            for an array of shape (columns,).
        dtype: default None: float32 if a column holds floats, else int32.
        missing: of targets, `"raise"` (default), or `"ignore"`: a null gives zeros of weight 0.

    Raises:
        ArgumentError: neither a name nor names, or a dtype that holds no numbers.

    Example:
        >>> dfgen.Sequence(df, y=dfgen.Number(["age", "height"]))  # doctest: +SKIP
    """

    column: str | tuple[str, ...]
    dtype: str | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        one_of("missing", self.missing, ("raise", "ignore"))
        if not isinstance(self.column, str):
            set_fields(self, column=column_names(self.column))
        if self.dtype is not None:
            set_fields(self, dtype=number_dtype(self.dtype))

    def resolve(self, columns: NamingColumns) -> "Number":
        """Set the dtype by the columns."""
        floats = any(arrow.are_fractions(columns[name].type) for name in self.columns)
        return replace(self, dtype=self.dtype or ("float32" if floats else "int32"))

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        shape = () if isinstance(self.column, str) else (len(self.column),)
        return Spec(shape, np.dtype(self.dtype or "float32"))

    def bind(self, columns: ColumnSource) -> Values:
        """Return the columns as numbers; raises for nulls, text, and values beyond the dtype."""
        arrays = [_numbers(name, columns[name], self.spec.dtype) for name in self.columns]
        return arrays[0] if isinstance(self.column, str) else np.stack(arrays, axis=1)


def _numbers(column: str, values: pa.Array, dtype: np.dtype[Any]) -> Values:
    kind = values.type
    if not (arrow.are_numbers(kind) or pa.types.is_boolean(kind)):
        raise ManifestError(
            f"column {column!r} holds {kind}, Number needs numbers: write "
            f"df[{column!r}] = pd.to_numeric(df[{column!r}]), or dfgen.Category({column!r}) for "
            "classes"
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
        wider = "float64" if dtype.kind == "f" else "int64"
        raise ManifestError(
            f"column {column!r} {error}: write dfgen.Number({column!r}, dtype={wider!r})"
        ) from None
