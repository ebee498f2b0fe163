"""Column: any function of a row's columns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from dfgen.errors import ArgumentError
from dfgen.samples.features.arguments import checked_shape, column_names, number_dtype
from dfgen.samples.features.base import Feature
from dfgen.samples.features.casting import fill_by, number_spec
from dfgen.samples.stores.store import Store
from dfgen.samples.user_functions import check_call
from dfgen.spec import Spec, Values, Watch


@dataclass(frozen=True)
class Column(Feature):
    """An array that your own function makes of a row's columns, for all that has no feature yet.

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
        call = f"fn({', '.join(names)})"
        advice = "it is told a row's values of these columns, one argument each"
        check_call("fn", self.fn, len(names), call, advice)
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "dtype", number_dtype(self.dtype))

    @property
    def column(self) -> Any:
        """The name of its column, or their names."""
        return self.names

    @property
    def spec(self) -> Spec:
        """The array that the model gets."""
        return number_spec(self.shape, self.dtype)

    def read(self, value: Any, out: Values, store: Store, watch: Watch, given: None) -> None:
        """Fill `out` with what the function returns for a row's values."""
        watch("transform")
        several = not isinstance(self.names, str) and len(self.names) > 1
        values = value.values() if several else (value,)
        fill_by(f"Column({self.names!r})", self.fn, values, out)
