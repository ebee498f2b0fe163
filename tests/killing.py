"""A small training with Dropout and a random transform, which kills its own process when told to.

python tests/killing.py FOLDER '["step", 0, 5]'
"""

import json
import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np
import pandas as pd

import dfgen
from dfgen.training.callbacks import backup_files as generations

ROWS, STEPS, EPOCHS = 45, 12, 3


def noise(sample, rng):
    sample["number"] = sample["number"] + np.float32(rng.normal() / 10)
    return sample


def make_sequence(rows=ROWS, **options):
    frame = pd.DataFrame(
        {
            "id": [f"row {row}" for row in range(rows)],
            "number": np.linspace(-1, 1, rows),
            "weight": np.linspace(1, 2, rows),
            "label": pd.Categorical([("even", "odd")[row % 2] for row in range(rows)]),
        }
    )
    options = {"batch_size": 4, "transform": noise, "workers": 2, "seed": 3, **options}
    return dfgen.Sequence(frame, x="number", y="label", **options)


def make_model(**compile_options):
    """Unbuilt; with layers and metrics whose state a backup must hold."""
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Reshape((1,)),
            layers.Dense(8, activation="relu"),
            layers.Dropout(0.5),
            layers.BatchNormalization(),
            layers.Dense(2),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    options = {"metrics": ["accuracy"], "jit_compile": False, **compile_options}
    model.compile("adam", loss, **options)
    return model


def built_model(**compile_options):
    """With all that Keras else makes in a first step, which TensorFlow so traces only once."""
    model = make_model(**compile_options)
    if keras.backend.backend() == "tensorflow":
        model.build((None,))
        model.optimizer.build(model.trainable_variables)
        model.compute_metrics(*np.zeros((2, 4)), np.zeros((4, 2)))
    return model


def light_model():
    """One layer, for what does not depend on what a model holds."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Reshape((1,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    eager = keras.backend.backend() == "tensorflow"  # where tracing costs more than the steps
    model.compile("adam", loss, jit_compile=False, run_eagerly=eager)
    return model


def steps_done(sequence):
    return -(-sequence.state_dict()["positions"] // sequence.batch_size)


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


class Reweigh(keras.callbacks.Callback):
    """Sets weights anew after the fifth step of each epoch, for the next one, by what it learned.

    Later in the epoch it is set once more, so that those of the first time are never used.
    """

    def __init__(self, sequence):
        super().__init__()
        self.sequence = sequence

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.done = steps_done(self.sequence)
        self.done = 0 if self.done == STEPS else self.done

    def on_train_batch_end(self, batch, logs=None):
        if self.done + batch in (4, 6):
            draws = np.random.default_rng([self.epoch, self.done + batch])
            self.sequence.set_weights(draws.exponential(size=ROWS))


class Killer(keras.callbacks.Callback):
    """Kills the process at a place: (when, epoch, step); steps count from the epoch's begin."""

    def __init__(self, sequence, place):
        super().__init__()
        self.sequence, self.place = sequence, tuple(place)

    def pass_by(self, when, epoch, step):
        if (when, epoch, step) == self.place:
            kill()

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.pass_by("epoch begin", epoch, 0)

    def on_train_batch_end(self, batch, logs=None):
        self.pass_by("step", self.epoch, steps_done(self.sequence))

    def on_test_batch_end(self, batch, logs=None):
        self.pass_by("validation", self.epoch, batch)

    def on_epoch_end(self, epoch, logs=None):
        self.pass_by("epoch end", epoch, STEPS)

    def on_train_end(self, logs=None):
        self.pass_by("train end", EPOCHS, 0)


def kill_in_save(when, epoch, step):
    """Have the save of a place killed: half written, before it gets its name, or after."""

    def is_here(facts):
        return (facts["epoch"], facts["step"]) == (epoch, step)

    class Killing(generations.Generations):
        def save(self, facts, arrays):
            if is_here(facts) and when == "half written":
                half = list(arrays)[len(arrays) // 2]
                arrays = {**arrays, half: Fatal()}
            if is_here(facts) and when == "written":
                os.replace = lambda old, new: kill()
            path = super().save(facts, arrays)
            if is_here(facts) and when == "saved":
                kill()
            return path

    return Killing


class Fatal:
    def __array__(self, *_, **__):
        kill()


def train(folder, place=None, callbacks=(), model=None, sequence=None, **options):
    """Train three epochs; return the model and the Sequence."""
    folder = Path(folder)
    sequence = sequence or make_sequence(balance="weight")
    model = model or make_model()
    backup = dfgen.BackupAndRestore(folder / "backup", sequence, **{"save_freq": 1, **options})
    if place is not None and place[0] in ("half written", "written", "saved"):
        backup._backups = kill_in_save(*place)(folder / "backup")
    killer = [] if place is None else [Killer(sequence, place)]
    monitor = dfgen.InputMonitor()
    first = killer if place is not None and place[0] == "train end" else []
    plateau = {"monitor": "val_loss", "min_delta": 1.0}  # no epoch but the first is better
    beside = [
        keras.callbacks.ReduceLROnPlateau(**plateau, patience=1, factor=0.5),
        keras.callbacks.EarlyStopping(**plateau, patience=9, restore_best_weights=True),
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.9 * rate),
    ]
    model.fit(
        sequence,
        validation_data=make_sequence(10, transform=None, shuffle=False),
        epochs=EPOCHS,
        verbose=0,
        callbacks=[*first, backup, monitor, Reweigh(sequence), *beside, *callbacks, *killer],
    )
    return model, sequence


if __name__ == "__main__":
    folder, place = sys.argv[1], json.loads(sys.argv[2])
    model, _ = train(folder, place)
    np.savez(Path(folder) / "weights.npz", *model.get_weights())
