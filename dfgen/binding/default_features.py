"""Features of x and y: those given, and those that columns become by their names alone."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dfgen.binding.class_names import resolved
from dfgen.binding.frame_columns import Columns
from dfgen.binding.nested import Tree, leaf_names, leaves, map_leaves
from dfgen.binding.rows_of_arrays import StoreOf, array_feature
from dfgen.checks import one_of
from dfgen.errors import ArgumentError, DecodeError, brief, column_list, listed
from dfgen.manifest.schema import label_columns
from dfgen.samples.features.base import Feature
from dfgen.samples.features.category import LABEL_MODES, Category
from dfgen.samples.features.feature_checks import class_names_in_order
from dfgen.samples.features.image import Image
from dfgen.samples.features.image_checks import DEFAULT_SIZE, checked_size
from dfgen.samples.features.multilabel import MultiLabel
from dfgen.samples.features.number import Number
from dfgen.samples.pixels.formats import FORMATS, formats_by_suffix, sniff
from dfgen.samples.pixels.scaling import Scale
from dfgen.stores.archives import member_of
from dfgen.stores.stores import store_of
from dfgen.table.arrow_types import (
    are_fractions,
    are_numbers,
    flattened,
    is_list,
    is_text,
    lengths_of,
)
from dfgen.table.file_columns import are_files, content_parts

_ID = re.compile("(?i:^id|uuid|_id)$|Id$")


@dataclass(frozen=True)
class Options:
    """Options that turn a bare column name into a feature: the arguments of `dfgen.Sequence`.

    `store_of` is the one of `storage.stores`, with the limits and storage options of the user.
    """

    image_size: tuple[int, int] | None = DEFAULT_SIZE
    color_mode: str = "rgb"
    scale: Scale = None
    label_mode: str | None = "int"
    class_names: Any = None
    store_of: StoreOf = field(default=store_of, compare=False, repr=False)

    def __post_init__(self) -> None:
        one_of("label_mode", self.label_mode, (*LABEL_MODES, None))
        object.__setattr__(self, "image_size", checked_size("image_size", self.image_size))
        if self.class_names is not None:
            object.__setattr__(self, "class_names", class_names_in_order(self.class_names))

    def image(self, column: str) -> Image:
        """Return the feature of a column of images."""
        return Image(column, self.image_size, color_mode=self.color_mode, scale=self.scale)


def named_features(
    columns: Columns, x: Tree, y: Tree, options: Options, taken: set[str]
) -> tuple[Tree, Tree, dict[str, Feature]]:
    """Return x and y with names for features, and name -> feature."""
    x, y = chosen_features(columns, x, y, options, taken)
    x_names, y_names = leaf_names(x, y)
    names, features = [*leaves(x_names), *leaves(y_names)], [*leaves(x), *leaves(y)]
    pairs = zip(names, features, strict=True)
    arrays = [leaf for name, feature in pairs for leaf in leaves(feature.arrays(name))]
    twice = [str(name) for name, count in Counter(arrays).items() if count > 1]
    if twice:
        raise ArgumentError(f"x and y both have an entry named {twice[0]!r}: rename one")
    made = dict(zip(names, features, strict=True))
    return x_names, y_names, made


def chosen_features(
    columns: Columns, x: Tree, y: Tree, options: Options, taken: set[str]
) -> tuple[Tree, Tree]:
    """Return x and y with features for names, which know their classes; taken ones are no label."""
    if y is not None and options.label_mode is None:
        raise ArgumentError(
            f"label_mode=None asks for no targets, but y={brief(y)} names some: leave one of them "
            "out; numbers need no label_mode"
        )
    given = x
    x = map_leaves(lambda leaf: _x_feature(columns, leaf, options), x)
    if y is None and options.label_mode is not None:
        y = _default_y(columns, taken.union(*(feature.columns for feature in leaves(x))))
    leaves_given = [*leaves(given), *leaves(y)]
    y = map_leaves(lambda leaf: _y_feature(columns, leaf, options), y)
    if not [*leaves(x)]:
        raise ArgumentError(f"x={x!r} names no input: give a column, a feature, a list or a dict")
    bare = zip(leaves_given, [*leaves(x), *leaves(y)], strict=True)
    _check_used({feature.kind for leaf, feature in bare if isinstance(leaf, str)}, options)
    return x, y


def _check_used(bare: set[str], options: Options) -> None:
    """Refuse options for bare column names where these became no kind that they could be for."""
    if options.image("path") != Options().image("path") and "image" not in bare:
        raise ArgumentError(
            "image_size, color_mode and scale are for a column given by its name, but x gives "
            f"features: write them into the feature, {options.image('path')!r}"
        )
    asked = options.label_mode not in ("int", None) or options.class_names
    if asked and "label" not in bare:
        raise ArgumentError(
            "label_mode and class_names are for a column given by its name, but y gives features: "
            "write them into the feature, Category(column, label_mode=..., class_names=...)"
        )


def _x_feature(columns: Columns, leaf: object, options: Options) -> Feature:
    if not isinstance(leaf, str):
        return _given(columns, "x", leaf)
    name = columns.check("x", leaf)
    if name == "path":
        suffix = _suffix(columns.first(name))
        if "index" in columns.names and suffix in (".npy", ".h5", ".hdf5"):
            return array_feature(columns, options.image, options.store_of)
        _refuse_others("x", name, suffix)
        return options.image(name)
    values = columns[name]
    if are_files(values.type):
        _check_images("x", name, values)
        return options.image(name)
    if is_text(values.type):
        example = values[0].as_py() or ""
        if _names_images("x", name, values):
            return options.image(name)
        raise ArgumentError(
            f'x="{name}" is text, and {brief(example)} has no suffix of an image. '
            f"{_text_meant(name, example)}"
        )
    first = flattened(values)[:1]
    if len(first) and is_text(first.type) and _names_images("x", name, first):
        return options.image(name)
    return _by_dtype(
        columns, "x", name, values.type, replace(options, label_mode="int", class_names=None)
    )


def _text_meant(name: str, example: str) -> str:
    """Return what to write for a column of text that names no images."""
    numbers = example.split()
    side = isqrt(len(numbers))
    if len(numbers) > 16 and all(map(str.isdecimal, numbers[:16])):  # a row of pixels
        shape = (side, side, 1) if side * side == len(numbers) else (len(numbers),)
        fn = f'lambda text: np.array(text.split(), "float32").reshape{shape}'
        return f'For pixels as text write x=dfgen.Column("{name}", {fn}, shape={shape})'
    return (
        f'For files write x=dfgen.Image("{name}"), where they have no extension here '
        f'df["{name}"] = df["{name}"] + ".jpg", for classes x=dfgen.Category("{name}"), for '
        f'strings x=dfgen.Text("{name}")'
    )


def _y_feature(columns: Columns, leaf: object, options: Options) -> Feature:
    if not isinstance(leaf, str):
        return _given(columns, "y", leaf)
    name = columns.check("y", leaf)
    values = columns[name]
    if are_files(values.type):
        _check_images("y", name, values)
        raise ArgumentError(
            f'y="{name}" holds image files. For masks write y=dfgen.Mask("{name}"), for images '
            f'y=dfgen.Image("{name}")'
        )
    if is_text(values.type) and _names_images("y", name, values):
        raise ArgumentError(
            f'y="{name}" names image files. For masks write y=dfgen.Mask("{name}"), for images '
            f'y=dfgen.Image("{name}"), for classes y=dfgen.Category("{name}")'
        )
    first = flattened(values[:100])[:1]
    if len(first) and is_text(first.type) and _names_images("y", name, first):
        raise ArgumentError(
            f'y="{name}" holds lists of image files. For masks write y=dfgen.Mask("{name}"), for '
            f'images y=dfgen.Image("{name}"), for labels y=dfgen.MultiLabel("{name}")'
        )
    return _by_dtype(columns, "y", name, values.type, options)


def _by_dtype(
    columns: Columns, argument: str, name: str, kind: pa.DataType, options: Options
) -> Feature:
    if are_numbers(kind):
        if options.label_mode not in ("int", None) or options.class_names is not None:
            asked = f'label_mode="{options.label_mode}"'
            asked = "class_names" if options.label_mode in ("int", None) else asked
            whole, why = "", ""
            if are_fractions(kind):
                whole = '.astype("int64")'
                why = (
                    f". Missing values make floats of whole numbers: df = df[df[{name!r}].notna()]"
                )
            if asked == "class_names" and _names_numbers(options.class_names, kind):
                raise ArgumentError(
                    f"class_names={listed(options.class_names or ())} are text, but column "
                    f"{name!r} holds numbers ({kind}): {_from_codes(name)}"
                )
            raise ArgumentError(
                f"{asked} needs classes, but column {name!r} holds numbers ({kind}). "
                f'Write dfgen.Category("{name}", class_names=[...]), or '
                f'df["{name}"] = df["{name}"]{whole}.astype("category"){why}'
            )
        return _given(columns, argument, Number(name))
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or is_text(kind):
        mode = options.label_mode or "int"
        return _given(columns, argument, Category(name, mode, options.class_names))
    if is_list(kind) and is_text(kind.value_type) and options.label_mode in ("int", None):
        return _given(columns, argument, MultiLabel(name, options.class_names))
    advice = _advice(columns, name, kind)
    raise ArgumentError(f"column {name!r} holds {kind}, for which no feature is known: {advice}")


def _names_numbers(names: Any, kind: pa.DataType) -> bool:
    """Whether names are text, and the column holds their numbers."""
    texts = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return texts and pa.types.is_integer(kind)


def _from_codes(name: str) -> str:
    return (
        f"to name its numbers write df[{name!r}] = pd.Categorical.from_codes(df[{name!r}], "
        "class_names), before splitting"
    )


def _advice(columns: Columns, name: str, kind: pa.DataType) -> str:
    """Return which feature a column may be meant for."""
    if pa.types.is_temporal(kind):
        days = f"(df[{name!r}] - df[{name!r}].min()).dt.days"
        days = f"df[{name!r}].dt.days" if pa.types.is_duration(kind) else days
        return (
            f"make numbers of it, as the days: df[{name!r}] = {days}, or "
            f"write dfgen.Column({name!r}, fn, shape=...)"
        )
    if pa.types.is_null(kind):
        return "it is missing in all rows; drop it, or choose another column"
    if not is_list(kind):
        return f"write dfgen.Column({name!r}, fn, shape=...)"
    if is_list(kind.value_type):
        return f"are these boxes? dfgen.Boxes({name!r}, labels=...)"
    if is_text(kind.value_type):
        return f"leave label_mode out, or write dfgen.MultiLabel({name!r})"
    lengths = {*lengths_of(columns[name]).tolist()}
    shape = f"({min(lengths)},)" if len(lengths) == 1 else "..."
    return (
        f"for labels write dfgen.MultiLabel({name!r}), for vectors of numbers, one-hot ones too, "
        f"dfgen.Column({name!r}, np.array, shape={shape})"
    )


def _given(columns: Columns, argument: str, feature: object) -> Feature:
    """Check a feature's column; give a Category its class names."""
    if not isinstance(feature, Feature):
        raise ArgumentError(
            f"{argument} must be a column name, a feature such as dfgen.Image, or a list or dict "
            f"of these, got {brief(feature)}: {_meant(argument, feature)}"
        )
    for name in feature.columns:
        columns.check(f"{type(feature).__name__}", name)
    return resolved(columns, feature, argument == "y")


