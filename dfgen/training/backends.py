"""Batches to TensorFlow, JAX, torch and NumPy."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from dfgen.errors import ArgumentError
from dfgen.loading.buffers import Block
from dfgen.training.keras_private import PartialBatchList

INFINITE = -1
"""What TensorFlow calls the length of an endless data set."""


def tensorflow_dataset(owner: Any, structure: Any, run: Any, length: int | None) -> Any:
    """Return a tf.data.Dataset of an owner's passes, without a copy and without a probe.

    TensorFlow keeps the function given to `from_generator` for ever, so that holds a weak
    reference, and the dataset the owner. Where Keras drives the run, an error goes to its `fail`
    and ends the data, since out of `from_generator` errors come as text only.
    """
    import tensorflow as tf

    reference = weakref.ref(owner)

    def batches() -> Iterator[Any]:
        held = reference()
        if held is None:
            return iter(())
        passed = held.new_pass(run)
        return passed if run.keras_iterator is None else _EndsWhereItFails(passed, run.fail)

    signature = keras.tree.map_structure(
        lambda spec: tf.TensorSpec((None, *spec.shape), spec.dtype), structure
    )
    dataset = tf.data.Dataset.from_generator(batches, output_signature=signature)
    if length is not None:
        dataset = dataset.apply(tf.data.experimental.assert_cardinality(length))
    dataset = dataset.prefetch(1)
    if run.keras_iterator is not None:
        options = tf.data.Options()
        options.autotune.enabled = False  # nothing is tuned, but the tuner's end may take a minute
        dataset = dataset.with_options(options)
    dataset._dfgen_owner = owner
    return dataset


class _EndsWhereItFails:
    def __init__(self, batches: Iterator[Any], fail: Callable[[Exception], None]) -> None:
        self._batches = batches
        self._fail = fail

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except Exception as error:
            self._fail(error)
            raise StopIteration from None


class TorchBatches:
    """An iterable of batches of torch tensors, on the CPU in the batch's own memory.

    Not a `torch.utils.data.DataLoader`, whose iterator draws from torch's global generator. To CUDA
    it goes through page-locked memory, from which the copy runs beside Python.
    """

    def __init__(self, batches: Callable[[], Iterator[Any]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        import torch

        def tensor(array: Any) -> Any:
            if array.dtype.hasobject:  # torch has no strings
                return array
            found = torch.from_numpy(array)
            return found.pin_memory().to("cuda", non_blocking=True) if on_gpu else found

        on_gpu = torch.cuda.is_available()
        return (keras.tree.map_structure(tensor, batch) for batch in self._batches())


def super_batch(nested: list[Any], blocks: list[Block | None], steps: int) -> Any:
    """Return the batches of several steps as JAX takes them at once.

    Arrays of shape (steps, batch, ...), the very blocks that batches were made in where they can
    be; a list of batches where they are fewer, or of several shapes.
    """
    block = blocks[0]
    whole = {}
    if block is not None and all(each is block for each in blocks):
        whole = {_place(array): array for array in block.arrays.values()}

    def joined(*parts: Any) -> Any:
        found = whole.get(_place(parts[0]))
        if found is not None and all(map(_is_same, parts, found)):
            return found
        return np.stack(parts)

    shapes = [[leaf.shape for leaf in keras.tree.flatten(batch)] for batch in nested]
    if len(nested) == steps and shapes.count(shapes[0]) == steps:
        return keras.tree.map_structure(joined, *nested)
    if PartialBatchList is None:
        raise ArgumentError(
            f"with Keras {keras.__version__} the batches of steps_per_execution={steps} must be of "
            "one shape on JAX: drop_remainder=True leaves a short last one out"
        )
    return PartialBatchList(nested)


def _place(array: Any) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def _is_same(array: Any, other: Any) -> bool:
    ways = ((one.shape, one.strides, one.dtype, _place(one)) for one in (array, other))
    return len(set(ways)) == 1
