"""The user's transform of a sample, and what it must return."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dfgen.errors import TransformError, brief
from dfgen.samples.user_functions import run
from dfgen.spec import Spec, Values

Sample = dict[str, Values]
Transform = Callable[[Sample, np.random.Generator], Sample]


def transformed(
    transform: Transform, sample: Sample, rng: Any, changed: Mapping[str, tuple[Any, ...]]
) -> Sample:
    """Run a transform; check that it returns the same arrays, in the shapes that are expected.

    `changed`: name of an array -> its shape afterwards, where that is another.
    """
    expected = {
        name: Spec(changed.get(name, value.shape), value.dtype) for name, value in sample.items()
    }
    result = run("the transform", TransformError, transform, dict(sample), rng)
    check_keys("the transform", "sample", result, expected)
    try:
        arrays = {  # text and bytes are the objects that they are: else they would get a length
            name: np.asarray(value, object if expected[name].dtype.hasobject else None)
            for name, value in result.items()
        }
    except Exception as error:  # such as of tensors on a GPU
        raise TransformError(f"the transform returned no array: {error}") from error
    for name, spec in expected.items():
        value = arrays[name]
        if not fits(value.shape, spec.shape) or value.dtype != spec.dtype:
            raise TransformError(
                f"the transform returned {name!r} as {value.dtype} of shape {value.shape}, "
                f"expected {spec.dtype} of shape {spec.shape}: convert it, for example "
                f'sample["{name}"].astype("{spec.dtype}"); scale= comes after the transform'
            )
    return arrays


def without_blanks(array: Values, blank: Any) -> Values:
    """Return the part of an array before the rows at its end that are blank."""
    there = (array != blank).ravel().nonzero()[0]
    return array[: there[-1] * len(array) // array.size + 1] if len(there) else array[:0]


def check_keys(who: str, given: str, result: object, expected: Mapping[str, Any]) -> None:
    """Refuse a result that is no dict of the arrays that a transform was given."""
    if not isinstance(result, dict) or result.keys() != expected.keys():
        got = list(result) if isinstance(result, dict) else brief(result)
        raise TransformError(
            f"{who} returned {got}, expected a dict with the keys {list(expected)}: write "
            f'{given}["{next(iter(expected))}"] = ..., then return {given}'
        )


def fits(shape: tuple[int, ...], expected: tuple[Any, ...]) -> bool:
    """Return whether a shape is the expected one, in which None stands for any length."""
    return len(shape) == len(expected) and all(
        wanted in (None, length) for length, wanted in zip(shape, expected, strict=True)
    )
