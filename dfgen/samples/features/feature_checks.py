"""Checks of the arguments of features, and lossless casts of numbers."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from dfgen.errors import ArgumentError, DecodeError, brief, one_of
from dfgen.samples.transforms import name_of, run
from dfgen.spec import Spec, Values


def set_fields(feature: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(feature, name, value)


def column_names(columns: object) -> tuple[str, ...]:
    """Return the names of one column or of several different ones."""
    names: Any = (columns,) if isinstance(columns, str) else columns
    is_names = isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)
    if not is_names or not names or len({*names}) < len(names):
        raise ArgumentError(f"expected a column or a list of different ones, got {brief(columns)}")
    return tuple(names)


def check_column(feature: Any) -> None:
    """Check the arguments that features of one column have in common."""
    if not isinstance(feature.column, str):
        kind = type(feature).__name__
        raise ArgumentError(
            f"{kind} needs the name of a column, got {brief(feature.column)}: write "
            f'dfgen.{kind}("column", ...)'
        )
    one_of("missing", feature.missing, ("raise", "ignore"))
    if feature.class_names is not None:
        set_fields(feature, class_names=class_names_in_order(feature.class_names))
    if getattr(feature, "dataset", None) is not None and feature.index is None:
        raise ArgumentError('dataset= is for rows of HDF5 files: give their column, index="index"')


def checked_shape(shape: Any) -> tuple[int | None, ...]:
    """Return a shape as a tuple of int; the first length may be None."""
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (0,)
    rest = sizes[1:] if sizes[:1] == (None,) else sizes
    if not all(isinstance(size, int | np.integer) and size > 0 for size in rest):
        raise ArgumentError(f"shape must be a tuple of positive integers, got {brief(shape)}")
    return (*sizes[: len(sizes) - len(rest)], *map(int, rest))


def check_padding_mask(feature: Any, instead: str) -> None:
    """Raise if arrays with a `padding_mask` all have one length."""
    if feature.padding_mask and not feature.spec.own_length:
        raise ArgumentError(f"padding_mask=True needs arrays of unequal length, {instead}")


def number_dtype(dtype: object) -> str:
    """Return the name of a NumPy dtype of numbers."""
    with suppress(TypeError):
        if np.dtype(dtype).kind in "biuf":  # type: ignore[call-overload]
            return str(np.dtype(dtype).name)  # type: ignore[call-overload]
    raise ArgumentError(f'dtype must be a NumPy dtype of numbers like "float32", got {dtype!r}')


def class_names_in_order(class_names: Any) -> tuple[object, ...]:
    """Return class names as a tuple; raise unless they are ordered, hashable and different."""
    unordered = isinstance(class_names, str | set | frozenset | Mapping)
    names = () if unordered or not isinstance(class_names, Iterable) else tuple(class_names)
    hashable = all(isinstance(name, Hashable) for name in names)
    if not names or not hashable or len({*names}) < len(names):
        raise ArgumentError(
            "class_names must be a list of different names in the order of the class indices, like "
            f'["cat", "dog"], got {brief(class_names)}'
        )
    return names


def number_spec(shape: tuple[int | None, ...], dtype: str) -> Spec:
    """Return the Spec of an array of numbers; integers may be classes, with one loss each."""
    return Spec(shape, np.dtype(dtype), axes=len(shape) if np.dtype(dtype).kind in "iu" else None)


def can_cast(dtype: Any, wanted: Any) -> bool:
    """Whether a dtype may be cast to another: never floats to integers."""
    integers = dtype.kind in "iu" and wanted.kind in "iu"  # `cast` checks the range
    return integers or np.can_cast(dtype, wanted, "same_kind")


def cast(numbers: Values, dtype: np.dtype[Any]) -> Values:
    """Return the numbers as `dtype`, rounded to its precision; OverflowError beyond its range."""
    if np.can_cast(numbers.dtype, dtype):
        return numbers.astype(dtype, copy=False)
    with np.errstate(all="ignore"):  # the user's numpy.seterr may raise
        result: Values = numbers.astype(dtype)
    if result.dtype.kind == "f":
        fits = bool((np.isfinite(result) | ~np.isfinite(numbers)).all())
    else:
        fits = numbers.dtype.kind == "b" or bool((result == numbers).all())
    if not fits:
        low, high = np.nanmin(numbers), np.nanmax(numbers)
        raise OverflowError(f"holds {low} to {high}, more than {dtype} can hold")
    return result


def fill(what: str, array: Values, out: Values) -> None:
    """Fill `out` with an array; DecodeError if the shape or the dtype does not fit."""
    if array.shape != out.shape:
        raise DecodeError(f"{what} has shape {array.shape}, expected {out.shape}")
    if not can_cast(array.dtype, out.dtype):
        raise DecodeError(f"{what} is {array.dtype}, which {out.dtype} cannot hold")
    try:
        out[...] = cast(array, out.dtype)
    except OverflowError as error:
        raise DecodeError(f"{what} {error}") from None


def fill_by(what: str, function: Callable[..., Any], values: Any, out: Values) -> None:
    """Fill `out` with the array that a user's function returns."""
    who = f"{what}: {name_of(function)}"
    array = numbers_of(who, run(who, DecodeError, function, *values))
    if array.size or out.size:  # np.asarray([]) is float64 of shape (0,)
        fill(f"{who} returned an array that", array, out)


def numbers_of(who: str, returned: Any) -> Values:
    """Return the result of a user's function as an array of numbers."""
    array: Values = run(f"{who}, then np.asarray", DecodeError, np.asarray, returned)
    if array.dtype.hasobject:
        raise DecodeError(f"{who} returned {type(returned).__name__}, expected numbers")
    return array
