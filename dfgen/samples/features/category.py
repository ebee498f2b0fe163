"""Column features: what the table alone tells. `encode` turns a whole column into numbers once."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dfgen.errors import ArgumentError, ManifestError, listed
from dfgen.samples.features.base import Values, column_names
from dfgen.system import one_of

Rows = npt.NDArray[np.int64]

LABEL_MODES = ("int", "categorical", "binary")


def in_order(class_names: Any) -> tuple[object, ...]:
    """Return class names as a tuple; refuse what has no order, or is no names."""
    if isinstance(class_names, set | frozenset | Mapping):
        raise ArgumentError(
            "class_names must be a list, whose order gives the classes their numbers, got "
            f"{class_names!r}"
        )
    if isinstance(class_names, str) or not isinstance(class_names, Iterable):
        raise ArgumentError(f"class_names must be distinct names, got {class_names!r}")
    return tuple(class_names)


def number_dtype(dtype: object) -> str:
    """Return the name of a NumPy dtype of numbers, or refuse it."""
    try:
        known = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        known = np.dtype(object)
    if known.kind not in "biuf":
        raise ArgumentError(f'dtype must be a NumPy dtype of numbers as "float32", got {dtype!r}')
    return str(known.name)


def cast(numbers: Values, dtype: np.dtype[Any]) -> Values:
    """Return the numbers as `dtype`, rounded to its precision.

    Raises:
        OverflowError: some are beyond its range.
    """
    if np.can_cast(numbers.dtype, dtype):
        return numbers.astype(dtype, copy=False)
    with np.errstate(over="ignore"):
        result: Values = numbers.astype(dtype)
    if result.dtype.kind == "f":
        fits = bool((np.isfinite(result) | ~np.isfinite(numbers)).all())
    else:
        fits = numbers.dtype.kind == "b" or bool((result == numbers).all())
    if not fits:
        low, high = numbers.min(), numbers.max()
        raise OverflowError(f"holds {low} to {high}, more than {dtype} can hold")
    return result


@dataclass(frozen=True)
class Number:
    """Numbers as they are: a scalar of one column, a vector of several.

    Args:
        column: an integer, float or boolean column without nulls; or a list of those, which gives
            an array of shape (columns,).
        dtype: default None: float32 where a column holds floats, else int32.

    Raises:
        ArgumentError: neither a name nor names, or a dtype that holds no numbers.

    Example:
        >>> Number("age")({"age": 41.5})
        array(41.5, dtype=float32)
        >>> Number(["age", "height"])({"age": 41, "height": 1.7})
        array([41. ,  1.7], dtype=float32)
    """

    column: str | tuple[str, ...]
    dtype: str | None = None
    kind: ClassVar[str] = "number"

    def __post_init__(self) -> None:
        names = column_names(self.column)
        if not isinstance(self.column, str):
            object.__setattr__(self, "column", names)
        if self.dtype is not None:
            object.__setattr__(self, "dtype", number_dtype(self.dtype))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""
        return column_names(self.column)

    def encode(self, *values: pa.Array) -> Values:
        """Return the whole columns as numbers.

        Raises:
            ManifestError: nulls, NaN, text, or numbers that the dtype cannot hold.
        """
        floats = any(pa.types.is_floating(array.type) for array in values)
        dtype = np.dtype(self.dtype or (np.float32 if floats else np.int32))
        arrays = [_numbers(*pair, dtype) for pair in zip(self.columns, values, strict=True)]
        return arrays[0] if isinstance(self.column, str) else np.stack(arrays, axis=1)

    def gather(self, values: Values, rows: Rows) -> Values:
        """Return the arrays of some rows from the encoded values."""
        found: Values = values[rows]
        return found

    def __call__(self, row: Mapping[str, Any]) -> Values:
        """Return the array of one row, a mapping or a pandas Series."""
        values = (pa.array([_scalar(row, name)], from_pandas=True) for name in self.columns)
        return np.asarray(self.encode(*values)[0])


def _numbers(column: str, values: pa.Array, dtype: np.dtype[Any]) -> Values:
    """Return one column as numbers of a dtype."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ManifestError(
            f"column {column!r} holds {kind}, Number needs numbers. "
            f"For classes write dfgen.Category({column!r})"
        )
    if pa.types.is_float16(kind):  # pyarrow 15 computes nothing with them
        values = pa.array(values.to_numpy(zero_copy_only=False).astype("f4"), from_pandas=True)
    missing = pc.indices_nonzero(pc.is_null(values, nan_is_null=True))
    if len(missing):
        raise ManifestError(
            f"column {column!r} has {len(missing):,} missing values, the first in row "
            f"{missing[0]}; drop or fill them: df = df[df[{column!r}].notna()]"
        )
    if pa.types.is_floating(kind) and dtype.kind != "f":
        raise ManifestError(f"column {column!r} holds floats, {dtype} cannot hold them")
    try:
        return cast(values.to_numpy(zero_copy_only=False), dtype)
    except OverflowError as error:
        beyond = kind == pa.uint64() and pc.max(values).as_py() >= 2**63
        wider = "float64" if dtype.kind == "f" else "uint64" if beyond else "int64"
        raise ManifestError(
            f"column {column!r} {error}: write dfgen.Number({column!r}, dtype={wider!r})"
        ) from None


