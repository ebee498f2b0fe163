"""MultiLabel: lists of labels as vectors of zeros and ones."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.base import ColumnSource, NamingColumns, TableFeature
from dfgen.samples.features.category import class_names_of
from dfgen.samples.features.feature_checks import check_column
from dfgen.samples.features.ragged import Ragged
from dfgen.spec import IntArray, Spec, Values
from dfgen.table import arrow_types as arrow


@dataclass(frozen=True, repr=False)
class MultiLabel(TableFeature):
    """Several classes per row: float32 of shape (classes,), 1 for the classes in the row's list.

    Use it with a sigmoid output and binary cross-entropy if a row may have several labels or none.
    An empty list gives zeros; a repeated label counts once.

    Args:
        column: a column of lists of text, integers or booleans, without nulls; or of text, with
            `sep`.
        class_names: the classes in the order of their indices. None (default): the classes of the
            manifest, else the sorted distinct labels.
        sep: the separator of labels in text such as `"cat, dog"`; blanks around labels are
            stripped, and blank text has no labels. None (default): lists.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets zeros, and weighs 0.

    Raises:
        ArgumentError: repeated class names, or an empty `sep`.

    Example:
        >>> dfgen.Sequence(df, y=dfgen.MultiLabel("tags", sep=","))  # doctest: +SKIP
    """

    column: str
    class_names: tuple[object, ...] | None = None
    sep: str | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        check_column(self)
        if self.sep is not None and not (isinstance(self.sep, str) and self.sep):
            raise ArgumentError(f'sep must be text between labels such as ",", got {self.sep!r}')

    def resolve(self, columns: NamingColumns) -> "MultiLabel":
        """Set the class names by the column."""
        if self.class_names is not None:
            return self
        [labels] = self._lists(columns[self.column].drop_null()).arrays  # `bind` refuses nulls
        return replace(self, class_names=class_names_of(self.column, labels, columns))

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        return Spec((len(self.class_names or ()),), np.dtype(np.float32))

    def bind(self, columns: ColumnSource) -> Ragged:
        """Return the class indices of every row."""
        lists = self._lists(columns[self.column])
        return lists.with_arrays(lists.class_numbers(self.class_names))

    def _lists(self, values: pa.Array) -> Ragged:
        values = values.cast(arrow.value_type(values.type))
        if self.sep is not None:
            return self._split(values, self.sep)
        if not arrow.is_list(values.type) or pa.types.is_nested(values.type.value_type):
            raise ManifestError(
                f"column {self.column!r} holds {values.type}, expected lists of text, integers or "
                f'booleans; for text write dfgen.MultiLabel({self.column!r}, sep=",")'
            )
        return Ragged.of(self.column, values)

    def _split(self, values: pa.Array, sep: str) -> Ragged:
        if not arrow.is_text(values.type):
            raise ManifestError(
                f"column {self.column!r} holds {values.type}, which sep={sep!r} cannot split: "
                "leave it out, or give text"
            )
        advice = f'write "" where a row has no labels, {arrow.OR_IGNORE}'
        arrow.refuse_missing(self.column, values, "text", advice)
        values = pc.utf8_trim_whitespace(values)
        parts = pc.split_pattern(values, sep)
        parts = pc.if_else(pc.equal(values, ""), pa.scalar([], parts.type), parts)
        lists = Ragged.of(self.column, parts)
        labels = pc.utf8_trim_whitespace(lists.arrays[0])
        lists.refuse(
            np.asarray(pc.equal(labels, "")), f"is empty, split by {sep!r}: remove a separator"
        )
        return lists.with_arrays(labels)

    def gather(self, values: Ragged, rows: IntArray) -> Values:
        """Return the arrays of some rows."""
        starts = values.offsets[rows]
        counts = values.offsets[rows + 1] - starts
        samples = np.repeat(np.arange(len(rows)), counts)
        first = np.cumsum(counts) - counts  # index of each row's first label
        labels = np.arange(len(samples)) + np.repeat(starts - first, counts)
        vectors = np.zeros((len(rows), len(self.class_names or ())), np.float32)
        vectors[samples, values.arrays[0][labels]] = 1
        return vectors
