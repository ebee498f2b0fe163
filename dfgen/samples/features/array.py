"""Array: numbers of .npy files, of rows of large array files, and of files of any format."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.limits import Limits
from dfgen.samples.features.arguments import check_column, number_dtype
from dfgen.samples.features.base import MayOwnLength, check_extra, own_shape
from dfgen.samples.features.casting import fill, fill_by, number_spec
from dfgen.samples.pixels.formats import FORMATS, read_known
from dfgen.samples.user_functions import check_call
from dfgen.spec import Spec, Values, Watch
from dfgen.stores.array_files import decode_array, whole_array
from dfgen.stores.store import Store


@dataclass(frozen=True, repr=False)
class Array(MayOwnLength):
    """Numbers of the .npy files that a column names, of rows of large array files, or of any file.

    Use `index` where one file holds many samples, .npy or HDF5: .npy files are memory-mapped, and
    no file is read as a whole. Nothing is ever unpickled. Use `decode` for files of a format that
    dfgen does not know, such as DICOM, NIfTI or LAS.

    Args:
        column: the column of paths, or of bytes.
        shape: the shape that every file, or every row, must have. With None as its first length,
            `(None, 13)`, every .npy file keeps its own, and is followed by zeros up to the longest
            of its batch; the headers of all files are read once.
        dtype: what the model gets, default `"float32"`; files of another dtype of the same kind
            are converted (integers to floats too, floats to integers never).
        index: the column of whole numbers that say which row of the file it is, counted from 0;
            None: the whole file.
        dataset: the name of the array in HDF5 files that hold several.
        decode: `decode(data) -> array`, of the bytes of a whole file; None (default): it is .npy.
            It runs in the workers, and must not draw at random. One that holds the GIL for long
            wants `use_multiprocessing=True`, and then must be picklable by cloudpickle, as
            functions of notebooks and scripts are.
        missing: of targets, `"raise"` (default), or `"ignore"`: a row without a path or index holds
            zeros, and weighs 0 in the loss of this target.
        extra: of arrays of unequal length, `"padding_mask"`: a batch then holds `{"array",
            "padding_mask"}`, True on the array, bool (batch, length). None (default): the arrays
            alone.

    Raises:
        ArgumentError: the shape or dtype is none, or `decode` no function, or beside `index`.

    Example:
        >>> Array("embedding", shape=(512,))(df.iloc[0]).dtype  # doctest: +SKIP
        dtype('float32')
        >>> Array("path", shape=(128, 128), index="index")(df.iloc[0]).shape  # doctest: +SKIP
        (128, 128)
        >>> Array("scan", (64, 64), decode=lambda data: read_scan(data).pixels)  # doctest: +SKIP
    """

    column: str
    shape: tuple[int | None, ...]
    dtype: str = "float32"
    index: str | None = None
    dataset: str | None = None
    decode: Callable[[bytes], Any] | None = None
    missing: str = "raise"
    extra: str | None = None
    kind: ClassVar[str] = "array"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_column(self)
        if self.decode is not None and not callable(self.decode):
            raise ArgumentError(f"decode must be a function of a file's bytes, got {self.decode!r}")
        if self.decode is not None and self.index is not None:
            raise ArgumentError(
                f"decode= makes the array of a whole file, index={self.index!r} names its rows: "
                "leave one of them out"
            )
        if self.decode is not None:
            check_call("decode", self.decode, 1, "decode(data)", "it gets the bytes of a file")
        object.__setattr__(self, "shape", own_shape(self.shape))
        object.__setattr__(self, "dtype", number_dtype(self.dtype))
        check_extra(self, "shape=(None, ...)")
        if self.own_length and (self.decode or self.index or self.missing != "raise"):
            raise ArgumentError(
                f"shape={self.shape} has a length that each .npy file tells, which decode=, index= "
                "and missing= do not: give the length, or save each array as a .npy file"
            )

    def length(self, value: Any, store: Store) -> int:
        """Return the first length of a .npy file, whose header and size must be those wanted."""
        return read_known(value, store, partial(self._length, limits=store.limits))

    def _length(self, file: IO[bytes], name: str, limits: Limits) -> int:
        if name != "npy":
            raise DecodeError(f"this is a .{name} {FORMATS[name].holds}, not a .npy file")
        file.seek(0)
        shape, _, dtype = whole_array(file, limits)
        if not shape or not self.passes_through(Spec((None, *shape[1:]), dtype)):
            raise DecodeError(
                f"the array is {dtype} of shape {shape}, expected {self.dtype} of shape "
                f"{self.shape}"
            )
        return shape[0]

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        return number_spec(self.shape, self.dtype)

    def passes_through(self, spec: Spec) -> bool:
        """Whether rows of a Spec become its array by casting alone."""
        whole = spec.dtype.kind in "iu" and self.spec.dtype.kind in "iu"
        cast = whole or np.can_cast(spec.dtype, self.spec.dtype, "same_kind")
        return cast and spec.shape == self.shape

    def file_of(self, array: Values) -> bytes:
        """Return the bytes of a .npy file."""
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        return file.getvalue()

    def read(self, value: Any, out: Values, store: Store, watch: Watch, given: None) -> None:
        """Fill `out` with the numbers of one file, or of one row of it."""
        watch("read")
        if self.index is None:
            data = store.read(value)
            watch("decode", len(data))
            if self.decode is not None:
                return fill_by(f"Array({self.column!r})", self.decode, [data], out)
            array = decode_array(data, store.limits)
        else:
            rows: Any = store
            array = rows.row(value["path"], value["index"], self.dataset)
            watch("decode", array.nbytes)
        fill("the array", array, out)
