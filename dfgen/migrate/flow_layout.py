"""How a batch of an iterator of `ImageDataGenerator` is nested, weighed and saved."""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image

from dfgen.loading.pending_batch import Batch
from dfgen.samples.features.spec import Indices, Values
from dfgen.training.layout import Layout, Weighs


@dataclass(frozen=True)
class SavedImages:
    """Writes the images of each batch into a folder, as `save_to_dir` asks.

    Args:
        folder: which is there.
        prefix, format: of the names `{prefix}_{row}_{number}.{format}`.
        channels_first: as images are.
    """

    folder: str
    prefix: str
    format: str
    channels_first: bool

    def save(self, images: Values, rows: Indices) -> None:
        """Write one file for each, stretched to 0..255 as `keras.utils.array_to_img` does."""
        for image, row in zip(images, rows.tolist(), strict=True):
            pixels = image.transpose(1, 2, 0) if self.channels_first else image
            levels = pixels.astype(np.float32) - pixels.min()
            levels *= np.float32(255) / (levels.max() or 1)
            shown = np.squeeze(levels.astype(np.uint8), 2) if levels.shape[2] == 1 else levels
            name = f"{self.prefix}_{row}_{secrets.randbelow(10**7)}.{self.format}"
            PIL.Image.fromarray(shown.astype(np.uint8)).save(os.path.join(self.folder, name))


@dataclass(frozen=True)
class FlowLayout(Layout):
    """A `Layout` whose weights are, like labels, what a column holds, in its own dtype.

    If devices share batches they are those of every `Layout`, which count no padding.

    Args:
        own_weights: the name of their array; None: rows have none of their own.
        saved: writes the images of each batch.
        class_weight: number of a class -> what its rows weigh, as of `fit`; then `weighted` too.
    """

    own_weights: str | None = None
    saved: SavedImages | None = None
    class_weight: Mapping[int, float] | None = None

    def batch(self, batch: Batch) -> tuple[Any, ...]:
        """Return (x,), (x, y) or (x, y, weights)."""
        x, *others = super().batch(batch)
        if self.y == self.x:  # class_mode="input": whoever adds noise to x means x alone
            others[0] = x.copy()
        if self.class_weight is not None:
            others[1] = others[1] * _class_weights(others[0], self.class_weight)
        if self.saved is not None:
            self.saved.save(x, batch.rows)
        return (x, *others)

    def _nest(self, named: Mapping[str, Any], weights: Weighs) -> tuple[Any, ...]:
        nested = super()._nest(named, weights)
        if self.own_weights is None or self.weighted or self.y is None:
            return nested
        return (*nested, named[self.own_weights])


def _class_weights(y: Values, class_weight: Mapping[int, float]) -> Values:
    """Return what rows weigh by their classes, as Keras's `class_weight_to_sample_weights`."""
    if y.ndim > 1:
        y = y[..., 0] if y.shape[-1] == 1 else y.argmax(-1)
    numbers = np.rint(y).astype(np.int32).tolist()
    return np.array([class_weight.get(number, 1) for number in numbers], np.float32)
