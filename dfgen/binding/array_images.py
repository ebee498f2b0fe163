"""Which feature rows of array files become where x is their path alone."""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, DfgenError
from dfgen.samples.features.image import Image
from dfgen.samples.features.rows_in_files import holds_pixels
from dfgen.samples.storage.arrays.array_files import BROKEN_ROWS, open_hdf5
from dfgen.samples.storage.store import Store

StoreOf = Callable[[Iterable[Any]], Store]


def array_feature(columns: Columns, image: Callable[..., Image], store_of: StoreOf) -> Image:
    """Return the Image of rows of array files: uint8, which can hardly be anything else.

    Args:
        columns: with `path` and `index`; the first row tells for all.
        image: makes the Image of a column as the Sequence was asked to; where it is to keep its
            size, it gets that of the rows.
        store_of: returns the store of arrays of files.

    Raises:
        ArgumentError: rows of other numbers, or of several arrays: images, or not.
    """
    found = _first_array(columns, store_of)
    if found is None:
        raise ArgumentError(_either("", "...", ""))
    shape, dtype, dataset = found
    named = "" if dataset is None else f', dataset="{dataset}"'
    if dtype != np.uint8 or not holds_pixels(shape):
        raise ArgumentError(_either(f" of {dtype} {shape}", str(shape), named))
    plain = image("path")
    return replace(plain, size=plain.size or (shape[0], shape[1]), index="index", dataset=dataset)


def _either(held: str, shape: str, named: str) -> str:
    return (
        f'x="path" and the column index are rows of array files{held}: for numbers write '
        f'x=dfgen.Array("path", shape={shape}, index="index"{named}), for images '
        f'x=dfgen.Image("path", size=..., index="index"{named})'
    )


def _first_array(
    columns: Columns, store_of: StoreOf
) -> tuple[tuple[int, ...], np.dtype[Any], str | None] | None:
    """Return shape and dtype of a row, and its data set; None where there are several, or none."""
    paths = Columns(columns.source[:1], root=columns.root).files("path")
    path, dataset = paths[0].as_py(), None
    try:
        if os.path.isfile(path) and not path.endswith(".npy"):
            several = [name for name, array in open_hdf5(path).items() if array.ndim > 1]
            dataset = several[0] if len(several) == 1 else None
        array = store_of([paths]).array(path, dataset)
    except (DfgenError, *BROKEN_ROWS):
        return None
    return array.shape[1:], array.dtype, dataset
