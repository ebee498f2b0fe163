"""Padding: images of their own sizes, and lists of images, as large as a batch needs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.spec import Spec, Values, each

RowLengths = npt.NDArray[np.int32]
"""How long the first axes of an array are in every row, shape (rows, axes)."""


@dataclass(frozen=True, eq=False)
class Padding:
    """Which arrays of a batch are padded, and how; empty where all rows have one shape.

    `sizes`: name of an array -> height and width, or number of items, of every row. `fills`: what
    stands behind them. `told` and `masks`: name of an array that tells these sizes, or is True
    within them -> sizes.
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
    """Return the padding of images that keep their sizes, of lists, and of what follows either."""
    padding = Padding()
    features = tuple(features)
    own = {bound.name: image_sizes.get(bound.name, bound.counts) for bound in features}
    for bound in features:
        sizes = image_sizes.get(bound.name, own[bound.like or bound.name])
        if sizes is None or not bound.feature.has_channels:
            continue
        padding.sizes[bound.name] = sizes
        padding.fills[bound.name] = each(bound.feature.spec)[0].blank
        told = {"sizes": padding.told, "padding_mask": padding.masks, "items_mask": padding.masks}
        for key in bound.arrays.keys() & told:
            told[key][bound.arrays[key]] = sizes
    return padding
