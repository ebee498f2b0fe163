"""Array: numbers of .npy files, and of rows of large array files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.base import Spec, Values, Watch, unwatched
from dfgen.samples.features.by_hand import naming_path
from dfgen.samples.features.category import cast, number_dtype
from dfgen.samples.storage.files import Files
from dfgen.samples.storage.npy import decode_array

Place = str | Mapping[str, Any]
"""A path; or the `path` of an array file and the `index` of a row in it."""


def checked_shape(shape: object) -> tuple[int, ...]:
    """Return the shape of an array as plain numbers, or refuse what is none."""
    if not isinstance(shape, tuple | list) or not all(
        isinstance(size, int | np.integer) and size > 0 for size in shape
    ):
        raise ArgumentError(f"shape must be a tuple of positive integers, got {shape!r}")
    return tuple(int(size) for size in shape)


def fill(what: str, array: Values, out: Values) -> None:
    """Fill `out` with an array of its shape and of a dtype that it can hold.

    Args:
        what: the array is, for messages.
        array: of numbers.
        out: is filled.

    Raises:
        DecodeError: another shape, or numbers that `out` cannot hold.
    """
    if array.shape != out.shape:
        raise DecodeError(f"{what} has shape {array.shape}, expected {out.shape}")
    whole = array.dtype.kind in "iu" and out.dtype.kind in "iu"  # whose range `cast` looks at
    if not whole and not np.can_cast(array.dtype, out.dtype, "same_kind"):
        raise DecodeError(f"{what} is {array.dtype}, which {out.dtype} cannot hold")
    try:
        out[...] = cast(array, out.dtype)
    except OverflowError as error:
        raise DecodeError(f"{what} {error}") from None


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
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "dtype", number_dtype(self.dtype))

    @property
    def spec(self) -> Spec:
        """What the model gets."""
        return Spec(self.shape, np.dtype(self.dtype))

    sample_spec = made_spec = spec

    def read(self, place: Place, out: Values, store: Files, watch: Watch = unwatched) -> None:
        """Fill `out` with the numbers of one file, or of one row of it."""
        watch("read")
        if isinstance(place, str):
            data = store.read(place)
            watch("decode", len(data))
            array = decode_array(data)
        else:
            array = store.row(place["path"], place["index"], self.dataset)
            watch("decode", array.nbytes)
        fill("the array", array, out)

    def finish(self, sample: Values, out: Values) -> None:
        """Copy a sample into `out`."""
        out[...] = sample

    def __call__(self, row: Mapping[str, Any]) -> Values:
        """Return the array of one row, a mapping or a pandas Series."""
        out = np.empty(self.spec.shape, self.spec.dtype)
        with naming_path(row, self.column) as path:
            index = None if self.index is None else int(row[self.index])
            place: Place = path if index is None else {"path": path, "index": index}
            self.read(place, out, Files())
        return out
