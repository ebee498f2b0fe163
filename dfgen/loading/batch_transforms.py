"""The user's transform of a batch: tried once, and compared with that for each batch."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dfgen.errors import TransformError
from dfgen.loading.pending_batch import BatchArrays
from dfgen.loading.workers.chunks import batch_rng
from dfgen.samples.reader import SampleReader
from dfgen.samples.transforms import check_keys, check_transform, fits, run
from dfgen.spec import Spec

BatchTransform = Callable[[BatchArrays, np.random.Generator], BatchArrays]


@dataclass(frozen=True)
class TriedTransform:
    """A batch transform and the arrays that it returns."""

    function: BatchTransform
    specs: dict[str, Spec]  # of one sample, afterwards
    row_bytes: int  # of one sample, afterwards, at its largest

    def __call__(self, arrays: BatchArrays, rng: np.random.Generator, where: str) -> BatchArrays:
        """Return a transformed batch, or raise if it differs from the trial."""
        returned = _run(self.function, arrays, rng, where)
        size = len(next(iter(arrays.values())))
        for name, spec in self.specs.items():
            value, shape = returned[name], (size, *spec.shape)
            if not fits(value.shape, shape) or value.dtype != spec.dtype:
                raise TransformError(
                    f"{where}: the batch_transform returned {name!r} as {value.dtype} of shape "
                    f"{value.shape}, expected {spec.dtype} of shape {shape}, as it returned when "
                    "it was tried before training"
                )
        return returned


def tried(
    function: BatchTransform, reader: SampleReader, largest: Mapping[str, Spec], size: int
) -> TriedTransform:
    """Try a transform on a batch with blank files, so that none is read.

    If sizes differ between batches, it is tried on two sizes: lengths that then differ depend on
    them.

    Args:
        function: the transform.
        reader: of the rows.
        largest: the arrays of one sample at their largest.
        size: rows of a batch.
    """
    check_transform("batch_transform", function, "batch")
    arrays = _trial(function, reader, largest, size)
    shapes = {name: array.shape[1:] for name, array in arrays.items()}
    if reader.padding.sizes:
        larger = {
            name: replace(spec, shape=_larger(spec.shape, reader.specs[name].shape))
            for name, spec in largest.items()
        }
        for name, array in _trial(function, reader, larger, size).items():
            pairs = zip(shapes[name], array.shape[1:], strict=True)
            shapes[name] = tuple(one if one == other else None for one, other in pairs)
    specs = {name: Spec(shapes[name], arrays[name].dtype) for name in reader.specs}
    return TriedTransform(function, specs, sum(array.nbytes for array in arrays.values()) // size)


def _larger(shape: tuple[int, ...], free: tuple[int | None, ...]) -> tuple[int, ...]:
    """Return a shape whose free lengths are larger."""
    pairs = zip(shape, free, strict=True)
    return tuple(length + min(length, 32) * (own is None) for length, own in pairs)


def _trial(
    function: BatchTransform, reader: SampleReader, specs: Mapping[str, Spec], size: int
) -> BatchArrays:
    arrays = {
        name: np.full((size, *spec.shape), spec.blank, spec.dtype) for name, spec in specs.items()
    }
    reader.gather(np.arange(size), arrays)
    where = "trying it before training, on the labels of the first rows and blank images"
    with np.errstate(all="ignore"):  # the mean of nothing, a deviation of 0
        returned = _run(function, arrays, batch_rng(0, 0, 0), where)
    for name, value in returned.items():
        if value.shape[:1] != (size,):
            raise TransformError(
                f"{where}: the batch_transform returned {name!r} of shape {value.shape}, expected "
                f"{size} samples, ({size}, ...)"
            )
    return returned


def _run(function: BatchTransform, arrays: BatchArrays, rng: Any, where: str) -> BatchArrays:
    """Return arrays that every backend accepts: contiguous and writable."""
    who = f"{where}: the batch_transform"
    returned = run(who, TransformError, function, dict(arrays), rng)
    check_keys(who, "batch", returned, arrays)
    checked = {}
    for name, value in returned.items():
        try:
            array = np.require(value, requirements=["C", "W", "E"])
        except Exception as error:  # such as of tensors on a GPU
            raise TransformError(f"{who} returned {name!r}, which is no array: {error}") from error
        if array.dtype != arrays[name].dtype and array.dtype.kind not in "biuf":
            raise TransformError(f"{who} returned {name!r} as {array.dtype}, expected numbers")
        checked[name] = array
    return checked
