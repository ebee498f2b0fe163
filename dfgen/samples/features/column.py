"""Column: any function of a row's columns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.samples.features import feature_checks as checks
from dfgen.samples.features.base import ColumnSource, Feature, Reading, column_values
from dfgen.samples.transforms import check_call
from dfgen.spec import Spec, Values
from dfgen.stores.store import Store
from dfgen.table import arrow_types as arrow


@dataclass(frozen=True)
class Column(Feature):
    """An array that your own function computes from a row's columns.

    The function runs in the workers, once per row and epoch, with plain Python numbers and text,
    and None for missing values; the column `path` has paths below the root. It must not be random.
    Functions that hold the GIL for long need `use_multiprocessing=True`.

    Args:
        names: the column, or the columns in the order of the function's arguments.
        fn: `fn(*values)` -> an array or number.
        shape: shape of the result; () for a number. With None as its first length, `(None,)`, it is
            the length of the list in the first column, as of the tokens of a text, padded with
            zeros to the longest in its batch.
        dtype: dtype of the batch, default `"float32"`; results are converted if only precision is
            lost (integers to floats too, floats to integers never).
        padding_mask: with unequal lengths, True: a batch is `{"column", "padding_mask"}`, True on
            the array, bool (batch, length).

    Raises:
        ArgumentError: an invalid argument.

    Example:
        >>> area = dfgen.Column(["width", "height"], lambda width, height: width * height)
    """

    names: str | tuple[str, ...]
    fn: Callable[..., Any]
    shape: tuple[int | None, ...] = ()
    dtype: str = "float32"
    padding_mask: bool = False
    kind: ClassVar[str] = "column"

    def __post_init__(self) -> None:
        names = checks.column_names(self.names)
        call = f"fn({', '.join(names)})"
        check_call("fn", self.fn, len(names), call, "its arguments are the values of the columns")
        checks.set_fields(
            self,
            names=self.names if isinstance(self.names, str) else names,
            shape=checks.checked_shape(self.shape),
            dtype=checks.number_dtype(self.dtype),
        )
        checks.check_padding_mask(self, "shape=(None, ...)")

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return checks.column_names(self.names)

    @property
    def spec(self) -> Spec:
        """The array of the batch."""
        return checks.number_spec(self.shape, self.dtype)

    def bind(self, columns: ColumnSource) -> Any:
        """Return the columns, paths with their root."""
        arrays = {name: columns[name] for name in self.columns}
        if "path" in arrays and arrow.is_text(arrow.value_type(arrays["path"].type)):
            paths = columns.files("path")  # structs need them in memory
            arrays["path"] = paths if len(arrays) == 1 else paths.take(np.arange(len(paths)))
        return column_values(self.columns, arrays)

    def length(self, value: Any, store: Store) -> int:
        """Return the length of a row's list in the first column."""
        own = value if len(self.columns) == 1 else next(iter(value.values()))
        return 0 if own is None else len(own)

    def read(self, value: Any, out: Values, reading: Reading) -> None:
        """Fill `out` with the result of the function."""
        reading.watch("transform")
        values = [value] if len(self.columns) == 1 else [*value.values()]
        checks.fill_by(f"Column({self.names!r})", self.fn, values, out)
