"""Spec: shape and dtype of the array of one sample, and arrays that are allocated by it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.errors import DecodeError

Values = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
Present = npt.NDArray[np.bool_]

Watch = Callable[..., None]
"""Callback for timing: `watch(stage, nbytes)` as a stage begins, such as `"decode"`."""


def unwatched(stage: str, nbytes: int = 0) -> None:
    """Measure nothing."""


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of one sample's array.

    Args:
        shape: None for a first length that differs from row to row, or that a transform may change.
        dtype: object for text and bytes; None where each file has its own.
        blank: the value of a row that is skipped.
        axes: of its loss, beside that of the batch; None: all of `shape` but the last.
        pixels: whether it is (height, width, channels), padded and turned as images are.
        read: what `read` fills where that is another array; `finish` makes this one of it.
        seen: what `read` fills for a transform.
    """

    shape: tuple[Any, ...]
    dtype: Any
    blank: Any = 0
    axes: int | None = field(default=None, compare=False)
    pixels: bool = field(default=False, compare=False)
    read: "Spec | None" = field(default=None, compare=False, repr=False)
    seen: "Spec | None" = field(default=None, compare=False, repr=False)

    @property
    def loss_axes(self) -> int:
        """The axes of its loss, beside that of the batch."""
        return max(0, len(self.shape) - 1) if self.axes is None else self.axes

    @property
    def own_length(self) -> bool:
        """Whether each row has a length of its own."""
        return self.shape[:1] == (None,) and not self.pixels

    def stage(self, transform: bool) -> "Spec":
        """Return what `read` fills, with a transform or without."""
        return (self.seen if transform else None) or self.read or self


class LazyArray:
    """An array of a known shape, allocated once its file has told the dtype."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.array: Values | None = None

    def of(self, dtype: Any) -> Values:
        """Return the array; allocate it at the first call."""
        if self.array is None:
            self.array = np.empty(self.shape, dtype)
        elif self.array.dtype != dtype:
            raise DecodeError(f"the file holds {dtype} where {self.array.dtype} was expected")
        return self.array


def empty(spec: Spec, size: tuple[int, ...]) -> Any:
    """Return an array of a Spec, or a LazyArray; lengths that are None are those of `size`."""
    shape = spec.shape
    if None in shape:
        shape = tuple(size[axis] if long is None else long for axis, long in enumerate(shape))
    return LazyArray(shape) if spec.dtype is None else np.empty(shape, spec.dtype)
