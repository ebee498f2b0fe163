"""What Keras needs to take batches: a view of a Loader, ready ones, a model that does nothing."""

import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from dfgen.loading.buffers import Buffers
from dfgen.loading.loader import Loader
from dfgen.spec import Spec
from dfgen.training.data_adapter import Passes
from dfgen.training.layout import Layout
from dfgen.training.progress import Progress


class Idle(keras.Model):  # type: ignore[misc]
    """Takes batches and does nothing with them."""

    def train_step(self, *given: Any) -> Any:
        if keras.backend.backend() == "jax":
            return {"loss": 0.0}, given[0]
        return {"loss": 0.0}


def passes(loader: Loader) -> Passes:
    """Return what Keras sees of a Loader of pictures."""
    layout = Layout("image", None, frozenset(["image"]), weighted=False, weighing={})
    return Passes(loader, Progress(loader), layout, shuffle=True, endless=False)


def idle_model() -> keras.Model:
    model = Idle()
    model.built = True
    model.compile(jit_compile=False)
    return model


def ready_dataset(batches: int, shape: tuple[int, ...]) -> Any:
    """Return a tf.data.Dataset of aligned arrays that are ready: what hand-over costs at least."""
    import tensorflow as tf

    images = Buffers({"image": Spec(shape[1:], np.dtype(np.uint8))}).batch(shape[0])["image"]
    images[...] = 0  # touched: TensorFlow would else read a page of zeros again and again

    def generate() -> Iterator[Any]:
        for _ in range(batches):
            yield (images,)

    warnings.filterwarnings("ignore", "`shuffle=True` was passed")
    signature = (tf.TensorSpec((None, *shape[1:]), tf.uint8),)
    data = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return data.apply(tf.data.experimental.assert_cardinality(batches)).prefetch(2)
