"""Padding: images that keep their own sizes, in arrays as large as the largest of their batch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.samples.bound_feature import BoundFeature, Sizes
from dfgen.samples.features.base import Spec, Values


@dataclass(frozen=True, eq=False)
class Padding:
    """Which arrays of a batch are padded, and how; empty where all images have one size.

    Args:
        sizes: name of an array -> what it holds of every row.
        fills: name of the same -> what stands outside of the image.
        told: name of an array that tells these sizes -> sizes.
        masks: name of an array that is True on the image -> sizes.
    """

    sizes: dict[str, Sizes] = field(default_factory=dict)
    fills: dict[str, float] = field(default_factory=dict)
    told: dict[str, Sizes] = field(default_factory=dict)
    masks: dict[str, Sizes] = field(default_factory=dict)

    def specs(self, rows: Any, specs: Mapping[str, Spec]) -> dict[str, Spec]:
        """Return the Specs of arrays with the height and width that a batch of these rows has."""
        found = dict(specs)
        for name, sizes in (self.sizes | self.masks).items():
            largest = sizes[rows].max(axis=0, initial=1).tolist()
            found[name] = replace(specs[name], shape=(*largest, *specs[name].shape[2:]))
        return found

    def gather(self, rows: npt.NDArray[np.int64], out: Mapping[str, Values]) -> None:
        """Fill what tells the sizes, for all rows of a batch at once."""
        for name, sizes in self.told.items():
            out[name][...] = sizes[rows]
        for name, sizes in self.masks.items():
            _, height, width, _ = out[name].shape
            heights, widths = sizes[rows].T[:, :, None]
            down, across = np.arange(height) < heights, np.arange(width) < widths
            np.logical_and(down[:, :, None, None], across[:, None, :, None], out=out[name])

    def own(self, row: int, out: Mapping[str, Values]) -> dict[str, Values]:
        """Return a row's arrays, those padded cut down to its own image; fill the rest of them."""
        telling = self.told.keys() | self.masks.keys()
        arrays = {name: array for name, array in out.items() if name not in telling}
        for name, sizes in self.sizes.items():
            height, width = sizes[row].tolist()
            out[name][height:] = out[name][:height, width:] = self.fills[name]
            arrays[name] = out[name][:height, :width]
        return arrays


def padding_of(features: Iterable[BoundFeature]) -> Padding:
    """Return the padding of images that keep their sizes, and of what follows them."""
    padding = Padding()
    images = {bound.name: bound.sizes for bound in features if bound.sizes is not None}
    for bound in features:
        sizes = images.get(bound.name, images.get(bound.like or ""))
        fill = bound.feature.fill_value
        if sizes is None or fill is None:
            continue
        padding.sizes[bound.name] = sizes
        padding.fills[bound.name] = fill
        for key, telling in (("sizes", padding.told), ("padding_mask", padding.masks)):
            if bound.sizes is not None and key in bound.arrays:
                telling[bound.arrays[key]] = sizes
    return padding
