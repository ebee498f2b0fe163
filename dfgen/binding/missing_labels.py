"""Labels that some rows lack: which have one, and columns that can be bound all the same."""

from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, ManifestError
from dfgen.samples.features.base import Feature
from dfgen.samples.features.spec import Indices, Present


@dataclass(frozen=True, kw_only=True)
class FilledColumns(Columns):
    """Columns in which rows that lack something stand in others' places.

    Args:
        rows: of each row, which row's values it has.
    """

    rows: Indices

    def __getitem__(self, name: str) -> pa.Array:
        return super().__getitem__(name).take(pa.array(self.rows))


def present_rows(columns: Columns, feature: Feature, is_input: bool) -> Present | None:
    """Return which rows have a feature, None where all must.

    Raises:
        ArgumentError: inputs may not be missing, as no weight is theirs.
        ManifestError: no row has it, and its column is of no type.
    """
    if is_input and feature.missing == "ignore":
        raise ArgumentError(
            f"{feature!r} is in x: a weight of 0 leaves a target out of the loss, but no input "
            'out of the model. Leave out missing="ignore", and drop or fill what is missing'
        )
    present = feature.present(columns)
    if present is not None and not present.any():
        for name in feature.columns:
            if pa.types.is_null(columns[name].type):
                raise ManifestError(
                    f"column {name!r} is missing in all {len(columns):,} rows, and so is of no "
                    f"type: leave {type(feature).__name__} out of y, or give the column a type"
                )
    return present


def with_stand_ins(columns: Columns, present: Present) -> Columns:
    """Return columns in which the first row that has a feature stands in for those that lack it.

    So rows keep their numbers, and all that is refused in labels still is. Without any such row
    there are no rows at all.
    """
    rows = np.where(present, np.arange(len(present)), present.argmax())
    rows = rows if present.any() else rows[:0]
    return FilledColumns(**{f.name: getattr(columns, f.name) for f in fields(Columns)}, rows=rows)
