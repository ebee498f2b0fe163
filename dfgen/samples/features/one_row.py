"""Columns as a feature asks for them, and its array of one row by hand."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from dfgen.errors import (
    ArgumentError,
    DecodeError,
    ManifestError,
    MissingFileError,
    brief,
    located,
)
from dfgen.samples.pixels.geometry import CHANNELS, in_rgb_mode
from dfgen.samples.pixels.scaling import as_stored, in_depth
from dfgen.spec import Present, Values, alone, each, empty, filled, unwatched
from dfgen.stores.store import Store
from dfgen.stores.stores import store_of
from dfgen.table.arrow_types import is_list, nulls
from dfgen.table.file_columns import FILE, are_files, content_shown


class ColumnSource(Protocol):
    """The columns that a feature asks for when it is bound."""

    def __getitem__(self, name: str) -> pa.Array:
        """Return a column."""

    def files(self, name: str) -> pa.Array:
        """Return a column of files, none missing: paths with their root, or bytes."""

    def whole_numbers(self, name: str) -> pa.Array:
        """Return a column of indices, none missing."""


@dataclass(frozen=True)
class OneRow:
    """The columns of one row, a mapping or a pandas Series."""

    row: Mapping[str, Any]

    def __getitem__(self, name: str) -> pa.Array:
        value = self.row[name]
        if isinstance(value, np.generic) and value.dtype.kind not in "mM":
            value = value.item()
        elif isinstance(value, tuple | np.ndarray):
            value = list(value)
        return pa.array([value], from_pandas=True)

    def files(self, name: str) -> pa.Array:
        """Return the path of the row, or the bytes."""
        content = content_of(self.row, name)
        return pa.array([content], FILE if isinstance(content, dict) else None)

    def whole_numbers(self, name: str) -> pa.Array:
        """Return the index of the row."""
        return pa.array([int(self.row[name])])


def is_several(value: object) -> bool:
    """Whether a row names several files."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "OU"
    return isinstance(value, list | tuple)


def _item_rows(
    row: Mapping[str, Any], columns: Iterable[str], most: int | None
) -> list[dict[str, Any]]:
    """Return a row for each of the files that columns of a row name, at `most` so many."""
    counts = {name: len(row[name]) if is_several(row[name]) else None for name in columns}
    if len(set(counts.values())) > 1:
        held = (f"{name!r} {'no list' if n is None else n}" for name, n in counts.items())
        raise ArgumentError(f"expected as many files in each list of a row, got {', '.join(held)}")
    count = next(iter(counts.values())) or 0
    if not 0 < count <= (most or count):
        limit = "" if most is None else f" to max_items={most}"
        raise ArgumentError(f"expected 1{limit} files in a list of {[*counts]}, got {count}")
    return [{**row, **{name: row[name][place] for name in counts}} for place in range(count)]


def content_of(row: Mapping[str, Any], column: str) -> Any:
    """Return what a row holds for a file: a path as text, else the bytes, or a mapping of both."""
    content = row[column]
    if isinstance(content, bytes | dict):
        return content
    if not isinstance(content, str | os.PathLike):
        raise ArgumentError(
            f"{column!r} of the row is {type(content).__name__}: expected the path of a file, or "
            "its bytes"
        )
    return os.fspath(content)


@contextmanager
def store_of_row(row: Mapping[str, Any], column: str, of_files: bool = True) -> Iterator[Store]:
    """Give the store of a row's path, and name the path in what is raised meanwhile about it."""
    if not of_files:
        yield store_of([])
        return
    try:
        yield store_of([OneRow(row).files(column)])
    except (DecodeError, MissingFileError) as error:
        shown = content_shown(content_of(row, column))
        raise located(error, f"{column}={shown}") from error


