"""Feature specs: how a column of the manifest becomes one array of the batch.

Two sorts. A column feature (`Category`, `Number`) is known from the table alone: `encode` turns
the whole column into numbers once, and a batch is a gather. A file feature (`Image`, `Array`)
names files: `read` fills the array of one row.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, DecodeError, MissingFileError
from dfgen.samples.decoding import CHANNELS, decode_array, decode_reduced
from dfgen.samples.resizing import reduction, resize
from dfgen.samples.storage.files import Files
from dfgen.samples.tabular import Category, Number, cast, number_dtype, one_of

Values = npt.NDArray[Any]

Watch = Callable[..., None]
"""Is told each stage as it begins, `watch("decode", bytes_read)`, so that time can be measured."""


def unwatched(stage: str, nbytes: int = 0) -> None:
    """Measure nothing."""


RESIZE = ("stretch", "crop", "pad")
SCALE = (None, "0..1", "-1..1", "standardize")


Place = str | Mapping[str, Any]
"""A path; or the `path` of an array file and the `index` of a row in it."""


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of one sample's array."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class Image:
    """Pixels of the image files that a column names.

    Use it instead of a bare column name to choose the geometry, or for a second image of a row.

    Args:
        column: the column of paths.
        size: (height, width) in pixels.
        resize: `"stretch"` (default) changes the aspect ratio, `"crop"` cuts the largest centred
            part of the right aspect ratio, `"pad"` fits the whole image in, on zeros.
        color_mode: `"rgb"` (default), `"rgba"` or `"grayscale"`.
        scale: None (default) gives uint8 0..255; `"0..1"`, `"-1..1"` and `"standardize"` (mean 0,
            standard deviation 1 for each image, as `tf.image.per_image_standardization`) float32.
        antialias: filter before shrinking (default), within a grey level of Pillow on most
            photographs; False aliases, as TensorFlow's resize does by default. Either way JPEGs
            are decoded at 1/2, 1/4 or 1/8 of their size where that comes as near.

    Raises:
        ArgumentError: a value that is none of the above.

    Example:
        >>> Image("path", size=(224, 224), resize="crop")(df.iloc[0]).shape  # doctest: +SKIP
        (224, 224, 3)
    """

    column: str = "path"
    size: tuple[int, int] = (256, 256)
    resize: str = "stretch"
    color_mode: str = "rgb"
    scale: str | None = None
    antialias: bool = True
    kind: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        one_of("resize", self.resize, RESIZE)
        one_of("color_mode", self.color_mode, CHANNELS)
        one_of("scale", self.scale, SCALE)
        size = tuple(self.size) if isinstance(self.size, tuple | list) else self.size
        whole = isinstance(size, tuple) and all(isinstance(s, int | np.integer) for s in size)
        if not (whole and len(size) == 2 and min(size) > 0):
            raise ArgumentError(f"size must be (height, width) in pixels, got {self.size!r}")
        object.__setattr__(self, "size", (int(size[0]), int(size[1])))

    @property
    def sample_spec(self) -> Spec:
        """What a transform sees: 8-bit pixels, before `scale`."""
        return Spec((*self.size, CHANNELS[self.color_mode]), np.dtype(np.uint8))

    @property
    def spec(self) -> Spec:
        """What the model gets."""
        dtype = np.dtype(np.uint8 if self.scale is None else np.float32)
        return Spec(self.sample_spec.shape, dtype)

    def read(self, path: str, out: Values, store: Files, watch: Watch = unwatched) -> None:
        """Fill `out` (`sample_spec`) with the pixels of one file."""
        watch("read")
        data = store.read(path)
        watch("decode", len(data))
        pixels, size = decode_reduced(
            data,
            self.color_mode,
            lambda size: reduction(size, out.shape, self.resize, self.antialias),
        )
        watch("resize")
        resize(pixels, self.resize, self.antialias, out, size)

    def finish(self, sample: Values, out: Values) -> None:
        """Scale a sample (`sample_spec`) into `out` (`spec`)."""
        if self.scale is None:
            out[...] = sample
        elif self.scale == "0..1":
            np.multiply(sample, np.float32(1 / 255), out=out)
        elif self.scale == "-1..1":
            np.multiply(sample, np.float32(1 / 127.5), out=out)
            np.subtract(out, np.float32(1), out=out)
        else:
            pixels = sample.astype(np.float32)
            deviation = max(float(pixels.std()), 1 / np.sqrt(pixels.size))
            np.divide(pixels - pixels.mean(), np.float32(deviation), out=out)

    def __call__(self, row: Mapping[str, Any]) -> Values:
        """Return the array of one row, a mapping or a pandas Series."""
        return _read_one(self, row)


@dataclass(frozen=True)
class Array:
    """Numbers of the .npy files that a column names, or of rows of large array files.

    Use `index` where one file holds many samples, .npy or HDF5: .npy files are memory-mapped, and
    no file is read as a whole. Nothing is ever unpickled.

    Args:
        column: the column of paths.
        shape: the shape that every file, or every row, must have.
        dtype: what the model gets, default `"float32"`; files of another dtype of the same kind
            are converted (integers to floats too, floats to integers never).
        index: the column of whole numbers that say which row of the file it is, counted from 0;
            None: the whole file.
        dataset: the name of the array in HDF5 files that hold several.

    Raises:
        ArgumentError: the shape or dtype is none.

    Example:
        >>> Array("embedding", shape=(512,))(df.iloc[0]).dtype  # doctest: +SKIP
        dtype('float32')
        >>> Array("path", shape=(128, 128), index="index")(df.iloc[0]).shape  # doctest: +SKIP
        (128, 128)
    """

    column: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    index: str | None = None
    dataset: str | None = None
    kind: ClassVar[str] = "array"

    def __post_init__(self) -> None:
        if self.dataset is not None and self.index is None:
            raise ArgumentError(
                f"dataset={self.dataset!r} is for rows of HDF5 files: name their column, as in "
                'index="index"'
            )
        whole = isinstance(self.shape, tuple | list)
        if not whole or not all(isinstance(s, int | np.integer) and s > 0 for s in self.shape):
            raise ArgumentError(f"shape must be a tuple of positive integers, got {self.shape!r}")
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "dtype", number_dtype(self.dtype))

    @property
    def spec(self) -> Spec:
        """What the model gets."""
        return Spec(self.shape, np.dtype(self.dtype))

    sample_spec = spec

    def read(self, place: Place, out: Values, store: Files, watch: Watch = unwatched) -> None:
        """Fill `out` with the numbers of one file, or of one row of it."""
        watch("read")
        if isinstance(place, str):
            data = store.read(place)
            watch("decode", len(data))
            array = decode_array(data)
        else:
            array = store.arrays.row(place["path"], place["index"], self.dataset)
            watch("decode", array.nbytes)
        if array.shape != out.shape:
            raise DecodeError(f"the array has shape {array.shape}, expected {out.shape}")
        if not np.can_cast(array.dtype, out.dtype, "same_kind"):
            raise DecodeError(f"the array is {array.dtype}, which {out.dtype} cannot hold")
        try:
            out[...] = cast(array, out.dtype)
        except OverflowError as error:
            raise DecodeError(f"the array {error}") from None

    def finish(self, sample: Values, out: Values) -> None:
        """Copy a sample into `out`."""
        out[...] = sample

    def __call__(self, row: Mapping[str, Any]) -> Values:
        """Return the array of one row, a mapping or a pandas Series."""
        return _read_one(self, row)


ColumnFeature = Number | Category
FileFeature = Image | Array
Feature = ColumnFeature | FileFeature


def _read_one(feature: FileFeature, row: Mapping[str, Any]) -> Values:
    sample = np.empty(feature.sample_spec.shape, feature.sample_spec.dtype)
    place: Any = os.fspath(row[feature.column])
    if isinstance(feature, Array) and feature.index is not None:
        place = {"path": place, "index": int(row[feature.index])}
    try:
        feature.read(place, sample, Files())
    except (DecodeError, MissingFileError) as error:
        raise type(error)(f"{feature.column}={place!r}: {error}") from error
    out = np.empty(feature.spec.shape, feature.spec.dtype)
    feature.finish(sample, out)
    return out
