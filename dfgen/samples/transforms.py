"""The user's transform of a sample, and what it must give back."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dfgen.errors import TransformError, brief
from dfgen.samples.user_functions import is_ctrl_c, raised, with_own_lines
from dfgen.spec import Spec, Values

Sample = dict[str, Values]
Transform = Callable[[Sample, np.random.Generator], Sample]


def transformed(
    transform: Transform, sample: Sample, rng: Any, changed: Mapping[str, tuple[Any, ...]]
) -> Sample:
    """Run a transform, and check that it gives back what it was given, in shapes it was told.

    `changed`: name of an array -> its shape afterwards, where that is another.

    Raises:
        TransformError: it raised, or returned something else.
    """
    expected = {
        name: Spec(changed.get(name, value.shape), value.dtype) for name, value in sample.items()
    }
    try:
        result = transform(dict(sample), rng)
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise with_own_lines(TransformError(f"the transform {raised(error)}"), error) from error
    check_keys("the transform", "sample", result, expected)
    try:
        arrays = {  # text and bytes are the objects that they are: else they would get a length
            name: np.asarray(value, object if expected[name].dtype.hasobject else None)
            for name, value in result.items()
        }
    except Exception as error:  # such as of tensors on a GPU
        raise TransformError(f"the transform returned what is no array: {error}") from error
    for name, spec in expected.items():
        value = arrays[name]
        if not fits(value.shape, spec.shape) or value.dtype != spec.dtype:
            raise TransformError(
                f"the transform returned {name!r} as {value.dtype} of shape {value.shape}, "
                f"expected {spec.dtype} of shape {spec.shape}{_advice(name, value, spec)}"
            )
    return arrays


def check_keys(who: str, given: str, result: object, expected: Mapping[str, Any]) -> None:
    """Refuse what is not a dict of the arrays that a transform was given."""
    if not isinstance(result, dict) or result.keys() != expected.keys():
        got = list(result) if isinstance(result, dict) else brief(result)
        raise TransformError(
            f"{who} returned {got}, expected a dict with the keys {list(expected)}: write "
            f'{given}["{next(iter(expected))}"] = ..., then return {given}'
        )


def _advice(name: str, value: Values, spec: Spec) -> str:
    if value.dtype.hasobject or spec.dtype.hasobject:
        return ""
    if value.ndim == 3 == len(spec.shape) and fits(value.shape[1:] + value.shape[:1], spec.shape):
        return f': its channels come last, sample["{name}"] = {name}.transpose(1, 2, 0)'
    if not fits(value.shape, spec.shape):
        crops = len(spec.shape) > 2
        return ". A transform may crop with dfgen.Image(size=..., load_size=...)" if crops else ""
    clipped = name if spec.dtype.kind != "u" else f"np.clip({name}, 0, {np.iinfo(spec.dtype).max})"
    after = ", scale= comes afterwards" if spec.dtype.kind == "u" else ""
    return f': write sample["{name}"] = {clipped}.astype(np.{spec.dtype}){after}'


def fits(shape: tuple[int, ...], expected: tuple[Any, ...]) -> bool:
    """Return whether a shape is the expected one, in which None stands for any length."""
    return shape == expected or (
        len(shape) == len(expected)
        and all(wanted in (None, length) for length, wanted in zip(shape, expected, strict=True))
    )
