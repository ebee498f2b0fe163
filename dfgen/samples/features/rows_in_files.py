"""Rows of array files as features read them: the path of the file, and the row in it."""

from typing import Any

import pyarrow as pa

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.arrow_types import is_list
from dfgen.samples.features.one_row import ColumnSource
from dfgen.samples.features.spec import Values
from dfgen.samples.pixels.color_modes import CHANNELS, in_rgb_mode
from dfgen.samples.pixels.depth import as_stored, in_depth
from dfgen.samples.storage.embedded import are_files
from dfgen.samples.storage.store import Store


def check_dataset(feature: Any) -> None:
    """Refuse the name of an array without the column of its rows."""
    if feature.dataset is not None and feature.index is None:
        raise ArgumentError(
            f"dataset={feature.dataset!r} is for rows of HDF5 files: name their column, as in "
            'index="index"'
        )


def bind_rows(feature: Any, columns: ColumnSource) -> pa.Array:
    """Return the files of a column, or structs of the `path` of an array file and the `index`."""
    paths = columns.files(feature.column)
    if feature.index is None:
        return paths
    if are_files(paths.type) or is_list(paths.type):
        held = "lists of files" if is_list(paths.type) else "the bytes of a file"
        raise ArgumentError(
            f"index={feature.index!r} is for rows of array files, but column {feature.column!r} "
            f"holds {held} in each row: leave it out"
        )
    rows = columns.whole_numbers(feature.index)
    return pa.StructArray.from_arrays([paths, rows], ["path", "index"])


def holds_pixels(shape: tuple[int, ...]) -> bool:
    """Whether a row of a shape may be an image: (height, width), or that and channels."""
    return 0 not in shape and (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4)))


def pixels_of_row(value: Any, dataset: str | None, store: Store) -> Values:
    """Return a row of an array file as (height, width, channels)."""
    row = store.row(value["path"], value["index"], dataset)
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
