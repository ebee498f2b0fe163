"""Features bound to the rows of a manifest, and the padding of arrays of unequal sizes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.samples.features.base import Feature, TableFeature, specs_of, value_of
from dfgen.samples.features.image import Image
from dfgen.spec import IntArray, Present, Spec, Values
from dfgen.table.file_columns import content_parts

Sizes = npt.NDArray[np.int32]
"""(height, width) of the upright image of every row, shape (rows, 2)."""

RowLengths = npt.NDArray[np.int32]
"""How long the first axes of an array are in every row, shape (rows, axes)."""


@dataclass(frozen=True)
class BoundFeature:
    """A feature, its name in x or y, and `values`, what its `bind` has returned.

    `like` is the name of the image that it follows, `present` which rows have it (None: all).
    Values of rows that lack the feature are undefined.
    """

    name: str
    feature: Feature
    values: Any
    like: str | None = None
    present: Present | None = None

    @cached_property
    def arrays(self) -> dict[str, str]:
        """The names of its arrays by their keys, one alone by ""."""
        found = self.feature.arrays(self.name)
        return {"": found} if isinstance(found, str) else found

    def has(self, row: int) -> bool:
        """Whether a row has it."""
        return self.present is None or bool(self.present[row])

    def gather(self, rows: IntArray) -> Values:
        """Return the arrays of some rows of a TableFeature, blank where missing."""
        feature: Any = self.feature
        spec, there = feature.spec, slice(None) if self.present is None else self.present[rows]
        found = np.full((len(rows), *spec.shape), spec.blank, spec.dtype)
        found[there] = feature.gather(self.values, rows[there])
        return found

    @property
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample."""
        specs = [*specs_of(self.feature)]
        if "padding_mask" in self.arrays:
            shape, blank = ((None, None, 1), False) if specs[0].pixels else ((None,), True)
            specs.append(Spec(shape, np.dtype(np.bool_), blank))
        return dict(zip(self.arrays.values(), specs, strict=True))

    @property
    def image(self) -> Any:
        """The feature, if it is an Image by itself; else None."""
        return self.feature if isinstance(self.feature, Image) else None

    @property
    def is_of_table(self) -> bool:
        """Whether the table alone holds its arrays."""
        return isinstance(self.feature, TableFeature)

    @property
    def variable_size(self) -> bool:
        """Whether it is an image that keeps its own size in every row."""
        return self.image is not None and self.image.size is None

    @property
    def channel_arrays(self) -> set[str]:
        """The names of those arrays that follow `keras.config.image_data_format()`."""
        pixels = any(spec.pixels for spec in specs_of(self.feature))
        return {name for name, spec in self.specs.items() if pixels and len(spec.shape) >= 3}

    @cached_property
    def read_names(self) -> tuple[str, ...]:
        """The names of those arrays that `read` fills; padding fills the others."""
        return tuple(name for key, name in self.arrays.items() if key != "padding_mask")

    @cached_property
    def array_rows(self) -> pa.StructArray | None:
        """The `path` of the array file and the `index` in it of every row, where it reads such."""
        kind = getattr(self.values, "type", None)
        names = [field.name for field in kind] if kind and pa.types.is_struct(kind) else []
        return self.values if self.feature.of_files and names == ["path", "index"] else None

    @cached_property
    def files(self) -> pa.Array | None:
        """All that is read from files, else None."""
        several = len(self.feature.columns) > 1
        return (self.values.field(0) if several else self.values) if self.feature.of_files else None

    def path(self, row: int) -> str | None:
        """Return the path of the file that a row is read from, None for bytes."""
        if self.files is None or not self.has(row):
            return None
        data, path = content_parts(value_of(self.files, row))
        return path if data is None else None


@dataclass(frozen=True, eq=False)
class Padding:
    """Which arrays of a batch are padded, and how; empty where all rows have one shape."""

    sizes: dict[str, RowLengths] = field(default_factory=dict)  # of arrays by name, of every row
    fills: dict[str, float] = field(default_factory=dict)  # what stands behind them
    masks: dict[str, RowLengths] = field(default_factory=dict)  # arrays that are True within

    def specs(self, rows: Any, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """Return the Specs of arrays with the first lengths that a batch of these rows has."""
        found = dict(specs)
        for name, sizes in (self.sizes | self.masks).items():
            largest = sizes[rows].max(axis=0, initial=1).tolist()
            shape = (*largest, *specs[name].shape[len(largest) :])
            found[name] = replace(specs[name], shape=shape)
        return found

    def gather(self, rows: npt.NDArray[np.int64], out: Mapping[str, Values]) -> None:
        """Fill the masks, for all rows of a batch at once."""
        for name, sizes in self.masks.items():
            out[name][...] = True
            for axis, lengths in enumerate(sizes[rows].T, start=1):
                along = np.moveaxis(out[name], axis, 1)
                along[np.arange(along.shape[1]) >= lengths[:, None]] = False

    def own(self, row: int, out: Mapping[str, Values]) -> dict[str, Values]:
        """Return a row's arrays, those padded cut down to its own part; fill the rest of them."""
        arrays = {name: array for name, array in out.items() if name not in self.masks}
        for name, sizes in self.sizes.items():
            for axis, length in enumerate(sizes[row].tolist()):
                array, before = arrays[name], (slice(None),) * axis
                if length < array.shape[axis]:
                    array[(*before, slice(length, None))] = self.fills[name]
                    arrays[name] = array[(*before, slice(length))]
        return arrays


def padding_of(features: Iterable[BoundFeature], known: Mapping[str, RowLengths]) -> Padding:
    """Return the padding of images that keep their sizes, what follows these, and own lengths."""
    padding = Padding()
    for bound in features:
        sizes = known.get(bound.name, known.get(bound.like or ""))
        spec = specs_of(bound.feature)[0]
        if sizes is None or not (spec.pixels or spec.own_length):
            continue
        padding.sizes[bound.name], padding.fills[bound.name] = sizes, spec.blank
        if "padding_mask" in bound.arrays:
            padding.masks[bound.arrays["padding_mask"]] = sizes
    return padding
