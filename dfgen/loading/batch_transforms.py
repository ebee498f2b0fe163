"""The user's transform of a batch: one trial tells what it makes, and every batch keeps to it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import TransformError
from dfgen.loading.buffers import BatchArrays
from dfgen.loading.generators import batch_rng
from dfgen.samples.reader import SampleReader
from dfgen.samples.transforms import check_keys, fits
from dfgen.samples.user_functions import check_transform, run
from dfgen.spec import Spec

BatchTransform = Callable[[BatchArrays, np.random.Generator], BatchArrays]


@dataclass(frozen=True)
class TriedTransform:
    """A batch transform, and what it gives back."""

    function: BatchTransform
    specs: dict[str, Spec]  # name -> shape and dtype of one sample, afterwards
    row_bytes: int  # of one sample's arrays at their largest, afterwards

    def __call__(self, arrays: BatchArrays, rng: np.random.Generator, where: str) -> BatchArrays:
        """Return a batch transformed, or refuse what is something else than at the trial."""
        found = _run(self.function, arrays, rng, where)
        size = len(next(iter(arrays.values())))
        for name, spec in self.specs.items():
            value, shape = found[name], (size, *spec.shape)
            if not fits(value.shape, shape) or value.dtype != spec.dtype:
                raise TransformError(
                    f"{where}: the batch_transform returned {name!r} as {value.dtype} of shape "
                    f"{value.shape}, expected {spec.dtype} of shape {shape}, as it returned when "
                    "it was tried before training"
                )
        return found


def tried(
    function: BatchTransform, reader: SampleReader, largest: Mapping[str, Spec], size: int
) -> TriedTransform:
    """Try a transform on a batch whose files are blank, so that none need be read.

    If batches differ in size it is tried on two sizes, and what differs then depends on them.
    `largest` is what one sample is at its largest, and `size` the samples of the batch.
    """
    check_transform("batch_transform", function, "batch")
    found = _trial(function, reader, largest, size)
    shapes = {name: array.shape[1:] for name, array in found.items()}
    if reader.padding.sizes:
        other = _trial(function, reader, _larger(reader.specs, largest), size)
        shapes = {name: _common(shape, other[name].shape[1:]) for name, shape in shapes.items()}
    specs = {name: Spec(shapes[name], found[name].dtype) for name in reader.specs}
    return TriedTransform(function, specs, sum(array.nbytes for array in found.values()) // size)


def _trial(
    function: BatchTransform, reader: SampleReader, specs: Mapping[str, Spec], size: int
) -> BatchArrays:
    arrays = {
        name: np.full((size, *spec.shape), spec.blank, spec.dtype) for name, spec in specs.items()
    }
    reader.gather(np.arange(size), arrays)
    where = "trying it before training, on the labels of the first rows and blank images"
    with np.errstate(all="ignore"):  # the mean of nothing, a deviation of 0
        found = _run(function, arrays, batch_rng(0, 0, 0), where)
    for name, value in found.items():
        if value.shape[:1] != (size,):
            raise TransformError(
                f"{where}: the batch_transform returned {name!r} of shape {value.shape}, expected "
                f"{size} samples, ({size}, ...)"
            )
    return found


def _larger(specs: Mapping[str, Spec], largest: Mapping[str, Spec]) -> dict[str, Spec]:
    """Return what is larger still, where it may be of any size."""

    def shape(name: str) -> tuple[int, ...]:
        pairs = zip(specs[name].shape, largest[name].shape, strict=True)
        return tuple(known + min(known, 32) * (given is None) for given, known in pairs)

    return {name: replace(spec, shape=shape(name)) for name, spec in specs.items()}


def _common(ones: tuple[int, ...], others: tuple[int, ...]) -> tuple[int | None, ...]:
    if len(ones) != len(others):
        return ones
    return tuple(one if one == other else None for one, other in zip(ones, others, strict=True))


def _run(function: BatchTransform, arrays: BatchArrays, rng: Any, where: str) -> BatchArrays:
    who = f"{where}: the batch_transform"
    result = run(who, TransformError, function, dict(arrays), rng)
    check_keys(who, "batch", result, arrays)
    return {name: _array(name, value, arrays[name], where) for name, value in result.items()}


def _array(name: str, value: Any, given: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Return an array that every backend can take: in one piece, and writable."""
    try:
        array = np.require(value, requirements=["C", "W", "E"])
    except Exception as error:  # such as of tensors on a GPU
        raise TransformError(
            f"{where}: the batch_transform returned {name!r}, which is no array: {error}"
        ) from error
    if array.dtype != given.dtype and array.dtype.kind not in "biuf":
        raise TransformError(
            f"{where}: the batch_transform returned {name!r} as {array.dtype}, expected numbers"
        )
    return array
