"""InputMonitor in real trainings: what it adds to the logs, of whatever a Sequence feeds."""

import csv
import math
import threading

import keras
import numpy as np
import pandas as pd
import pytest
from watching import SEVERAL_STEPS, trained_watcher, watcher

import dfgen
from dfgen.loading.workers.workers import Chooser

pytestmark = pytest.mark.backend
ALWAYS = {"input_wait", "images_per_second", "input_headroom"}


def unchanged(arrays, rng):
    return arrays


def train(seq, model=None, **options):
    """Return the history, and what is added to it: all finite, none negative."""
    options = {"epochs": 2, "verbose": 0} | options
    history = (
        (model or trained_watcher()).fit(seq, callbacks=[dfgen.InputMonitor()], **options).history
    )
    added = {
        name: values for name, values in history.items() if "input" in name or "images" in name
    }
    for values in added.values():
        assert len(values) == 2
        assert all(isinstance(value, float) and math.isfinite(value) for value in values)
        assert all(0 <= value <= 1e9 for value in values)
    return set(added)


def sequence(df, **options):
    return dfgen.Sequence(df, **{"batch_size": 8, "image_size": (4, 4), "workers": 2, **options})


@pytest.mark.parametrize(
    "options",
    [{"max_queue_size": 1}, {"workers": 0}, {"use_multiprocessing": True, "workers": 1}],
    ids=str,
)
def test_every_epoch_has_figures(frame, options):
    with sequence(frame(40), **options) as seq:
        assert train(seq) == ALWAYS


def test_waiting_counts_if_keras_takes_batch_ahead(monkeypatch):
    if keras.backend.backend() == "jax":  # as Keras does for GPUs
        monkeypatch.setattr("jax.default_backend", lambda: "gpu")

    def slow(sample, rng):
        threading.Event().wait(0.02)
        return sample

    df = pd.DataFrame({"id": range(64), "x": np.arange(64.0)})
    with dfgen.Sequence(df, x="x", y="x", batch_size=8, transform=slow, workers=1) as seq:
        model = keras.Sequential([keras.layers.Reshape((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(seq, epochs=2, verbose=0, callbacks=[dfgen.InputMonitor()]).history
    assert history["input_wait"][1] > 0.5


def test_waiting_is_at_most_the_time_of_the_steps(frame):
    class Late(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            threading.Event().wait(0.3)  # TensorFlow meanwhile waits for the next batch

    def slow(sample, rng):
        threading.Event().wait(0.05)
        return sample

    with sequence(frame(40), transform=slow, workers=1) as seq:
        history = (
            trained_watcher()
            .fit(
                seq.repeat(), steps_per_epoch=1, epochs=3, verbose=0,
                callbacks=[dfgen.InputMonitor(), Late()],
            )
            .history
        )  # fmt: skip
    assert all(0 <= share <= 1 for share in history["input_wait"])
    assert all(headroom >= 0 for headroom in history["input_headroom"])


def test_endless_view_and_validation_have_same_figures(frame):
    with sequence(frame(40)) as seq, sequence(frame(16)) as val:
        assert train(seq.repeat(), steps_per_epoch=3, validation_data=val) == ALWAYS


@SEVERAL_STEPS
def test_several_steps_per_execution_have_same_figures(frame):
    with sequence(frame(90)) as seq:
        assert train(seq, watcher(steps_per_execution=5)) == ALWAYS


def test_numbers_alone_have_no_stages_but_their_headroom(frame):
    df = frame(40).assign(age=np.arange(40.0))
    model = keras.Sequential([keras.layers.Reshape((1,)), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    with dfgen.Sequence(df, x="age", y="label", batch_size=8) as seq:
        assert train(seq, model) == ALWAYS


def test_skipped_rows_and_batchless_epochs_have_figures(frame):
    df = frame(5)
    df.loc[2, "path"] = "gone.png"
    with sequence(df, on_error="skip", y=None) as seq:
        assert train(seq) == ALWAYS


def test_csv_logger_gets_equal_columns_every_epoch(frame, tmp_path):
    callbacks = [dfgen.InputMonitor(), keras.callbacks.CSVLogger(tmp_path / "log.csv")]
    with sequence(frame(40)) as seq:
        trained_watcher().fit(seq, epochs=3, verbose=0, callbacks=callbacks)
    with open(tmp_path / "log.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    assert all(math.isfinite(float(row[name])) for row in rows for name in ALWAYS)


@pytest.mark.parametrize(("epochs", "each", "batches"), [(1, "step", 4), (3, "epoch", 10)])
def test_the_verdict_leaves_out_what_came_first(frame, monkeypatch, epochs, each, batches):
    found = []
    monkeypatch.setattr("dfgen.training.callbacks.monitor.verdict", found.append)
    with sequence(frame(40)) as seq:
        trained_watcher().fit(seq, verbose=2, epochs=epochs, callbacks=[dfgen.InputMonitor()])
    assert [(one.began, one.batches) for one in found] == [(each, batches)]


@pytest.mark.parametrize("rows", [8, 24], ids=["one step", "three steps"])
def test_a_training_of_few_steps_gets_no_advice(frame, capsys, rows):
    with sequence(frame(rows)) as seq:
        for epochs in (0, 1):
            trained_watcher().fit(seq, epochs=epochs, verbose=2, callbacks=[dfgen.InputMonitor()])
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("dfgen:")]
    assert said.endswith((": too short for advice.", ": nothing to gain."))


def test_shared_callbacks_watch_only_fit(frame):
    monitor, model = dfgen.InputMonitor(), trained_watcher()
    with sequence(frame(40), shuffle=False) as seq:
        model.evaluate(seq, verbose=0, callbacks=[monitor])
        model.predict(seq, verbose=0, callbacks=[monitor])
        model.fit(seq, epochs=2, verbose=0, callbacks=[monitor])
        watched = list(monitor._epochs)
        model.evaluate(seq, verbose=0, callbacks=[monitor])
        model.predict(seq, verbose=0, callbacks=[monitor])
    assert monitor._epochs == watched


def test_a_monitor_watches_one_fit_after_another(frame):
    monitor, model = dfgen.InputMonitor(), trained_watcher()
    with sequence(frame(40)) as one, sequence(frame(24)) as other:
        model.fit(one, epochs=2, verbose=0, callbacks=[monitor])
        model.fit(other, verbose=0, callbacks=[monitor])
    assert [epoch["images"] for epoch in monitor._epochs] == [24]


def test_the_verdict_knows_how_many_threads_make_batches(frame, monkeypatch):
    found = []
    monkeypatch.setattr("dfgen.loading.loader.usable_cpus", lambda: 4)
    monkeypatch.setattr("dfgen.training.callbacks.monitor.verdict", found.append)
    with sequence(frame(40), workers=None) as seq:
        seq._loader._workers.chooser = Chooser(((1, False),))
        trained_watcher().fit(seq, verbose=2, epochs=2, callbacks=[dfgen.InputMonitor()])
    assert [one.workers for one in found] == [1]


def test_verdict_on_waiting_suggests_a_remedy(frame, capsys):
    class Waited(dfgen.InputMonitor):
        def on_train_end(self, logs=None):
            for epoch in self._epochs:  # as if it had waited for so long
                epoch["waited"] += 100.0
                epoch["decode"] += 200.0
            super().on_train_end(logs)

    with sequence(frame(40), workers=2) as seq:
        trained_watcher().fit(seq, verbose=2, epochs=3, callbacks=[Waited()])
    (said,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("dfgen:")]
    assert "2 workers were busy 100% of it" in said and 'Try cache="folder"' in said
