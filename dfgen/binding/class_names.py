"""Class names of features that are not told them: those of the manifest, or of the column."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.binding.warn import warn
from dfgen.errors import ManifestError
from dfgen.samples.arrow_types import are_numbers, is_list
from dfgen.samples.features.base import Feature


def with_class_names(columns: Columns, feature: Feature) -> Feature:
    """Return a feature that knows its class names, where it has any."""
    name = feature.label_column
    if name is None or feature.class_names is not None:
        return feature
    column, advice = columns[name], "Give"
    known: Any = None
    if is_list(column.type) and not are_numbers(column.type.value_type):
        known = columns.labels.get(name, {}).get("class_names")
    if not known:
        unnamed = feature.unnamed(column)
        if unnamed is None:
            return feature
        if unnamed is column:
            advice = f'Before splitting: df["{name}"] = df["{name}"].astype("category"), or give'
        known = _class_names(name, unnamed, "" if columns.whole else advice)
    return replace(feature, class_names=tuple(known))  # type: ignore[type-var]


def _class_names(name: str, values: pa.Array, advice: str) -> tuple[object, ...]:
    """Return the classes of a column that is not told them; with advice, warn of a guess."""
    if pa.types.is_boolean(values.type):
        return False, True
    if pa.types.is_dictionary(values.type):
        return tuple(values.dictionary.to_pylist())
    found = pc.unique(values).drop_null()
    class_names = found.take(pc.sort_indices(found)).to_pylist()
    if not class_names:
        raise ManifestError(f"column {name!r} has no class in any row: give class_names=")
    shown = ", ".join(map(repr, class_names[:10])) + (", ..." if len(class_names) > 10 else "")
    if advice:
        warn(
            f"column {name!r} is not categorical, so its {len(class_names):,} classes are numbered "
            f"by the sorted values of this frame: {shown}. Another frame may number them "
            f"otherwise. {advice} class_names="
        )
    return tuple(class_names)
