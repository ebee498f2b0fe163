"""Specs: shape and dtype of one sample's array; and the nesting of the arrays of a batch."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
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
        shape: the first length is None if it differs between rows or a transform may change it.
        dtype: object for text and bytes; None if every file has its own.
        blank: the value of missing rows and of padding.
        axes: axes of its loss without the batch; None: all of `shape` but the last.
        pixels: whether it is (height, width, channels) of an image.
        read: the array that `read` fills, if `finish` converts it to this one.
        seen: the array that `read` fills for a transform, likewise.
    """

    shape: tuple[Any, ...]
    dtype: Any
    blank: Any = 0
    axes: int | None = field(default=None, compare=False)
    pixels: bool = field(default=False, compare=False)
    read: "Spec | None" = field(default=None, compare=False, repr=False)
    seen: "Spec | None" = field(default=None, compare=False, repr=False)

    @property
    def own_length(self) -> bool:
        """Whether rows have different lengths."""
        return self.shape[:1] == (None,) and not self.pixels

    def stage(self, transform: bool) -> "Spec":
        """Return the Spec of the array that `read` fills, with a transform or without."""
        return (self.seen if transform else None) or self.read or self


class LazyArray:
    """An array of a known shape that is allocated once the dtype of the file is known."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.array: Values | None = None

    def of(self, dtype: Any) -> Values:
        """Return the array, allocated at the first call."""
        if self.array is None:
            self.array = np.empty(self.shape, dtype)
        elif self.array.dtype != dtype:
            raise DecodeError(f"the file holds {dtype} where {self.array.dtype} was expected")
        return self.array


def empty(spec: Spec, size: tuple[int, ...]) -> Any:
    """Return an array or LazyArray of a Spec; lengths that are None come from `size`."""
    shape = spec.shape
    if None in shape:
        shape = tuple(size[axis] if length is None else length for axis, length in enumerate(shape))
    return LazyArray(shape) if spec.dtype is None else np.empty(shape, spec.dtype)


Tree = Any
"""One leaf, a list of leaves, or a dict of leaves."""


def leaves(tree: Tree) -> Iterator[Any]:
    """Yield the leaves of a tree in order."""
    if isinstance(tree, Mapping):
        yield from tree.values()
    elif isinstance(tree, list | tuple):
        yield from tree
    elif tree is not None:
        yield tree


def map_leaves(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """Return a tree with each leaf replaced; lists become tuples, as TensorFlow needs."""
    if isinstance(tree, Mapping):
        return {key: function(leaf) for key, leaf in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(function(leaf) for leaf in tree)
    return None if tree is None else function(tree)


def tree_of(tree: Tree, of: Callable[[str], Any]) -> Tree:
    """Return a tree of trees of names with the names replaced.

    A recursive closure would be a reference cycle, which keeps the arrays of a batch until the
    next garbage collection.
    """
    return of(tree) if isinstance(tree, str) else map_leaves(partial(tree_of, of=of), tree)


def channels_first(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return (..., height, width, channels) as contiguous (..., channels, height, width)."""
    return np.ascontiguousarray(np.moveaxis(array, -1, -3))
