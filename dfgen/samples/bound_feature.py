"""Features bound to the rows of a manifest: what a sample is made of.

Images of their own sizes, and lists, are padded to the largest of a batch: `Padding`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.samples.features.base import Encoded, Feature
from dfgen.samples.features.one_row import files_among
from dfgen.spec import IntArray, Present, Spec, Values, each
from dfgen.table.arrow_types import flattened, is_list, lengths_of
from dfgen.table.file_columns import content_parts

Sizes = npt.NDArray[np.int32]
"""(height, width) of the upright image of every row, shape (rows, 2)."""

TELLING = {
    "sizes": Spec((2,), np.dtype(np.int32)),
    "padding_mask": Spec((None, None, 1), np.dtype(np.bool_)),
    "items_mask": Spec((None,), np.dtype(np.bool_), True),  # skipped rows count all: a mean of none
}
"""Key of an array that tells others from padding, and is not read -> its Spec."""

LENGTH_MASK = TELLING["items_mask"]
"""The Spec of the `padding_mask` of arrays of unequal length."""


@dataclass(frozen=True)
class BoundFeature:
    """A feature, its name in x or y, and what each row holds for it: `values`, of `bind`.

    `like` is the name of the image that it follows, `present` which rows have it (None: all). What
    `values` holds of others is for nobody.
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
        """Return the arrays of some rows of what the table alone tells, blank where missing."""
        feature: Any = self.feature
        if self.present is None:
            return feature.gather(self.values, rows)  # type: ignore[no-any-return]
        spec, there = feature.spec_of(self.values), self.present[rows]
        found = np.full((len(rows), *spec.shape), spec.blank, spec.dtype)
        found[there] = feature.gather(self.values, rows[there])
        return found

    @property
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample."""
        if isinstance(self.feature, Encoded):
            return {self.name: self.feature.spec_of(self.values)}
        own = each(self.feature.spec)
        long = self.feature.own_length
        telling = [LENGTH_MASK if long else TELLING[key] for key in [*self.arrays][len(own) :]]
        return dict(zip(self.arrays.values(), [*own, *telling], strict=True))

    @property
    def image(self) -> Any:
        """The feature, if it is an Image by itself; else None."""
        return self.feature if self.feature.pixel_kind == "image" else None

    @property
    def variable_size(self) -> bool:
        """Whether it is an image that keeps its own size in every row."""
        return self.image is not None and self.image.variable_size

    @property
    def channel_arrays(self) -> set[str]:
        """The names of those arrays that follow `keras.config.image_data_format()`."""
        specs = self.specs.items() if self.feature.pixel_kind else ()
        return {name for name, spec in specs if len(spec.shape) >= 3}

    @cached_property
    def read_names(self) -> tuple[str, ...]:
        """The names of those arrays that `read` fills; padding fills the others."""
        return tuple(self.arrays.values())[: len(each(self.feature.spec))]

    @cached_property
    def counts(self) -> npt.NDArray[np.int32] | None:
        """How many items each row has, shape (rows, 1), where rows differ in that."""
        if not self.has_lists or each(self.feature.spec)[0].shape[0] is not None:
            return None
        return lengths_of(self.values)[:, None]

    @cached_property
    def array_rows(self) -> pa.StructArray | None:
        """The `path` of the array file and the `index` in it of every row, where it reads such."""
        return self.values if self.feature.of_files and len(self.feature.columns) > 1 else None

    @cached_property
    def has_lists(self) -> bool:
        """Whether it is read from several files in each row."""
        files = files_among(self.feature, self.values)
        return files is not None and is_list(files.type)

    def paths(self, row: int) -> Iterator[str]:
        """Yield the paths of what it is read from in a row, none for bytes."""
        if self.files is None or not self.has(row):
            return
        value = self.feature.at(self.values, row)
        for content in value if self.has_lists else [value]:
            if len(self.feature.columns) > 1:  # a row of an array file
                content = next(iter(content.values()))
            data, path = content_parts(content)
            if data is None and path is not None:
                yield path

    @cached_property
    def files(self) -> pa.Array | None:
        """All that is read from files, else None."""
        files = files_among(self.feature, self.values)
        return flattened(files) if self.has_lists else files


RowLengths = npt.NDArray[np.int32]
"""How long the first axes of an array are in every row, shape (rows, axes)."""


@dataclass(frozen=True, eq=False)
class Padding:
    """Which arrays of a batch are padded, and how; empty where all rows have one shape.

    `sizes`: name of an array -> height and width, number of items, or length, of every row.
    `fills`: what stands behind them. `told` and `masks`: name of an array that tells these sizes,
    or is True within them -> sizes.
    """

    sizes: dict[str, RowLengths] = field(default_factory=dict)
    fills: dict[str, float] = field(default_factory=dict)
    told: dict[str, RowLengths] = field(default_factory=dict)
    masks: dict[str, RowLengths] = field(default_factory=dict)

    def specs(self, rows: Any, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """Return the Specs of arrays with the first lengths that a batch of these rows has."""
        found = dict(specs)
        for name, sizes in (self.sizes | self.masks).items():
            largest = sizes[rows].max(axis=0, initial=1).tolist()
            shape = (*largest, *specs[name].shape[len(largest) :])
            found[name] = replace(specs[name], shape=shape)
        return found

    def gather(self, rows: npt.NDArray[np.int64], out: Mapping[str, Values]) -> None:
        """Fill what tells the sizes, for all rows of a batch at once."""
        for name, sizes in self.told.items():
            out[name][...] = sizes[rows]
        for name, sizes in self.masks.items():
            along = enumerate(sizes[rows].T, start=1)
            inside = [_inside(out[name].shape, axis, lengths) for axis, lengths in along]
            out[name][...] = reduce(np.logical_and, inside)

    def own(self, row: int, out: Mapping[str, Values]) -> dict[str, Values]:
        """Return a row's arrays, those padded cut down to its own part; fill the rest of them."""
        telling = self.told.keys() | self.masks.keys()
        arrays = {name: array for name, array in out.items() if name not in telling}
        for name, sizes in self.sizes.items():
            for axis, length in enumerate(sizes[row].tolist()):
                array, before = arrays[name], (slice(None),) * axis
                if length < array.shape[axis]:
                    array[(*before, slice(length, None))] = self.fills[name]
                    arrays[name] = array[(*before, slice(length))]
        return arrays


