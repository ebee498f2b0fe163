"""Ragged: lists of objects, a list in each row, as arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.samples.features.category import Category
from dfgen.spec import IntArray, Values
from dfgen.table import arrow_types as arrow

PADDING = -1
"""The value for no object, in coordinates and labels, as in KerasHub."""

_EMPTY = "write [] where a row has none"


class Ragged:
    """Arrays of the objects of all rows: row i has those from `offsets[i]` to `offsets[i + 1]`."""

    def __init__(self, column: str, offsets: IntArray, *arrays: Any) -> None:
        self.column, self.offsets, self.arrays = column, offsets, arrays

    @classmethod
    def of(cls, column: str, values: pa.Array) -> "Ragged":
        """Return the lists of a column, as one Arrow array of objects."""
        return cls(column, arrow.offsets(column, values, _EMPTY), pc.list_flatten(values))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        """Return the arrays of one row."""
        part = slice(self.offsets[row], self.offsets[row + 1])
        return tuple(array[part] for array in self.arrays)

    def with_arrays(self, *arrays: Any) -> "Ragged":
        """Return the same lists with other arrays."""
        return Ragged(self.column, self.offsets, *arrays)

    def refuse(self, wrong: Any, what: str) -> None:
        """Raise a ManifestError that names the first of the objects that are wrong, if any is."""
        if wrong.any():
            place = int(wrong.argmax())
            row = int(np.searchsorted(self.offsets, place, side="right")) - 1
            raise ManifestError(
                f"object {place - self.offsets[row]} of row {row} in column {self.column!r} {what} "
                f"({wrong.sum():,} such objects)",
                row=row,
            )

    def check_same_lengths(self, other: "Ragged") -> None:
        """Refuse lists that are not as long as those of another column."""
        ours, theirs = np.diff(self.offsets), np.diff(other.offsets)
        wrong = np.flatnonzero(ours != theirs)
        if len(wrong):
            row = int(wrong[0])
            raise ManifestError(
                f"row {row} has {ours[row]:,} objects in column {self.column!r}, but "
                f"{theirs[row]:,} in column {other.column!r} ({len(wrong):,} such rows)",
                row=row,
            )

    def check_most(self, most: int, argument: str) -> None:
        """Refuse rows of more objects than there is room for."""
        counts = np.diff(self.offsets)
        if (largest := int(counts.max(initial=0))) > most:
            row = int(counts.argmax())
            raise ManifestError(
                f"row {row} has {largest:,} objects in column {self.column!r}, more than "
                f"{argument}={most}: write {argument}={largest}",
                row=row,
            )

    def numbers(self, count: int, expected: str) -> Values:
        """Return objects of `count` numbers each, float32 (objects, count); empty ones zeros."""
        [objects] = self.arrays
        found = np.zeros((len(objects), count), np.float32)
        if not len(objects) or pa.types.is_null(objects.type):
            return found
        flat = arrow.flattened(objects)
        numbers = arrow.are_numbers(flat.type) or pa.types.is_null(flat.type)
        if not arrow.is_list(objects.type) or not numbers:
            raise ManifestError(
                f"column {self.column!r} holds lists of {objects.type}, expected {expected}"
            )
        lengths = arrow.lengths_of(objects)
        odd = (lengths != count) & (lengths != 0)
        self.refuse(odd, f"has {lengths[odd][:1]} numbers, expected {count}: {expected}")
        found[lengths > 0] = np.asarray(flat, np.float32).reshape(-1, count)
        return found

    def class_numbers(self, class_names: tuple[object, ...] | None) -> npt.NDArray[np.int32]:
        """Return the class number of every label; without `class_names` the labels are those."""
        [labels] = self.arrays
        if not len(labels):  # whose type is that of nothing
            return np.empty(0, np.int32)
        self.refuse(arrow.nulls(labels), "has no label: leave it out of its list")
        if class_names is not None:
            return Category(self.column, class_names=class_names).numbers_of(labels)
        if not pa.types.is_integer(labels.type):
            raise ManifestError(
                f"column {self.column!r} holds lists of {labels.type}, expected whole numbers, or "
                "text with the classes in their order, class_names=[...]"
            )
        low, high = (pc.min_max(labels)[side].as_py() for side in ("min", "max"))
        if low < 0 or high >= 2**31:
            raise ManifestError(f"column {self.column!r} holds {low} to {high}: classes are from 0")
        found: npt.NDArray[np.int32] = labels.to_numpy(zero_copy_only=False).astype(np.int32)
        return found
