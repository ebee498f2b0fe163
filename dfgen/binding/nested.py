"""Trees: how x and y are nested."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dfgen.samples.features.base import Feature

Tree = Any
"""One leaf, a list of leaves, or a dict of leaves."""


def leaves(tree: Tree) -> Iterator[Any]:
    """Return the leaves of a tree in order."""
    if isinstance(tree, Mapping):
        yield from tree.values()
    elif isinstance(tree, list | tuple):
        yield from tree
    elif tree is not None:
        yield tree


def map_leaves(function: Callable[[Any], Any], tree: Tree) -> Tree:
    """Return the tree with each leaf replaced; lists become tuples, as TensorFlow needs."""
    if isinstance(tree, Mapping):
        return {key: function(leaf) for key, leaf in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(function(leaf) for leaf in tree)
    return None if tree is None else function(tree)


def tree_of(tree: Tree, of: Callable[[str], Any]) -> Tree:
    """Return a tree of trees of names with the names replaced.

    No function within another one that calls itself: such a one is a cycle, which would keep the
    arrays of a batch until Python looks for garbage.
    """
    return of(tree) if isinstance(tree, str) else map_leaves(partial(tree_of, of=of), tree)


def channels_first(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return (..., height, width, channels) as (..., channels, height, width), in one piece."""
    return np.ascontiguousarray(np.moveaxis(array, -1, -3))


def leaf_names(x: Tree, y: Tree) -> tuple[Tree, Tree]:
    """Return both trees with features replaced by names: a dict's key, else the kind.

    Kinds that occur more than once are numbered: `image_0`, `image_1`.
    """
    plain = [f.kind for tree in (x, y) if not isinstance(tree, Mapping) for f in leaves(tree)]
    seen: Counter[str] = Counter()

    def name(feature: Feature) -> str:
        kind = feature.kind
        seen[kind] += 1
        return kind if plain.count(kind) == 1 else f"{kind}_{seen[kind] - 1}"

    named = [
        {key: key for key in tree} if isinstance(tree, Mapping) else map_leaves(name, tree)
        for tree in (x, y)
    ]
    return named[0], named[1]
