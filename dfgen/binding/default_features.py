"""The features of x and y, also for column names."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.arguments import IMAGE_OPTIONS, SequenceArguments
from dfgen.binding.nested import Tree, leaves, map_leaves
from dfgen.binding.table_columns import Columns
from dfgen.errors import ArgumentError, DecodeError, DfgenError, brief, column_list
from dfgen.explain.names import warn_of_lookalikes
from dfgen.manifest.schema import label_columns
from dfgen.samples.features.base import Feature
from dfgen.samples.features.category import Category
from dfgen.samples.features.image import Image
from dfgen.samples.features.image_checks import holds_pixels
from dfgen.samples.features.multilabel import MultiLabel
from dfgen.samples.features.number import Number
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix, sniff
from dfgen.stores.archives import member_of
from dfgen.stores.array_files import BROKEN_ROWS, hdf5_arrays
from dfgen.stores.stores import store_of
from dfgen.table.arrow_types import are_numbers, is_list, is_text
from dfgen.table.file_columns import are_files, content_parts

_ID = re.compile("(?i:^id|uuid|_id)$|Id$")
_WRITE = {
    "array": 'dfgen.Array("{0}", shape=...)',
    "sound": 'dfgen.Audio("{0}", sample_rate=..., seconds=...)',
    "unknown": 'dfgen.Bytes("{0}"), or dfgen.Array("{0}", shape=..., decode=function)',
}
"""Content of files -> the feature to write."""


def named_features(
    columns: Columns, arguments: SequenceArguments
) -> tuple[Tree, Tree, dict[str, Feature]]:
    """Return x and y with names for features, and name -> feature."""
    x, y = chosen_features(columns, arguments)
    x_names, y_names = _leaf_names(x, y)
    names, features = [*leaves(x_names), *leaves(y_names)], [*leaves(x), *leaves(y)]
    named = [*zip(names, features, strict=True)]
    arrays = [leaf for name, feature in named for leaf in leaves(feature.arrays(name))]
    if twice := [str(name) for name, count in Counter(arrays).items() if count > 1]:
        raise ArgumentError(f"x and y both have an entry named {twice[0]!r}: rename one")
    return x_names, y_names, dict(named)


def _leaf_names(x: Tree, y: Tree) -> tuple[Tree, Tree]:
    """Return both trees with names for features: the key in a dict, else the kind.

    Kinds that occur several times are numbered: `image_0`, `image_1`.
    """
    plain = [f.kind for tree in (x, y) if not isinstance(tree, Mapping) for f in leaves(tree)]
    seen: Counter[str] = Counter()

    def name(feature: Feature) -> str:
        kind = feature.kind
        seen[kind] += 1
        return kind if plain.count(kind) == 1 else f"{kind}_{seen[kind] - 1}"

    named = [
        {key: key for key in tree} if isinstance(tree, Mapping) else map_leaves(name, tree)
        for tree in (x, y)
    ]
    return named[0], named[1]


def chosen_features(columns: Columns, arguments: SequenceArguments) -> tuple[Tree, Tree]:
    """Return x and y with a feature for each column name; the features know their classes."""
    y = arguments.y
    if y is not None and arguments.label_mode is None:
        raise ArgumentError(
            f"label_mode=None means no targets, but y={brief(y)} names some: leave one of them out"
        )
    x = map_leaves(lambda leaf: _input(columns, leaf, arguments), arguments.x)
    if not [*leaves(x)]:
        raise ArgumentError(f"x={x!r} has no input: give a column, a feature, a list or a dict")
    if y is None and arguments.label_mode is not None:
        names = arguments.id, arguments.sampling_weight, *leaves(arguments.sample_weight)
        taken = {name for name in names if isinstance(name, str)}
        y = _only_label(columns, taken.union(*(feature.columns for feature in leaves(x))))
    features = x, map_leaves(lambda leaf: _target(columns, leaf, arguments), y)
    leaf_list, made = ([*leaves(a), *leaves(b)] for a, b in ((arguments.x, y), features))
    pairs = zip(leaf_list, made, strict=True)
    _check_used({feature.kind for leaf, feature in pairs if isinstance(leaf, str)}, arguments)
    return features


def _check_used(kinds: set[str], arguments: SequenceArguments) -> None:
    """Raise if options for column names have no effect."""
    defaults = SequenceArguments
    changed = [n for n in IMAGE_OPTIONS if getattr(arguments, n) != getattr(defaults, n)]
    if changed and "image" not in kinds:
        raise ArgumentError(
            f"{changed[0]}= is for an image that x gives by its column name: write it into the "
            f"feature, {arguments.image('path')!r}"
        )
    if (arguments.label_mode not in ("int", None) or arguments.class_names) and (
        "label" not in kinds
    ):
        raise ArgumentError(
            "label_mode= and class_names= are for a column that y gives by its name: write them "
            "into the feature, Category(column, label_mode=..., class_names=...)"
        )


def _input(columns: Columns, leaf: object, arguments: SequenceArguments) -> Feature:
    if not isinstance(leaf, str):
        return _resolved(columns, "x", leaf)
    name = columns.check("x", leaf)
    first = columns.first(name)
    if name == "path" and "index" in columns.names and _suffix(first) in (".npy", ".h5", ".hdf5"):
        return _array_feature(columns, arguments)
    content = _content(first)
    if content in _WRITE:
        raise ArgumentError(f'x="{name}" is {brief(first)}: write x={_WRITE[content].format(name)}')
    if content == "image" or name == "path" or are_files(columns[name].type):
        return arguments.image(name)
    if is_text(columns[name].type):
        raise ArgumentError(
            f'x="{name}" is text such as {brief(first)}, which is no file name of an image: write '
            f'x=dfgen.Image("{name}"), x=dfgen.Category("{name}") or x=dfgen.Text("{name}")'
        )
    return _of_type(columns, "x", name, replace(arguments, label_mode="int", class_names=None))


def _array_feature(columns: Columns, arguments: SequenceArguments) -> Image:
    """Return the Image of rows of array files, if the first row is uint8 pixels."""
    paths = columns.taking(np.zeros(1, np.int64)).files("path")
    path, dataset, shape, dtype = paths[0].as_py(), None, None, None
    with suppress(DfgenError, *BROKEN_ROWS):
        if os.path.isfile(path) and not path.endswith(".npy"):
            names = [name for name, array in hdf5_arrays(path).items() if array.ndim > 1]
            dataset = names[0] if len(names) == 1 else None
        store = store_of([paths], arguments.limits, arguments.storage_options)
        array = store.arrays.array(path, dataset)
        shape, dtype = array.shape[1:], array.dtype
    if shape is None or dtype != np.uint8 or not holds_pixels(shape):
        what = "" if shape is None else f" of {dtype} {shape}"
        named = "" if dataset is None else f', dataset="{dataset}"'
        raise ArgumentError(
            f'x="path" and the column index are rows of array files{what}: for numbers write '
            f'x=dfgen.Array("path", shape={shape or "..."}, index="index"{named}), for images '
            f'x=dfgen.Image("path", size=..., index="index"{named})'
        )
    plain = arguments.image("path")
    return replace(plain, size=plain.size or (shape[0], shape[1]), index="index", dataset=dataset)


def _target(columns: Columns, leaf: object, arguments: SequenceArguments) -> Feature:
    if not isinstance(leaf, str):
        return _resolved(columns, "y", leaf)
    name = columns.check("y", leaf)
    content = _content(first := columns.first(name))
    if content is not None:
        one = _WRITE.get(content, 'dfgen.Mask("{0}") for masks, y=dfgen.Image("{0}") for images')
        raise ArgumentError(f'y="{name}" is a file, {brief(first)}: write y={one.format(name)}')
    return _of_type(columns, "y", name, arguments)


def _content(value: Any) -> str | None:
    """Return what a file contains: "image", "array" or "sound".

    The extension tells it, or the first bytes, "unknown" if they match no format. Returns None if
    the value is no file.
    """
    data, path = content_parts(value[0] if isinstance(value, list) and value else value)
    try:
        name = formats_by_suffix().get(_suffix(path)) if data is None else sniff(data[:16])
    except DecodeError:
        return "unknown"
    return None if name is None else FORMATS[name].holds


def _suffix(path: object) -> str:
    """Return the extension of a path, in lower case; "" for what is no path."""
    if not isinstance(path, str):
        return ""
    member = member_of(path)
    return os.path.splitext(path if member is None else member.name)[1].lower()


def _of_type(columns: Columns, argument: str, name: str, arguments: SequenceArguments) -> Feature:
    """Return the feature that fits the type of a column."""
    kind = columns[name].type
    is_int = arguments.label_mode in ("int", None)
    if are_numbers(kind):
        if not is_int or arguments.class_names is not None:
            raise ArgumentError(
                f"label_mode= and class_names= need classes, but column {name!r} has {kind}: write "
                f'dfgen.Category("{name}", class_names=[...]), or make it a category, df["{name}"] '
                f'= df["{name}"].astype("Int64").astype("category")'
            )
        return _resolved(columns, argument, Number(name))
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or is_text(kind):
        mode = arguments.label_mode or "int"
        return _resolved(columns, argument, Category(name, mode, arguments.class_names))
    if is_list(kind) and is_text(kind.value_type) and is_int:
        return _resolved(columns, argument, MultiLabel(name, arguments.class_names))
    raise ArgumentError(
        f"column {name!r} has {kind}, expected numbers, text or categories. For lists of labels "
        f'write dfgen.MultiLabel("{name}"), for boxes dfgen.Boxes("{name}", labels=...), for other '
        f'values dfgen.Column("{name}", function, shape=...)'
    )


def _resolved(columns: Columns, argument: str, feature: object) -> Feature:
    """Return a feature with its class names, if its columns exist."""
    if not isinstance(feature, Feature):
        raise ArgumentError(
            f"{argument} must be a column name, a feature such as dfgen.Image(...), or a list or "
            f"dict of these, got {brief(feature)}"
        )
    for name in feature.columns:
        columns.check(type(feature).__name__, name)
    resolved = feature.resolve(replace(columns, checks_classes=argument == "y"))
    if resolved.class_names:
        name = getattr(feature, "labels", None) or feature.columns[0]
        known = feature.class_names or columns.labels.get(name, {}).get("class_names")
        can_change = not known and getattr(feature, "sep", None) is None
        source, kind = columns.source if can_change else None, columns[name].type
        warn_of_lookalikes(name, resolved.class_names, source, kind)
    return resolved


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
