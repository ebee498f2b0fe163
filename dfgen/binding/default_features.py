"""The features of x and y, also for column names."""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.arguments import IMAGE_OPTIONS, SequenceArguments
from dfgen.binding.nested import Tree, leaves, map_leaves
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, DecodeError, brief, column_list
from dfgen.explain.names import warn_of_lookalikes
from dfgen.manifest.schema import label_columns
from dfgen.samples.features.base import Feature
from dfgen.samples.features.classes import Category, MultiLabel, Number
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix, sniff
from dfgen.stores.archives import member_of
from dfgen.table.arrow_types import are_files, are_numbers, content_parts, is_list, is_text

_ID = re.compile("(?i:^id|uuid|_id)$|Id$")
_WRITE = {
    "array": 'dfgen.Array("{0}", shape=...), or for rows of array files dfgen.Array("{0}", '
    'shape=..., index="index") or dfgen.Image("{0}", size=..., index="index")',
    "sound": 'dfgen.Audio("{0}", sample_rate=..., seconds=...)',
    "image": 'dfgen.Mask("{0}") for masks, y=dfgen.Image("{0}") for images',
    "unknown": 'dfgen.Bytes("{0}"), or dfgen.Array("{0}", shape=..., decode=function)',
}
"""Content of files -> the feature to write."""


def named_features(
    columns: Columns, arguments: SequenceArguments
) -> tuple[Tree, Tree, dict[str, Feature]]:
    """Return x and y with names for features, and name -> feature.

    The name is the key in a dict, else the kind. Kinds that occur several times are numbered:
    `image_0`, `image_1`.
    """
    x, y = trees = chosen_features(columns, arguments)
    kinds = Counter(f.kind for tree in trees if not isinstance(tree, Mapping) for f in leaves(tree))
    numbers = defaultdict[str, Any](count)

    def name(feature: Feature) -> str:
        kind = feature.kind
        return kind if kinds[kind] == 1 else f"{kind}_{next(numbers[kind])}"

    x_names, y_names = (
        {key: key for key in tree} if isinstance(tree, Mapping) else map_leaves(name, tree)
        for tree in trees
    )
    names, features = (*leaves(x_names), *leaves(y_names)), (*leaves(x), *leaves(y))
    named, arrays = [*zip(names, features, strict=True)], Counter[str]()
    for key, feature in named:
        arrays.update(leaves(feature.arrays(key)))
    if arrays and max(arrays.values()) > 1:
        twice = arrays.most_common(1)[0][0]
        raise ArgumentError(f"x and y both have an entry named {twice!r}: rename one")
    return x_names, y_names, dict(named)


def chosen_features(columns: Columns, arguments: SequenceArguments) -> tuple[Tree, Tree]:
    """Return x and y with a feature for each column name; the features know their classes."""
    x, y = arguments.x, arguments.y
    if y is not None and arguments.label_mode is None:
        raise ArgumentError(
            f"label_mode=None means no targets, but y={brief(y)} names some: leave one of them out"
        )
    x = map_leaves(lambda leaf: _feature(columns, "x", leaf, arguments), x)
    if not [*leaves(x)]:
        raise ArgumentError(f"x={x!r} has no input: give a column, a feature, a list or a dict")
    if y is None and arguments.label_mode is not None:
        names = arguments.id, arguments.sampling_weight, *leaves(arguments.sample_weight)
        taken = {name for name in names if isinstance(name, str)}
        y = _only_label(columns, taken.union(*(feature.columns for feature in leaves(x))))
    given = *leaves(arguments.x), *leaves(y)
    y = map_leaves(lambda leaf: _feature(columns, "y", leaf, arguments), y)
    pairs = zip(given, (*leaves(x), *leaves(y)), strict=True)
    kinds = {feature.kind for leaf, feature in pairs if isinstance(leaf, str)}
    changed = [n for n in IMAGE_OPTIONS if getattr(arguments, n) != getattr(SequenceArguments, n)]
    if changed and "image" not in kinds:
        raise ArgumentError(
            f"{changed[0]}= is for an image that x gives by its column name: write it into the "
            f"feature, {arguments.image('path')!r}"
        )
    has_label_options = arguments.label_mode not in ("int", None) or arguments.class_names
    if has_label_options and "label" not in kinds:
        raise ArgumentError(
            "label_mode= and class_names= are for a column that y gives by its name: write them "
            "into the feature, Category(column, label_mode=..., class_names=...)"
        )
    return x, y


