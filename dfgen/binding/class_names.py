"""Class names of features that are not told them: those of the manifest, or of the column."""

import sys
import warnings
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError
from dfgen.samples.arrow_types import is_list
from dfgen.samples.features import Boxes, Category, Feature, MultiLabel

Classed = Category | MultiLabel | Boxes
"""Features that have class names."""


def with_class_names(columns: Columns, feature: Feature) -> Feature:
    """Return a feature that knows its class names, where it has any."""
    if not isinstance(feature, Classed) or feature.class_names is not None:
        return feature
    if isinstance(feature, Category):
        name = feature.column
        before = f'Before splitting: df["{name}"] = df["{name}"].astype("category"), or give'
        return replace(feature, class_names=_class_names(name, columns[name], before))
    name = feature.labels if isinstance(feature, Boxes) else feature.column
    lists = columns[name]
    labels = pc.list_flatten(lists) if is_list(lists.type) else lists[:0]
    known = columns.labels.get(name, {}).get("class_names")
    if known and is_list(lists.type) and not are_numbers(labels.type):
        return replace(feature, class_names=tuple(known))
    if isinstance(feature, Boxes):
        if not len(labels) or are_numbers(labels.type):
            return feature
    elif pa.types.is_nested(labels.type) or not len(labels.drop_null()):
        feature.encode(lists)  # refuses what holds no labels
        raise ArgumentError(
            f"column {name!r} has no label in any row: write "
            f"dfgen.MultiLabel({name!r}, class_names=[...])"
        )
    return replace(feature, class_names=_class_names(name, labels, "Give"))


def are_numbers(kind: pa.DataType) -> bool:
    """Whether an Arrow type is one of numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _class_names(name: str, values: pa.Array, advice: str) -> tuple[object, ...]:
    """Return the classes of a column that is not told them."""
    if pa.types.is_boolean(values.type):
        return False, True
    if pa.types.is_dictionary(values.type):
        return tuple(values.dictionary.to_pylist())
    found = pc.unique(values).drop_null()
    class_names = found.take(pc.sort_indices(found)).to_pylist()
    shown = ", ".join(map(repr, class_names[:10])) + (", ..." if len(class_names) > 10 else "")
    _warn(
        f"column {name!r} is not categorical, so its {len(class_names):,} classes are numbered by "
        f"the sorted values of this frame: {shown}. Another frame may number them otherwise. "
        f"{advice} class_names="
    )
    return tuple(class_names)


def _warn(message: str) -> None:
    """Warn in the name of the caller's own line, however deep in dfgen it is noticed."""
    depth, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dfgen."):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(message, stacklevel=depth)
