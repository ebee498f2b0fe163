"""The user's transform of a sample, and what it must give back."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dfgen.errors import TransformError
from dfgen.samples.features.spec import Spec, Values

Sample = dict[str, Values]
Transform = Callable[[Sample, np.random.Generator], Sample]


def transformed(
    transform: Transform, sample: Sample, rng: Any, changed: Mapping[str, tuple[Any, ...]]
) -> Sample:
    """Run a transform, and check that it gives back what it was given, in shapes it was told.

    Args:
        transform: the user's.
        sample: what it gets.
        rng: of the sample.
        changed: name of an array -> its shape afterwards, where that is another.

    Raises:
        TransformError: it raised, or returned something else.
    """
    expected = {
        name: Spec(changed.get(name, value.shape), value.dtype) for name, value in sample.items()
    }
    try:
        result = transform(dict(sample), rng)
    except Exception as error:
        raise TransformError(f"the transform raised {type(error).__name__}: {error}") from error
    if not isinstance(result, dict) or result.keys() != expected.keys():
        got = list(result) if isinstance(result, dict) else type(result).__name__
        raise TransformError(
            f"the transform returned {got}, expected a dict with the keys {list(expected)}"
        )
    try:
        arrays = {  # text and bytes are the objects that they are: else they would get a length
            name: np.asarray(value, object if expected[name].dtype.hasobject else None)
            for name, value in result.items()
        }
    except ValueError as error:
        raise TransformError(f"the transform returned what is no array: {error}") from error
    for name, spec in expected.items():
        value = arrays[name]
        if not fits(value.shape, spec.shape) or value.dtype != spec.dtype:
            raise TransformError(
                f"the transform returned {name!r} as {value.dtype} of shape {value.shape}, "
                f"expected {spec.dtype} of shape {spec.shape}"
            )
    return arrays


def fits(shape: tuple[int, ...], expected: tuple[Any, ...]) -> bool:
    """Return whether a shape is the expected one, in which None stands for any length."""
    return shape == expected or (
        len(shape) == len(expected)
        and all(wanted in (None, length) for length, wanted in zip(shape, expected, strict=True))
    )
