"""Image: pixels of image files."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, brief, flag, one_of, whole
from dfgen.samples.features.base import Feature, Reading, check_column, numbers_of, set_fields
from dfgen.samples.pixels import geometry as geo
from dfgen.samples.pixels.decoders import decode_image
from dfgen.samples.pixels.geometry import INTERPOLATIONS, reduction, resize
from dfgen.samples.pixels.scaling import (
    DEPTHS,
    Scale,
    as_stored,
    check_scaled,
    checked_scale,
    in_depth,
    rescale,
)
from dfgen.samples.transforms import check_call, name_of, run
from dfgen.spec import LazyArray, Spec, Values

_RANDOM = ("random", "random_resized")
_WORDS = {
    "resize": geo.RESIZE, "crop": (None, "center", *_RANDOM),
    "flip": (None, "horizontal", "vertical", "horizontal_and_vertical"),
    "interpolation": INTERPOLATIONS, "dtype": DEPTHS,
}  # fmt: skip

_LEADERS = ("resize", "load_size", "crop", "area", "ratio", "flip")


_SIDE = 256

DEFAULT_SIZE: geo.Size = (_SIDE, _SIDE)
"""(height, width) of an image without `size` and `like`, an object of its own: the size of a
followed image replaces it, and not an equal size that the user gives."""

_MOST = 4  # channels that all functions of OpenCV accept


@dataclass(frozen=True, repr=False)
class Image(Feature):
    """Pixels of the image files named by a column.

    Use it instead of a column name to choose the geometry, or for a second image per row.

    Args:
        column: the column of paths, of bytes, or of structs of `bytes` and `path` as in Hugging
            Face's `datasets`.
        size: (height, width) in pixels, default (256, 256); with `like` the size of the followed
            image, or a multiple of it. None: every image keeps its size, top left in an array of
            the largest size in its batch. JAX compiles a step for each shape.
        resize: `"stretch"` (default) changes the aspect ratio; `"crop"` keeps the largest part with
            the right aspect ratio; `"pad"` fits in the whole image, centred on zeros;
            `"crop_or_pad"` does not scale.
        color_mode: `"rgb"` (default), `"rgba"` or `"grayscale"`; with `decode` also the number of
            channels, for example of satellite bands.
        scale: None (default) keeps 0..255. `"0..1"`, `"-1..1"`, or (scale, offset) as in
            `keras.layers.Rescaling`. Two sequences are mean and standard deviation of each channel,
            for pixels 0..1. `"tf"`, `"torch"` and `"caffe"` (which converts RGB to BGR) are the
            modes of `keras.applications`. `"standardize"` gives each image mean 0 and standard
            deviation 1, as `tf.image.per_image_standardization`.
        antialias: filter before shrinking (default), within one grey level of Pillow on most
            photographs; False aliases, as TensorFlow's resize does by default. It applies to
            `interpolation="bilinear"`.
        load_size: (height, width) to resize to before `size` is cropped from it. With `crop=None` a
            transform gets `load_size` and returns `size`; without a transform the centre is used.
        crop: where to crop to `size`, and for `resize`: `"center"` (as None, the default), or
            `"random"`, drawn for each row and epoch. `"random_resized"` is torchvision's
            RandomResizedCrop: a crop of random size and place, stretched to `size`; in serving and
            validation the largest central crop.
        flip: None (default), `"horizontal"`, `"vertical"` or `"horizontal_and_vertical"`, each with
            probability 0.5.
        interpolation: `"bilinear"` (default), `"nearest"`, or `"area"`, the mean of the area of a
            pixel.
        dtype: dtype of the batch: `"uint8"`, `"uint16"`, `"float32"` or `"float16"`. None (default)
            is `"uint8"`, or `"float32"` with `scale`, for files of 8 bits; deeper files raise an
            error. `"uint8"` divides 16 bits by 257 and rounds. The others keep the numbers of the
            file; a `scale` applies to the full range of the file's dtype. A transform gets uint8
            from files of 8 bits, uint16 from deeper ones and with `"uint16"`, float32 from floats.
        padding_mask: with `size=None`, True: a batch is `{"images", "padding_mask"}`, True on the
            image, bool (batch, height, width, 1).
        area: for `"random_resized"`, smallest and largest share of the image; None: (0.08, 1).
        ratio: likewise, smallest and largest width / height of a crop; None: (3/4, 4/3).
        like: the followed image, if this is the second one of a pair: the name of its array or
            column. Both get the same geometry, pixel for pixel. The file is equally large, or k
            times as large with a `size` of k times the followed one.
        missing: of targets, `"raise"` (default), or `"ignore"`: rows without a path get zeros, and
            weigh 0 in the loss of this target. It needs a `size`.
        index: the column with the row, from 0, in an array file (.npy, HDF5) of images: (height,
            width), or that and 1, 3 (RGB) or 4 channels.
        dataset: the name of the array in HDF5 files with several.
        decode: `decode(data) -> pixels`, from the bytes of a file, such as DICOM: upright, (height,
            width) or (height, width, channels), of any size, and any depth that `dtype` accepts. It
            runs in the workers, must not be random, and needs a `size`.

    Raises:
        ArgumentError: an invalid argument.

    Example:
        >>> image = dfgen.Image("path", size=(224, 224), resize="crop")
    """

    column: str = "path"
    size: geo.Size | None = DEFAULT_SIZE
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
            size=checked_size("size", self.size),
            load_size=checked_size("load_size", self.load_size),
        )
        if self.decode is not None:
            check_call("decode", self.decode, 1, "decode(data)", "it gets the bytes of a file")
        if self.decode is None or isinstance(self.color_mode, str):
            one_of("color_mode", self.color_mode, geo.CHANNELS)
        else:
            set_fields(self, color_mode=whole("color_mode", self.color_mode, least=1))
        unsized, follows = self.size is None, self.like is not None
        no_use = [
            (unsized,
             ("resize", "load_size", "crop", "interpolation", "antialias", "decode", "index"),
             "size=None keeps the size of every image"),
            (unsized and not follows, ("missing",), "a missing image has no size with size=None"),
            (self.crop == "random_resized", ("load_size", "resize"),
             'crop="random_resized" stretches a crop of the whole image to size'),
            (self.crop != "random_resized", ("area", "ratio"),
             'they are for crop="random_resized"'),
            (self.decode is not None, ("index",), "decode= takes the bytes of whole files"),
            (follows, _LEADERS, "the followed image decides that"),
            (not unsized and not (follows and self.size is DEFAULT_SIZE), ("padding_mask",),
             "only images with size=None are padded"),
            (self.crop != "random_resized" and self.load_size is None
             and self.resize not in ("crop", "crop_or_pad"), ("crop",),
             'without load_size= or resize="crop" nothing is cropped'),
            (self.dtype in ("uint8", "uint16"), ("scale",),
             f"dtype={self.dtype!r} cannot hold the fractions of a scale"),
        ]  # fmt: skip
        for holds, names, why in no_use:
            for name in names if holds else ():
                if getattr(self, name) != getattr(type(self), name):
                    raise ArgumentError(
                        f"Image({self.column!r}) has {name}={getattr(self, name)!r}, but {why}"
                    )
        size, larger = self.size, self.load_size
        if size is not None and larger is not None and min(np.subtract(larger, size)) < 0:
            raise ArgumentError(
                f"load_size={larger} must be at least as high and as wide as size={size}"
            )
        for name, most in (("area", 1), ("ratio", np.inf)):
            if getattr(self, name) is not None:
                set_fields(self, **{name: geo.checked_limits(name, getattr(self, name), most)})
        if isinstance(self.like, Image):
            set_fields(self, size=paired_size(self, self.like))
        channels = geo.CHANNELS.get(self.color_mode, self.color_mode)
        set_fields(self, scale=checked_scale(self.scale, str(self.color_mode), channels))

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        channels = geo.CHANNELS.get(self.color_mode, self.color_mode)
        size = self.size or (None, None)
        is_float = self.dtype in ("float16", "float32")  # resized at the depth of each file
        depth = None if is_float else np.dtype(self.dtype or np.uint8)
        read = Spec((*size, channels), depth, pixels=True)
        seen = Spec((*self.seen_size, channels), depth, pixels=True)
        made = np.dtype(self.dtype or ("uint8" if self.scale is None else "float32"))
        return Spec((*size, channels), made, pixels=True, read=read, seen=seen)

    @property
    def seen_size(self) -> tuple[int | None, int | None]:
        """(height, width) of the image that a transform gets and may crop."""
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
        """Return the random choices for one sample. The order of draws must never change."""
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
        """Return the geometry from an upright image to an array of `size`.

        `leader` is the Geometry of the followed image.
        """
        if self.like is not None:
            packed = leader.steps and self.column == self.like.column and leader.steps[1]
            leader = packed if packed and packed.image == image else leader
            times = max(1, size[0] // leader.size[0])
            check_followed_size(image, (times * leader.image[0], times * leader.image[1]))
            return geo.enlarged(leader, times)
        draw = drawn or geo.STILL
        if self.crop == "random_resized":
            return geo.place_resized(image, size, self.ratio or geo.RATIO, draw)
        return geo.place(image, size, self.load_size or size, self.resize, draw)

    def read(self, value: Any, out: Any, reading: Reading) -> geo.Geometry:
        """Fill `out`, before or after a transform, with the pixels of one file, in one pass."""
        store, watch, drawn, leader = reading
        watch("read")
        if self.index is not None:
            row = store.row(value["path"], value["index"], self.dataset)  # type: ignore[attr-defined]
            return self.fill(in_mode(with_pixels(row), self), out, reading)
        data = store.read(value)
        watch("decode", len(data))
        if self.decode is not None:
            who = f"Image({self.column!r}): {name_of(self.decode)}"
            returned = run(who, DecodeError, self.decode, data)
            return self.fill(user_decoded(self, who, returned), out, reading)
        size = out.shape[:2]

        def reduced_by(image: geo.Size) -> int:
            geometry = self.place(image, size, drawn, leader)
            return reduction(geometry, self.interpolation, self.antialias)

        pixels, image, reduced = decode_image(
            data, str(self.color_mode), self.dtype, reduced_by, store.limits
        )
        if self.size is None and image != size and self.like is None:
            raise DecodeError(
                f"the upright image has {image[0]} x {image[1]} pixels (height x width), but the "
                f"manifest says {size[0]} x {size[1]}: build it again, or drop its columns width, "
                "height and orientation"
            )
        return self._resize(pixels, self.place(image, size, drawn, leader), out, reading, reduced)

    def fill(
        self, pixels: Values, out: Any, reading: Reading, placed: geo.Geometry | None = None
    ) -> geo.Geometry:
        """Fill `out` like `read`, with decoded upright pixels; return the Geometry into `out`.

        `placed` is the Geometry that made these pixels from the image (None: they are the image).
        """
        geometry = self.place(pixels.shape[:2], out.shape[:2], reading.drawn, reading.geometry)
        self._resize(pixels, geometry, out, reading)
        return geometry if placed is None else geo.after(placed, geometry)

    def _resize(
        self, pixels: Values, geometry: geo.Geometry, out: Any, reading: Reading, reduced: int = 1
    ) -> geo.Geometry:
        if isinstance(out, LazyArray):
            check_scaled(pixels, self.scale, self.dtype)
            out = out.of(pixels.dtype)
        reading.watch("resize")
        how, channels = (self.interpolation, self.antialias, reduced), out.shape[2]
        if channels <= _MOST:
            resize(pixels, geometry, out, *how)
            return geometry
        for first in range(0, channels, _MOST):
            part = np.ascontiguousarray(pixels[..., first : first + _MOST])
            made = np.empty((*out.shape[:2], part.shape[2]), out.dtype)
            resize(part, geometry, made, *how)
            out[..., first : first + _MOST] = made
        return geometry

    def takes(self, spec: Spec) -> bool:
        """Whether it leaves decoded pixels of a Spec unchanged."""
        if self.is_random or self.like is not None or spec != self.spec or None in spec.shape:
            return False
        size = spec.shape[:2]
        whole = geo.Box(0, 0, *size)
        return self.place(size, size) == geo.Geometry(size, whole, whole, size, flip=False)

    def finish(self, sample: Values, out: Values) -> None:
        """Scale a sample into `out`."""
        rescale(sample, self.scale, out)


def spec_on(feature: Feature, dtype: str, blank: float, *several: int) -> Spec:
    """Return the Spec of an array with one number per pixel of the followed image."""
    image = image_of(feature)
    size: tuple[int | None, int | None] = image.size or (None, None)
    seen = Spec((*several, *image.seen_size, 1), np.dtype(dtype), blank, pixels=True)
    return Spec((*several, *size, 1), np.dtype(dtype), blank, pixels=True, seen=seen)


def image_of(feature: Feature) -> Image:
    """Return the image that a bound feature follows."""
    if isinstance(feature.like, Image):
        return feature.like
    raise ArgumentError(f"{feature!r} has no image yet: a Sequence binds it")


def checked_size(name: str, size: Any) -> geo.Size | None:
    """Return (height, width) as int, or None."""
    if size is None or size is DEFAULT_SIZE:
        return size
    pair = tuple(size) if isinstance(size, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in pair):
        raise ArgumentError(
            f"{name} must be (height, width) in pixels, got {brief(size)}: write {name}=(224, 224)"
        )
    return int(pair[0]), int(pair[1])


def paired_size(image: Any, followed: Any) -> geo.Size | None:
    """Return the size of an image by the followed one: equal, or a multiple of it."""
    size, other = image.size, followed.size
    if size is DEFAULT_SIZE or size is other:
        return other  # type: ignore[no-any-return]
    times = 0 if size is None or other is None else size[0] // other[0]
    if not times or size != (times * other[0], times * other[1]):
        raise ArgumentError(
            f"Image({image.column!r}) has size={size}, expected the size of the followed image, "
            f"{other}, or a multiple of it"
        )
    return size  # type: ignore[no-any-return]


def check_followed_size(size: geo.Size, wanted: geo.Size) -> None:
    """Raise DecodeError if an image or mask has another size than its followed image wants."""
    if size != wanted:
        turned = ": was it saved before EXIF turns the image?" * (size == wanted[::-1])
        raise DecodeError(
            f"it has {size[0]} x {size[1]} pixels (height x width), expected {wanted[0]} x "
            f"{wanted[1]} by the image that it follows{turned}"
        )


def user_decoded(image: Any, who: str, returned: Any) -> geo.Pixels:
    """Return what `decode` has returned in the depth and channels of an image."""
    returned = numbers_of(who, returned)
    known = (image.color_mode,) if isinstance(image.color_mode, int) else (1, 3, 4)
    pixels = geo.with_channels(returned) if returned.ndim in (2, 3) else returned
    if pixels.ndim != 3 or 0 in pixels.shape or pixels.shape[2] not in known:
        raise DecodeError(
            f"{who} returned an array of shape {returned.shape}, expected (height, width, "
            f"channels) with {' or '.join(map(str, known))} channels, or color_mode=channels"
        )
    try:
        return in_mode(pixels, image)
    except DecodeError as error:
        raise DecodeError(f"{who} returned {returned.dtype}: {error}") from None


def in_mode(pixels: geo.Pixels, image: Any) -> geo.Pixels:
    """Return pixels of an array in the depth and the color_mode of an image."""
    pixels = in_depth(as_stored(pixels), image.dtype)
    if pixels.shape[2] != geo.CHANNELS.get(image.color_mode, image.color_mode):
        order = {1: [0], 3: [2, 1, 0], 4: [2, 1, 0, 3]}[pixels.shape[2]]  # OpenCV's order
        pixels = geo.in_color_mode(np.ascontiguousarray(pixels[..., order]), image.color_mode)
    return np.ascontiguousarray(pixels)


def with_pixels(row: geo.Pixels) -> geo.Pixels:
    """Return a row of an array file as (height, width, channels)."""
    if not row.size or row.ndim not in (2, 3) or row.shape[2:] not in ((), (1,), (3,), (4,)):
        raise DecodeError(
            f"the row has shape {row.shape}, expected (height, width), or (height, width, "
            "channels) with 1, 3 or 4 channels"
        )
    return geo.with_channels(row)
