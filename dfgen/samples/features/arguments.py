"""Arguments of features, checked."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import ArgumentError, brief
from dfgen.system import one_of


def column_names(given: object) -> tuple[str, ...]:
    """Return the names of one or several columns, or refuse what is none."""
    names = (given,) if isinstance(given, str) else given
    if (
        not isinstance(names, tuple | list)
        or not names
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
    ):
        named = series_name(given)
        advice = f': write "{named}"' if named else ""
        raise ArgumentError(
            "expected the name of a column, or a list of different names, got "
            f"{brief(given)}{advice}"
        )
    return tuple(names)


def check_column(feature: Any) -> None:
    """Refuse a feature of one column without its name, or a `missing` or `dataset` for nothing."""
    if not isinstance(feature.column, str):
        kind, given = type(feature).__name__, feature.column
        advice = series_name(given) or "column"
        raise ArgumentError(
            f"{kind} needs the name of a column, got {brief(given)}: write "
            f'dfgen.{kind}("{advice}", ...)'
        )
    checked_missing(feature.missing)
    index = getattr(feature, "index", None)
    if not isinstance(index, str | None):
        raise ArgumentError(f"index must be the name of a column, got {brief(index)}")
    dataset = getattr(feature, "dataset", None)
    if dataset is not None and feature.index is None:
        raise ArgumentError(
            f'dataset={dataset!r} is for rows of HDF5 files: name their column, as in index="index"'
        )


def lacks_class_names(feature: Any) -> bool:
    """Whether a feature has a field `class_names` that is not filled yet."""
    its_fields = getattr(feature, "__dataclass_fields__", ())  # a plain class has none
    return feature.class_names is None and "class_names" in its_fields


def series_name(value: Any) -> str | None:
    """Return the name of the column that a pandas Series was, else None."""
    name = getattr(value, "name", None)
    return name if isinstance(name, str) and hasattr(value, "dtype") else None


def checked_shape(shape: object) -> tuple[int, ...]:
    """Return the shape of an array as plain numbers, or refuse what is none."""
    if not isinstance(shape, tuple | list) or not all(
        isinstance(size, int | np.integer) and size > 0 for size in shape
    ):
        meant = f": write shape=({shape},)" if isinstance(shape, int | np.integer) else ""
        raise ArgumentError(
            f"shape must be a tuple of positive integers, got {brief(shape)}{meant}"
        )
    return tuple(int(size) for size in shape)


def checked_missing(missing: object) -> None:
    """Refuse what is no answer to labels that are missing."""
    one_of("missing", missing, ("raise", "ignore"))


def number_dtype(dtype: object) -> str:
    """Return the name of a NumPy dtype of numbers, or refuse it."""
    try:
        known = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        known = np.dtype(object)
    if known.kind not in "biuf":
        raise ArgumentError(f'dtype must be a NumPy dtype of numbers as "float32", got {dtype!r}')
    return str(known.name)


def probabilities(predictions: Any) -> npt.NDArray[Any]:
    """Return predictions as an array, or refuse what are no probabilities."""
    array = np.asarray(predictions)
    if array.size and not (array.min() >= 0 and array.max() <= 1):  # NaN is neither
        raise ArgumentError(
            f"predictions go from {array.min():g} to {array.max():g}, expected probabilities from "
            "0 to 1: of logits take keras.ops.sigmoid first"
        )
    return array


def not_predicted(column: str, predictions: npt.NDArray[Any], expected: str) -> ArgumentError:
    """Return the error of predictions of another shape than a model of these classes gives."""
    shape = predictions.shape
    return ArgumentError(
        f"predictions of {column!r} have the shape {shape}, expected rows and {expected}"
    )


def class_names_in_order(class_names: Any) -> tuple[object, ...]:
    """Return class names as a tuple; refuse what has no order, or is no names."""
    if isinstance(class_names, set | frozenset | Mapping):
        write = "sorted(class_names)"
        if isinstance(class_names, Mapping):
            write = "its names as a list, in the order of their numbers"
        raise ArgumentError(
            "class_names must be a list, whose order gives the classes their numbers, got "
            f"{brief(class_names)}: write {write}"
        )
    if isinstance(class_names, str) or not isinstance(class_names, Iterable):
        raise ArgumentError(
            f"class_names must be distinct names, got {brief(class_names)}: write "
            'class_names=["cat", "dog"], in the order of their numbers'
        )
    return tuple(class_names)
