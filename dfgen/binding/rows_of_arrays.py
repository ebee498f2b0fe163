"""Rows of array files: how they lie there, and what takes a whole chunk of them at once."""

from collections.abc import Iterable
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from dfgen.errors import DfgenError
from dfgen.loading.order.permutation import Integers
from dfgen.samples.bound_feature import BoundFeature
from dfgen.samples.features.spec import Spec
from dfgen.samples.storage.arrays.array_files import BROKEN_ROWS
from dfgen.samples.storage.store import Store
from dfgen.samples.stored_rows import StoredRows


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
    files: Integers
    indices: Integers

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
    shape, dtype, chunk = bound.feature.made_spec.shape, bound.feature.spec.dtype, 1
    try:
        array = store.array(encoded.dictionary[0].as_py(), bound.feature.dataset)
        shape, dtype = array.shape[1:], array.dtype
        chunk = (getattr(array, "chunks", None) or (1,))[0]
    except (DfgenError, *BROKEN_ROWS):  # reading it tells more
        pass
    files = encoded.indices.to_numpy().astype(np.int64)  # times blocks, they pass 32 bits
    return RowLayout(shape, dtype, chunk, encoded.dictionary, files, indices)


def with_stored_rows(
    features: Iterable[BoundFeature], layouts: dict[str, RowLayout], store: Store
) -> tuple[BoundFeature, ...]:
    """Return features that take a whole chunk of rows of array files at once, where they can."""
    return tuple(
        replace(bound, pixels=_stored(layouts[bound.name], bound, store))
        if bound.name in layouts
        else bound
        for bound in features
    )


def _stored(layout: RowLayout, bound: BoundFeature, store: Store) -> StoredRows:
    shape = layout.shape
    if bound.feature.has_channels and len(shape) == 2:
        shape = (*shape, 1)
    _, dtype, _, paths, files, indices = layout
    dataset = bound.feature.dataset
    spec = Spec(shape, dtype)
    return StoredRows(spec, layout.shape, paths, files, indices, dataset, store, bound.known)
