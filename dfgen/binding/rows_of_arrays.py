"""Rows of array files: how they lie there, and what takes a whole chunk of them at once."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from dfgen.binding.frame_columns import Columns
from dfgen.errors import ArgumentError, DfgenError
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.image import Image
from dfgen.samples.features.one_row import holds_pixels
from dfgen.samples.sources.file_source import RowSource, StoredRows
from dfgen.samples.stores.array_files import BROKEN_ROWS, open_hdf5
from dfgen.samples.stores.store import Store
from dfgen.spec import IntArray, Spec

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


class RowLayout(NamedTuple):
    """How rows of array files lie in them, by the first of them.

    Args:
        shape, dtype: of a row.
        chunk: rows that are unpacked together.
        paths: of the files, in Arrow.
        files: which of these each row of the manifest is in.
        indices: which row of it that is.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: int
    paths: Any
    files: IntArray
    indices: IntArray

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return max(1, prod(self.shape) * self.dtype.itemsize)


def layouts_of(features: Iterable[BoundFeature], store: Store) -> dict[str, RowLayout]:
    """Return name of a feature -> how its rows lie in array files, of those that read such."""
    return {bound.name: _layout(bound, store) for bound in features if bound.array_rows}


def _layout(bound: BoundFeature, store: Store) -> RowLayout:
    rows: Any = bound.array_rows
    encoded = pc.dictionary_encode(rows.field("path"))
    indices = rows.field("index").to_numpy()
    feature: Any = bound.feature
    shape, dtype, chunk = feature.read_spec(False).shape, feature.spec.dtype, 1
    try:
        array = store.array(encoded.dictionary[0].as_py(), feature.dataset)
        shape, dtype = array.shape[1:], array.dtype
        chunk = (getattr(array, "chunks", None) or (1,))[0]
    except (DfgenError, *BROKEN_ROWS):  # reading it tells more
        pass
    files = encoded.indices.to_numpy().astype(np.int64)  # times blocks, they pass 32 bits
    return RowLayout(shape, dtype, chunk, encoded.dictionary, files, indices)


def stored_rows(
    features: Iterable[BoundFeature],
    layouts: Mapping[str, RowLayout],
    sources: Mapping[str, RowSource],
    store: Store,
) -> dict[str, RowSource]:
    """Return sources of features, of which array files give a whole chunk of rows at once."""
    held: dict[str, RowSource] = {}
    for bound in features:
        if bound.name in layouts:
            shape, dtype, _, paths, files, indices = layouts[bound.name]
            pixels = (*shape, 1) if bound.feature.pixel_kind and len(shape) == 2 else shape
            spec, dataset = Spec(pixels, dtype), getattr(bound.feature, "dataset", None)
            source = sources[bound.name].files
            held[bound.name] = StoredRows(
                source, spec, shape, paths, files, indices, dataset, store
            )
    return {**sources, **held}
