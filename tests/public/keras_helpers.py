"""Small Sequences, models and callbacks that the tests of Keras share."""

import keras
import numpy as np

import dfgen
from public.watching import BACKEND

EAGER = BACKEND != "torch"  # compiling takes longer than a few eager steps
SPARSE = keras.losses.SparseCategoricalCrossentropy


def sequence(df, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, "y": "label", **options}
    return dfgen.Sequence(df, **options)


def numbers(df, y, **options):
    """Return a Sequence of the columns a and b, in order."""
    options = {"batch_size": 4, "shuffle": False, "workers": 0, **options}
    return dfgen.Sequence(df, dfgen.Number(["a", "b"]), y, **options)


def rows_of(x):
    """Return the row numbers of a batch of the fixture `files`."""
    return [int(row) for row in np.asarray(x)[:, 0, 0, 0]]


def weights_of(model):
    return [np.array(keras.ops.convert_to_numpy(weight)) for weight in model.weights]


def assert_close(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
