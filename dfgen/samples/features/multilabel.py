"""MultiLabel: lists of labels as vectors of zeros and ones."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features import arguments
from dfgen.samples.features.base import Encoded
from dfgen.samples.features.category import Category
from dfgen.spec import IntArray, Present, Values
from dfgen.table import arrow_types as arrow


class LabelRows(NamedTuple):
    """The class numbers of every row: those of row i stand at `offsets[i]` to `offsets[i + 1]`."""

    offsets: IntArray
    numbers: npt.NDArray[np.int32]


@dataclass(frozen=True, repr=False)
class MultiLabel(Encoded):
    """Which of the classes a row has: float32 of shape (classes,), 1 for those in its list.

    Use it with a sigmoid output and binary cross-entropy, where a row may have several labels or
    none. An empty list gives zeros; a label that is repeated counts once.

    Args:
        column: a column of lists of text, integers or booleans, without nulls; or of text, with
            `sep`.
        class_names: the classes in the order of their places. None (default) takes those of
            the manifest (COCO, VOC, YOLO), else the sorted distinct labels of the frame.
        sep: what stands between the labels of a text, as in `"cat, dog"`; blanks around a label
            are no part of it, and a text of blanks alone has none. None (default): lists.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row without a list, of which so
            nobody knows what it has, holds zeros, and weighs 0 in the loss of this target.

    Raises:
        ArgumentError: class names that repeat, or no text for `sep`.

    Example:
        >>> MultiLabel("tags", class_names=["cat", "dog", "owl"])({"tags": ["owl", "cat"]})
        array([1., 0., 1.], dtype=float32)
        >>> MultiLabel("tags", class_names=["cat", "dog", "owl"], sep=",")({"tags": "owl, cat"})
        array([1., 0., 1.], dtype=float32)
    """

    column: str
    class_names: tuple[object, ...] | None = None
    sep: str | None = None
    missing: str = "raise"
    kind: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        arguments.check_column(self)
        if self.sep is not None and not (isinstance(self.sep, str) and self.sep):
            raise ArgumentError(f'sep must be text between labels such as ",", got {self.sep!r}')
        if self.class_names is not None:
            names = Category(self.column, class_names=self.class_names).class_names
            object.__setattr__(self, "class_names", names)

    def unnamed(self, column: pa.Array) -> pa.Array:
        """Return the labels; refuse what holds none."""
        known = column.drop_null()  # `encode` refuses nulls, or `present` knows them
        labels = arrow.flattened(self._lists(known))
        if pa.types.is_nested(labels.type) or not len(labels.drop_null()):
            self.encode(known if self.missing == "ignore" else column)  # tells what it holds
            raise ArgumentError(
                f"column {self.column!r} has no label in any row: write "
                f"dfgen.MultiLabel({self.column!r}, class_names=[...])"
            )
        return labels

    def encode(self, values: pa.Array) -> LabelRows:
        """Return the class numbers of every row; refuse what is missing, or is no class name."""
        values = self._lists(values)
        where = arrow.offsets(self.column, values, "write [] where a row has no labels")
        labels = pc.list_flatten(values)
        if pa.types.is_nested(labels.type):
            raise ManifestError(
                f"column {self.column!r} holds lists of {labels.type}, MultiLabel needs lists of "
                "text, integers or booleans"
            )
        if labels.null_count:
            row, place = arrow.place_of(where, pc.indices_nonzero(pc.is_null(labels))[0].as_py())
            raise ManifestError(
                f"label {place} of row {row} in column {self.column!r} is missing "
                f"({labels.null_count:,} such labels): leave it out of its list",
                row=row,
            )
        if not len(labels):  # whose type is that of nothing
            return LabelRows(where, np.empty(0, np.int32))
        category = Category(self.column, class_names=self.class_names)
        return LabelRows(where, category.encode(labels))

    def _lists(self, values: pa.Array) -> pa.Array:
        values = values.cast(arrow.value_type(values.type))
        if self.sep is not None:
            return arrow.split_text(self.column, values, self.sep)
        if arrow.is_text(values.type):
            raise ManifestError(
                f"column {self.column!r} holds {values.type}, expected a list in each row: for "
                f'labels within a text write dfgen.MultiLabel({self.column!r}, sep=",")'
            )
        return values

    def truth(self, values: LabelRows, rows: slice, lacking: Present) -> pa.Array:
        """Return the names of the labels of some rows."""
        ends = values.offsets[rows.start : rows.stop + 1]
        names = pa.array(self.class_names or ())
        labels = names.take(pa.array(values.numbers[ends[0] : ends[-1]]))
        return arrow.with_ends(labels, ends - ends[0], lacking)

    def meaning(self, predictions: Any) -> list[list[object]]:
        """Return the names of the labels of each row whose probability is above 0.5."""
        names, found = self.class_names or (), arguments.probabilities(predictions)
        if found.ndim != 2 or found.shape[1] != len(names):
            raise arguments.not_predicted(self.column, found, f"{len(names)} columns")
        return [[names[number] for number in np.flatnonzero(row > 0.5)] for row in found]

    def gather(self, values: LabelRows, rows: IntArray) -> Values:
        """Return the arrays of some rows from the encoded values."""
        starts = values.offsets[rows]
        counts = values.offsets[rows + 1] - starts
        samples = np.repeat(np.arange(len(rows)), counts)
        first = np.cumsum(counts) - counts  # of each row among all labels that are gathered
        labels = np.arange(len(samples)) + np.repeat(starts - first, counts)
        found = np.zeros((len(rows), len(self.class_names or ())), np.float32)
        found[samples, values.numbers[labels]] = 1
        return found
