"""A model of one layer, for what does not depend on what a model holds."""

import keras


def light_model():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Reshape((1,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    eager = keras.backend.backend() == "tensorflow"  # where tracing costs more than the steps
    model.compile("adam", loss, jit_compile=False, run_eagerly=eager)
    return model
