"""Column: any function of a row's columns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.errors import ArgumentError, DecodeError
from dfgen.samples.features.arguments import column_names, number_dtype
from dfgen.samples.features.base import MayOwnLength, check_extra, own_shape
from dfgen.samples.features.casting import fill_by, number_spec
from dfgen.samples.features.one_row import ColumnSource, OneRow
from dfgen.samples.user_functions import check_call
from dfgen.spec import Spec, Values, Watch
from dfgen.stores.store import Store
from dfgen.table import arrow_types as arrow


@dataclass(frozen=True)
class Column(MayOwnLength):
    """An array that your own function makes of a row's columns, for all that has no feature yet.

    The function runs in the workers, once a row and epoch, and is told the row's values in the
    order of `names`: plain Python numbers, text, lists, None where missing; of the column `path`,
    where none may be missing, paths below the root. It must not draw at
    random; `transform` does, with its generator. One that holds the GIL for long wants
    `use_multiprocessing=True`, and then must be picklable by cloudpickle, as functions of
    notebooks and scripts are.

    Args:
        names: the column, or the columns in the order of the function's arguments.
        fn: `fn(*values)` -> an array or number.
        shape: of what it returns; () for a number. With None as its first length, `(None,)`, that
            is the length of the row's list in the first column, as of the tokens of a text, and
            zeros follow up to the longest of its batch.
        dtype: what the model gets, default `"float32"`; what the function returns is converted
            where that loses no more than precision (integers to floats too, floats to integers
            never).
        extra: of arrays of unequal length, `"padding_mask"`: a batch then holds `{"column",
            "padding_mask"}`, True on the array, bool (batch, length). None (default): the arrays
            alone.

    Raises:
        ArgumentError: an argument that cannot be.

    Example:
        >>> area = Column(["width", "height"], lambda width, height: width * height)
        >>> area({"width": 4, "height": 3})
        array(12., dtype=float32)
    """

    names: str | tuple[str, ...]
    fn: Callable[..., Any]
    shape: tuple[int | None, ...] = ()
    dtype: str = "float32"
    extra: str | None = None
    kind: ClassVar[str] = "column"

    def __post_init__(self) -> None:
        names = column_names(self.names)
        if not isinstance(self.names, str):
            object.__setattr__(self, "names", names)
        if not callable(self.fn):
            raise ArgumentError(f"fn must be a function of a row's values, got {self.fn!r}")
        call = f"fn({', '.join(names)})"
        advice = "it gets a row's values of these columns, one argument each"
        check_call("fn", self.fn, len(names), call, advice)
        object.__setattr__(self, "shape", own_shape(self.shape))
        object.__setattr__(self, "dtype", number_dtype(self.dtype))
        check_extra(self, "shape=(None, ...)")

    def length(self, value: Any, store: Store) -> int:
        """Return the length of the list of one row, in the first column."""
        several = not isinstance(self.names, str) and len(self.names) > 1
        own = next(iter(value.values())) if several else value
        return 0 if own is None else len(own)

    @property
    def column(self) -> Any:
        """The name of its column, or their names."""
        return self.names

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        return number_spec(self.shape, self.dtype)

    def bind(self, columns: ColumnSource) -> Any:
        """Return the columns, of paths with their root."""
        return super().bind(_Rooted(columns, len(self.columns) > 1))  # type: ignore[arg-type]

    def read(self, value: Any, out: Values, store: Store, watch: Watch, given: None) -> None:
        """Fill `out` with what the function returns for a row's values."""
        watch("transform")
        several = not isinstance(self.names, str) and len(self.names) > 1
        values = [*value.values()] if several else [value]
        what = f"Column({self.names!r})"
        try:
            fill_by(what, self.fn, values, out)
        except DecodeError as error:
            if not self.own_length or values[0] is not None:
                raise
            raise DecodeError(
                f"{what}: the list of column {self.columns[0]!r} is missing, and "
                f"{getattr(self.fn, '__name__', 'fn')} made no array of length 0 of None: write "
                "[], or drop the row"
            ) from error


@dataclass(frozen=True)
class _Rooted:
    """Columns, that of paths below their root."""

    columns: ColumnSource
    whole: bool  # columns that stay on the disk are read

    def __getitem__(self, name: str) -> Any:
        values = self.columns[name]
        lists = arrow.is_list(values.type)
        kind = arrow.value_type(values.type.value_type if lists else values.type)
        if name != "path" or not arrow.is_text(kind) or isinstance(self.columns, OneRow):
            return values
        if lists:  # `files` would make empty ones of those missing
            arrow.refuse_missing(name, values, "path", "write [], or drop these rows")
        paths: Any = self.columns.files(name)
        return paths.take(np.arange(len(paths))) if self.whole else paths
