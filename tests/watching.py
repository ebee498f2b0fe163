"""A model that logs, inside its own step, the row numbers that it reads from the pixels."""

from functools import cache

import keras
import numpy as np
import pytest

from dfgen.loading.order.draws import permutation

CAPACITY = 4000
EAGER = keras.backend.backend() == "tensorflow"  # where tracing costs more than a few steps do
KERAS = tuple(map(int, keras.__version__.split(".")[:2]))
SEVERAL_STEPS = pytest.mark.xfail(
    keras.backend.backend() == "torch" and KERAS < (3, 16),
    reason="Keras before 3.16 refuses steps_per_execution on torch",
    raises=ValueError,
    strict=True,
)


class Watcher(keras.Model):
    """Logs the rows of training and of testing apart, in variables, so compiled steps log too."""

    def __init__(self, classes=2):
        super().__init__()
        self.dense = keras.layers.Dense(classes)
        self.logs = {}
        for name in ("trained", "tested"):
            log = self.add_weight(
                shape=(CAPACITY,), dtype="int32", initializer="zeros", trainable=False, name=name
            )
            count = self.add_weight(
                shape=(), dtype="int32", initializer="zeros", trainable=False, name=f"{name}_count"
            )
            self.logs[name] = (log, count)

    def call(self, x, training=False):
        pixels = keras.ops.cast(x[:, 0, 0, :], "int32")
        rows = pixels[:, 0] + 256 * pixels[:, 1]
        log, count = self.logs["trained" if training else "tested"]
        places = count + keras.ops.arange(keras.ops.shape(x)[0], dtype="int32")
        log.assign(keras.ops.scatter_update(log.value, places[:, None], rows))
        count.assign(count + keras.ops.cast(keras.ops.shape(x)[0], "int32"))
        flat = keras.ops.cast(keras.ops.reshape(x, (-1, 48)), "float32")
        return self.dense(flat / 255)

    def seen(self, name="trained"):
        log, count = (keras.ops.convert_to_numpy(v) for v in self.logs[name])
        return log[:count].tolist()

    def forget(self):
        for _, count in self.logs.values():
            count.assign(0)


def watcher(*, built=False, metrics=(), **compile_options):
    model = Watcher()
    if built:
        model(np.zeros((1, 4, 4, 3), "uint8"))
        model.forget()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=list(metrics), **compile_options)
    if built and EAGER:
        model.optimizer.build(model.trainable_variables)  # or the first step is traced twice
    return model


@cache
def trained():
    model = watcher(built=True)
    batch = np.zeros((4, 4, 4, 3), "uint8"), np.zeros(4, "int32")
    model.fit(*batch, validation_data=batch, verbose=0)
    return model


def trained_watcher():
    """One model for all tests that begin with a built one: Keras compiles its steps once."""
    trained().forget()
    return trained()


def order(rows, epoch, *, seed=0, batches=None):
    """The rows of one epoch, as they must come, of `batches` of 4 rows."""
    found = permutation(np.arange(rows), rows, seed=seed, epoch=epoch).tolist()
    return found if batches is None else found[: 4 * batches]


def orders(rows, epochs, **options):
    return [row for epoch in epochs for row in order(rows, epoch, **options)]
