"""The work of `ImageDataGenerator` on pixels after its random transforms, and `fit` before them.

As `standardize` and `fit` of `keras/src/legacy/preprocessing/image.py`; whitening is left out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, brief, warn
from dfgen.samples.pixels.geometry import Pixels
from dfgen.system import flag, whole

_SMALL = np.float32(1e-6)  # added to deviations, as Keras adds it

_OVERRIDES = (
    ("featurewise_std_normalization", "featurewise_center"),
    ("samplewise_std_normalization", "samplewise_center"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Standardization:
    """Scales and centres images as Keras's `ImageDataGenerator` does.

    In this order: the function, `rescale`, then by each image's own numbers, then by those of all.

    The arguments are those of `ImageDataGenerator`; `mean` and `std`, of each channel, are what
    `fitted` finds.

    Example:
        >>> import numpy as np
        >>> images = np.random.default_rng(0).integers(0, 256, (8, 32, 32, 3))
        >>> of_all = Standardization(featurewise_center=True).fitted(images)
        >>> of_all.mean.shape, f"{abs(of_all.apply(images).mean()):.3f}"
        ((1, 1, 3), '0.000')
    """

    featurewise_center: bool = False
    samplewise_center: bool = False
    featurewise_std_normalization: bool = False
    samplewise_std_normalization: bool = False
    rescale: float | None = None
    preprocessing_function: Callable[[Any], Any] | None = None
    mean: Pixels | None = None
    std: Pixels | None = None

    def __post_init__(self) -> None:
        for names in _OVERRIDES:
            for name in names:
                object.__setattr__(self, name, flag(name, getattr(self, name)))
            deviation, center = names
            if getattr(self, deviation) and not getattr(self, center):
                object.__setattr__(self, center, True)
                warn(
                    f"This ImageDataGenerator specifies `{deviation}`, which overrides setting of "
                    f"`{center}`."
                )
        function = self.preprocessing_function
        if function is not None and not callable(function):
            raise ArgumentError(
                f"preprocessing_function must be a function of an image, got {brief(function)}"
            )

    def apply(self, image: Pixels) -> Pixels:
        """Return an image, or a batch of them, as the model gets it.

        One of floats is changed in place, as by Keras.
        """
        made: Any = image
        if self.preprocessing_function is not None:
            made = np.asarray(self.preprocessing_function(made))  # it may make a tensor
            if made.dtype.kind not in "biuf":
                raise ArgumentError(
                    f"preprocessing_function must return an array of numbers, got {brief(made[()])}"
                )
            made = made if made.flags.writeable else made.copy()
        if made.dtype.kind != "f":
            made = made.astype(np.float32)
        if self.rescale:
            made *= self.rescale
        if self.samplewise_center:
            made -= np.mean(made, keepdims=True)
        if self.samplewise_std_normalization:
            made /= np.std(made, keepdims=True) + _SMALL
        if self.featurewise_center and self.mean is not None:
            made -= self.mean
        if self.featurewise_std_normalization and self.std is not None:
            made /= self.std + _SMALL
        return made  # type: ignore[no-any-return]

    def warn_unfitted(self) -> None:
        """Warn, in Keras's words, of what is asked for and left out until `fitted` has found it."""
        for name, found in (
            ("featurewise_center", self.mean),
            ("featurewise_std_normalization", self.std),
        ):
            if getattr(self, name) and found is None:
                warn(
                    f"This ImageDataGenerator specifies `{name}`, but it hasn't been fit on any "
                    "training data. Fit it first by calling `.fit(numpy_data)`."
                )

    def fitted(
        self,
        images: npt.ArrayLike,
        *,
        random_transform: Callable[[Pixels], Pixels] | None = None,
        rounds: int = 1,
        channels_first: bool = False,
    ) -> "Standardization":
        """Return the same with the mean and the deviation of images, where they are asked for.

        Images are (n, height, width, channels), or (n, channels, height, width). For
        `fit(augment=True)` each is transformed by `random_transform` before, `rounds` times.
        """
        images = np.asarray(images)
        if images.ndim != 4 or not images.size:
            raise ArgumentError(
                "fit(x) needs images as an array (n, height, width, channels), "
                f"got shape {images.shape}"
            )
        channels = images.shape[1 if channels_first else 3]
        if channels not in (1, 3, 4):
            warn(
                f"Expected images of 1, 3 or 4 channels on axis {1 if channels_first else 3}, got "
                f"an array of shape {images.shape} ({channels} channels)."
            )
        if not self.featurewise_center:
            return self
        passed = self._passed(images, random_transform, whole("rounds", rounds, least=1))
        mean, std = _mean_and_deviation(passed, channels, channels_first)
        return replace(self, mean=mean, std=std if self.featurewise_std_normalization else None)

    def _passed(
        self, images: Pixels, transform: Callable[[Pixels], Pixels] | None, rounds: int
    ) -> Iterator[npt.NDArray[np.float64]]:
        """Yield each image as its numbers are counted, one by one: all would not fit."""
        for _ in range(rounds if transform else 1):
            for image in images:
                pixels = image.astype(np.float32)
                if self.rescale:
                    pixels *= np.float32(self.rescale)
                yield (transform(pixels) if transform else pixels).astype(np.float64)


def _mean_and_deviation(
    images: Iterator[npt.NDArray[np.float64]], channels: int, channels_first: bool
) -> tuple[Pixels, Pixels]:
    """Return both for each channel, as they are taken off an image."""
    over, shape = ((1, 2), (-1, 1, 1)) if channels_first else ((0, 1), (1, 1, -1))
    sums, squares, count = np.zeros(channels), np.zeros(channels), 0
    for pixels in images:
        sums += pixels.sum(over)
        squares += np.square(pixels).sum(over)
        count += pixels.size // channels
    mean = sums / count
    std = np.sqrt(np.maximum(squares / count - mean**2, 0))
    return mean.astype(np.float32).reshape(shape), std.astype(np.float32).reshape(shape)


def refuse_whitening(given: object) -> None:
    """Refuse `zca_whitening=True`, and say how to whiten."""
    if flag("zca_whitening", given):
        raise ArgumentError(
            "zca_whitening=True is not built in. Write whitening as a preprocessing_function, "
            "without rescale: with x, images as an array (n, height, width, channels), mean = "
            "x.mean((0, 1, 2)); flat = (x - mean).reshape(len(x), -1); u, s, _ = np.linalg.svd("
            "flat.T, full_matrices=False); matrix = (u * (len(x) ** 0.5 / (s + 1e-6))) @ u.T; "
            "then preprocessing_function=lambda image: ((image - mean).ravel() @ matrix)"
            ".reshape(image.shape)"
        )
