"""Spec: what the array of one sample is, as a feature says it, and arrays made by that."""

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
"""Is told each stage as it begins, `watch("decode", bytes_read)`, so that time can be measured."""


def unwatched(stage: str, nbytes: int = 0) -> None:
    """Measure nothing."""


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of one sample's array.

    Args:
        shape: of it; None where a transform may change a length.
        dtype: of it; object for text and bytes of any length; None where each file tells its own.
        blank: what fills it for a row that is skipped.
        axes: of its loss, beside that of the batch; None: all of `shape` but the last.
    """

    shape: tuple[Any, ...]
    dtype: Any
    blank: Any = 0
    axes: int | None = field(default=None, compare=False)

    @property
    def loss_axes(self) -> int:
        """The axes of its loss, beside that of the batch."""
        return max(0, len(self.shape) - 1) if self.axes is None else self.axes


class OwnDtype:
    """The place of an array whose dtype its file tells.

    Args:
        shape: of it.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.array: Values | None = None

    def of(self, dtype: Any) -> Values:
        """Return the array, made when it is first asked for."""
        if self.array is None:
            self.array = np.empty(self.shape, dtype)
        elif self.array.dtype != dtype:
            raise DecodeError(
                f"the files of this row are of different depths: {self.array.dtype} and {dtype}"
            )
        return self.array


def each(given: Any) -> tuple[Any, ...]:
    """Return what a feature says of its one array, or of several, as a tuple."""
    return given if isinstance(given, tuple) else (given,)


def alone(several: Any) -> Any:
    """Return what is in a tuple or list of one; several as they are."""
    return several[0] if len(several) == 1 else several


def empty(spec: Spec, size: tuple[int, ...]) -> Any:
    """Return an array of a Spec, or its OwnDtype; lengths that are None are those of `size`."""
    shape = spec.shape
    if None in shape:
        shape = tuple(size[axis] if long is None else long for axis, long in enumerate(shape))
    return OwnDtype(shape) if spec.dtype is None else np.empty(shape, spec.dtype)


def filled(given: Any) -> Any:
    """Return what `read` has filled: the array that is in an OwnDtype by now, or the one it got."""
    return given.array if isinstance(given, OwnDtype) else given
