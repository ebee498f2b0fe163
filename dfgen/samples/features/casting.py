"""Casting of numbers to a dtype, which never loses more than precision."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dfgen.errors import DecodeError, is_outside
from dfgen.samples.user_functions import called, is_ctrl_c, raised, with_own_lines
from dfgen.spec import Spec, Values


def number_spec(shape: tuple[int | None, ...], dtype: str) -> Spec:
    """Return the Spec of an array of numbers, of which whole ones may each be a class.

    A loss of its own is then at each; if they are none, Keras drops an axis of weights too many.
    """
    known = np.dtype(dtype)
    return Spec(shape, known, axes=len(shape) if known.kind in "iu" else None)


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
    whole = array.dtype.kind in "iu" and out.dtype.kind in "iu"  # whose range `cast` looks at
    if not whole and not np.can_cast(array.dtype, out.dtype, "same_kind"):
        raise DecodeError(f"{what} is {array.dtype}, which {out.dtype} cannot hold")
    try:
        out[...] = cast(array, out.dtype)
    except OverflowError as error:
        raise DecodeError(f"{what} {error}") from None


def fill_by(what: str, function: Callable[..., Any], values: Any, out: Values) -> None:
    """Fill `out` with what a function of the user's returns for some values."""
    what = f"{what}: {getattr(function, '__qualname__', repr(function))}"
    array = returned_by(what, function, values)
    if array.size == out.size == 0:  # NumPy makes floats of [], without further axes
        return
    if array.shape != out.shape:
        raise DecodeError(
            f"{what} returned an array that has shape {array.shape}, expected {out.shape}: give "
            f"the feature the shape of what it returns, shape={array.shape}"
        )
    fill(f"{what} returned an array that", array, out)


def returned_by(what: str, function: Callable[..., Any], values: Any) -> Values:
    """Return the numbers that a function of the user's returns, as an array."""
    try:
        returned = called(function, *values)
        array = np.asarray(returned)
    except BaseException as error:
        if is_ctrl_c(error) or is_outside(error):
            raise
        raise with_own_lines(DecodeError(f"{what} {raised(error)}"), error) from error
    if array.dtype.hasobject:
        raise DecodeError(f"{what} returned {type(returned).__name__}, expected numbers")
    return array
