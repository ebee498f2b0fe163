"""Batches for TensorFlow, JAX and torch."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
from keras.src.trainers.data_adapters import data_adapter_utils


def tensorflow_dataset(
    owner: Any,
    batches: Callable[[Any], Iterator[Any]],
    specs: Any,
    length: int | None = None,
    tunes: bool = True,
) -> Any:
    """Return a tf.data.Dataset of batches.

    Args:
        owner: the dataset keeps it alive. TensorFlow never frees the function passed to
            `from_generator`, so that has a weak reference.
        batches: returns an iterator over the batches of an owner.
        specs: the Spec of each array, nested as the batches are.
        length: the number of batches, -1 if there is no end, None if it is unknown.
        tunes: whether TensorFlow tunes buffers. Stopping its tuner can take a minute.
    """
    import tensorflow as tf

    reference = weakref.ref(owner)

    def generate() -> Iterator[Any]:
        alive = reference()
        return iter(()) if alive is None else batches(alive)

    signature = keras.tree.map_structure(
        lambda spec: tf.TensorSpec((None, *spec.shape), spec.dtype), specs
    )
    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    if length is not None:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(length))
    dataset = dataset.prefetch(1)
    if not tunes:
        options = tf.data.Options()
        options.autotune.enabled = False
        dataset = dataset.with_options(options)
    dataset._dfgen_owner = owner
    return dataset


class TorchBatches:
    """An iterable of batches of torch tensors, on the CPU in the memory of the batch.

    It is not a `torch.utils.data.DataLoader`, whose iterator draws from torch's global generator.
    Batches are copied to CUDA asynchronously from pinned memory.
    """

    def __init__(self, batches: Callable[[], Iterator[Any]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        import torch

        on_gpu = torch.cuda.is_available()

        def tensor(array: Any) -> Any:
            if array.dtype.hasobject:  # torch has no strings
                return array
            on_cpu = torch.from_numpy(array)
            return on_cpu.pin_memory().to("cuda", non_blocking=True) if on_gpu else on_cpu

        return (keras.tree.map_structure(tensor, batch) for batch in self._batches())


def stacked(batches: list[Any]) -> Any:
    """Return the batches of an execution as one, for JAX with Keras 3.16.

    Arrays have the shape (steps, batch, ...). If shapes differ, it is a list of batches.
    """
    shapes = {tuple(leaf.shape for leaf in keras.tree.flatten(batch)) for batch in batches}
    if len(shapes) > 1:
        return data_adapter_utils.PartialBatchList(batches)
    return keras.tree.map_structure(lambda *arrays: np.stack(arrays), *batches)
