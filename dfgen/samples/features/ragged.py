"""Ragged: arrays of the objects of all rows, for columns with a list in each row."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ManifestError
from dfgen.spec import IntArray, Values
from dfgen.table import arrow_types as arrow

PADDING = -1
"""Coordinates and labels of padding objects, as in KerasHub."""


class Ragged:
    """Arrays of objects: row i has the objects `offsets[i]` to `offsets[i + 1]`."""

    def __init__(self, column: str, offsets: IntArray, *arrays: Any) -> None:
        self.column, self.offsets, self.arrays = column, offsets, arrays

    @classmethod
    def of(cls, column: str, values: pa.Array) -> "Ragged":
        """Flatten a column of lists to one Arrow array of objects."""
        if not arrow.is_list(values.type):
            raise ManifestError(
                f"column {column!r} holds {values.type}, expected a list in each row"
            )
        arrow.refuse_missing(
            column, values, "list", f"write [] where a row has none, {arrow.OR_IGNORE}"
        )
        ends = np.cumsum(arrow.lengths_of(values), dtype=np.int64)
        return cls(column, np.append(0, ends), pc.list_flatten(values))

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
        """Raise ManifestError if any object is wrong; the message names the first one."""
        if wrong.any():
            place = int(wrong.argmax())
            row = int(np.searchsorted(self.offsets, place, side="right")) - 1
            raise ManifestError(
                f"object {place - self.offsets[row]} of row {row} in column {self.column!r} {what} "
                f"({wrong.sum():,} objects in all)",
                row=row,
            )

    def check_same_lengths(self, other: "Ragged") -> None:
        """Raise ManifestError if a row's list is not as long as in another column."""
        ours, theirs = np.diff(self.offsets), np.diff(other.offsets)
        if (wrong := ours != theirs).any():
            row = int(wrong.argmax())
            raise ManifestError(
                f"row {row} has {ours[row]:,} objects in column {self.column!r}, but "
                f"{theirs[row]:,} in column {other.column!r} ({wrong.sum():,} rows in all)",
                row=row,
            )

    def check_most(self, most: int) -> None:
        """Raise ManifestError if a row has more objects than `max_items`."""
        counts = np.diff(self.offsets)
        if (largest := int(counts.max(initial=0))) > most:
            row = int(counts.argmax())
            raise ManifestError(
                f"row {row} has {largest:,} objects in column {self.column!r}: write "
                f"max_items={largest}",
                row=row,
            )

    def numbers(self, count: int, expected: str) -> Values:
        """Return objects as float32 (objects, count); empty objects become zeros."""
        [objects] = self.arrays
        numbers = np.zeros((len(objects), count), np.float32)
        if not len(objects) or pa.types.is_null(objects.type):
            return numbers
        flat = arrow.flattened(objects)
        are_numbers = arrow.are_numbers(flat.type) or pa.types.is_null(flat.type)
        if not arrow.is_list(objects.type) or not are_numbers:
            raise ManifestError(
                f"column {self.column!r} holds lists of {objects.type}, expected {expected}"
            )
        lengths = arrow.lengths_of(objects)
        odd = (lengths != count) & (lengths != 0)
        self.refuse(odd, f"has {lengths[odd][:1]} numbers, expected {count}: {expected}")
        numbers[lengths > 0] = np.asarray(flat, np.float32).reshape(-1, count)
        return numbers
