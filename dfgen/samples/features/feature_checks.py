"""Arguments of features, checked, and numbers cast without loss."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from dfgen.checks import one_of
from dfgen.errors import ArgumentError, DecodeError, brief
from dfgen.samples.user_functions import name_of, run
from dfgen.spec import Spec, Values


def set_fields(feature: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(feature, name, value)


def column_names(given: object) -> tuple[str, ...]:
    """Return the names of one or several columns, or refuse what is none."""
    names = (given,) if isinstance(given, str) else given
    is_names = isinstance(names, tuple | list) and all(isinstance(name, str) for name in names)
    if not is_names or not names or len({*names}) < len(names):  # type: ignore[misc,arg-type]
        raise ArgumentError(
            f"expected the name of a column, or a list of different names, got {brief(given)}"
        )
    return tuple(names)  # type: ignore[arg-type]


def check_column(feature: Any) -> None:
    """Check `column`, `missing`, `class_names` and `dataset` of a feature of one column."""
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
        raise ArgumentError(
            f"dataset={feature.dataset!r} is for rows of HDF5 files: name the column of their "
            'numbers, index="index"'
        )


def checked_shape(shape: Any) -> tuple[int | None, ...]:
    """Return the shape of an array; its first length may be None, each row's own."""
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (0,)
    rest = sizes[1:] if sizes[:1] == (None,) else sizes
    if not all(isinstance(size, int | np.integer) and size > 0 for size in rest):
        raise ArgumentError(f"shape must be a tuple of positive integers, got {brief(shape)}")
    return (*sizes[: len(sizes) - len(rest)], *map(int, rest))


def check_padding_mask(feature: Any, instead: str) -> None:
    """Refuse a `padding_mask` of arrays that have one length."""
    if feature.padding_mask and not feature.spec.own_length:
        raise ArgumentError(
            f"padding_mask=True is for arrays of unequal length, {instead}: with one length there "
            "is no padding, leave it out"
        )


def number_dtype(dtype: object) -> str:
    """Return the name of a NumPy dtype of numbers, or refuse it."""
    try:
        known = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        known = np.dtype(object)
    if known.kind not in "biuf":
        raise ArgumentError(f'dtype must be a NumPy dtype of numbers as "float32", got {dtype!r}')
    return str(known.name)


def class_names_in_order(class_names: Any) -> tuple[object, ...]:
    """Return class names as a tuple; refuse what has no order, is no names, or repeats some."""
    unordered = isinstance(class_names, str | set | frozenset | Mapping)
    names = () if unordered or not isinstance(class_names, Iterable) else tuple(class_names)
    hashable = all(isinstance(name, Hashable) for name in names)
    if not names or not hashable or len({*names}) < len(names):
        raise ArgumentError(
            "class_names must be a list of names in the order of their numbers, such as "
            f'["cat", "dog"], got {brief(class_names)}{", of which one repeats" * bool(names)}'
        )
    return names


def number_spec(shape: tuple[int | None, ...], dtype: str) -> Spec:
    """Return the Spec of an array of numbers; whole ones may be classes, of a loss each."""
    known = np.dtype(dtype)
    return Spec(shape, known, axes=len(shape) if known.kind in "iu" else None)


def can_cast(dtype: Any, wanted: Any) -> bool:
    """Whether numbers of a dtype become another's by casting: never floats to integers."""
    whole = dtype.kind in "iu" and wanted.kind in "iu"  # whose range `cast` looks at
    return whole or np.can_cast(dtype, wanted, "same_kind")


def cast(numbers: Values, dtype: np.dtype[Any]) -> Values:
    """Return the numbers as `dtype`, rounded to its precision; OverflowError beyond its range."""
    if np.can_cast(numbers.dtype, dtype):
        return numbers.astype(dtype, copy=False)
    with np.errstate(all="ignore"):  # whatever the user has numpy.seterr raise
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
    """Fill `out` with an array of its shape, and a dtype that it can hold, else DecodeError."""
    if array.shape != out.shape:
        raise DecodeError(f"{what} has shape {array.shape}, expected {out.shape}")
    if not can_cast(array.dtype, out.dtype):
        raise DecodeError(f"{what} is {array.dtype}, which {out.dtype} cannot hold")
    try:
        out[...] = cast(array, out.dtype)
    except OverflowError as error:
        raise DecodeError(f"{what} {error}") from None


def fill_by(what: str, function: Callable[..., Any], values: Any, out: Values) -> None:
    """Fill `out` with what a function of the user returns for some values."""
    array = returned_by(what, function, values)
    if array.size or out.size:  # NumPy makes floats of [], without further axes
        fill(f"{what}: {name_of(function)} returned an array that", array, out)


def returned_by(what: str, function: Callable[..., Any], values: Any) -> Values:
    """Return the numbers that a function of the user returns, as an array."""
    who = f"{what}: {name_of(function)}"
    return numbers_of(who, run(who, DecodeError, function, *values))


def numbers_of(who: str, returned: Any) -> Values:
    """Return the numbers that a function of the user has returned, as an array."""
    kind = type(returned).__name__
    array = run(f"{who} returned {kind}, of which np.asarray", DecodeError, np.asarray, returned)
    if array.dtype.hasobject:
        raise DecodeError(f"{who} returned {kind}, expected numbers")
    return array  # type: ignore[no-any-return]
