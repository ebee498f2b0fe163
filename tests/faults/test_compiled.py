"""Models and functions of the user's that a framework compiles, fed by dfgen."""

import keras
import numpy as np
import pytest

import dfgen

BACKEND = keras.backend.backend()
ROWS = 24
pytestmark = pytest.mark.backend


def compiled(function):
    """The function, compiled by the framework of Keras."""
    if BACKEND == "jax":
        return pytest.importorskip("jax").jit(function)
    if BACKEND == "torch":
        import torch

        return torch.compile(function, backend="eager")  # traced, but not built by a C compiler
    import tensorflow as tf

    return tf.function(function, jit_compile=True)


def sequence(frame, **options):
    options = {"y": "label", "batch_size": 8, "image_size": (4, 4), "workers": 2, **options}
    return dfgen.Sequence(frame(ROWS), **options)


class Compiled(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self._function = compiled(lambda x: x[:, 0, 0, :])

    def call(self, x):
        return self._function(x)

    def compute_output_shape(self, shape):
        return shape[0], shape[-1]


def test_compiled_model_and_layer_get_each_row_once(frame):
    layers = [Compiled(), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((4, 4, 3)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, jit_compile=BACKEND != "torch")
    with sequence(frame) as seq:
        model.fit(seq, epochs=2, verbose=0)
        assert (seq.epoch, seq.receipt.rows) == (2, ROWS)
        assert (seq.receipt.missing, seq.receipt.repeated) == (0, 0)
    first = keras.Sequential([keras.Input((4, 4, 3)), layers[0]])
    first.compile(jit_compile=BACKEND != "torch")
    with sequence(frame, shuffle=False) as seq:
        assert first.predict(seq, verbose=0)[:, 0].tolist() == [*range(ROWS)]


def test_compiled_function_makes_batches_in_threads(frame):
    double = compiled(lambda images: images * 2)

    def transform(batch, rng):
        images = keras.ops.convert_to_tensor(batch["image"])
        return {**batch, "image": np.array(keras.ops.convert_to_numpy(double(images)))}

    with sequence(frame, batch_transform=transform, shuffle=False) as seq:
        for _ in range(2):
            found = [int(row) for x, _ in seq for row in x[:, 0, 0, 0]]
            assert found == [2 * row for row in range(ROWS)]
