"""Class names of features that are not told them: those of the manifest, or of the column."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.doubtful_labels import check_classes
from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, ManifestError, listed
from dfgen.manifest.warn import warn
from dfgen.samples.arrow_types import are_numbers, is_list
from dfgen.samples.features.base import Feature


def with_class_names(columns: Columns, feature: Feature, is_target: bool) -> Feature:
    """Return a feature that knows its class names, where it has any; doubt those of a target."""
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
        values = unnamed if pa.types.is_dictionary(unnamed.type) else pc.unique(unnamed).drop_null()
        if is_target:
            sep = getattr(feature, "sep", None)
            check_classes(columns, name, values, single=unnamed is column, sep=sep)
        known = _class_names(name, values, "" if columns.whole else advice)
        if len(known) > 2 and getattr(feature, "label_mode", None) == "binary":
            _refuse_unused(name, unnamed, known)
    return replace(feature, class_names=tuple(known))  # type: ignore[type-var]


def _class_names(name: str, found: pa.Array, advice: str) -> tuple[object, ...]:
    """Return classes in the order of their numbers; with advice, warn of a guess."""
    if pa.types.is_boolean(found.type):
        return False, True
    if pa.types.is_dictionary(found.type):
        return tuple(found.dictionary.to_pylist())
    class_names = found.take(pc.sort_indices(found)).to_pylist()
    if not class_names:
        raise ManifestError(f"column {name!r} has no class in any row: give class_names=")
    shown = ", ".join(map(repr, class_names[:10])) + (", ..." if len(class_names) > 10 else "")
    if advice and len(class_names) == 1:
        warn(
            f"column {name!r} is not categorical, and has one class alone, {shown}, so there is "
            f"nothing to tell apart. If another frame has more, {advice[0].lower()}{advice[1:]} "
            "class_names="
        )
    elif advice:
        warn(
            f"column {name!r} is not categorical, so its {len(class_names):,} classes are numbered "
            f"by the sorted values of this frame: {shown}. Another frame may number them "
            f"otherwise. {advice} class_names="
        )
    return tuple(class_names)


def _refuse_unused(name: str, values: pa.Array, known: Sequence[object]) -> None:
    """Refuse, as two classes are asked for, categories of which two are in any row."""
    if not pa.types.is_dictionary(values.type):
        return
    used = pc.unique(values.indices).drop_null().to_pylist()
    unused = [one for number, one in enumerate(known) if number not in used]
    if len(used) == 2:
        raise ArgumentError(
            f'label_mode="binary" needs two classes, column {name!r} has {len(known)} categories, '
            f"of which {listed(unused)} is in no row: df[{name!r}] = "
            f"df[{name!r}].cat.remove_unused_categories(), in every frame"
        )
