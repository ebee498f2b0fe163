"""Trees: the nesting of x and y."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

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
