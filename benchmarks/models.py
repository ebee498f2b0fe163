"""A model that does nothing, and batches that are ready."""

import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

ALIGNMENT = 64  # bytes; tf.data copies arrays that are not aligned


class Idle(keras.Model):  # type: ignore[misc]
    """Takes batches and does nothing with them."""

    def train_step(self, *given: Any) -> Any:
        if keras.backend.backend() == "jax":
            return {"loss": 0.0}, given[0]
        return {"loss": 0.0}


def idle_model() -> keras.Model:
    model = Idle()
    model.built = True
    model.compile(jit_compile=False)
    return model


def ready_dataset(batches: int, shape: tuple[int, ...]) -> Any:
    """Return a tf.data.Dataset of one aligned array, repeated: a lower bound of the hand-over."""
    import tensorflow as tf

    size = int(np.prod(shape))
    memory = np.empty(size + ALIGNMENT, np.uint8)
    memory[...] = 0  # touch each page: otherwise all would map to the same page of zeros
    start = -memory.ctypes.data % ALIGNMENT
    images = memory[start : start + size].reshape(shape)

    def generate() -> Iterator[Any]:
        for _ in range(batches):
            yield (images,)

    warnings.filterwarnings("ignore", "`shuffle=True` was passed")
    signature = (tf.TensorSpec((None, *shape[1:]), tf.uint8),)
    data = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return data.apply(tf.data.experimental.assert_cardinality(batches)).prefetch(2)
