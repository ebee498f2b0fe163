"""The rows that have the columns of a feature."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.column_source import present_in
from dfgen.spec import Present
from dfgen.table.arrow_types import nulls


def present_rows(
    columns: Columns, feature: Feature, is_input: bool, problems: Iterable[int]
) -> Present | None:
    """Return which rows have the columns of a feature; None if each row must have them.

    Rows with `problems` may lack what is on their image, because they are skipped.
    """
    if is_input and feature.missing == "ignore":
        raise ArgumentError(
            f'{feature!r} is in x, but missing="ignore" is for targets, which then weigh 0 in the '
            "loss: leave it out, and drop or fill missing values"
        )
    present = present_in(feature, columns)
    if present is None:
        return _annotated(columns, feature, [*problems])
    for name in feature.columns:
        if not present.any() and pa.types.is_null(columns[name].type):
            raise ManifestError(
                f"column {name!r} is missing in all {len(columns):,} rows and has no type: leave "
                f"{type(feature).__name__} out of y, or give the column a type"
            )
    return present


def _annotated(columns: Columns, feature: Feature, problems: list[int]) -> Present | None:
    if not problems or feature.like is None or feature.of_files:
        return None
    present = np.ones(len(columns), np.bool_)
    for name in feature.columns:
        present[problems] &= ~nulls(columns[name])[problems]
    return None if present.all() or not present.any() else present


def filled(columns: Columns, present: Present | None) -> Columns:
    """Return columns in which the first present row replaces missing ones.

    Row numbers do not change. Without any present row, the columns are empty.
    """
    if present is None:
        return columns
    rows = np.where(present, np.arange(len(present)), present.argmax())
    return columns.taking(rows if present.any() else rows[:0])
