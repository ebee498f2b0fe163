"""The user's transform of a sample: what it must give back, and the generators it draws by."""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

from dfgen.errors import TransformError, brief
from dfgen.samples.user_functions import called, is_ctrl_c, raised, with_own_lines
from dfgen.spec import Spec, Values

Sample = dict[str, Values]
Transform = Callable[[Sample, np.random.Generator], Sample]


def transformed(
    transform: Transform, sample: Sample, rng: Any, changed: Mapping[str, tuple[Any, ...]]
) -> Sample:
    """Run a transform, and check that it gives back what it was given, in shapes it was told.

    `changed`: name of an array -> its shape afterwards, where that is another.
    """
    expected = {
        name: Spec(changed.get(name, value.shape), value.dtype) for name, value in sample.items()
    }
    try:
        result = called(transform, dict(sample), rng)
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
        raise TransformError(f"the transform returned no array: {error}") from error
    for name, spec in expected.items():
        value = arrays[name]
        if not fits(value.shape, spec.shape) or value.dtype != spec.dtype:
            raise TransformError(
                f"the transform returned {name!r} as {value.dtype} of shape {value.shape}, "
                f"expected {spec.dtype} of shape {spec.shape}{_advice(name, value, spec)}"
            )
    return arrays


def without_blanks(array: Values, blank: Any) -> Values:
    """Return the part of an array before the rows at its end that are blank."""
    there = (array != blank).ravel().nonzero()[0]
    return array[: there[-1] * len(array) // array.size + 1] if len(there) else array[:0]


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


def sample_rng(seed: int, epoch: int, id: object, k: int = 0) -> np.random.Generator:
    """Return the random generator of one sample, the same in whichever worker makes it.

    Use it for a sample's transform: 5 microseconds a call. It has no `spawn`. Its key is the first
    16 bytes of BLAKE2b-512 of the text "dfgen/rng/1|{seed}|{epoch}|{id}|{k}", read as a
    little-endian integer (to Philox: two little-endian uint64). NumPy promises the bits of Philox
    for good, the methods of a Generator for one version of NumPy. The `id` counts as its text, so 7
    is "7"; `k` is how often the row came before in this epoch.

    Example:
        >>> sample_rng(0, 0, "cat-1").random() == sample_rng(0, 0, "cat-1").random()
        True
    """
    key = _Key(_digest(f"dfgen/rng/1|{seed}|{epoch}|{id}|{k}"))
    return np.random.Generator(np.random.Philox(key))  # type: ignore[arg-type]


def batch_rng(seed: int, epoch: int, step: int, host: int = 0) -> np.random.Generator:
    """Return the random generator of one batch of one host, the same in whichever thread.

    As that of a sample, with the text "dfgen/batch-rng/1|{seed}|{epoch}|{step}|{host}".

    Example:
        >>> batch_rng(0, 1, 2).random() == batch_rng(0, 1, 2).random()
        True
    """
    digest = _digest(f"dfgen/batch-rng/1|{seed}|{epoch}|{step}|{host}")
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


def _digest(text: str) -> bytes:
    return blake2b(text.encode()).digest()[:16]


class _Key(ISeedSequence):
    """Gives a Philox its key; with `Philox(key=...)` entropy is drawn first, for nothing."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def generate_state(self, n_words: int, dtype: Any = np.uint64) -> Any:
        return np.frombuffer(self.key, "<u8", n_words).astype(dtype)
