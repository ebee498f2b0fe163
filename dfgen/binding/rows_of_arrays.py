"""Rows of array files: the default feature of a table of them, and sources of whole chunks."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.compute as pc

from dfgen.binding.table_columns import Columns
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
    """Return the Image of rows of array files, if the first row is uint8 pixels.

    Args:
        columns: with `path` and `index`.
        image: makes the Image of a column with the options of the Sequence.
        store_of: returns the store of arrays of files.
    """
    paths = columns.taking(np.zeros(1, np.int64)).files("path")
    path, dataset, shape, dtype = paths[0].as_py(), None, None, None
    with suppress(DfgenError, *BROKEN_ROWS):
        if os.path.isfile(path) and not path.endswith(".npy"):
            names = [name for name, array in hdf5_arrays(path).items() if array.ndim > 1]
            dataset = names[0] if len(names) == 1 else None
        array = store_of([paths]).arrays.array(path, dataset)
        shape, dtype = array.shape[1:], array.dtype
    if shape is None or dtype != np.uint8 or not holds_pixels(shape):
        what = "" if shape is None else f" of {dtype} {shape}"
        named = "" if dataset is None else f', dataset="{dataset}"'
        raise ArgumentError(
            f'x="path" and the column index are rows of array files{what}: for numbers write '
            f'x=dfgen.Array("path", shape={shape or "..."}, index="index"{named}), for images '
            f'x=dfgen.Image("path", size=..., index="index"{named})'
        )
    plain = image("path")
    return replace(plain, size=plain.size or (shape[0], shape[1]), index="index", dataset=dataset)


def stored_rows(
    features: Iterable[BoundFeature], sources: Mapping[str, RowSource], store: Stores, window: int
) -> dict[str, StoredRows]:
    """Return name of a feature of array files -> source that takes a whole chunk of rows.

    The first row tells shape and dtype. HDF5 files together cache unpacked chunks of `window`
    bytes.
    """
    return {
        bound.name: _stored(bound, sources[bound.name].files, store, window)
        for bound in features
        if bound.array_rows
    }


def _stored(bound: BoundFeature, files: FileSource, store: Stores, window: int) -> StoredRows:
    rows, feature, spec = bound.values, bound.feature, specs_of(bound.feature)[0]
    encoded = pc.dictionary_encode(rows.field("path"))
    dataset = getattr(feature, "dataset", None)
    shape, dtype, chunk = spec.shape, spec.dtype, 1
    arrays = ArrayFiles(store.another(), window // len(encoded.dictionary))
    with suppress(DfgenError, *BROKEN_ROWS):  # reading it says more
        array = arrays.array(encoded.dictionary[0].as_py(), dataset)
        shape, dtype = array.shape[1:], array.dtype
        chunk = (getattr(array, "chunks", None) or (1,))[0]
    pixels = (*shape, 1) if spec.pixels and len(shape) == 2 else shape
    numbers = encoded.indices.to_numpy().astype(np.int64)  # times blocks, they exceed 32 bits
    return StoredRows(
        files, Spec(pixels, dtype), shape, chunk, encoded.dictionary, numbers,
        rows.field("index").to_numpy(), dataset, arrays,
    )  # fmt: skip
