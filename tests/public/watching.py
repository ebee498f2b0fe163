"""A model that logs, in its own step, the row numbers that it reads from the pixels."""

from functools import cache

import keras
import numpy as np

BACKEND = keras.backend.backend()
CAPACITY = 4000
KERAS = tuple(map(int, keras.__version__.split(".")[:2]))


class Watcher(keras.Model):
    """Logs the rows of training and of testing in variables, so compiled steps log them too.

    Its images are those of the fixture `files`: red + 256 * green is the row number.
    """

    def __init__(self, classes=2):
        super().__init__()
        self.dense = keras.layers.Dense(classes)
        self.logs = {}
        options = {"dtype": "int32", "initializer": "zeros", "trainable": False}
        for name in ("trained", "tested"):
            log = self.add_weight(shape=(CAPACITY,), name=name, **options)
            self.logs[name] = log, self.add_weight(shape=(), name=f"{name}_count", **options)

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
        """Return the rows that the model was called with, in order."""
        log, count = (keras.ops.convert_to_numpy(v) for v in self.logs[name])
        return log[:count].tolist()

    def forget(self):
        for _, count in self.logs.values():
            count.assign(0)


def watcher(*, built=False, **compile_options):
    """Return a new Watcher; an unbuilt one is built by the first batch of `fit`."""
    model = Watcher()
    if built:
        model(np.zeros((1, 4, 4, 3), "uint8"))
        model.forget()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, **compile_options)
    if built and BACKEND == "tensorflow":
        model.optimizer.build(model.trainable_variables)  # otherwise the first step traces twice
    return model


@cache
def _shared():
    model = watcher(built=True)
    batch = np.zeros((4, 4, 4, 3), "uint8"), np.zeros(4, "int32")
    model.fit(*batch, validation_data=batch, verbose=0)
    return model


def built_watcher():
    """Return the one built Watcher of a test process: Keras compiles its steps once."""
    _shared().forget()
    return _shared()
