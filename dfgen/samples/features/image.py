"""Image: pixels of image files."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features import image_arguments as checks
from dfgen.samples.features.arguments import check_column
from dfgen.samples.features.base import Feature
from dfgen.samples.features.image_decoded import channels_of, check_decoding, decoded, resize_bands
from dfgen.samples.features.one_row import OneRow, image_of, pixels_of_row, store_of_row
from dfgen.samples.pixels import geometry as geo
from dfgen.samples.pixels.decoders import decode_image, png_of, size_of_image
from dfgen.samples.pixels.resizing import INTERPOLATIONS, reduction, resize
from dfgen.samples.pixels.scaling import (
    DEPTHS,
    Scale,
    check_scaled,
    checked_scale,
    rescale,
)
from dfgen.spec import OwnDtype, Spec, Values, Watch, unwatched
from dfgen.stores.store import Store
from dfgen.system import flag, one_of, whole
from dfgen.table.file_columns import Content

_FLIPS = (None, "horizontal", "vertical", "horizontal_and_vertical")

_RANDOM = ("random", "random_resized")

_WORDS = {
    "resize": geo.RESIZE, "color_mode": geo.CHANNELS, "crop": (None, "center", *_RANDOM),
    "flip": _FLIPS, "interpolation": INTERPOLATIONS, "dtype": DEPTHS,
}  # fmt: skip


@dataclass(frozen=True, repr=False)
class Image(Feature):
    """Pixels of the image files that a column names.

    Use it instead of a bare column name to choose the geometry, or for a second image of a row.

    Args:
        column: the column of paths; or of bytes, or of structs of `bytes` and `path` as Hugging
            Face's `datasets` makes them.
        size: (height, width) in pixels, (256, 256) by default; with `like` by default that of the
            followed image, else a whole number of times that. None: every image keeps its own size,
            and stands top left in an array as high and as wide as the highest and widest image of
            its batch, with zeros below and to the right of it. A transform sees it without them.
            JAX compiles a step anew for every new shape.
        resize: `"stretch"` (default) changes the aspect ratio, `"crop"` cuts the largest part of
            the right aspect ratio, `"pad"` fits the whole image in, centred on zeros,
            `"crop_or_pad"` does not scale at all.
        color_mode: `"rgb"` (default), `"rgba"` or `"grayscale"`.
        scale: None (default) leaves 0..255. `"0..1"`, `"-1..1"`, or two numbers (scale, offset) as
            of `keras.layers.Rescaling`. Two sequences are the mean and the standard deviation of
            each channel, of pixels 0..1: `((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))`.
            `"tf"`, `"torch"` and `"caffe"` (which makes BGR of RGB) are the modes of
            `keras.applications.imagenet_utils.preprocess_input`. `"standardize"` gives each image
            mean 0 and standard deviation 1, as `tf.image.per_image_standardization`.
        antialias: filter before shrinking (default), within a grey level of Pillow on most
            photographs; False aliases, as TensorFlow's resize does by default. Either way JPEGs
            are decoded at 1/2, 1/4 or 1/8 of their size where that comes as near. It is for
            `interpolation="bilinear"`.
        load_size: (height, width) that the image is resized to, of which `size` is a crop. With
            `crop=None` a transform gets `load_size` and gives back `size`; without a transform it
            is the centre.
        crop: where crops are taken, those to `size` and those of `resize`: `"center"`, or
            `"random"`, drawn anew each epoch. None (default) is the centre. `"random_resized"` is
            torchvision's RandomResizedCrop: a crop of any size from anywhere in the whole image,
            drawn anew each epoch and stretched to `size`; by hand, without chance, the largest in
            the centre whose ratio is allowed.
        area: of `"random_resized"`: the least and the largest share of the image that a crop is
            of; None: (0.08, 1).
        ratio: of `"random_resized"`: the least and the largest width / height of a crop; None:
            (3/4, 4/3).
        flip: None (default), `"horizontal"` (left and right exchanged), `"vertical"` (top and
            bottom) or `"horizontal_and_vertical"`: each in every second image, by chance.
        interpolation: `"bilinear"` (default), `"nearest"`, or `"area"`, means over what falls into
            a pixel.
        dtype: what the model gets: `"uint8"`, `"uint16"`, `"float32"` or `"float16"`. None
            (default) is `"uint8"`, or `"float32"` with `scale`, of files of 8 bits: deeper ones are
            an error. `"uint8"` takes 16 bits too, divided by 257 and rounded. The others keep the
            numbers of the file, 0..255 or 0..65535 or floats; a `scale` that speaks of 255 or of 1
            means the full range of its own depth, which floats do not have. Numbers that the dtype
            cannot hold are an error. A transform gets uint8 of files of 8 bits, uint16 of deeper
            ones, float32 of floats; with `dtype="uint16"` always that.
        extra: with `size=None`, what tells the image from the zeros: a batch then holds `{"images",
            "sizes"}`, (height, width) as int32 (batch, 2), or `{"images", "padding_mask"}`, True on
            the image, bool (batch, height, width, 1). None (default): the images alone.
        like: the image that this one follows, as the second of a pair: the name of its array, or of
            its column. By hand, on one row: the `Image`. It gets the same crop, flip and geometry,
            pixel for pixel, and so none of `resize`, `load_size`, `crop` and `flip` of its own. Its
            file is as large; with a `size` of k times that of the followed image, k times as large.
        max_items: of a column that holds a list of paths in each row, whose images then stand one
            after the other, (items, height, width, channels), in the same crop and flip: how many a
            list may have. A batch then holds `{"images", "items_mask"}`, as many as its longest
            list, the others with zeros behind, and bool (batch, items), True where an image is.
            None (default): all lists are of one length, and a batch holds the images alone.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row without a path holds zeros,
            and weighs 0 in the loss of this target. It needs a `size`.
        index: the column of whole numbers that say which row of an array file (.npy, HDF5) the
            image is, counted from 0: (height, width) of gray ones, else (height, width, channels)
            with 1, 3 (RGB) or 4. None (default): a file is an image. It needs a `size`; where that
            is the rows' own, they are copied and nothing else. By hand, for serving, images are
            files, bytes or arrays as ever.
        dataset: the name of the array in HDF5 files that hold several.
        decode: `decode(data) -> pixels`, of the bytes of a whole file, for formats that dfgen does
            not know, such as DICOM: upright, (height, width) of gray ones, else (height, width,
            channels), of any size, and any depth that `dtype` takes. It runs in the workers, and
            must not draw at random. It needs a `size`.
        channels: of what `decode` returns where that is no gray, RGB or RGBA image, as of bands of
            satellites; None (default): those of `color_mode`.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> Image("path", size=(224, 224), resize="crop")(df.iloc[0]).shape  # doctest: +SKIP
        (224, 224, 3)
    """

    column: str = "path"
    size: geo.Size | None = checks.DEFAULT_SIZE
    resize: str = "stretch"
    color_mode: str = "rgb"
    scale: Scale = None
    antialias: bool = True
    load_size: geo.Size | None = None
    crop: str | None = None
    flip: str | None = None
    interpolation: str = "bilinear"
    dtype: str | None = None
    extra: str | None = None
    area: tuple[float, float] | None = None
    ratio: tuple[float, float] | None = None
    like: Any = None
    max_items: int | None = None
    missing: str = "raise"
    index: str | None = None
    dataset: str | None = None
    decode: Callable[[bytes], Any] | None = None
    channels: int | None = None
    kind: ClassVar[str] = "image"
    of_files: ClassVar[bool] = True
    pixel_kind: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        check_column(self)
        object.__setattr__(self, "antialias", flag("antialias", self.antialias))
        checks.refuse_sizes(self)
        for name, allowed in _WORDS.items():
            one_of(name, getattr(self, name), allowed)
        one_of("extra", self.extra, (None, "sizes", "padding_mask"))
        check_decoding(self)
        scale = checked_scale(self.scale, self.color_mode, channels_of(self))
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "load_size", checks.checked_size("load_size", self.load_size))
        object.__setattr__(self, "size", checks.own_size(self))
        if self.max_items is not None:
            object.__setattr__(self, "max_items", whole("max_items", self.max_items, least=1))
        checks.check_use(self)
        checks.check_crop(self)
        if self.index is not None and self.size is None:
            raise ArgumentError(
                f"size=None is for files of different sizes, index={self.index!r} for rows of "
                "arrays, which have one: give it, size=(height, width)"
            )

    def frozen(self, values: Any) -> "Image":
        """Return it for images by hand, which are no rows of an array file."""
        return replace(self, index=None, dataset=None)

    @property
    def follows(self) -> bool:
        """Whether it follows another image; then `read` is told the Geometry of that."""
        return self.like is not None

    def read_spec(self, transform: bool) -> Spec:
        """Return the array that `read` fills: pixels before `scale`; a transform may crop them."""
        size: tuple[int | None, int | None] = self.size or (None, None)
        if transform and self.follows:
            size = checks.seen_size(self.size, self.image)
        elif transform and self.crop is None:
            size = self.load_size or size
        # None is that of each file: 8 bits are resized faster than floats
        own = self.dtype in ("float16", "float32")
        dtype = None if own else np.dtype(self.dtype or np.uint8)
        return Spec((*size, channels_of(self)), dtype)

    @property
    def spec(self) -> Spec:
        """The arrays that the model gets."""
        default = "uint8" if self.scale is None else "float32"
        return Spec(self.read_spec(False).shape, np.dtype(self.dtype or default))

    def arrays(self, name: str) -> Any:
        """Return the name of the images, with `extra` that of what tells them from padding too."""
        extra = self.extra if self.max_items is None else "items_mask"
        return name if extra is None else {"images": name, extra: f"{name}_{extra}"}

    @property
    def most_bits(self) -> int | None:
        """The most bits a channel that its files may have."""
        return {None: 8, "uint8": 16}.get(self.dtype)

    @property
    def raw_depth(self) -> bool:
        """Whether its numbers are those of each file."""
        plain = self.scale is None or isinstance(self.scale[0], float)
        return self.dtype in ("uint16", "float16", "float32") and plain

    @property
    def variable_size(self) -> bool:
        """Whether every image keeps its own size."""
        return self.size is None

    @property
    def is_random(self) -> bool:
        """Whether chance has a part in it."""
        return self.crop in _RANDOM or self.flip is not None

    @property
    def still(self) -> "Image":
        """It without chance: the centre, no flips; the largest crop for `"random_resized"`."""
        if not self.is_random:
            return super().still
        if self.crop == "random_resized":
            return replace(self, resize="crop", crop=None, area=None, ratio=None, flip=None)
        return replace(self, crop=self.crop and "center", flip=None)

    def draw(self, rng: np.random.Generator) -> geo.Draw:
        """Return what chance decides for one sample; the order of draws never changes."""
        y, x, flip = rng.random(3).tolist()
        flipped = self.flip in ("horizontal", "horizontal_and_vertical") and flip < 0.5
        vertical = self.flip in ("vertical", "horizontal_and_vertical") and rng.random() < 0.5
        if self.crop not in _RANDOM:
            return geo.Draw(None, None, flipped, vertical)
        if self.crop != "random_resized":
            return geo.Draw(y, x, flipped, vertical)
        crops = geo.drawn_crops(rng, self.area or geo.AREA, self.ratio or geo.RATIO)
        return geo.Draw(y, x, flipped, vertical, crops)

    def place(self, image: geo.Size, size: geo.Size, given: Any = None) -> geo.Geometry:
        """Return the geometry of an upright image of a size, into an array of `size`.

        `given` is what it drew, or the Geometry of the image that it follows.
        """
        if self.like is not None:
            packed = given.steps and self.column == self.image.column and given.steps[1]
            return checks.follow(packed if packed and packed.image == image else given, image, size)
        draw = given or geo.STILL
        if self.crop == "random_resized":
            return geo.place_resized(image, size, self.ratio or geo.RATIO, draw)
        return geo.place(image, size, self.load_size or size, self.resize, draw)

    def geometry(self, row: Mapping[str, Any], rng: np.random.Generator | None) -> geo.Geometry:
        """Return the geometry of the image of one row; nothing is decoded."""
        with store_of_row(row, self.column) as store:
            size = self._size_of(self.at(self.bind(OneRow(row)), 0), store)
        given: Any = None if rng is None else self.draw(rng)
        if self.follows:
            given = self.image.geometry(row, rng)
        return self.place(size, self.size or size, given)

    def read(
        self, value: Content, out: Any, store: Store, watch: Watch = unwatched, given: Any = None
    ) -> geo.Geometry:
        """Fill `out`, as before or after a transform, with the pixels of one file, in one pass."""
        watch("read")
        if self.index is not None:
            return self.fill(image_of(value, self, store), out, watch, given)
        data = store.read(value)
        watch("decode", len(data))
        if self.decode is not None:
            return self.fill(decoded(self, data), out, watch, given)
        size = out.shape[:2]
        pixels, image, reduced = decode_image(
            data,
            self.color_mode,
            self.dtype,
            lambda image: reduction(
                self.place(image, size, given), self.interpolation, self.antialias
            ),
            store.limits,
        )
        geometry = self.place(image, size, given)
        if self.size is None and image != size and not self.follows:  # `follow` has looked at it
            raise DecodeError(
                f"the image has {image[0]} x {image[1]} pixels (height x width, upright), but its "
                f"facts say {size[0]} x {size[1]}: was it changed since? Build the manifest anew, "
                "or leave out its columns width, height and orientation"
            )
        if isinstance(out, OwnDtype):
            check_scaled(pixels, self.scale, self.dtype)
            out = out.of(pixels.dtype)
        watch("resize")
        resize(pixels, geometry, out, self.interpolation, self.antialias, reduced=reduced)
        return geometry

    def fill(
        self,
        pixels: Values,
        out: Any,
        watch: Watch = unwatched,
        given: Any = None,
        placed: geo.Geometry | None = None,
    ) -> geo.Geometry:
        """Fill `out`, as `read` does, with upright pixels that are decoded already.

        `placed`: how they were made of the upright image (None: they are all of it). Returns the
        geometry from that into `out`.
        """
        watch("resize")
        geometry = self.place(pixels.shape[:2], out.shape[:2], given)
        if isinstance(out, OwnDtype):
            check_scaled(pixels, self.scale, self.dtype)
            out = out.of(pixels.dtype)
        resize_bands(pixels, geometry, out, self.interpolation, self.antialias)
        return geometry if placed is None else geo.after(placed, geometry)

    def passes_through(self, spec: Spec) -> bool:
        """Whether it makes pixels of a Spec that are decoded already into just what they are."""
        if self.is_random or self.follows or spec != self.spec or None in spec.shape:
            return False
        size = spec.shape[:2]
        whole_image = geo.Box(0, 0, *size)
        return self.place(size, size) == geo.Geometry(
            size, whole_image, whole_image, size, flip=False
        )

    def _size_of(self, value: Any, store: Store) -> geo.Size:
        if self.decode is not None:
            height, width, _ = decoded(self, store.read(value)).shape
            return height, width
        if self.index is None:
            return size_of_image(value, store)
        height, width, _ = pixels_of_row(value, self.dataset, store).shape
        return height, width

    def file_of(self, array: Values) -> bytes:
        """Return the bytes of a PNG file of pixels, (height, width) with 1, 3 or 4 channels."""
        return super().file_of(array) if self.decode is not None else png_of(array)

    def finish(self, sample: Values, out: Values) -> None:
        """Scale a sample into `out`."""
        rescale(sample, self.scale, out)
