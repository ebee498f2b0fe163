"""ImageTransforms: what Keras's `ImageDataGenerator` does to each image, drawn and fixed.

Standardization is as `standardize` and `fit` of `keras/src/legacy/preprocessing/image.py`;
whitening is left out.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, brief, warn
from dfgen.migrate.augmentation import Augmentation
from dfgen.migrate.flow_arguments import FileOptions, FlowOptions
from dfgen.migrate.keras_pixels import ChangedImage, Doubts, HeldImage, LoadedImage
from dfgen.samples.pixels.geometry import CHANNELS, Pixels
from dfgen.spec import Values
from dfgen.system import flag, whole
from dfgen.training.backends import keras_defaults

ImageKind = TypeVar("ImageKind", bound=ChangedImage)
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


class ImageTransforms:
    """Transforms, scales and centres images; the arguments are those of `ImageDataGenerator`."""

    def __init__(
        self,
        featurewise_center: bool = False,
        samplewise_center: bool = False,
        featurewise_std_normalization: bool = False,
        samplewise_std_normalization: bool = False,
        zca_whitening: bool = False,
        zca_epsilon: float = 1e-6,
        rotation_range: float = 0,
        width_shift_range: Any = 0.0,
        height_shift_range: Any = 0.0,
        brightness_range: Any = None,
        shear_range: float = 0.0,
        zoom_range: Any = 0.0,
        channel_shift_range: float = 0.0,
        fill_mode: str = "nearest",
        cval: float = 0.0,
        horizontal_flip: bool = False,
        vertical_flip: bool = False,
        rescale: float | None = None,
        preprocessing_function: Callable[[Values], Any] | None = None,
        data_format: str | None = None,
        validation_split: float = 0.0,
        interpolation_order: int = 1,
        dtype: str | None = None,
    ) -> None:
        refuse_whitening(zca_whitening)
        given = locals()
        parts = Augmentation, Standardization
        self._parts: dict[type, Any] = {part: part(**taken_by(part, given)) for part in parts}
        self._floatx, default_format = keras_defaults()
        self.zca_whitening, self.zca_epsilon = False, zca_epsilon
        self.data_format = default_format if data_format is None else data_format
        self.dtype = self._floatx if dtype is None else np.dtype(dtype).name
        self._first = self.data_format == "channels_first"
        self.channel_axis, self.row_axis, self.col_axis = (1, 2, 3) if self._first else (3, 1, 2)
        if self.data_format not in ("channels_last", "channels_first"):
            raise ArgumentError(
                '`data_format` should be `"channels_last"` (channel after row and column) or '
                '`"channels_first"` (channel before row and column). Received: '
                f"{self.data_format}"
            )
        if validation_split and not 0 < validation_split < 1:
            raise ArgumentError(
                "`validation_split` must be strictly between 0 and 1.  Received: "
                f"{validation_split}"
            )
        self._validation_split = validation_split

    def __getattr__(self, name: str) -> Any:
        for part in vars(self).get("_parts", {}).values():
            if name in vars(part):
                return getattr(part, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; one of transforms or of standardization holds for later batches."""
        for kind, part in vars(self).get("_parts", {}).items():
            if name in vars(part):
                value = (
                    np.asarray(value) if name in ("mean", "std") and value is not None else value
                )
                self._parts[kind] = replace(part, **{name: value})
                return
        super().__setattr__(name, value)

    def get_random_transform(self, img_shape: tuple[int, ...], seed: int | None = None) -> Any:
        """Return the parameters of one random transform, as a dict with Keras's names.

        Args:
            img_shape: of the image, three numbers.
            seed: of what is drawn; None: by NumPy's global generator, as in Keras.
        """
        seed = np.random.randint(2**31) if seed is None else seed
        return self._drawn(img_shape, np.random.default_rng(seed))

    def apply_transform(self, x: Values, transform_parameters: Mapping[str, Any]) -> Values:
        """Return one image transformed, float32.

        Args:
            x: (height, width, channels), or (channels, height, width).
            transform_parameters: any of `theta`, `tx`, `ty`, `shear`, `zx`, `zy`,
                `flip_horizontal`, `flip_vertical`, `channel_shift_intensity`, `brightness`.
        """
        image = np.moveaxis(x, 0, -1) if self._first else x
        made: Values = self._parts[Augmentation].apply(image, transform_parameters)
        return np.moveaxis(made, -1, 0) if self._first else made

    def random_transform(self, x: Values, seed: int | None = None) -> Values:
        """Return one image transformed by what `get_random_transform` draws."""
        return self.apply_transform(x, self.get_random_transform(x.shape, seed))

    def standardize(self, x: Values) -> Any:
        """Scale and centre an image, or a batch of them: those of floats in place, as Keras does.

        With a `preprocessing_function` what that returns is, and `x` may stay as it was.
        """
        self.warn_unfitted()
        return self._parts[Standardization].apply(x)

    def fit(
        self, x: npt.ArrayLike, augment: bool = False, rounds: int = 1, seed: int | None = None
    ) -> None:
        """Find the mean and the deviation of images, for `featurewise_...`.

        Args:
            x: (images, height, width, channels), or with the channels second.
            augment: transform the images at random before.
            rounds: how many times, each image.
            seed: of the transforms.
        """
        rng = np.random.default_rng(np.random.randint(2**31) if seed is None else seed)
        self._parts[Standardization] = self._parts[Standardization].fitted(
            x,
            random_transform=partial(self._transformed, rng) if augment else None,
            rounds=rounds,
            channels_first=self._first,
        )

    def warn_unfitted(self) -> None:
        """Warn where `fit` has not found what is to be subtracted, or divided by."""
        self._parts[Standardization].warn_unfitted()

    def loaded_image(self, column: str, options: FileOptions) -> LoadedImage:
        """Return the feature that makes images as an iterator of this generator feeds them."""
        channels, size = CHANNELS[options.color_mode], options.target_size
        return self._with_changes(
            LoadedImage(
                column=column,
                shape=(channels, *size) if self._first else (*size, channels),
                floatx=self._floatx,
                dtype=options.dtype,
                size=size,
                color_mode=options.color_mode,
                interpolation=options.interpolation,
                keep_aspect_ratio=options.keep_aspect_ratio,
                channels_first=self._first,
                doubts=Doubts(),
            )
        )

    def held_image(self, shape: tuple[int, ...], options: FlowOptions) -> HeldImage:
        """Return the feature that makes images of an array, of a shape, as `flow` feeds them."""
        dtype = options.dtype
        return self._with_changes(HeldImage(column="x", shape=shape, floatx=dtype, dtype=dtype))

    def _with_changes(self, image: ImageKind) -> ImageKind:
        outside: dict[str, Any] = {"fill_mode": "nearest", "cval": 0.0, "interpolation_order": 1}
        draws = replace(self._parts[Augmentation], **outside) != Augmentation()
        if draws or self._overrides("get_random_transform", "apply_transform"):
            image = replace(image, drawn=partial(self._drawn_for_row, image.shape))
        centers = self.featurewise_center or self.samplewise_center
        if image.drawn or centers or self.preprocessing_function or self._overrides("standardize"):
            image = replace(image, change=self._changed)
        return replace(image, rescale=self.rescale)

    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        height, width = shape[self.row_axis - 1], shape[self.col_axis - 1]
        return self._parts[Augmentation].draw((height, width), rng)

    def _transformed(self, rng: np.random.Generator, image: Values) -> Values:
        return self.apply_transform(image, self._drawn(image.shape, rng))

    def _drawn_for_row(self, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        """Return what is drawn for a row; by a method of a subclass, as Keras would call it."""
        if self._overrides("get_random_transform"):
            return self.get_random_transform(shape)
        return self._drawn(shape, rng)

    def _changed(self, x: Values, drawn: Any) -> Any:
        if drawn is not None:
            x = self.apply_transform(x, drawn)
        if self._overrides("standardize"):
            return self.standardize(x)
        return self._parts[Standardization].apply(x)

    def _overrides(self, *names: str) -> bool:
        own = type(self)
        return any(getattr(own, name) is not getattr(ImageTransforms, name) for name in names)


def taken_by(part: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return those arguments that are fields of a dataclass."""
    return {field.name: given[field.name] for field in fields(part) if field.name in given}
