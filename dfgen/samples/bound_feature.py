"""Parts: what a sample is made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dfgen.samples.features import Feature, FileFeature, RowFeature
from dfgen.samples.features.base import Spec
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask
from dfgen.samples.features.text import Text, is_binary


def labels_of(boxes: str) -> str:
    """Return the name of the array of labels that goes with an array of boxes."""
    return "labels" if boxes == "boxes" else f"{boxes}_labels"


def extra_of(image: str, extra: str) -> str:
    """Return the name of the array that goes with an array of images."""
    return f"{image}_{extra}"


@dataclass(frozen=True)
class Part:
    """One array of the batch, or a pair: its name, its feature, what each row holds for it.

    Args:
        name: of the array; of `Boxes` that of the boxes.
        feature: how it is made.
        values: of all rows: the Arrow paths of files (of rows of array files, structs of `path`
            and `index`), structs of the columns of `Column`, else what the feature's `encode`
            returns.
        like: the name of the image that a mask or boxes belong to.
        sizes: (height, width) of every row's image, int32 of shape (rows, 2), where it keeps them.
    """

    name: str
    feature: Feature
    values: Any
    like: str | None = None
    sizes: npt.NDArray[np.int32] | None = None

    @property
    def paths(self) -> pa.Array | None:
        """The paths of what is read from files, else None."""
        if not isinstance(self.feature, FileFeature | Mask) or is_binary(self.values.type):
            return None
        if isinstance(self.values, pa.StructArray):
            return self.values.field("path")
        return self.values

    @property
    def specs(self) -> dict[str, Spec]:
        """Name -> shape and dtype of one sample."""
        feature = self.feature
        if isinstance(feature, Boxes):
            return dict(zip((self.name, labels_of(self.name)), feature.specs, strict=True))
        if isinstance(feature, Image) and feature.extra is not None:
            extra = extra_of(self.name, feature.extra)
            return {self.name: feature.spec, extra: feature.extra_spec}
        if isinstance(feature, RowFeature | Mask):
            return {self.name: feature.spec}
        example = feature.gather(self.values, np.arange(0))
        blank = "" if isinstance(feature, Text) else 0
        return {self.name: Spec(example.shape[1:], example.dtype, blank)}
