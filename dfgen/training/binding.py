"""What x and y mean: which feature a column becomes, and the name of its array."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from dfgen.errors import ArgumentError
from dfgen.manifest.schema import is_text, label_columns
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
from dfgen.samples.headers import EXTENSIONS
from dfgen.samples.lists import is_list
from dfgen.samples.parts import Part, extra_of, labels_of
from dfgen.samples.strings import is_binary
from dfgen.samples.tabular import Category, Number
from dfgen.training.classes import Classed, are_numbers, with_class_names
from dfgen.training.columns import Columns, paths_of, whole_numbers
from dfgen.training.likes import like, placed
from dfgen.training.trees import Tree, leaves, map_leaves, name_leaves


@dataclass(frozen=True)
class Options:
    """What turns a bare column name into a feature: the arguments of Sequence."""

    image: Callable[[str], Image]
    label_mode: str | None
    class_names: tuple[object, ...] | None


def x_feature(columns: Columns, leaf: object, options: Options) -> Feature:
    """Return the feature of one input."""
    if not isinstance(leaf, str):
        return _given(columns, "x", leaf)
    name = columns.check("x", leaf)
    if name == "path":
        if "index" in columns.names and _suffix(columns[name]) in (".npy", ".h5", ".hdf5"):
            raise ArgumentError(
                'x="path" and the column index are rows of array files: write '
                'x=dfgen.Array("path", shape=..., index="index")'
            )
        return options.image(name)
    values = columns[name]
    if is_text(values.type):
        example = values[0].as_py() or ""
        if _names_images("x", name, values):
            return options.image(name)
        raise ArgumentError(
            f'x="{name}" is text, and {example!r} has no suffix of an image. For files write '
            f'x=dfgen.Image("{name}"), for classes x=dfgen.Category("{name}"), for strings '
            f'x=dfgen.Text("{name}")'
        )
    return _by_dtype(
        columns, name, values.type, replace(options, label_mode="int", class_names=None)
    )


def y_feature(columns: Columns, leaf: object, options: Options) -> Feature:
    """Return the feature of one target."""
    if not isinstance(leaf, str):
        return _given(columns, "y", leaf)
    name = columns.check("y", leaf)
    values = columns[name]
    if is_text(values.type) and _names_images("y", name, values):
        raise ArgumentError(
            f'y="{name}" names image files. For masks write y=dfgen.Mask("{name}"), for images '
            f'y=dfgen.Image("{name}"), for classes y=dfgen.Category("{name}")'
        )
    return _by_dtype(columns, name, values.type, options)


def _by_dtype(columns: Columns, name: str, kind: pa.DataType, options: Options) -> Feature:
    if are_numbers(kind):
        if options.label_mode not in ("int", None) or options.class_names is not None:
            asked = f'label_mode="{options.label_mode}"'
            asked = "class_names" if options.label_mode in ("int", None) else asked
            raise ArgumentError(
                f"{asked} needs classes, but column {name!r} holds numbers ({kind}). "
                f'Write dfgen.Category("{name}", class_names=[...]), or '
                f'df["{name}"] = df["{name}"].astype("category")'
            )
        return Number(name)
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or is_text(kind):
        mode = options.label_mode or "int"
        return _given(columns, "y", Category(name, mode, options.class_names))
    if is_list(kind) and is_text(kind.value_type) and options.label_mode in ("int", None):
        return _given(columns, "y", MultiLabel(name, options.class_names))
    raise ArgumentError(
        f"column {name!r} holds {kind}, for which no feature is known: {_advice(name, kind)}"
    )


def _advice(name: str, kind: pa.DataType) -> str:
    """Return which feature a column may be meant for."""
    if not is_list(kind):
        return f"write dfgen.Column({name!r}, fn, shape=...)"
    if is_list(kind.value_type):
        return f"are these boxes? dfgen.Boxes({name!r}, labels=...)"
    if is_text(kind.value_type):
        return f"leave label_mode out, or write dfgen.MultiLabel({name!r})"
    return (
        f"for labels write dfgen.MultiLabel({name!r}), for numbers "
        f"dfgen.Column({name!r}, np.array, shape=...)"
    )


def _given(columns: Columns, argument: str, feature: object) -> Feature:
    """Check a feature's column; give a Category its class names."""
    if not isinstance(feature, Feature):
        raise ArgumentError(
            f"{argument} must be a column name, a feature such as dfgen.Image, or a list or dict "
            f"of these, got {feature!r}"
        )
    for name in columns_of(feature):
        columns.check(f"{type(feature).__name__}", name)
    return with_class_names(columns, feature)


def columns_of(feature: Feature) -> tuple[str, ...]:
    """Return the columns that a feature reads."""
    if isinstance(feature, Number | Column):
        return feature.columns
    if isinstance(feature, Boxes):
        return feature.column, feature.labels
    if isinstance(feature, Array) and feature.index is not None:
        return feature.column, feature.index
    return (feature.column,)


def default_y(columns: Columns, used: set[str]) -> str | None:
    """Return the one column that can only be the label, or None where there is none."""
    names = [name for name in label_columns(columns.names) if name not in used]
    if len(names) > 1:
        raise ArgumentError(
            f"y=None, and several columns could be the label: {', '.join(names)}. "
            f'Name one, y="{names[0]}", several, y={names[:2]!r}, or none, label_mode=None'
        )
    return names[0] if names else None


def _names_images(argument: str, name: str, values: pa.Array) -> bool:
    """Whether text names image files; an error where it names .npy files."""
    suffix = _suffix(values)
    if suffix == ".npy":
        raise ArgumentError(
            f'{argument}="{name}" names .npy files: write '
            f'{argument}=dfgen.Array("{name}", shape=...)'
        )
    return suffix in EXTENSIONS


def _suffix(paths: pa.Array) -> str:
    """Return the extension of the first path, in lower case."""
    return os.path.splitext(str(paths[0].as_py() or ""))[1].lower()


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


def _check_names(names: list[str], features: list[Feature]) -> None:
    both = list(zip(names, features, strict=True))
    labels = [labels_of(name) for name, feature in both if isinstance(feature, Boxes)]
    extras = [extra_of(name, f.extra) for name, f in both if isinstance(f, Image) and f.extra]
    counts = Counter([*names, *labels, *extras])
    twice = [str(name) for name, count in counts.items() if count > 1]
    if twice:
        raise ArgumentError(f"x and y both have an entry named {twice[0]!r}: rename one")
