"""Image: pixels of image files."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.checks import flag, one_of
from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features import image_checks as checks
from dfgen.samples.features.base import Feature, Reading
from dfgen.samples.features.feature_checks import check_column, set_fields
from dfgen.samples.pixels import geometry as geo
from dfgen.samples.pixels.decoders import decode_image
from dfgen.samples.pixels.resizing import INTERPOLATIONS, reduction, resize
from dfgen.samples.pixels.scaling import DEPTHS, Scale, check_scaled, checked_scale, rescale
from dfgen.samples.user_functions import name_of, run
from dfgen.spec import LazyArray, Spec, Values

_RANDOM = ("random", "random_resized")
_WORDS = {
    "resize": geo.RESIZE, "crop": (None, "center", *_RANDOM),
    "flip": (None, "horizontal", "vertical", "horizontal_and_vertical"),
    "interpolation": INTERPOLATIONS, "dtype": DEPTHS,
}  # fmt: skip

_TOGETHER = 4  # channels that all functions of OpenCV take at once


@dataclass(frozen=True, repr=False)
class Image(Feature):
    """Pixels of the image files that a column names.

    Use it instead of a bare column name to choose the geometry, or for a second image of a row.

    Args:
        column: the column of paths; or of bytes, or of structs of `bytes` and `path` as Hugging
            Face's `datasets` makes them.
        size: (height, width) in pixels, (256, 256) by default; with `like` that of the followed
            image, or a whole number of times that. None: every image keeps its own size, top left
            in an array of the size of the largest of its batch. JAX compiles a step for each shape.
        resize: `"stretch"` (default) changes the aspect ratio, `"crop"` cuts the largest part of
            the right aspect ratio, `"pad"` fits the whole image in, centred on zeros,
            `"crop_or_pad"` does not scale at all.
        color_mode: `"rgb"` (default), `"rgba"` or `"grayscale"`; with `decode` also the number of
            channels, as of bands of satellites.
        scale: None (default) leaves 0..255. `"0..1"`, `"-1..1"`, or two numbers (scale, offset) as
            of `keras.layers.Rescaling`. Two sequences are the mean and the standard deviation of
            each channel, of pixels 0..1. `"tf"`, `"torch"` and `"caffe"` (which makes BGR of RGB)
            are the modes of `keras.applications`, `"standardize"` gives each image mean 0 and
            standard deviation 1, as `tf.image.per_image_standardization`.
        antialias: filter before shrinking (default), within a grey level of Pillow on most
            photographs; False aliases, as TensorFlow's resize does by default. It is for
            `interpolation="bilinear"`.
        load_size: (height, width) that the image is resized to, of which `size` is a crop. With
            `crop=None` a transform gets `load_size` and returns `size`; without a transform it is
            the centre.
        crop: where crops are taken, those to `size` and those of `resize`: `"center"` (as None, the
            default), or `"random"`, drawn for each row and epoch. `"random_resized"` is
            torchvision's RandomResizedCrop: a crop of any size from anywhere in the image,
            stretched to `size`; in serving and validation the largest in the centre.
        flip: None (default), `"horizontal"`, `"vertical"` or `"horizontal_and_vertical"`: each in
            every second image, by chance.
        interpolation: `"bilinear"` (default), `"nearest"`, or `"area"`, means over what falls into
            a pixel.
        dtype: what the model gets: `"uint8"`, `"uint16"`, `"float32"` or `"float16"`. None
            (default) is `"uint8"`, or `"float32"` with `scale`, of files of 8 bits: deeper ones are
            an error. `"uint8"` takes 16 bits too, divided by 257 and rounded. The others keep the
            numbers of the file, whose full range is the 255 or the 1 of a `scale`. A transform gets
            uint8 of files of 8 bits, uint16 of deeper ones and with `"uint16"`, float32 of floats.
        padding_mask: with `size=None`, True: a batch then holds `{"images", "padding_mask"}`, True
            on the image, bool (batch, height, width, 1).
        area: of `"random_resized"`: the least and the largest share of the image; None: (0.08, 1).
        ratio: likewise: the least and the largest width / height of a crop; None: (3/4, 4/3).
        like: the image that this one follows, as the second of a pair: the name of its array, or of
            its column. It gets the same geometry, pixel for pixel. Its file is as large, or k times
            as large with a `size` of k times that of the followed image.
        missing: of targets, `"raise"` (default), or `"ignore"`: rows without a path get zeros, and
            weigh 0 in the loss of this target. It needs a `size`.
        index: the column with the row, from 0, of an array file (.npy, HDF5) that is the image:
            (height, width), or (height, width, channels) with 1, 3 (RGB) or 4 channels.
        dataset: the name of the array in HDF5 files that hold several.
        decode: `decode(data) -> pixels`, of the bytes of a whole file, such as DICOM: upright,
            (height, width) or (height, width, channels), of any size, and any depth that `dtype`
            takes. It runs in the workers, and must not draw at random. It needs a `size`.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> image = dfgen.Image("path", size=(224, 224), resize="crop")
    """

    column: str = "path"
    size: geo.Size | None = checks.DEFAULT_SIZE
    resize: str = "stretch"
    color_mode: str | int = "rgb"
    scale: Scale = None
    antialias: bool = True
    load_size: geo.Size | None = None
    crop: str | None = None
    flip: str | None = None
    interpolation: str = "bilinear"
    dtype: str | None = None
    padding_mask: bool = False
    area: tuple[float, float] | None = None
    ratio: tuple[float, float] | None = None
    like: Any = None
    missing: str = "raise"
    index: str | None = None
    dataset: str | None = None
    decode: Callable[[bytes], Any] | None = None
    kind: ClassVar[str] = "image"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)
        for name, allowed in _WORDS.items():
            one_of(name, getattr(self, name), allowed)
        set_fields(
            self,
            antialias=flag("antialias", self.antialias),
            size=checks.checked_size("size", self.size),
            load_size=checks.checked_size("load_size", self.load_size),
        )
        checks.check_image(self)
        if isinstance(self.like, Image):
            set_fields(self, size=checks.paired_size(self, self.like))
        channels = checks.channels_of(self)
        set_fields(self, scale=checked_scale(self.scale, str(self.color_mode), channels))

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        channels, dtype = checks.channels_of(self), np.dtype(self.dtype or np.uint8)
        own = self.dtype in ("float16", "float32")  # 8 bits are resized faster than floats
        depth = None if own else dtype
        size: Any = self.size or (None, None)
        read = Spec((*size, channels), depth, pixels=True)
        seen = Spec((*self.seen_size, channels), depth, pixels=True)
        made = np.dtype(self.dtype or ("uint8" if self.scale is None else "float32"))
        return Spec((*size, channels), made, pixels=True, read=read, seen=seen)

    @property
    def seen_size(self) -> tuple[int | None, int | None]:
        """(height, width) that a transform gets, of which it may take a crop."""
        if self.size is None:
            return None, None
        if isinstance(self.like, Image):
            height, width = self.like.seen_size
            times = self.size[0] // (self.like.size or self.size)[0]
            return times * (height or 1), times * (width or 1)
        return self.size if self.crop is not None or self.load_size is None else self.load_size

    @property
    def is_random(self) -> bool:
        """Whether crops or flips are drawn."""
        return self.crop in _RANDOM or self.flip is not None

    def draw(self, rng: np.random.Generator) -> geo.Draw:
        """Return the random choices for one sample; the order of draws never changes."""
        y, x, flip = rng.random(3).tolist()
        flipped = self.flip in ("horizontal", "horizontal_and_vertical") and flip < 0.5
        vertical = self.flip in ("vertical", "horizontal_and_vertical") and rng.random() < 0.5
        if self.crop not in _RANDOM:
            return geo.Draw(None, None, flipped, vertical)
        area, ratio = self.area or geo.AREA, self.ratio or geo.RATIO
        crops = geo.drawn_crops(rng, area, ratio) if self.crop == "random_resized" else ()
        return geo.Draw(y, x, flipped, vertical, crops)

    def place(
        self, image: geo.Size, size: geo.Size, drawn: Any = None, leader: Any = None
    ) -> geo.Geometry:
        """Return the geometry of an upright image of a size, into an array of `size`.

        `leader` is the Geometry of the image that it follows.
        """
        if self.like is not None:
            packed = leader.steps and self.column == self.like.column and leader.steps[1]
            return checks.follow(
                packed if packed and packed.image == image else leader, image, size
            )
        draw = drawn or geo.STILL
        if self.crop == "random_resized":
            return geo.place_resized(image, size, self.ratio or geo.RATIO, draw)
        return geo.place(image, size, self.load_size or size, self.resize, draw)

    def read(self, value: Any, out: Any, reading: Reading) -> geo.Geometry:
        """Fill `out`, as before or after a transform, with the pixels of one file, in one pass."""
        store, watch, drawn, leader = reading
        watch("read")
        if self.index is not None:
            pixels = checks.pixels_of_row(value, self.dataset, store)
            return self.fill(checks.in_mode(pixels, self), out, reading)
        data = store.read(value)
        watch("decode", len(data))
        if self.decode is not None:
            who = f"Image({self.column!r}): {name_of(self.decode)}"
            returned = run(who, DecodeError, self.decode, data)
            return self.fill(checks.user_decoded(self, who, returned), out, reading)
        size = out.shape[:2]

        def reduced_by(image: geo.Size) -> int:
            geometry = self.place(image, size, drawn, leader)
            return reduction(geometry, self.interpolation, self.antialias)

        pixels, image, reduced = decode_image(
            data, str(self.color_mode), self.dtype, reduced_by, store.limits
        )
        geometry = self.place(image, size, drawn, leader)
        if self.size is None and image != size and self.like is None:
            raise DecodeError(
                f"the image has {image[0]} x {image[1]} pixels (height x width, upright), but its "
                f"facts say {size[0]} x {size[1]}: if it has changed, build the manifest again, or "
                "leave out its columns width, height and orientation"
            )
        if isinstance(out, LazyArray):
            out = self._allocated(out, pixels)
        watch("resize")
        resize(pixels, geometry, out, self.interpolation, self.antialias, reduced=reduced)
        return geometry

    def fill(
        self, pixels: Values, out: Any, reading: Reading, placed: geo.Geometry | None = None
    ) -> geo.Geometry:
        """Fill `out`, as `read` does, with upright pixels that are decoded already.

        `placed`: how they were made of the upright image (None: they are all of it). Returns the
        geometry from that into `out`.
        """
        reading.watch("resize")
        geometry = self.place(pixels.shape[:2], out.shape[:2], reading.drawn, reading.geometry)
        if isinstance(out, LazyArray):
            out = self._allocated(out, pixels)
        for first in range(0, out.shape[2], _TOGETHER):
            part = slice(first, first + _TOGETHER)
            if out.shape[2] <= _TOGETHER:
                resize(pixels, geometry, out, self.interpolation, self.antialias)
                continue
            some = np.ascontiguousarray(pixels[..., part])
            made = np.empty((*out.shape[:2], some.shape[2]), out.dtype)
            resize(some, geometry, made, self.interpolation, self.antialias)
            out[..., part] = made
        return geometry if placed is None else geo.after(placed, geometry)

    def _allocated(self, out: LazyArray, pixels: Values) -> Values:
        check_scaled(pixels, self.scale, self.dtype)
        return out.of(pixels.dtype)

    def takes(self, spec: Spec) -> bool:
        """Whether it makes pixels of a Spec that are decoded already into just what they are."""
        if self.is_random or self.like is not None or spec != self.spec or None in spec.shape:
            return False
        size = spec.shape[:2]
        whole = geo.Box(0, 0, *size)
        return self.place(size, size) == geo.Geometry(size, whole, whole, size, flip=False)

    def finish(self, sample: Values, out: Values) -> None:
        """Scale a sample into `out`."""
        rescale(sample, self.scale, out)


def spec_on(feature: Feature, dtype: str, blank: float, *several: int) -> Spec:
    """Return the Spec of numbers that lie on each pixel of the image that a feature follows."""
    image = image_of(feature)
    size: tuple[int | None, int | None] = image.size or (None, None)
    seen = Spec((*several, *image.seen_size, 1), np.dtype(dtype), blank, pixels=True)
    return Spec((*several, *size, 1), np.dtype(dtype), blank, pixels=True, seen=seen)


def image_of(feature: Feature) -> Image:
    """Return the image that a bound feature follows."""
    if isinstance(feature.like, Image):
        return feature.like
    raise ArgumentError(f"{feature!r} is bound to no image yet: a Sequence binds it")
