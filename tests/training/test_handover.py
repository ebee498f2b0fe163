"""What reaches a backend: the memory that workers wrote to, without a copy."""

import keras
import numpy as np
import pytest
from public.keras_helpers import sequence
from public.watching import BACKEND

pytestmark = pytest.mark.backend


class Addresses(keras.Model):
    """Keeps the addresses of the batches that it is trained on."""

    def call(self, x):
        return keras.ops.mean(x, axis=(1, 2, 3))

    def train_step(self, batch):
        self.addresses = [*getattr(self, "addresses", []), batch[0].data_ptr()]
        return {}


@pytest.mark.skipif(BACKEND == "jax", reason="its steps are compiled and see no addresses")
def test_the_backend_reads_batches_in_place(frame):
    written = []

    def note(arrays, rng):
        written.append(arrays["image"].ctypes.data)
        return arrays

    seq = sequence(frame(40), batch_size=8, image_size=(64, 64), batch_transform=note)
    if BACKEND == "tensorflow":
        tensors = [x for x, _ in seq.get_tf_dataset()]
        addresses = [np.asarray(memoryview(tensor)).ctypes.data for tensor in tensors]
    else:
        model = Addresses()
        model.compile("sgd", run_eagerly=True)
        model.fit(seq, verbose=0)
        addresses = model.addresses
    assert len(addresses) == 5
    assert {*addresses} <= {*written}


def test_fit_draws_nothing_from_global_generators(frame):
    before = np.random.get_state()[1].tolist()
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    model(np.zeros((1, 4, 4, 3)))
    if BACKEND == "torch":
        import torch

        state = torch.get_rng_state()
    model.fit(sequence(frame(12)), verbose=0)
    assert np.random.get_state()[1].tolist() == before
    assert BACKEND != "torch" or (torch.get_rng_state() == state).all()
