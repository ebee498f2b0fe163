"""Array: numbers of .npy files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.by_hand import naming_path
from dfgen.samples.decoding import decode_array
from dfgen.samples.spec import Spec, Values, Watch, unwatched
from dfgen.samples.storage.files import Files
from dfgen.samples.tabular import cast, number_dtype


@dataclass(frozen=True)
class Array:
    """Numbers of the .npy files that a column names; never unpickled.

    Args:
        column: the column of paths.
        shape: the shape that every file must have.
        dtype: what the model gets, default `"float32"`; files of another dtype of the same kind
            are converted (integers to floats too, floats to integers never).

    Raises:
        ArgumentError: the shape or dtype is none.

    Example:
        >>> Array("embedding", shape=(512,))(df.iloc[0]).dtype  # doctest: +SKIP
        dtype('float32')
    """

    column: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    kind: ClassVar[str] = "array"

    def __post_init__(self) -> None:
        whole = isinstance(self.shape, tuple | list)
        if not whole or not all(isinstance(s, int | np.integer) and s > 0 for s in self.shape):
            raise ArgumentError(f"shape must be a tuple of positive integers, got {self.shape!r}")
        object.__setattr__(self, "shape", tuple(int(size) for size in self.shape))
        object.__setattr__(self, "dtype", number_dtype(self.dtype))

    @property
    def spec(self) -> Spec:
        """What the model gets."""
        return Spec(self.shape, np.dtype(self.dtype))

    sample_spec = made_spec = spec

    def read(self, path: str, out: Values, store: Files, watch: Watch = unwatched) -> None:
        """Fill `out` with the numbers of one file."""
        watch("read")
        data = store.read(path)
        watch("decode", len(data))
        array = decode_array(data)
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
        out = np.empty(self.spec.shape, self.spec.dtype)
        with naming_path(row, self.column) as path:
            self.read(path, out, Files())
        return out
