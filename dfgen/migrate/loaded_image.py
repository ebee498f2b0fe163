"""LoadedImage: image files as the iterators of Keras's `ImageDataGenerator` feed them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.manifest.warn import warn
from dfgen.migrate.keras_pixels import load_pixels
from dfgen.samples.features.base import Feature
from dfgen.samples.features.spec import Spec, Values, Watch
from dfgen.samples.pixels.color_modes import CHANNELS
from dfgen.samples.pixels.geometry import Size
from dfgen.samples.storage.embedded import Content
from dfgen.samples.storage.store import Store


class Doubts:
    """Tells of damaged files that are decoded nevertheless, once for all of an iterator."""

    def __init__(self) -> None:
        self._told = False

    def tell(self, path: object, reason: str) -> None:
        """Warn of the first."""
        if not self._told:
            self._told = True
            warn(
                f"{path}: {reason}. Keras's own trains on what Pillow makes of such a file, and so "
                "does this; of others nothing more is said. dfgen.verify(df, decode=True) finds "
                "them all, and dfgen.Sequence(df) refuses them by name"
            )


@dataclass(frozen=True, repr=False)
class LoadedImage(Feature):
    """Pixels of image files as `keras.utils.load_img` makes them, changed and cast.

    Args:
        column: of paths.
        size: (height, width).
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        interpolation: one of Keras's names.
        keep_aspect_ratio: cut the centre instead of stretching.
        channels_first: whether arrays are (channels, height, width).
        floatx: the dtype in which pixels are changed.
        dtype: of the batch.
        rescale: what pixels are multiplied by, where there is no `change`; None: nothing.
        change: `change(array, drawn)` -> what becomes of an array; None: nothing but `rescale`.
        drawn: `drawn(rng)` -> what chance decides for one image; None: chance has no part in it.
        doubts: is told of damaged files.
    """

    column: str
    size: Size
    color_mode: str
    interpolation: str
    keep_aspect_ratio: bool
    channels_first: bool
    floatx: str
    dtype: str
    doubts: Doubts
    rescale: float | None = None
    change: Callable[[Values, Any], Any] | None = None
    drawn: Callable[[np.random.Generator], Any] | None = None
    kind: ClassVar[str] = "image"
    of_files: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one image, in the order of axes that was asked for."""
        channels = CHANNELS[self.color_mode]
        return (channels, *self.size) if self.channels_first else (*self.size, channels)

    @property
    def spec(self) -> Spec:
        """What the model gets."""
        return Spec(self.shape, np.dtype(self.dtype))

    @property
    def is_random(self) -> bool:
        """Whether chance has a part in it."""
        return self.drawn is not None

    def draw(self, rng: np.random.Generator) -> Any:
        """Return what chance decides for one image."""
        return None if self.drawn is None else self.drawn(rng)

    def read(self, value: Content, out: Values, store: Store, watch: Watch, given: Any) -> None:
        """Fill `out` with the pixels of one file."""
        watch("read")
        data = store.read(value)
        watch("decode", len(data))
        pixels = load_pixels(
            data, self.color_mode, self.size, self.interpolation, self.keep_aspect_ratio,
            store.limits, lambda reason: self.doubts.tell(value, reason),
        )  # fmt: skip
        watch("transform")
        if self.channels_first:
            pixels = pixels.transpose(2, 0, 1)
        if self.change is not None:
            out[...] = self.change(pixels.astype(self.floatx), given)
        elif not self.rescale:
            out[...] = pixels
        elif self.dtype == self.floatx:
            np.multiply(pixels, self.rescale, out=out, dtype=out.dtype)
        else:
            out[...] = np.multiply(pixels, self.rescale, dtype=self.floatx)
