"""Column: any function of a row's columns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dfgen.samples.features import feature_checks as checks
from dfgen.samples.features.base import Feature, Reading
from dfgen.samples.features.column_source import ColumnSource, column_values
from dfgen.samples.user_functions import check_call
from dfgen.spec import Spec, Values
from dfgen.stores.store import Store
from dfgen.table import arrow_types as arrow


@dataclass(frozen=True)
class Column(Feature):
    """An array that your own function makes of a row's columns, for all that has no feature yet.

    The function runs in the workers, once a row and epoch, and gets the row's values: plain Python
    numbers, text, lists, None where missing; of the column `path` paths below the root. It must not
    draw at random. One that holds the GIL for long wants `use_multiprocessing=True`.

    Args:
        names: the column, or the columns in the order of the function's arguments.
        fn: `fn(*values)` -> an array or number.
        shape: of what it returns; () for a number. With None as its first length, `(None,)`, that
            is the length of the row's list in the first column, as of the tokens of a text, and
            zeros follow up to the longest of its batch.
        dtype: what the model gets, default `"float32"`; what the function returns is converted
            where that loses no more than precision (integers to floats too, floats to integers
            never).
        padding_mask: of arrays of unequal length, True: a batch then holds `{"column",
            "padding_mask"}`, True on the array, bool (batch, length).

    Raises:
        ArgumentError: an argument that cannot be.

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
        check_call("fn", self.fn, len(names), call, "it gets a row's values of these columns")
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
        """The array that the model gets."""
        return checks.number_spec(self.shape, self.dtype)

    def bind(self, columns: ColumnSource) -> Any:
        """Return the columns, of paths with their root."""
        found = {name: columns[name] for name in self.columns}
        if "path" in found and arrow.is_text(arrow.value_type(found["path"].type)):
            paths = columns.files("path")  # which structs of several columns cannot leave on a disk
            found["path"] = paths if len(found) == 1 else paths.take(np.arange(len(paths)))
        return column_values(self.columns, found)

    def length(self, value: Any, store: Store) -> int:
        """Return the length of the list of one row, in the first column."""
        own = value if len(self.columns) == 1 else next(iter(value.values()))
        return 0 if own is None else len(own)

    def read(self, value: Any, out: Values, reading: Reading) -> None:
        """Fill `out` with what the function returns for a row's values."""
        reading.watch("transform")
        values = [value] if len(self.columns) == 1 else [*value.values()]
        checks.fill_by(f"Column({self.names!r})", self.fn, values, out)
