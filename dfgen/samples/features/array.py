"""Array: numbers of .npy files, of rows of large array files, and of other files."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features import feature_checks as checks
from dfgen.samples.features.base import Feature, Reading
from dfgen.samples.pixels.formats import FORMATS, opened
from dfgen.samples.transforms import check_call
from dfgen.spec import Spec, Values
from dfgen.stores.array_files import decode_array, whole_array
from dfgen.stores.store import Store


@dataclass(frozen=True, repr=False)
class Array(Feature):
    """Numbers of .npy files, of rows of large array files, or of any files.

    Use `index` if one .npy or HDF5 file holds many samples, and `decode` for formats that dfgen
    does not know, such as DICOM, NIfTI or LAS. Nothing is ever unpickled.

    Args:
        column: the column of paths, or of bytes.
        shape: the shape of every file, or of every row. With None as its first length, `(None,
            13)`, every .npy file keeps its length, padded with zeros to the longest in its batch;
            the headers of all files are read once.
        dtype: dtype of the batch, default `"float32"`; other dtypes of the same kind are converted
            (integers to floats too, floats to integers never).
        index: the column with the row in the file, from 0; None: the whole file.
        dataset: the name of the array in HDF5 files with several.
        decode: `decode(data) -> array`, from the bytes of a file; None (default): it is .npy. It
            runs in the workers, and must not be random.
        missing: of targets, `"raise"` (default), or `"ignore"`: null gets zeros, and weighs 0.
        padding_mask: with unequal lengths, True: a batch is `{"array", "padding_mask"}`, True on
            the array, bool (batch, length).

    Raises:
        ArgumentError: an invalid shape or dtype, or `decode` with `index`.

    Example:
        >>> dfgen.Array("path", shape=(128, 128), index="index")  # doctest: +SKIP
    """

    column: str
    shape: tuple[int | None, ...]
    dtype: str = "float32"
    index: str | None = None
    dataset: str | None = None
    decode: Callable[[bytes], Any] | None = None
    missing: str = "raise"
    padding_mask: bool = False
    kind: ClassVar[str] = "array"
    of_files: ClassVar[bool] = True

    def __post_init__(self) -> None:
        checks.check_column(self)
        if self.decode is not None:
            check_call("decode", self.decode, 1, "decode(data)", "it gets the bytes of a file")
        shape, dtype = checks.checked_shape(self.shape), checks.number_dtype(self.dtype)
        checks.set_fields(self, shape=shape, dtype=dtype)
        checks.check_padding_mask(self, "shape=(None, ...)")
        if self.decode is not None and self.index is not None:
            raise ArgumentError("decode= takes whole files, index= rows of them: leave one out")
        if self.spec.own_length and (self.decode or self.index or self.missing != "raise"):
            raise ArgumentError(
                f"shape={self.shape} needs whole .npy files: give the length, or omit decode=, "
                "index= and missing="
            )

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        return checks.number_spec(self.shape, self.dtype)

    def length(self, value: Any, store: Store) -> int:
        """Return the first length in the header of a .npy file; checks dtype and shape."""
        with opened(value, store) as (file, name):
            if name != "npy":
                raise DecodeError(f"this is a .{name} {FORMATS[name].holds}, not a .npy file")
            file.seek(0)
            shape, _, dtype = whole_array(file, store.limits)
        if not shape or not self.takes(Spec((None, *shape[1:]), dtype)):
            raise DecodeError(
                f"the array is {dtype} of shape {shape}, expected {self.dtype} of shape "
                f"{self.shape}"
            )
        return shape[0]

    def takes(self, spec: Spec) -> bool:
        """Whether casting alone converts rows of a Spec."""
        return spec.shape == self.shape and checks.can_cast(spec.dtype, np.dtype(self.dtype))

    def read(self, value: Any, out: Values, reading: Reading) -> None:
        """Fill `out` with the numbers of one file, or of one of its rows."""
        reading.watch("read")
        if self.index is not None:
            rows: Any = reading.store
            array = rows.row(value["path"], value["index"], self.dataset)
            reading.watch("decode", array.nbytes)
        else:
            data = reading.store.read(value)
            reading.watch("decode", len(data))
            if self.decode is not None:
                checks.fill_by(f"Array({self.column!r})", self.decode, [data], out)
                return
            array = decode_array(data, reading.store.limits)
        checks.fill("the array", array, out)