def _meant(argument: str, given: Any) -> str:
    """Return what to write for what is neither a column name nor a feature."""
    example = '"path"' if argument == "x" else '"kind"'
    if isinstance(given, type) and issubclass(given, Feature):
        return f"give an object of it, {argument}=dfgen.{given.__name__}({example})"
    if isinstance(given, set | frozenset):
        return f"write {argument}={sorted(map(str, given))}, whose order tells them apart"
    name = getattr(given, "name", None)
    if isinstance(name, str) and hasattr(given, "dtype"):  # a Series
        return f'put it into the frame, df["{name}"] = ..., and write {argument}="{name}"'
    if isinstance(given, Mapping | list | tuple):
        return "lists and dicts are not nested in one another"
    if hasattr(given, "shape") or hasattr(given, "columns"):
        return f"put it into a column of the frame, and write {argument}={example}, its name"
    return f"write {argument}={example}"


def _default_y(columns: Columns, used: Iterable[str]) -> str | None:
    """Return the one column that can only be the label, or None where there is none.

    A column of other values in every row, whose name is that of an id, is none.
    """
    names = [name for name in label_columns(columns.names) if name not in used]
    names = [name for name in names if not (_ID.search(name) and _is_unique(columns[name]))]
    if len(names) > 1:
        raise ArgumentError(
            f"y=None, and several columns could be the label: {column_list(names)}. "
            f'Name one, y="{names[0]}", several, y={names[:2]!r}, or none, label_mode=None'
        )
    return names[0] if names else None


