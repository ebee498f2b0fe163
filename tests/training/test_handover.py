"""What reaches each backend: the same memory, without a copy, and what InputMonitor tells of it."""

import csv
import time

import keras
import numpy as np
import pytest
from watching import SEVERAL_STEPS, orders, trained_watcher, watcher

import dfgen

pytestmark = pytest.mark.backend
BACKEND = keras.backend.backend()


def sequence(df, **options):
    return dfgen.Sequence(df, **{"batch_size": 8, "image_size": (64, 64), "workers": 2, **options})


def test_a_loop_over_the_tensorflow_dataset_does_not_hide_an_error(frame):
    import tensorflow as tf

    df = frame(40)
    df.loc[30, "path"] = "gone.png"
    with pytest.raises(tf.errors.OpError, match=r"path='gone\.png'"):
        list(sequence(df).get_tf_dataset())


def test_a_tensorflow_dataset_knows_how_many_batches_it_has(frame):
    import tensorflow as tf

    seq = sequence(frame(40))
    assert seq.get_tf_dataset().cardinality() == 5
    assert seq.get_tf_dataset().map(lambda x, y: x).cardinality() == 5
    assert seq.repeat().get_tf_dataset().cardinality() == tf.data.INFINITE_CARDINALITY


def test_fit_on_a_tensorflow_dataset_takes_each_row_once_an_epoch(frame):
    """As KerasHub's models do; Keras would warn if it ran out of data before it expected to."""
    seq, model = dfgen.Sequence(frame(46), batch_size=4, image_size=(4, 4)), trained_watcher()
    model.fit(seq.get_tf_dataset(), epochs=3, shuffle=False, verbose=0)
    assert model.seen() == orders(46, range(3))
    assert seq.epoch == 3
    endless = seq.repeat().get_tf_dataset()
    model.fit(endless, steps_per_epoch=6, epochs=2, shuffle=False, verbose=0)
    assert model.seen() == orders(46, range(4))


def test_a_tensorflow_dataset_made_after_a_resume_gives_the_rest(frame):
    first = sequence(frame(40))
    next(iter(first))
    seq = sequence(frame(40))
    before = seq.get_tf_dataset()
    seq.load_state_dict(first.state_dict())
    with pytest.raises(Exception, match="4"):
        list(before)
    seq.load_state_dict(first.state_dict())
    dataset = seq.get_tf_dataset()
    assert [len(list(dataset)) for _ in range(2)] == [4, 5]
    assert seq.epoch == 2


def test_iterating_draws_nothing_from_the_global_generators(frame):
    before = np.random.get_state()[1].tolist()
    if BACKEND == "torch":
        import torch

        state = torch.get_rng_state().clone()
        trained_watcher().fit(sequence(frame(40)), verbose=0)
        assert (torch.get_rng_state() == state).all()
    list(sequence(frame(40)))
    assert np.random.get_state()[1].tolist() == before


def test_input_monitor_adds_its_figures_to_the_logs_of_every_epoch(frame, tmp_path, capsys):
    seq = sequence(frame(40), image_size=(4, 4))
    model = trained_watcher()
    history = model.fit(
        seq,
        validation_data=sequence(frame(16), image_size=(4, 4)),
        epochs=3,
        verbose=2,
        callbacks=[dfgen.InputMonitor(), keras.callbacks.CSVLogger(tmp_path / "log.csv")],
    ).history
    assert len(history["input_wait"]) == len(history["images_per_second"]) == 3
    assert all(0 <= share <= 1 for share in history["input_wait"])
    assert all(rate > 0 for rate in history["images_per_second"])
    with open(tmp_path / "log.csv") as file:
        assert {"input_wait", "images_per_second"} <= set(next(csv.DictReader(file)))
    assert "\ndfgen: training waited for its input " in capsys.readouterr().out


def test_input_monitor_prints_nothing_where_fit_prints_nothing(frame, capsys):
    seq = sequence(frame(8), image_size=(4, 4))
    trained_watcher().fit(seq, verbose=0, callbacks=[dfgen.InputMonitor()])
    assert capsys.readouterr().out == ""


def test_input_monitor_sees_a_loader_that_is_late(frame, capsys, monkeypatch):
    seconds = [0]

    def slow(sample, rng):
        seconds[0] += 1
        return sample

    monkeypatch.setattr(time, "perf_counter", lambda: seconds[0])
    seq = sequence(frame(80), image_size=(4, 4), transform=slow, workers=0)
    model = watcher(built=True)
    history = model.fit(seq, epochs=2, verbose=2, callbacks=[dfgen.InputMonitor()]).history
    assert min(history["input_wait"]) >= 0.1  # each first batch of ten, and those not fetched ahead
    said = capsys.readouterr().out
    assert "The calling thread (workers=0) was busy " in said
    assert "% of it: transform " in said


def test_input_monitor_works_with_repeat_and_counts_every_image(frame):
    seq = sequence(frame(40), image_size=(4, 4))
    monitor = dfgen.InputMonitor()
    trained_watcher().fit(seq.repeat(), steps_per_epoch=3, epochs=2, verbose=0, callbacks=[monitor])
    assert [epoch["images"] for epoch in monitor._epochs] == [24, 24]


@SEVERAL_STEPS
def test_input_monitor_counts_every_image_of_several_steps_in_one_execution(frame):
    monitor, model = dfgen.InputMonitor(), watcher(steps_per_execution=5)
    model.fit(sequence(frame(90), image_size=(4, 4)), verbose=0, callbacks=[monitor])
    assert monitor._epochs[0]["images"] == 90


def test_input_monitor_needs_a_sequence(frame):
    x, y = sequence(frame(8), image_size=(4, 4))[0]
    with pytest.raises(ValueError, match="InputMonitor expects"):
        watcher().fit(x, y, verbose=0, callbacks=[dfgen.InputMonitor()])