def _feature(columns: Columns, argument: str, leaf: Any, arguments: SequenceArguments) -> Feature:
    """Return the feature of a leaf of x or y, with its class names."""
    if isinstance(leaf, str):
        leaf = _of_column(columns, argument, columns.check(argument, leaf), arguments)
    if not isinstance(leaf, Feature):
        raise ArgumentError(
            f"{argument} must be a column name, a feature such as dfgen.Image(...), or a list or "
            f"dict of these, got {brief(leaf)}"
        )
    for name in leaf.columns:
        columns.check(type(leaf).__name__, name)
    resolved = leaf.resolve(replace(columns, checks_classes=argument == "y"))
    if resolved.class_names:
        name = getattr(leaf, "labels", None) or leaf.columns[0]
        known = leaf.class_names or columns.labels.get(name, {}).get("class_names")
        can_change = not known and getattr(leaf, "sep", None) is None
        source, kind = columns.source if can_change else None, columns[name].type
        warn_of_lookalikes(name, resolved.class_names, source, kind)
    return resolved


def _of_column(columns: Columns, argument: str, name: str, arguments: SequenceArguments) -> Feature:
    """Return the feature that fits the content of a column."""
    first, kind, is_input = columns.first(name), columns[name].type, argument == "x"
    content = _content(first)
    is_image = content == "image" or (content is None and (name == "path" or are_files(kind)))
    if is_input and is_image:
        return arguments.image(name)
    if content is not None:
        write = _WRITE[content].format(name)
        raise ArgumentError(
            f'{argument}="{name}" is a file, {brief(first)}: write {argument}={write}'
        )
    if is_input and is_text(kind):
        raise ArgumentError(
            f'x="{name}" is text such as {brief(first)}, which is no file name of an image: write '
            f'x=dfgen.Image("{name}"), x=dfgen.Category("{name}") or x=dfgen.Text("{name}")'
        )
    mode, classes = arguments.label_mode or "int", arguments.class_names
    if is_input:
        mode, classes = "int", None
    if are_numbers(kind):
        if mode != "int" or classes is not None:
            raise ArgumentError(
                f"label_mode= and class_names= need classes, but column {name!r} has {kind}: write "
                f'dfgen.Category("{name}", class_names=[...]), or make it a category, df["{name}"] '
                f'= df["{name}"].astype("Int64").astype("category")'
            )
        return Number(name)
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or is_text(kind):
        return Category(name, mode, classes)
    if is_list(kind) and is_text(kind.value_type) and mode == "int":
        return MultiLabel(name, classes)
    raise ArgumentError(
        f"column {name!r} has {kind}, expected numbers, text or categories. For lists of labels "
        f'write dfgen.MultiLabel("{name}"), for boxes dfgen.Boxes("{name}", labels=...), for other '
        f'values dfgen.Column("{name}", function, shape=...)'
    )


def _content(value: Any) -> str | None:
    """Return what a file contains: "image", "array" or "sound", "unknown" if no format matches.

    Its extension tells it, or its first bytes. Returns None if the value is no file.
    """
    data, path = content_parts(value[0] if isinstance(value, list) and value else value)
    if data is not None:
        try:
            return FORMATS[sniff(data[:16])].holds
        except DecodeError:
            return "unknown"
    if not isinstance(path, str):
        return None
    member = member_of(path)
    suffix = os.path.splitext(path if member is None else member.name)[1].lower()
    name = formats_by_suffix().get(suffix)
    return None if name is None else FORMATS[name].holds


def _only_label(columns: Columns, used: Iterable[str]) -> str | None:
    """Return the column that must be the label: the only one that has no other use.

    A column with a different value in each row and the name of an id is none. Returns None if there
    is no label.
    """
    names = [name for name in label_columns(columns.names) if name not in used]
    names = [name for name in names if not (_ID.search(name) and _is_unique(columns[name]))]
    if len(names) > 1:
        raise ArgumentError(
            f"y=None, and several columns could be the label: {column_list(names)}. Name one, "
            f'y="{names[0]}", several, y={names[:2]!r}, or none, label_mode=None'
        )
    return names[0] if names else None


def _is_unique(values: pa.Array) -> bool:
    is_id = is_text(values.type) or pa.types.is_integer(values.type)
    return is_id and len(values) > 1 and pc.count_distinct(values).as_py() == len(values)
