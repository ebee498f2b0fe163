"""Training that stops and goes on beside other callbacks ends as if it had never stopped."""

import os
import signal
from contextlib import suppress
from importlib.util import find_spec

import keras
import numpy as np
import pytest
from killing import make_sequence

import dfgen
from dfgen.training.callbacks.backup_files import restore, snapshot
from dfgen.training.callbacks.callback_counts import (
    check_callbacks,
    counts,
    put_back,
)

STEPS, EPOCHS = 5, 4
MONITOR = {"monitor": "val_loss", "min_delta": 1.0}  # which no epoch but the first reaches
KERAS = keras.callbacks


UNCLOSED = pytest.mark.filterwarnings(  # the file of a CSVLogger that was stopped
    "ignore:unclosed file", "ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning"
)


class Stopped(Exception):
    pass


class Stopper(KERAS.Callback):
    """Stops after the step of this number, in its validation or its epoch's end, or before it."""

    def __init__(self, step, where="step", by="error"):
        super().__init__()
        self.places, self.by = [(where, step)], by

    def pass_by(self, where):
        if (where, int(self.model.optimizer.iterations)) in self.places:
            self.places.clear()
            if self.by == "error":
                raise Stopped
            signal.raise_signal(signal.SIGTERM)

    def on_train_batch_end(self, batch, logs=None):
        self.pass_by("step")

    def on_test_batch_end(self, batch, logs=None):
        self.pass_by("validation")

    def on_epoch_begin(self, epoch, logs=None):
        self.pass_by("epoch begin")

    def on_epoch_end(self, epoch, logs=None):
        self.pass_by("epoch end")


class Halving(KERAS.Callback):
    """A user's: halves the learning rate after every seventh step; goes on by its own state."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def on_train_batch_begin(self, batch, logs=None):
        self.count += 1
        if not self.count % 7:
            optimizer = self.model.optimizer
            optimizer.learning_rate = float(optimizer.learning_rate) / 2

    def get_state(self):
        return {"count": self.count}

    def set_state(self, state):
        self.count = state["count"]


def decay(epoch, rate):
    return rate * 0.7


CASES = {
    "none": lambda folder: [],
    "CSVLogger": lambda folder: [KERAS.CSVLogger(f"{folder}/log.csv", append=True)],
    "EarlyStopping":
        lambda folder: [KERAS.EarlyStopping(**MONITOR, patience=2, restore_best_weights=True)],
    "LambdaCallback": lambda folder: [KERAS.LambdaCallback(on_epoch_end=lambda epoch, logs: None)],
    "LearningRateScheduler": lambda folder: [KERAS.LearningRateScheduler(decay)],
    "ModelCheckpoint, best": lambda folder: [KERAS.ModelCheckpoint(f"{folder}/{{epoch}}.weights.h5",
        "loss", save_best_only=True, save_weights_only=True)],
    "ModelCheckpoint, steps":
        lambda folder: [KERAS.ModelCheckpoint(f"{folder}/{{epoch}}.weights.h5",
        save_weights_only=True, save_freq=3)],
    "ReduceLROnPlateau":
        lambda folder: [KERAS.ReduceLROnPlateau(**MONITOR, patience=1, cooldown=1, factor=0.5)],
    "SwapEMAWeights": lambda folder: [KERAS.SwapEMAWeights()],
    "SwapEMAWeights, epochs": lambda folder: [KERAS.SwapEMAWeights(swap_on_epoch=True)],
    "TerminateOnNaN": lambda folder: [KERAS.TerminateOnNaN()],
    "a user's": lambda folder: [Halving()],
    "several": lambda folder: [Halving(), KERAS.LearningRateScheduler(decay),
        KERAS.ReduceLROnPlateau(**MONITOR, patience=1, factor=0.5),
        KERAS.EarlyStopping("loss", min_delta=1.0, patience=9),
        KERAS.EarlyStopping(**MONITOR, patience=2, restore_best_weights=True)],
}  # fmt: skip
if find_spec("tensorboard"):  # which comes with none of them
    CASES["TensorBoard"] = lambda folder: [KERAS.TensorBoard(f"{folder}/tb", update_freq=2)]


class Trainings:
    """Trainings of one model, which is compiled once, each from its first weights on."""

    def __init__(self, folder, make):
        self.folder, self.make = folder, make
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Reshape((1,)), keras.layers.Dense(4, activation="relu")]
        self.model = keras.Sequential([*layers, keras.layers.Dropout(0.5), keras.layers.Dense(2)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True, ema_momentum=0.5)
        self.model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
        self.data = make_sequence(8, transform=None, shuffle=False)
        self.model.fit(self.data, verbose=0)
        self.first = snapshot(self.model)

    def fit(self, name, stopper=None, first=True, **backup):
        """Train in a folder of this name; return all that is known at the end."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        restore(self.model, self.first)
        self.model.optimizer.iterations.assign(0)
        data, made = make_sequence(4 * STEPS), self.make(folder)
        backup = dfgen.BackupAndRestore(folder / "backup", data, **{"save_freq": 1, **backup})
        callbacks = [backup, *made] if first else [*made, backup]
        callbacks += [stopper] if stopper else []
        options = {"epochs": EPOCHS, "verbose": 0, "validation_data": self.data}
        history = self.model.fit(data, callbacks=callbacks, **options).history
        facts, lists = counts(callbacks)
        for counted in facts.values():  # batches of a resumed epoch count from 0
            counted.pop("_last_batch_seen", None)
        files = {path.name: path for path in sorted(folder.glob("*.*"))}
        read = {path: _read(files[path]) for path in files}
        return history, snapshot(self.model), facts, lists, read, data.receipt

    def stop(self, name, *place, **options):
        with pytest.raises((Stopped, SystemExit)):
            self.fit(name, Stopper(*place), **options)


