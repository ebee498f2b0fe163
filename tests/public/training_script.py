"""A small training with Dropout, BatchNormalization and a random transform, that stops itself."""

import os
import signal
from functools import partial
from pathlib import Path

import keras
import numpy as np
import pandas as pd

import dfgen
from public.watching import BACKEND

ROWS, STEPS, EPOCHS = 18, 5, 3


class Stopped(Exception):
    pass


def stop():
    raise Stopped


def noise(sample, rng):
    return {**sample, "number": sample["number"] + np.float32(rng.normal() / 10)}


def make_sequence(**options):
    labels = pd.Categorical([("even", "odd")[row % 2] for row in range(ROWS)])
    numbers = np.linspace(-1, 1, ROWS)
    frame = pd.DataFrame({"id": [f"row {row}" for row in range(ROWS)], "label": labels})
    options = {"batch_size": 4, "workers": 1, "seed": 3, "transform": noise, **options}
    return dfgen.Sequence(frame.assign(number=numbers), "number", "label", **options)


def make_model(*, built=True):
    keras.utils.set_random_seed(1)
    dense, batch_norm = keras.layers.Dense, keras.layers.BatchNormalization()
    layers = [dense(6, "relu"), keras.layers.Dropout(0.5), batch_norm, dense(2)]
    model = keras.Sequential([keras.layers.Reshape((1,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    eager = BACKEND == "tensorflow"  # tracing takes longer than these steps
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=False, run_eagerly=eager)
    if built:
        model.build((None,))
        model.optimizer.build(model.trainable_variables)
    return model


def acting(after, act, steps):
    """Return a callback that acts after some steps of a run, or where an epoch begins or ends."""
    done = len(steps)

    def on_train_batch_end(batch, logs):
        steps.append(batch)
        if len(steps) - done == after:
            act()

    def at(name):
        return lambda epoch, logs: act() if (name, epoch) == after else None

    return keras.callbacks.LambdaCallback(
        on_train_batch_end=on_train_batch_end, on_epoch_begin=at("begin"), on_epoch_end=at("end")
    )


def train(folder, after=None, act=None, *, model=None, sequence=None, backup=None, **options):
    """Train three epochs, or until an act stops it; return the model, the Sequence, the logs."""
    sequence = make_sequence() if sequence is None else sequence
    model = make_model() if model is None else model
    callbacks = [dfgen.BackupAndRestore(folder, sequence, **backup or {"save_freq": 1})]
    callbacks += [*options.pop("callbacks", []), acting(after, act, options.pop("steps", []))]
    options = {"x": sequence, "epochs": EPOCHS, "verbose": 0, **options}
    return model, sequence, model.fit(callbacks=callbacks, **options).history


def main(folder, name, after):
    """Train in a process that sends itself a signal; write steps, and weights at the end."""
    folder, kill = Path(folder), partial(os.kill, os.getpid(), getattr(signal, name))
    backup = {"save_freq": "epoch" if name == "SIGTERM" else 1}
    with open(folder / "steps", "a", buffering=1) as file:

        def note(batch, logs):
            print("step", file=file)

        callbacks = [keras.callbacks.LambdaCallback(on_train_batch_end=note)]
        options = {"backup": backup, "callbacks": callbacks}
        model, sequence, _ = train(folder / "backup", int(after), kill, **options)
    np.savez(folder / "weights.npz", *model.get_weights())
    (folder / "receipt").write_text(repr(sequence.receipt))
