"""One batch of all rows of a frame, in their order, as NumPy arrays."""

import keras
import numpy as np

import dfgen


def batch_of(df, x="path", y=None, **options):
    """Return (x,), (x, y) or (x, y, weights)."""
    given = {"batch_size": len(df), "shuffle": False, "workers": 0, **options}
    if y is None:
        given.setdefault("label_mode", None)
    with dfgen.Sequence(df, x, y, **given) as seq:
        return keras.tree.map_structure(np.asarray, seq[0])


def x_of(df, x="path", **options):
    return batch_of(df, x, **options)[0]


def equal(found, expected):
    """Assert that two nested structures of arrays are equal, dtypes too."""
    keras.tree.assert_same_structure(found, expected)
    for one, other in zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True):
        np.testing.assert_array_equal(one, other, strict=True)