def array_of_row(feature: Any, row: Mapping[str, Any], rng: np.random.Generator | None) -> Any:
    """Return what a feature makes of one row: its array, or several by their keys."""
    if not hasattr(row, "keys"):
        raise ArgumentError(
            f"{feature!r} takes a row, got {brief(row)}: give a mapping of columns, such as "
            f"{{{feature.columns[0]!r}: ...}}, or a row of a frame"
        )
    if absent := [name for name in feature.columns if name not in row]:
        held = [*row.keys()]
        raise ArgumentError(f"{feature!r} needs {absent}, which the row lacks. It has {held}")
    if feature.of_files and feature.pixel_kind and is_several(row[feature.column]):
        return _array_of_items(feature, row, rng)
    check_present(feature, row)
    image = feature.image if feature.follows and feature.pixel_kind != "image" else feature
    keeps_size = image.pixel_kind == "image" and image.variable_size
    size = image.geometry(row, None).size if keeps_size else _length(feature, row)
    if feature.follows:
        given = feature.image.geometry(row, rng)
    else:
        given = None if rng is None else feature.draw(rng)
    out = tuple(empty(spec, size) for spec in each(feature.spec))
    made = tuple(map(empty, each(feature.read_spec(False)), [array.shape for array in out]))
    named = feature if feature.of_files else image
    with store_of_row(row, named.columns[0], named.of_files) as store:
        value = feature.at(feature.bind(OneRow(row)), 0)
        feature.read(value, alone(made), store, unwatched, given)
    feature.finish(alone(tuple(map(filled, made))), alone(out))
    return out[0] if len(out) == 1 else dict(zip(feature.arrays(""), out, strict=True))


def _length(feature: Any, row: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the length of the array of one row, if it has one of its own."""
    if not feature.own_length:
        return ()
    with store_of_row(row, feature.columns[0], feature.of_files) as store:
        length = feature.length(feature.at(feature.bind(OneRow(row)), 0), store)
    return (min(length, feature.most_length or length),)


def _array_of_items(feature: Any, row: Mapping[str, Any], rng: np.random.Generator | None) -> Any:
    """Return the arrays of all files that a row names, one after the other in one array."""
    image = feature.image if feature.follows else feature
    if getattr(image, "variable_size", False):
        raise ArgumentError(f"{image!r}: the images of a list make one array, so give a size")
    most = getattr(image, "max_items", None)
    rows = _item_rows(row, dict.fromkeys([feature.column, image.column]), most)
    same = [deepcopy(rng) for _ in rows[1:]]  # chance decides once for all
    return np.stack([feature(*one) for one in zip(rows, [*same, rng], strict=True)])


def present_in(feature: Any, columns: ColumnSource) -> Present | None:
    """Return which rows have all columns of a feature, None where all must."""
    if feature.missing == "raise":
        return None
    found: Present = ~np.logical_or.reduce([nulls(columns[name]) for name in feature.columns])
    return found


def check_present(feature: Any, row: Mapping[str, Any]) -> None:
    """Refuse one row, by hand, that lacks a column of a feature."""
    present = present_in(feature, OneRow(row))
    if present is not None and not present[0]:
        raise ManifestError(
            f"the row has nothing in {', '.join(map(repr, feature.columns))}: in a batch it would "
            "hold blanks, with weight 0"
        )


def bind_rows(feature: Any, columns: ColumnSource) -> pa.Array:
    """Return the files of a column, or structs of the `path` of an array file and the `index`."""
    paths = columns.files(feature.column)
    if len(feature.columns) == 1:
        return paths
    if are_files(paths.type) or is_list(paths.type):
        held = "lists of files" if is_list(paths.type) else "the bytes of a file"
        raise ArgumentError(
            f"index={feature.index!r} is for rows of array files, but column {feature.column!r} "
            f"holds {held} in each row: leave it out"
        )
    rows = columns.whole_numbers(feature.index)
    return pa.StructArray.from_arrays([paths, rows], ["path", "index"])


def files_among(feature: Any, values: Any) -> Any:
    """Return the files among what a feature's `bind` has returned, None where it reads none."""
    if not feature.of_files:
        return None
    return values if len(feature.columns) == 1 else values.field(0)


def holds_pixels(shape: tuple[int, ...]) -> bool:
    """Whether a row of a shape may be an image: (height, width), or that and channels."""
    return 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)))


def pixels_of_row(value: Any, dataset: str | None, store: Any) -> Values:
    """Return a row of an array file as (height, width, channels)."""
    row: Values = store.row(value["path"], value["index"], dataset)
    if not holds_pixels(row.shape):
        raise DecodeError(
            f"the row has shape {row.shape}, expected that of an image: (height, width), or "
            "(height, width, channels) with 1, 3 or 4 of them"
        )
    return row if row.ndim == 3 else row[..., None]


def image_of(value: Any, feature: Any, store: Store) -> Values:
    """Return a row of an array file in the depth and the color_mode of an image."""
    pixels = in_depth(as_stored(pixels_of_row(value, feature.dataset, store)), feature.dtype)
    if pixels.shape[2] == CHANNELS[feature.color_mode]:
        return pixels
    return in_rgb_mode(pixels, feature.color_mode)