def _read(path):
    if path.suffix == ".h5":
        import h5py

        found = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, each: (
                    found.update({name: each[()].tolist()})
                    if isinstance(each, h5py.Dataset)
                    else None
                )
            )
        return found
    return path.read_text()


def assert_same(found, whole):
    """The same weights, rates, counts and files, and the logs of the epochs that were left."""
    epochs = len(found[0].get("loss", []))
    assert found[0] == {k: v[len(v) - epochs :] for k, v in whole[0].items() if epochs}
    for one, other in ((found[1], whole[1]), (found[3], whole[3])):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)
    assert found[2] == whole[2]
    assert found[4] == whole[4]
    assert found[5] == whole[5]


def steps_of(whole):
    return STEPS * len(whole[0]["loss"])


@pytest.mark.slow
@pytest.mark.backend
def test_stopped_once_it_ends_the_same(tmp_path):
    trainings = Trainings(tmp_path, CASES["several"])
    whole = trainings.fit("whole")
    trainings.stop("stopped", 2 * STEPS + 2)
    assert_same(trainings.fit("stopped"), whole)


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.timeout(900)
def test_stopped_at_any_step_it_ends_the_same(tmp_path):
    trainings = Trainings(tmp_path, CASES["several"])
    whole = trainings.fit("whole")
    for step in range(1, steps_of(whole) + 1):
        trainings.stop(f"{step}", step)
        assert_same(trainings.fit(f"{step}"), whole)


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.timeout(900)
@UNCLOSED
@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize("name", CASES)
def test_stopped_at_every_step_beside_any_callback_it_ends_the_same(tmp_path, name, first):
    """Each of the twenty steps, and with it each end of an epoch, is done by another fit."""
    trainings = Trainings(tmp_path, CASES[name])
    whole = trainings.fit("whole", first=first)
    for step in range(2, steps_of(whole) + 1):
        trainings.stop("stopped", step, first=first)
    assert_same(trainings.fit("stopped", first=first), whole)


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.timeout(900)
@UNCLOSED
@pytest.mark.parametrize("first", [True, False], ids=["before", "behind"])
@pytest.mark.parametrize("name", ["several", "SwapEMAWeights, epochs", "CSVLogger"])
@pytest.mark.parametrize("where", ["step", "validation", "epoch begin", "epoch end"])
def test_ended_by_sigterm_anywhere_it_ends_the_same(tmp_path, name, where, first):
    trainings = Trainings(tmp_path, CASES[name])
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        whole = trainings.fit("whole", first=first)
        last = steps_of(whole)
        places = range(1, last + 1) if where == "step" else range(STEPS, last + 1, STEPS)
        for step in places:
            with suppress(SystemExit):  # none, where the last epoch has no next one
                options = {"first": first, "save_freq": "epoch"}
                trainings.fit(f"{step}", Stopper(step, where, "sigterm"), **options)
            if os.path.exists(tmp_path / f"{step}" / "backup"):
                assert_same(trainings.fit(f"{step}", first=first), whole)
    finally:
        signal.signal(signal.SIGTERM, before)


# -- what is told ------------------------------------------------------------------------------


class Plain(KERAS.Callback):
    """Has what it was made with, and what each epoch sets anew."""

    def __init__(self):
        super().__init__()
        self.path, self.names = "log", ["a"]

    def on_train_begin(self, logs=None):
        self.began = 3

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch


class Wrong(Halving):
    def get_state(self):
        return {"count": {1, 2}}


def test_a_csv_file_that_begins_anew_warns():
    with pytest.warns(UserWarning, match="append=True"):
        check_callbacks([KERAS.CSVLogger("log.csv"), Plain()])


def test_a_state_that_json_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="get_state"):
        check_callbacks([Wrong()])


def test_counts_go_to_the_callback_of_the_same_class_that_watches_the_same():
    def made(*waits):
        stops = [KERAS.EarlyStopping("loss"), KERAS.EarlyStopping("a/b"), KERAS.EarlyStopping("a")]
        stops.append(KERAS.EarlyStopping("a"))
        for stop, wait in zip(stops, waits, strict=False):
            stop.wait, stop.best = wait, np.float32(wait)
            stop.best_weights = [np.full(2, wait), np.full(3, wait)]
        return stops

    facts, arrays = counts([*made(1, 2, 3, 4), KERAS.ReduceLROnPlateau()])
    assert type(facts["EarlyStopping of a"]["best"]) is float
    found = made()
    told = put_back([Plain(), *found[1:], Halving()], facts, arrays)
    assert [stop.wait for stop in found] == [0, 2, 3, 4]
    assert [[a.tolist() for a in stop.best_weights] for stop in found[1:]] == [
        [[n] * 2, [n] * 3] for n in (2, 3, 4)
    ]
    assert told == [
        "Halving is not in the backup: it begins anew",
        "EarlyStopping of loss is in the backup, but not in this fit",
        "ReduceLROnPlateau of val_loss is in the backup, but not in this fit",
    ]


@pytest.mark.slow
@pytest.mark.backend
def test_a_list_of_callbacks_of_keras_is_taken_as_often_as_one_likes(tmp_path):
    trainings = Trainings(tmp_path, CASES["none"])
    data = make_sequence(4 * STEPS)
    backup = dfgen.BackupAndRestore(tmp_path / "backup", data, delete_checkpoint=False)
    given = KERAS.CallbackList(
        [backup], add_history=True, model=trainings.model, epochs=2, steps=STEPS
    )
    for _ in range(2):
        trainings.model.fit(data, epochs=2, verbose=0, callbacks=given)
        assert len(given.callbacks) == 3
