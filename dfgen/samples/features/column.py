"""Column: any function of a row's columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.array import checked_shape, fill
from dfgen.samples.features.base import Spec, Values, Watch, column_names, unwatched
from dfgen.samples.features.category import number_dtype
from dfgen.samples.storage.files import Files


@dataclass(frozen=True)
class Column:
    """What a function of your own makes of a row's columns, for all that has no feature yet.

    The function runs in the workers, once a row and epoch, and is told the row's values in the
    order of `names`: plain Python numbers, text, lists, None where missing. It must not draw at
    random; `transform` does, with its generator. One that holds the GIL for long wants
    `use_multiprocessing=True`, and then must be picklable by cloudpickle, as functions of
    notebooks and scripts are.

    Args:
        names: the column, or the columns in the order of the function's arguments.
        fn: `fn(*values)` -> an array or number.
        shape: of what it returns; () for a number.
        dtype: what the model gets, default `"float32"`; what the function returns is converted
            where that loses no more than precision (integers to floats too, floats to integers
            never).

    Raises:
        ArgumentError: an argument that cannot be.

    Example:
        >>> area = Column(["width", "height"], lambda width, height: width * height)
        >>> area({"width": 4, "height": 3})
        array(12., dtype=float32)
    """

    names: str | tuple[str, ...]
    fn: Callable[..., Any]
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    kind: ClassVar[str] = "column"

    def __post_init__(self) -> None:
        names = column_names(self.names)
        if not isinstance(self.names, str):
            object.__setattr__(self, "names", names)
        if not callable(self.fn):
            raise ArgumentError(f"fn must be a function of a row's values, got {self.fn!r}")
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "dtype", number_dtype(self.dtype))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return column_names(self.names)

    @property
    def spec(self) -> Spec:
        """What the model gets."""
        return Spec(self.shape, np.dtype(self.dtype))

    sample_spec = made_spec = spec

    def read(
        self, values: Mapping[str, Any], out: Values, store: Files, watch: Watch = unwatched
    ) -> None:
        """Fill `out` with what the function returns for a row's values.

        Raises:
            DecodeError: it raised, or returned something of another shape or dtype.
        """
        watch("transform")
        name = getattr(self.fn, "__qualname__", repr(self.fn))
        what = f"Column({self.names!r}): {name}"
        try:
            array = np.asarray(self.fn(*values.values()))
        except MemoryError:
            raise
        except Exception as error:
            raise DecodeError(f"{what} raised {type(error).__name__}: {error}") from error
        fill(f"{what} returned an array that", array, out)

    def finish(self, sample: Values, out: Values) -> None:
        """Copy a sample into `out`."""
        out[...] = sample

    def __call__(self, row: Mapping[str, Any]) -> Values:
        """Return the array of one row, a mapping or a pandas Series."""
        out = np.empty(self.shape, self.dtype)
        arrays = (pa.array([row[name]], from_pandas=True) for name in self.columns)
        values = dict(zip(self.columns, (array[0].as_py() for array in arrays), strict=True))
        self.read(values, out, Files())
        return out
