"""What x and y mean: features with names and the values of every row."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dfgen.binding.class_names import Classed
from dfgen.binding.default_features import Options, columns_of, default_y, x_feature, y_feature
from dfgen.binding.frame_columns import Columns, paths_of, whole_numbers
from dfgen.binding.likes import like, placed
from dfgen.binding.nested import Tree, leaves, map_leaves, name_leaves
from dfgen.errors import ArgumentError
from dfgen.samples.bound_feature import Part, extra_of, labels_of
from dfgen.samples.features import (
    Array,
    Boxes,
    Bytes,
    Column,
    Feature,
    FileFeature,
    Image,
    Mask,
    MultiLabel,
)
from dfgen.samples.features.category import Category
from dfgen.samples.arrow_types import is_binary


@dataclass(frozen=True)
class Binding:
    """Inputs and targets bound to the columns of a manifest.

    Args:
        x: the names of its arrays, nested as x was given.
        y: likewise, or None.
        parts: what each name stands for.
    """

    x: Tree
    y: Tree
    parts: tuple[Part, ...]

    def __getitem__(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    def arrays(self, tree: Tree) -> Tree:
        """Return `x` or `y` with the names of arrays: two of them for some features."""

        def named(name: str) -> Tree:
            feature = self[name].feature
            if isinstance(feature, Boxes):
                return {"boxes": name, "labels": labels_of(name)}
            if isinstance(feature, Image) and feature.extra is not None:
                return {"images": name, feature.extra: extra_of(name, feature.extra)}
            return name

        return map_leaves(named, tree)

    @property
    def class_names(self) -> list[Any] | dict[str, list[Any]] | None:
        """The class names of y in the order of their numbers; by name where y has several."""
        features = {name: self[name].feature for name in leaves(self.y)}
        names = {
            name: list(feature.class_names)
            for name, feature in features.items()
            if isinstance(feature, Classed) and feature.class_names is not None
        }
        return names.get(self.y) if isinstance(self.y, str) else names or None

    @property
    def files(self) -> Part | None:
        """The first part that is read from files."""
        found = (part for part in self.parts if isinstance(part.feature, FileFeature))
        return next((part for part in found if part.paths is not None), None)


def bind(
    columns: Columns, x: Tree, y: Tree, options: Options, taken: set[str], root: str | None
) -> Binding:
    """Turn x and y as a user gives them into features with the values of every row.

    Args:
        columns: of the manifest.
        x: a column name, a feature, or a list or dict of those.
        y: likewise, or None.
        options: for bare column names.
        taken: columns that cannot be the label.
        root: where relative paths begin, or None.
    """
    if y is not None and options.label_mode is None:
        raise ArgumentError(f"label_mode=None asks for no targets, but y={y!r} names some")
    given = (x, y)
    x = map_leaves(lambda leaf: x_feature(columns, leaf, options), x)
    if y is None and options.label_mode is not None:
        y = default_y(columns, taken.union(*map(columns_of, leaves(x))))
        given = (given[0], y)
    y = map_leaves(lambda leaf: y_feature(columns, leaf, options), y)
    x_names, y_names = name_leaves(x, y)
    names, features = [*leaves(x_names), *leaves(y_names)], [*leaves(x), *leaves(y)]
    if not any(True for _ in leaves(x)):
        raise ArgumentError(f"x={x!r} names no input: give a column, a feature, a list or a dict")
    _check_used(given, (x, y), options)
    _check_names(names, features)
    named = dict(zip(names, features, strict=True))
    return Binding(x_names, y_names, tuple(part(columns, name, named, root) for name in names))


def part(columns: Columns, name: str, named: Mapping[str, Feature], root: str | None) -> Part:
    """Return the part of a sample that a feature makes, with its values.

    Args:
        columns: of the manifest.
        name: of the part.
        named: name -> feature, of all parts.
        root: where relative paths begin, or None.
    """
    feature = named[name]
    image = like(named, feature)
    values: Any
    if isinstance(feature, Column):
        arrays = [columns[column] for column in feature.columns]
        values = pa.StructArray.from_arrays(arrays, feature.columns)
    elif isinstance(feature, Bytes) and is_binary(columns[feature.column].type):
        values = feature.encode(columns[feature.column])
    elif isinstance(feature, FileFeature | Mask):
        values = paths_of(columns[feature.column], feature.column, root)
        if isinstance(feature, Array) and feature.index is not None:
            rows = whole_numbers(columns, feature.index)
            values = pa.StructArray.from_arrays([values, rows], ["path", "index"])
    else:
        values = feature.encode(*(columns[column] for column in columns_of(feature)))
    return Part(name, placed(feature, named.get(image or "")), values, image)


def _check_used(given: tuple[Tree, Tree], bound: tuple[Tree, Tree], options: Options) -> None:
    """Refuse arguments for bare column names where there is none that they could be for."""
    bare = {
        type(feature)
        for leaf, feature in zip(
            [leaf for tree in given for leaf in leaves(tree)],
            [feature for tree in bound for feature in leaves(tree)],
            strict=True,
        )
        if isinstance(leaf, str)
    }
    plain = Image("path")
    chosen = options.image("path")
    if chosen != plain and Image not in bare:
        raise ArgumentError(
            "image_size, color_mode and scale are for a column given by its name, but x gives "
            f"features: write them into the feature, {chosen!r}"
        )
    asked = options.label_mode not in ("int", None) or options.class_names
    if asked and not bare & {Category, MultiLabel}:
        raise ArgumentError(
            "label_mode and class_names are for a column given by its name, but y gives features: "
            "write them into the feature, Category(column, label_mode=..., class_names=...)"
        )


def _check_names(names: list[str], features: list[Feature]) -> None:
    both = list(zip(names, features, strict=True))
    labels = [labels_of(name) for name, feature in both if isinstance(feature, Boxes)]
    extras = [extra_of(name, f.extra) for name, f in both if isinstance(f, Image) and f.extra]
    counts = Counter([*names, *labels, *extras])
    twice = [str(name) for name, count in counts.items() if count > 1]
    if twice:
        raise ArgumentError(f"x and y both have an entry named {twice[0]!r}: rename one")