def _inside(shape: tuple[int, ...], axis: int, lengths: RowLengths) -> npt.NDArray[np.bool_]:
    """Return what is within the length of each sample along an axis, for a batch of a shape."""
    wide = [1] * len(shape)
    wide[0], wide[axis] = shape[0], shape[axis]
    inside: npt.NDArray[np.bool_] = (np.arange(shape[axis]) < lengths[:, None]).reshape(wide)
    return inside


def padding_of(features: Iterable[BoundFeature], image_sizes: Mapping[str, Sizes]) -> Padding:
    """Return the padding of all that is of unequal sizes in different rows.

    It is that of images that keep their sizes, of lists, of what follows either, and of arrays that
    have a length of their own.
    """
    padding = Padding()
    features = tuple(features)
    own = {bound.name: image_sizes.get(bound.name, bound.counts) for bound in features}
    for bound in features:
        sizes = image_sizes.get(bound.name, own[bound.like or bound.name])
        if sizes is None or (bound.feature.pixel_kind is None and not bound.feature.own_length):
            continue
        padding.sizes[bound.name] = sizes
        padding.fills[bound.name] = each(bound.feature.spec)[0].blank
        told = {"sizes": padding.told, "padding_mask": padding.masks, "items_mask": padding.masks}
        for key in bound.arrays.keys() & told:
            told[key][bound.arrays[key]] = sizes
    return padding
