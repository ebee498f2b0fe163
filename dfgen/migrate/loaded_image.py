"""LoadedImage, HeldImage: images as the iterators of Keras's `ImageDataGenerator` feed them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.manifest.warn import warn
from dfgen.migrate.keras_pixels import load_pixels
from dfgen.samples.features.base import Feature
from dfgen.samples.features.spec import Spec, Values, Watch
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


@dataclass(frozen=True, kw_only=True, repr=False)
class ChangedImage(Feature):
    """Images that are changed as an `ImageDataGenerator` says.

    Args:
        column: of the images, for messages.
        shape: of one in a batch, in the order of axes that was asked for.
        floatx: the dtype in which pixels are changed.
        dtype: of the batch.
        rescale: what pixels are multiplied by, where there is no `change`; None: nothing.
        change: `change(array, drawn)` -> what becomes of an array; None: nothing but `rescale`.
        drawn: `drawn(rng)` -> what chance decides for one image; None: chance has no part in it.
    """

    column: str
    shape: tuple[int, ...]
    floatx: str
    dtype: str
    rescale: float | None = None
    change: Callable[[Values, Any], Any] | None = None
    drawn: Callable[[np.random.Generator], Any] | None = None
    kind: ClassVar[str] = "image"

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        return Spec(self.shape, np.dtype(self.dtype))

    @property
    def is_random(self) -> bool:
        """Whether chance has a part in it."""
        return self.drawn is not None

    def draw(self, rng: np.random.Generator) -> Any:
        """Return what chance decides for one image."""
        return None if self.drawn is None else self.drawn(rng)

    def put(self, pixels: Values, out: Values, given: Any) -> None:
        """Fill `out` with an image, changed."""
        if self.change is not None:
            out[...] = self.change(pixels.astype(self.floatx), given)
        elif not self.rescale:
            out[...] = pixels
        elif self.dtype == self.floatx:
            np.multiply(pixels, self.rescale, out=out, dtype=out.dtype)
        else:
            out[...] = np.multiply(pixels, self.rescale, dtype=self.floatx)


@dataclass(frozen=True, kw_only=True, repr=False)
class LoadedImage(ChangedImage):
    """Pixels of image files as `keras.utils.load_img` makes them, changed.

    Args:
        size: (height, width).
        color_mode: `"rgb"`, `"rgba"` or `"grayscale"`.
        interpolation: one of Keras's names.
        keep_aspect_ratio: cut the centre instead of stretching.
        channels_first: whether arrays are (channels, height, width).
        doubts: is told of damaged files.
    """

    size: Size
    color_mode: str
    interpolation: str
    keep_aspect_ratio: bool
    channels_first: bool
    doubts: Doubts
    of_files: ClassVar[bool] = True

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
        self.put(pixels.transpose(2, 0, 1) if self.channels_first else pixels, out, given)


@dataclass(frozen=True, kw_only=True, repr=False)
class HeldImage(ChangedImage):
    """Images of an array of all rows, changed."""

    def at(self, values: Values, row: int) -> Values:
        """Return the image of one row."""
        found: Values = values[row]
        return found

    def read(self, value: Values, out: Values, store: Store, watch: Watch, given: Any) -> None:
        """Fill `out` with one image."""
        watch("transform")
        self.put(value, out, given)