_BY_FUNCTION = (
    ".csv", ".dcm", ".dicom", ".gz", ".json", ".las", ".mat", ".mha", ".nii", ".npz", ".nrrd",
    ".pkl", ".pt", ".pth", ".txt",
)  # fmt: skip
"""Suffixes of files that are read by a function of the user's."""


def _names_images(argument: str, name: str, values: pa.Array) -> bool:
    """Whether text names image files; an error where it names .npy files, sounds or others."""
    suffix = _suffix(values)
    _refuse_others(argument, name, suffix)
    if suffix == ".npy":
        raise ArgumentError(
            f'{argument}="{name}" names .npy files: write '
            f'{argument}=dfgen.Array("{name}", shape=...)'
        )
    return suffix in formats_by_suffix()


def _refuse_others(argument: str, name: str, suffix: str) -> None:
    """Refuse files of a suffix that is one of sounds, or of what a function must read."""
    if argument == "x" and suffix == ".tfrecord":
        raise ArgumentError(
            f'{argument}="{name}" names .tfrecord files, expected a file for each row: save their '
            "samples as files, or give fit a tf.data.TFRecordDataset, which needs no dfgen"
        )
    if argument == "x" and suffix in _BY_FUNCTION:
        raise ArgumentError(
            f'{argument}="{name}" names {suffix} files, which dfgen does not know: write '
            f'{argument}=dfgen.Array("{name}", shape=..., decode=function), where function makes '
            "an array of the bytes of a file"
        )
    format = formats_by_suffix().get(suffix)
    if format is not None and FORMATS[format].holds == "sound":
        raise ArgumentError(
            f'{argument}="{name}" names {suffix} files: write '
            f'{argument}=dfgen.Audio("{name}", sample_rate=..., seconds=...)'
        )


