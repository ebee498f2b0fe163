"""Category: the class indices of a column of classes."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.checks import one_of
from dfgen.errors import ArgumentError, ManifestError, listed
from dfgen.samples.features.base import NamingColumns, TableFeature
from dfgen.samples.features.feature_checks import check_column
from dfgen.spec import IntArray, Spec, Values
from dfgen.table.arrow_types import OR_IGNORE, refuse_missing, value_type

LABEL_MODES = ("int", "categorical", "binary")


@dataclass(frozen=True, repr=False)
class Category(TableFeature):
    """Class indices of a column of classes.

    Args:
        column: a categorical, text, boolean or integer column without nulls.
        label_mode: `"int"` (default) gives int32 of shape (); `"categorical"` one-hot float32 of
            shape (classes,); `"binary"` float32 of shape (1,), for two classes.
        class_names: the classes in the order of their indices. None (default) takes the
            categories of a categorical column, else the sorted distinct values of the frame.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets zeros, and weighs 0.

    Raises:
        ArgumentError: an unknown label_mode, or class names that repeat.

    Example:
        >>> dfgen.Sequence(df, y=dfgen.Category("kind", "categorical"))  # doctest: +SKIP
    """

    column: str
    label_mode: str = "int"
    class_names: tuple[object, ...] | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        check_column(self)
        one_of("label_mode", self.label_mode, LABEL_MODES)
        names = self.class_names
        if self.label_mode == "binary" and names is not None and len(names) != 2:
            raise ArgumentError(
                f'label_mode="binary" needs two classes, column {self.column!r} has {len(names)}: '
                f'{listed(names)}. Name both, class_names=[...], use label_mode="int", or drop '
                f"unused ones, df[{self.column!r}] = "
                f"df[{self.column!r}].cat.remove_unused_categories()"
            )

    def resolve(self, columns: NamingColumns) -> "Category":
        """Set the class names by the column."""
        if self.class_names is not None:
            return self
        values = columns[self.column]
        self._check(values.type)
        return replace(self, class_names=class_names_of(self.column, values, columns))

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        if self.label_mode == "int":
            return Spec((), np.dtype(np.int32))
        width = 1 if self.label_mode == "binary" else len(self.class_names or ())
        return Spec((width,), np.dtype(np.float32))

    def bind(self, columns: Any) -> Values:
        """Return the class index of every row; raises for nulls and unknown classes."""
        values = columns[self.column]
        kind = self._check(values.type)
        if not pa.types.is_dictionary(values.type) or values.dictionary.null_count:
            values = values.cast(kind)
        drop = (
            "read the table with keep_default_na=False if they are names such as NA, drop them, "
            f"df = df[df[{self.column!r}].notna()]"
        )
        refuse_missing(self.column, values, "class", f"{drop}, {OR_IGNORE}")
        try:
            names = pa.array(self.class_names, kind)
        except (pa.ArrowException, OverflowError):
            raise ManifestError(
                f"column {self.column!r} holds {kind}, but its class_names are "
                f"{listed(self.class_names or ())}: give names of that type"
            ) from None
        if not pa.types.is_dictionary(values.type):
            codes = pc.index_in(values, value_set=names)
        elif values.dictionary.equals(names):
            codes = values.indices
        else:
            codes = pc.index_in(values.dictionary, value_set=names).take(values.indices)
        if codes.null_count:
            stray = pc.unique(values.filter(codes.is_null()).cast(kind)).to_pylist()
            raise ManifestError(
                f"column {self.column!r} holds {listed(stray)} ({codes.null_count:,} in all), not "
                f"among its class names: {listed(self.class_names or ())}. Correct or drop them"
            )
        encoded: Values = codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return encoded

    def _check(self, kind: pa.DataType) -> pa.DataType:
        """Return the type of the values; raises for lists and dates with time zones."""
        held = value_type(kind)
        if isinstance(held, pa.BaseExtensionType) or pa.types.is_nested(held):
            here = f"df[{self.column!r}]"
            change = "cat.rename_categories(str)"  # keeps the order of intervals
            change = change if pa.types.is_dictionary(kind) else "astype(str)"
            raise ManifestError(
                f"column {self.column!r} holds {held}, Category needs text, numbers or booleans: "
                f"for several labels a row write dfgen.MultiLabel({self.column!r}), else "
                f"{here} = {here}.{change}"
            )
        return held

    def gather(self, values: Values, rows: IntArray) -> Values:
        """Return the arrays of some rows."""
        numbers: Values = values[rows]
        if self.label_mode == "int":
            return numbers
        if self.label_mode == "binary":
            return numbers[:, None].astype(np.float32)
        return np.eye(len(self.class_names or ()), dtype=np.float32)[numbers]


def class_names_of(column: str, labels: pa.Array, columns: NamingColumns) -> tuple[object, ...]:
    """Return the classes of the labels of a column; raises if there are none."""
    if names := columns.class_names(column, labels):
        return names
    raise ManifestError(f"column {column!r} has no class in any row: give class_names=")
