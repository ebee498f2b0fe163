"""Columns of the table as features ask for them."""

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError
from dfgen.spec import Present
from dfgen.table.arrow_types import in_one, nulls
from dfgen.table.file_columns import are_files


class ColumnSource(Protocol):
    """The columns of all rows."""

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column."""

    def files(self, name: str) -> pa.Array:
        """Return a column of files, none missing: paths with their root, or bytes."""

    def whole_numbers(self, name: str) -> pa.Array:
        """Return a column of indices, none missing."""


class NamingColumns(ColumnSource, Protocol):
    """Columns by which a feature is resolved."""

    def class_names(self, name: str, labels: pa.Array) -> tuple[object, ...]:
        """Return the classes of the labels of a column, in the order of their numbers."""


def column_values(names: tuple[str, ...], columns: Any) -> pa.Array:
    """Return a column, or structs of several."""
    arrays = [columns[name] for name in names]
    if len(arrays) == 1:
        return arrays[0]
    return pa.StructArray.from_arrays([in_one(array) for array in arrays], names)


def bound_columns(names: tuple[str, ...], columns: ColumnSource, of_files: bool) -> pa.Array:
    """Return columns; of files their paths, or structs of `path` and `index`."""
    if not of_files:
        return column_values(names, columns)
    column, *index = names
    paths = columns.files(column)
    if not index:
        return paths
    if are_files(paths.type):
        raise ArgumentError(
            f"index={index[0]!r} is for rows of array files, but column {column!r} holds the bytes "
            "of a file in each row: leave it out"
        )
    rows = columns.whole_numbers(index[0])
    return pa.StructArray.from_arrays([paths, rows], ["path", "index"])


def present_in(feature: Any, columns: ColumnSource) -> Present | None:
    """Return which rows have all columns of a feature, None where all must."""
    if feature.missing == "raise":
        return None
    found: Present = ~np.logical_or.reduce([nulls(columns[name]) for name in feature.columns])
    return found
