"""Features bound to the rows of a manifest, and padding of arrays of unequal sizes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.samples.features.base import Feature, specs_of, value_of
from dfgen.samples.features.image import Image
from dfgen.spec import IntArray, Present, Spec, Values
from dfgen.table.arrow_types import content_parts

Sizes = npt.NDArray[np.int32]
"""(height, width) of the upright image of every row, shape (rows, 2)."""

RowLengths = npt.NDArray[np.int32]
"""Lengths of the first axes of an array in every row, shape (rows, axes)."""


@dataclass(frozen=True)
class BoundFeature:
    """A feature, its name in x or y, and `values`, the result of its `bind`.

    `like` is the name of the followed image; `present` tells which rows have the feature (None:
    all). The values of other rows are undefined.
    """

    name: str
    feature: Feature
    values: Any
    like: str | None = None
    present: Present | None = None

    @cached_property
    def arrays(self) -> dict[str, str]:
        """Key in the batch -> name of an array; the key of a single array is ""."""
        names = self.feature.arrays(self.name)
        return {"": names} if isinstance(names, str) else names

    def has(self, row: int) -> bool:
        """Whether a row has the feature."""
        return self.present is None or bool(self.present[row])

    def gather(self, rows: IntArray) -> Values:
        """Return the arrays of some rows of a TableFeature, blank where missing."""
        feature: Any = self.feature
        if self.present is None:
            return feature.gather(self.values, rows)  # type: ignore[no-any-return]
        spec, present = feature.spec, self.present[rows]
        arrays = np.full((len(rows), *spec.shape), spec.blank, spec.dtype)
        arrays[present] = feature.gather(self.values, rows[present])
        return arrays

    @cached_property
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample."""
        specs = [*specs_of(self.feature)]
        if "padding_mask" in self.arrays:
            pixels = specs[0].pixels
            shape, blank = ((None, None, 1), False) if pixels else ((None,), True)
            specs.append(Spec(shape, np.dtype(np.bool_), blank, pixels=pixels))
        return dict(zip(self.arrays.values(), specs, strict=True))

    @property
    def variable_size(self) -> bool:
        """Whether it is an image with `size=None`."""
        return isinstance(self.feature, Image) and self.feature.size is None

    @cached_property
    def array_rows(self) -> pa.StructArray | None:
        """The structs of `path` and `index` of every row, if it reads rows of array files."""
        is_rows = self.feature.of_files and getattr(self.feature, "index", None) is not None
        return self.values if is_rows else None

    @cached_property
    def files(self) -> pa.Array | None:
        """The paths or bytes of all rows, or None if it reads no files."""
        if not self.feature.of_files:
            return None
        return self.values if len(self.feature.columns) == 1 else self.values.field(0)

    def path(self, row: int) -> str | None:
        """Return the path of a row's file, or None for bytes and missing files."""
        if self.files is None or not self.has(row):
            return None
        data, path = content_parts(value_of(self.files, row))
        return path if data is None else None


@dataclass(frozen=True, eq=False)
class Padding:
    """The padded arrays of a batch; empty if all rows have one shape."""

    sizes: dict[str, RowLengths] = field(default_factory=dict)  # array name -> lengths
    fills: dict[str, float] = field(default_factory=dict)  # array name -> padding value
    masks: dict[str, RowLengths] = field(default_factory=dict)  # name of a padding mask -> lengths

    def specs(self, rows: Any, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """Return the Specs of a batch of rows, with the largest lengths among them."""
        padded = dict(specs)
        for name, sizes in (self.sizes | self.masks).items():
            largest = sizes[rows].max(axis=0, initial=1).tolist()
            shape = (*largest, *specs[name].shape[len(largest) :])
            padded[name] = replace(specs[name], shape=shape)
        return padded

    def gather(self, rows: npt.NDArray[np.int64], out: Mapping[str, Values]) -> None:
        """Fill the padding masks of a batch."""
        for name, sizes in self.masks.items():
            out[name][...] = True
            for axis, lengths in enumerate(sizes[rows].T, start=1):
                along = np.moveaxis(out[name], axis, 1)
                along[np.arange(along.shape[1]) >= lengths[:, None]] = False

    def own(self, row: int, out: Mapping[str, Values]) -> dict[str, Values]:
        """Return a row's arrays cut to their own lengths, and fill their padding."""
        arrays = {name: array for name, array in out.items() if name not in self.masks}
        for name, sizes in self.sizes.items():
            for axis, length in enumerate(sizes[row].tolist()):
                array, before = arrays[name], (slice(None),) * axis
                if length < array.shape[axis]:
                    array[(*before, slice(length, None))] = self.fills[name]
                    arrays[name] = array[(*before, slice(length))]
        return arrays
