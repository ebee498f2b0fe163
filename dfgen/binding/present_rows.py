"""The rows that have the columns of a feature."""

import numpy as np
import pyarrow as pa

from dfgen.binding.table_columns import Columns
from dfgen.errors import ManifestError
from dfgen.samples.features.base import Feature
from dfgen.spec import Present
from dfgen.table.arrow_types import nulls


def present_rows(columns: Columns, feature: Feature) -> Present | None:
    """Return which rows have all columns of a feature with `missing="ignore"`."""
    if feature.missing == "raise":
        return None
    missing = [nulls(columns[name]) for name in feature.columns]
    present: Present = ~np.logical_or.reduce(missing)
    for name in feature.columns:
        if not present.any() and pa.types.is_null(columns[name].type):
            raise ManifestError(
                f"column {name!r} is missing in all {len(columns):,} rows and has no type: leave "
                f"{type(feature).__name__} out of y, or give the column a type"
            )
    return present


def annotated_rows(columns: Columns, feature: Feature, problems: list[int]) -> Present | None:
    """Return which rows have annotations; rows with problems are skipped and may lack them.

    Returns None if each row must have them.
    """
    present = np.ones(len(columns), np.bool_)
    for name in feature.columns:
        present[problems] &= ~nulls(columns[name])[problems]
    return None if present.all() or not present.any() else present


def filled(columns: Columns, present: Present) -> Columns:
    """Return columns in which the first present row replaces missing ones.

    Row numbers do not change. Without any present row, the columns are empty.
    """
    rows = np.where(present, np.arange(len(present)), present.argmax())
    return columns.taking(rows if present.any() else rows[:0])
