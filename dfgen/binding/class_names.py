"""Class names of features that are given none: those of the manifest, or of the column."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, warn
from dfgen.explain.labels import check_classes
from dfgen.samples.features.base import Feature
from dfgen.samples.features.column_source import present_in
from dfgen.spec import IntArray, Present
from dfgen.table.arrow_types import are_numbers, is_list, nulls


@dataclass(frozen=True, kw_only=True)
class FilledColumns(Columns):
    """Columns in which rows that lack something stand in others' places.

    Args:
        rows: of each row, which row's values it has.
    """

    rows: IntArray

    def __getitem__(self, name: str) -> pa.Array:
        return super().__getitem__(name).take(pa.array(self.rows))


def present_columns(
    columns: Columns, feature: Feature, is_input: bool, problems: Iterable[int]
) -> tuple[Present | None, Columns]:
    """Return which rows have a feature, None where all must, and the columns to bind it to.

    There the first row that has it stands in for those that lack it, so that rows keep their
    numbers, and all that is refused in labels still is. Without any such row there are no rows.
    Rows that have `problems`, which are refused or skipped, may lack what lies on their image.
    """
    if is_input and feature.missing == "ignore":
        raise ArgumentError(
            f"{feature!r} is in x: a weight of 0 leaves a target out of the loss, but no input "
            'out of the model. Leave out missing="ignore", and drop or fill missing values'
        )
    present = present_in(feature, columns)
    if present is None:
        present = _annotated(columns, feature, [*problems])
        return present, columns if present is None else _filled(columns, present)
    if not present.any():
        for name in feature.columns:
            if pa.types.is_null(columns[name].type):
                raise ManifestError(
                    f"column {name!r} is missing in all {len(columns):,} rows, and so is of no "
                    f"type: leave {type(feature).__name__} out of y, or give the column a type"
                )
    return present, _filled(columns, present)


def _filled(columns: Columns, present: Present) -> FilledColumns:
    """Return columns in which the first row that is present stands in for those that are not."""
    rows = np.where(present, np.arange(len(present)), present.argmax())
    held = {field.name: getattr(columns, field.name) for field in fields(Columns)}
    return FilledColumns(**held, rows=rows if present.any() else rows[:0])


def _annotated(columns: Columns, feature: Feature, problems: list[int]) -> Present | None:
    """Return which rows have annotations, None where all must: those with a problem need none."""
    if not problems or feature.like is None or feature.of_files:
        return None
    present = np.ones(len(columns), np.bool_)
    for name in feature.columns:
        present[problems] &= ~nulls(columns[name])[problems]
    return None if present.all() or not present.any() else present


@dataclass(frozen=True)
class _NamingColumns:
    """Columns by which a feature is resolved; they doubt the classes of a target."""

    columns: Columns
    is_target: bool

    def __getitem__(self, name: str) -> Any:
        return self.columns[name]

    def files(self, name: str) -> Any:
        """Return a column of files."""
        return self.columns.files(name)

    def whole_numbers(self, name: str) -> Any:
        """Return a column of indices."""
        return self.columns.whole_numbers(name)

    def class_names(self, name: str, labels: pa.Array) -> tuple[object, ...]:
        """Return the classes of labels: those of the manifest for lists, else of the frame."""
        column, advice = self.columns[name], "give class_names="
        if is_list(column.type) and not are_numbers(column.type.value_type):
            known = self.columns.labels.get(name, {}).get("class_names")
            if known:
                return tuple(known)
        is_single = not is_list(column.type)
        if is_single:
            advice = f"before splitting write df[{name!r}] = df[{name!r}].astype('category')"
        values = labels if pa.types.is_dictionary(labels.type) else pc.unique(labels).drop_null()
        if not len(values):
            return ()
        if self.is_target:
            check_classes(self.columns, name, values, single=is_single)
        return _class_names(name, values, "" if self.columns.whole else advice)


def resolved(columns: Columns, feature: Feature, is_target: bool) -> Feature:
    """Return a feature with all that its columns decide."""
    return feature.resolve(_NamingColumns(columns, is_target))


def _class_names(name: str, found: pa.Array, advice: str) -> tuple[object, ...]:
    """Return classes in the order of their numbers; with advice, warn of a guess."""
    if pa.types.is_boolean(found.type):
        return False, True
    if pa.types.is_dictionary(found.type):
        return tuple(found.dictionary.drop_null().to_pylist())
    class_names = found.take(pc.sort_indices(found)).to_pylist()
    shown = ", ".join(map(repr, class_names[:10])) + (", ..." if len(class_names) > 10 else "")
    if advice and len(class_names) == 1:
        warn(
            f"column {name!r} is not categorical, and has one class alone, {shown}, so there is "
            f"nothing to tell apart. If another frame has more, {advice}"
        )
    elif advice:
        warn(
            f"column {name!r} is not categorical, so its {len(class_names):,} classes are numbered "
            f"by the sorted values of this frame: {shown}. Another frame may number them "
            f"otherwise: {advice}"
        )
    return tuple(class_names)
