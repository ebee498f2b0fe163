"""Callbacks of `fit`: the state that they read, InputMonitor, and Keras's own."""

import json

import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from public.keras_helpers import EAGER, sequence
from public.permutation import epoch_rows, epochs_rows
from public.watching import built_watcher

pytestmark = pytest.mark.backend
ROWS, SIZE = 22, 4
STEPS = -(-ROWS // SIZE)


def numbers(rows=ROWS, **options):
    df = pd.DataFrame({"id": range(rows), "a": np.arange(rows, dtype="f4"), "y": 0.0})
    return dfgen.Sequence(df, dfgen.Number("a"), "y", batch_size=SIZE, **options)


def dense():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-4), "mse", run_eagerly=EAGER)
    return model


class States(keras.callbacks.Callback):
    """Reads the state in each hook of training."""

    def __init__(self, seq):
        super().__init__()
        self.seq, self.states = seq, {}

    def get_state(self):
        return {}

    def set_state(self, state):
        pass

    def read(self, hook, *place):
        self.states[hook, *place] = json.loads(json.dumps(self.seq.state_dict()))

    def on_train_begin(self, logs=None):
        self.read("train_begin")

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.read("epoch_begin", epoch)

    def on_train_batch_begin(self, batch, logs=None):
        self.read("batch_begin", self.epoch, batch)

    def on_train_batch_end(self, batch, logs=None):
        self.read("batch_end", self.epoch, batch)

    def on_test_end(self, logs=None):
        self.read("test_end", self.epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.read("epoch_end", epoch)

    def on_train_end(self, logs=None):
        self.read("train_end")


def steps_taken(hook, epoch=0, batch=0):
    """Return how many steps the model was trained on when a hook of a fit of 2 epochs runs."""
    if hook.startswith("train"):
        return 0 if hook == "train_begin" else 2 * STEPS
    ended = {"epoch_begin": 0, "batch_begin": batch, "batch_end": batch + 1}
    return epoch * STEPS + ended.get(hook, STEPS)


def assert_state(state, steps):
    """A Sequence that goes on from the state has exactly the rows after these steps."""
    epoch, step = divmod(steps, STEPS)
    seq = numbers()
    seq.load_state_dict(state)
    rows = [int(row) for _ in range(2) for x, _ in seq for row in x]
    assert rows == epoch_rows(ROWS, epoch)[SIZE * step :] + epoch_rows(ROWS, epoch + 1)
    assert seq.epoch == epoch + 2


def places(seq, own, folder):
    """Return the lists of callbacks in which a callback of the user's own may be."""
    monitor = dfgen.InputMonitor()
    backup = dfgen.BackupAndRestore(folder, seq, save_freq=3)
    checkpoint = keras.callbacks.ModelCheckpoint(
        folder / "model.weights.h5", save_weights_only=True
    )
    return {
        "alone": [own],
        "after InputMonitor": [monitor, own],
        "before InputMonitor": [own, monitor],
        "after BackupAndRestore": [backup, own],
        "before BackupAndRestore": [own, backup],
        "after Keras's": [checkpoint, own],
        "between": [backup, own, monitor],
    }


PLACES = [
    "alone",
    "after InputMonitor",
    "before InputMonitor",
    "after BackupAndRestore",
    "before BackupAndRestore",
    "after Keras's",
    "between",
]


@pytest.mark.parametrize("place", PLACES)
def test_state_in_a_callback_counts_trained_steps(tmp_path, place):
    seq, states = numbers(), {}

    def read(batch, logs):
        states[len(states) + 1] = json.loads(json.dumps(seq.state_dict()))

    own = keras.callbacks.LambdaCallback(on_train_batch_end=read)
    dense().fit(seq, epochs=2, verbose=0, callbacks=places(seq, own, tmp_path)[place])
    assert [*states] == [*range(1, 2 * STEPS + 1)]
    for steps, state in states.items():
        assert_state(state, steps)


@pytest.mark.parametrize("place", ["alone", "before InputMonitor", "before BackupAndRestore"])
def test_state_between_epochs_counts_trained_steps(tmp_path, place):
    seq = numbers()
    own, val = States(seq), numbers(7, shuffle=False)
    callbacks = places(seq, own, tmp_path)[place]
    dense().fit(seq, validation_data=val, epochs=2, verbose=0, callbacks=callbacks)
    states = {key: own.states[key] for key in own.states if not key[0].startswith("batch")}
    assert len(states) == 8
    for key, state in states.items():
        assert_state(state, steps_taken(*key))


def test_state_before_a_batch_leaves_it_out():
    seq = numbers()
    own = States(seq)
    dense().fit(seq, epochs=2, verbose=0, callbacks=[own])
    for key, state in own.states.items():
        if key[0] == "batch_begin":
            assert_state(state, steps_taken(*key))


def test_fit_continues_from_the_state_of_a_callback(frame):
    seq, model, states = sequence(frame(22)), built_watcher(), []
    own = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: states.append(seq.state_dict())
    )
    model.fit(seq, epochs=2, verbose=0, callbacks=[dfgen.InputMonitor(), own])
    for steps in (1, 5, 6, 8):
        model.forget()
        resumed = sequence(frame(22))
        resumed.load_state_dict(states[steps - 1])
        model.fit(resumed, epochs=2, verbose=0)
        epoch, step = divmod(steps, STEPS)
        expected = epochs_rows(22, [epoch, epoch + 1])[SIZE * step :]
        assert (model.seen(), resumed.epoch) == (expected, epoch + 2)