def _check_images(argument: str, name: str, values: Any) -> None:
    """Refuse a column of bytes of which the first are no image."""
    data, path = content_parts(values[0].as_py())
    if data is None and path is None:
        return  # `files` refuses such rows
    try:
        found = formats_by_suffix().get(_suffix_of(path)) if data is None else sniff(data[:16])
    except DecodeError:
        found = None
    if found is None or FORMATS[found].holds != "image":
        begin = repr(path) if data is None else f"bytes that begin with {data[:8]!r}"
        raise ArgumentError(
            f'{argument}="{name}" holds {begin}, which is no image. For sound write '
            f'dfgen.Audio("{name}", ...), for numbers dfgen.Array("{name}", shape=...), for the '
            f'bytes as they are dfgen.Bytes("{name}")'
        )


def _is_unique(values: pa.Array) -> bool:
    is_id = is_text(values.type) or pa.types.is_integer(values.type)
    return is_id and len(values) > 1 and pc.count_distinct(values).as_py() == len(values)


def _suffix(paths: pa.Array) -> str:
    """Return the extension of the first path, in lower case."""
    return _suffix_of(paths[0].as_py())


def _suffix_of(path: str | None) -> str:
    member = member_of(str(path or ""))
    return os.path.splitext(member.name if member else str(path or ""))[1].lower()
