"""Sequences that nobody references or that are closed; other layouts and names."""

import gc
import threading
import weakref

import keras
import numpy as np
import pytest
from public.keras_helpers import EAGER, SPARSE, sequence
from public.test_keras_arguments import backend as backend
from public.test_keras_arguments import table as table
from public.test_keras_arguments import two_by_two as two_by_two
from public.watching import built_watcher

import dfgen
from dfgen.errors import ArgumentError

X, Y = {"a": "a", "b": "b"}, {"kind": "kind", "age": "age"}


@backend
@pytest.mark.parametrize(
    ("x", "y", "word"),
    [
        ({"a": "a", "c": "b"}, Y, "b"), ({"a": "a"}, Y, "b"), (X, {"kind": "kind"}, "age"),
        (X, {"kind": "kind", "years": "age"}, "age"), (X, ["b", "a"], "kind"),
    ],
    ids=["other input", "no input", "no output", "other output", "a list for a dict"],
)  # fmt: skip
def test_names_that_differ_from_the_model_raise(table, x, y, word):
    seq = dfgen.Sequence(table, x, y, workers=0)
    for method in ("fit", "evaluate"):
        with pytest.raises(ArgumentError, match=rf"'{word}'"):
            getattr(two_by_two(dict, dict), method)(seq, verbose=0)


@backend
def test_channels_first(frame):
    keras.config.set_image_data_format("channels_first")
    try:
        with sequence(frame(10), shuffle=False, image_size=(4, 6)) as seq:
            assert seq.element_spec[0].shape == (None, 3, 4, 6)
            assert seq[2][0].shape == (2, 3, 4, 6)
            assert seq[1][0][:, 0, 3, 5].tolist() == [4, 5, 6, 7]
            assert not seq[1][0][:, 1:].any()
            model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
            model.compile("sgd", SPARSE(from_logits=True), run_eagerly=EAGER)
            assert np.isfinite(model.fit(seq, verbose=0).history["loss"][0])
    finally:
        keras.config.set_image_data_format("channels_last")


def threads():
    return {thread for thread in threading.enumerate() if thread.name.startswith("dfgen")}


@backend
@pytest.mark.parametrize("use", ["fit", "validation", "backup", "a loop left early"])
@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_unreferenced_sequences_end_their_threads(frame, tmp_path, use):
    def run():
        seq, model, before = sequence(frame(40)), built_watcher(), threads()
        callbacks = [dfgen.BackupAndRestore(tmp_path, seq), dfgen.InputMonitor()]
        if use == "a loop left early":
            next(iter(seq))
        else:
            val, callbacks = seq if use == "validation" else None, callbacks * (use == "backup")
            model.fit(seq, validation_data=val, callbacks=callbacks, epochs=2, verbose=0)
        assert len(threads() - before) == 2
        return weakref.ref(seq), threads() - before

    reference, started = run()
    gc.collect()
    assert reference() is None
    for thread in started:
        thread.join(timeout=30)
        assert not thread.is_alive()


def test_closed_sequences_raise(frame):
    with sequence(frame(40)) as seq:
        next(iter(seq))
    for use in (lambda: seq[0], lambda: next(iter(seq)), lambda: built_watcher().fit(seq)):
        with pytest.raises(ValueError, match="closed"):
            use()
    seq.close()
    assert seq.epoch == 0