@dataclass(frozen=True)
class Category:
    """Class numbers of a column of classes.

    Args:
        column: a categorical, text, boolean or integer column without nulls.
        label_mode: `"int"` (default) gives int32 of shape (); `"categorical"` one-hot float32 of
            shape (classes,); `"binary"` float32 of shape (1,), for two classes.
        class_names: the classes in the order of their numbers. None (default) takes the
            categories of a categorical column, else the sorted distinct values of the frame.

    Raises:
        ArgumentError: an unknown label_mode, or class names that repeat.

    Example:
        >>> Category("kind", class_names=["cat", "dog"])({"kind": "dog"})
        array(1, dtype=int32)
    """

    column: str
    label_mode: str = "int"
    class_names: tuple[object, ...] | None = None
    kind: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        one_of("label_mode", self.label_mode, LABEL_MODES)
        if self.class_names is None:
            return
        names = in_order(self.class_names)
        if not all(isinstance(name, Hashable) for name in names):
            raise ArgumentError(_no_classes(self.column, listed(names)))
        if not names or len(set(names)) < len(names):
            raise ArgumentError(f"class_names must be distinct names, got {self.class_names!r}")
        if self.label_mode == "binary" and len(names) != 2:
            raise ArgumentError(
                f'label_mode="binary" needs two classes, column {self.column!r} has '
                f'{len(names)}: {listed(names)}. Use label_mode="int" or "categorical"'
            )
        object.__setattr__(self, "class_names", names)

    def encode(self, values: pa.Array) -> Values:
        """Return the class number of every row.

        Raises:
            ManifestError: nulls, or values that are no class name.
        """
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        if isinstance(kind, pa.BaseExtensionType) or pa.types.is_nested(kind):
            raise ManifestError(_no_classes(self.column, str(kind)))
        values = values.cast(kind)
        if values.null_count:
            raise ManifestError(
                f"column {self.column!r} has {values.null_count:,} rows without a class; drop "
                f"them: df = df[df[{self.column!r}].notna()]"
            )
        codes = pc.index_in(values, value_set=_names(self, values.type))
        if codes.null_count:
            stray = pc.unique(values.filter(codes.is_null())).to_pylist()
            raise ManifestError(
                f"column {self.column!r} holds {listed(stray)} ({codes.null_count:,} in all), not "
                f"among its class names: {listed(self.class_names or ())}"
            )
        encoded: Values = codes.to_numpy(zero_copy_only=False).astype(np.int32)
        return encoded

    def gather(self, values: Values, rows: Rows) -> Values:
        """Return the arrays of some rows from the encoded values."""
        numbers: Values = values[rows]
        if self.label_mode == "int":
            return numbers
        if self.label_mode == "binary":
            return numbers[:, None].astype(np.float32)
        return np.eye(len(self.class_names or ()), dtype=np.float32)[numbers]

    def __call__(self, row: Mapping[str, Any]) -> Values:
        """Return the array of one row, a mapping or a pandas Series."""
        if self.class_names is None:
            raise ArgumentError(
                "one row does not tell the classes: write "
                f"Category({self.column!r}, class_names=...)"
            )
        encoded = self.encode(pa.array([_scalar(row, self.column)], from_pandas=True))
        return np.asarray(self.gather(encoded, np.arange(1))[0])


def _no_classes(column: str, held: str) -> str:
    return (
        f"column {column!r} holds {held}, Category needs text, numbers or booleans: "
        f"df[{column!r}] = df[{column!r}].astype(str).astype('category')"
    )


def _names(feature: Category, type: pa.DataType) -> pa.Array:
    try:
        return pa.array(feature.class_names, type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        raise ManifestError(
            f"class_names of column {feature.column!r} are {listed(feature.class_names or ())}, "
            f"but the column holds {type}: give names of that type"
        ) from None


def _scalar(row: Mapping[str, Any], column: str) -> object:
    value = row[column]
    return value.item() if isinstance(value, np.generic) else value
