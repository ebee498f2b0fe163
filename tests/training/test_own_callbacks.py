"""InputMonitor, and callbacks of Keras, on a Sequence."""

import copy
import csv
import math
import time

import keras
import numpy as np
import pytest
from public.keras_helpers import assert_close, sequence, weights_of
from public.test_keras_callbacks import ROWS as ROWS
from public.test_keras_callbacks import STEPS as STEPS
from public.test_keras_callbacks import dense as dense
from public.test_keras_callbacks import numbers as numbers
from public.watching import built_watcher

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend

FIGURES = {"input_wait", "images_per_second", "input_headroom"}


@pytest.mark.parametrize("use", ["images", "numbers", "repeat", "processes", "validation"])
def test_input_monitor_logs_its_figures(frame, use):
    model, arguments = built_watcher(), {"epochs": 2, "verbose": 0}
    options = {"use_multiprocessing": True, "workers": 1} if use == "processes" else {}
    with sequence(frame(22), **options) as seq:
        if use == "numbers":
            seq, model = numbers(), dense()
        elif use == "repeat":
            seq, arguments = seq.repeat(), arguments | {"steps_per_epoch": STEPS}
        elif use == "validation":
            arguments["validation_data"] = sequence(frame(30)[22:], shuffle=False)
        began = time.perf_counter()
        history = model.fit(seq, callbacks=[dfgen.InputMonitor()], **arguments).history
        seconds = time.perf_counter() - began
    assert {*history} >= FIGURES
    assert all(len(history[name]) == 2 and isinstance(history[name][1], float) for name in FIGURES)
    assert all(0 <= share <= 1 for share in history["input_wait"])
    assert all(rate * seconds >= ROWS for rate in history["images_per_second"])
    assert all(ratio > 0 and math.isfinite(ratio) for ratio in history["input_headroom"])


def test_input_monitor_notices_a_slow_loader(frame):
    def spin(sample, rng):
        end = time.perf_counter() + 0.005
        while time.perf_counter() < end:
            pass
        return sample

    histories = []
    for transform in (None, spin):
        seq = sequence(frame(60), transform=transform, workers=0)
        fit = built_watcher().fit(seq, verbose=0, callbacks=[dfgen.InputMonitor()])
        histories.append({name: fit.history[name][0] for name in FIGURES})
    fast, slow = histories
    assert slow["input_wait"] > 0.2
    assert slow["images_per_second"] < 300  # 200 a second can be made; the first ones wait ready
    assert slow["input_headroom"] < fast["input_headroom"]


def test_input_monitor_prints_one_verdict(frame, capsys):
    for verbose in (2, 0):
        model, monitor = built_watcher(), dfgen.InputMonitor()
        with sequence(frame(40)) as seq:
            model.fit(seq, epochs=3, verbose=verbose, callbacks=[monitor])
        lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
        if verbose:
            verdicts = [line for line in lines if "input" in line and "loss:" not in line]
            assert len(verdicts) == 1 and verdicts == lines[-1:]
        else:
            assert not lines


def test_input_monitor_ignores_evaluate_and_predict():
    monitor, model, seq = dfgen.InputMonitor(), dense(), numbers(shuffle=False)
    model.evaluate(seq, verbose=0, callbacks=[monitor])
    model.predict(seq, verbose=0, callbacks=[monitor])
    assert {*model.fit(seq, verbose=0, callbacks=[monitor]).history} >= FIGURES
    assert model.predict(seq, verbose=0, callbacks=[monitor]).shape == (ROWS, 1)


def test_own_callbacks_of_keras_work(tmp_path):
    """CSVLogger gets the figures; ModelCheckpoint saves the weights after each epoch."""
    seq, val, model = numbers(), numbers(7, shuffle=False), dense()
    callbacks = [
        dfgen.InputMonitor(),
        keras.callbacks.CSVLogger(tmp_path / "log.csv"),
        keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True),
        keras.callbacks.ReduceLROnPlateau(patience=1),
        keras.callbacks.TerminateOnNaN(),
    ]
    model.fit(seq, validation_data=val, epochs=2, verbose=0, callbacks=callbacks)
    rows = list(csv.DictReader((tmp_path / "log.csv").read_text().splitlines()))
    assert len(rows) == 2 and {*rows[0]} >= FIGURES | {"epoch", "loss", "val_loss"}
    other = dense()
    other.load_weights(tmp_path / "2.weights.h5")
    assert_close(weights_of(other), weights_of(model))
    other.load_weights(tmp_path / "1.weights.h5")
    assert not np.allclose(weights_of(other)[0], weights_of(model)[0], rtol=1e-6, atol=0)


def test_copied_callbacks_watch_the_same_sequence(tmp_path):
    """KerasTuner copies the callbacks for each trial."""
    seq = numbers()
    callbacks = [dfgen.InputMonitor(), dfgen.BackupAndRestore(tmp_path / "backup", seq)]
    for trial in (1, 2):
        history = dense().fit(seq, epochs=2, verbose=0, callbacks=copy.deepcopy(callbacks)).history
        assert len(history["input_wait"]) == 2
        assert seq.epoch == 2 * trial


pytestmark = pytest.mark.backend


class Timer(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.began = None

    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.perf_counter()


def test_timer_beside_a_backup_draws_no_warning(tmp_path):
    seq = numbers()
    dense().fit(seq, verbose=0, callbacks=[dfgen.BackupAndRestore(tmp_path, seq), Timer()])


pytestmark = pytest.mark.backend


def test_input_monitor_needs_a_sequence():
    with pytest.raises(ArgumentError, match="InputMonitor"):
        dense().fit(np.zeros((4, 1)), np.zeros(4), verbose=0, callbacks=[dfgen.InputMonitor()])
