"""Rows of array files: how they lie there, and what takes a whole chunk of them at once."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, DfgenError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.base import specs_of
from dfgen.samples.features.image import Image
from dfgen.samples.features.image_checks import holds_pixels
from dfgen.samples.sources.file_source import FileSource, RowSource, StoredRows
from dfgen.spec import Spec
from dfgen.stores.array_files import BROKEN_ROWS, ArrayFiles, hdf5_arrays
from dfgen.stores.stores import Stores

StoreOf = Callable[[Iterable[Any]], Stores]


def array_feature(columns: Columns, image: Callable[..., Image], store_of: StoreOf) -> Image:
    """Return the Image of rows of array files: uint8, which can hardly be anything else.

    Args:
        columns: with `path` and `index`; the first row tells for all.
        image: makes the Image of a column as the Sequence was asked to; where it is to keep its
            size, it gets that of the rows.
        store_of: returns the store of arrays of files.
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
    paths = columns.head().files("path")
    path, dataset = paths[0].as_py(), None
    try:
        if os.path.isfile(path) and not path.endswith(".npy"):
            several = [name for name, array in hdf5_arrays(path).items() if array.ndim > 1]
            dataset = several[0] if len(several) == 1 else None
        array = store_of([paths]).arrays.array(path, dataset)
    except (DfgenError, *BROKEN_ROWS):
        return None
    return array.shape[1:], array.dtype, dataset


def stored_rows(
    features: Iterable[BoundFeature], sources: Mapping[str, RowSource], store: Stores, window: int
) -> dict[str, StoredRows]:
    """Return name of a feature of array files -> what takes a whole chunk of its rows at once.

    The first row says how all lie in their files. HDF5 files together keep unpacked chunks of
    `window` bytes.
    """
    return {
        bound.name: _stored(bound, sources[bound.name].files, store, window)
        for bound in features
        if bound.array_rows
    }


def _stored(bound: BoundFeature, files: FileSource, store: Stores, window: int) -> StoredRows:
    rows, feature = bound.values, bound.feature
    encoded = pc.dictionary_encode(rows.field("path"))
    dataset = getattr(feature, "dataset", None)
    spec = specs_of(feature)[0]
    shape, dtype, chunk = spec.shape, spec.dtype, 1
    arrays = ArrayFiles(
        Stores(store.limits, store.options, store.folder), window // len(encoded.dictionary)
    )
    try:
        array = arrays.array(encoded.dictionary[0].as_py(), dataset)
        shape, dtype = array.shape[1:], array.dtype
        chunk = (getattr(array, "chunks", None) or (1,))[0]
    except (DfgenError, *BROKEN_ROWS):  # reading it says more
        pass
    pixels = (*shape, 1) if spec.pixels and len(shape) == 2 else shape
    numbers = encoded.indices.to_numpy().astype(np.int64)  # times blocks, they pass 32 bits
    return StoredRows(
        files, Spec(pixels, dtype), shape, chunk, encoded.dictionary, numbers,
        rows.field("index").to_numpy(), dataset, arrays,
    )  # fmt: skip
