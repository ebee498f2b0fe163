"""The rows that `fit`, `evaluate` and `predict` really process, in order, on each backend."""

import keras
import numpy as np
import pytest

from dfgen.errors import DecodeError
from public.keras_helpers import EAGER, assert_close, sequence, weights_of
from public.permutation import epoch_rows, epochs_rows
from public.watching import BACKEND, KERAS, built_watcher, watcher

pytestmark = pytest.mark.backend


class At(keras.callbacks.Callback):
    """Calls a function of the model after one batch of one epoch."""

    def __init__(self, epoch, batch, act):
        super().__init__()
        self.place, self.act = (epoch, batch), act

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.place:
            self.act(self.model)


@pytest.mark.parametrize(
    ("rows", "built"), [*((n, True) for n in (1, 3, 4, 8, 11, 45, 48)), (4, False), (11, False)]
)
def test_fit_uses_each_row_once_per_epoch(frame, rows, built):
    model, seq = built_watcher() if built else watcher(run_eagerly=EAGER), sequence(frame(rows))
    history = model.fit(seq, epochs=3, verbose=0)
    assert model.seen() == epochs_rows(rows, range(3))
    assert (seq.epoch, history.epoch, len(history.history["loss"])) == (3, [0, 1, 2], 3)


FITS = {  # rows, options of the Sequence, arguments of each fit, rows expected, epoch afterwards
    "seed": (46, {"seed": 5}, [{"epochs": 2}], epochs_rows(46, range(2), seed=5), 2),
    "in order": (10, {"shuffle": False}, [{"epochs": 2}], [*range(10)] * 2, 2),
    "full batches alone": (
        46, {"drop_remainder": True}, [{"epochs": 2}],
        epoch_rows(46, 0)[:44] + epoch_rows(46, 1)[:44], 2,
    ),
    "two fits": (9, {}, [{"epochs": 2}, {"epochs": 2}], epochs_rows(9, range(4)), 4),
    "initial_epoch": (
        9, {}, [{"initial_epoch": 2, "epochs": 4}, {"initial_epoch": 4, "epochs": 4}],
        epochs_rows(9, range(2)), 2,
    ),
    "short of a pass": (
        48, {}, [{"steps_per_epoch": 6, "epochs": 4}], epochs_rows(48, range(2)), 2,
    ),
    "short of a pass, then again": (
        46, {}, [{"steps_per_epoch": 5, "epochs": 2}, {}],
        epoch_rows(46, 0)[:40] + epoch_rows(46, 0), 1,
    ),
    "repeat": (
        46, {}, [{"steps_per_epoch": 5, "epochs": 3}, {"steps_per_epoch": 9}],
        epochs_rows(46, range(2)), 2,
    ),
    "repeat, longer than a pass": (
        10, {}, [{"steps_per_epoch": 7, "epochs": 2}], epochs_rows(10, range(5))[:48], 4,
    ),
    "repeat, then whole passes": (
        46, {}, [{"steps_per_epoch": 5}, {"epochs": 2}],
        epoch_rows(46, 0)[:20] + epochs_rows(46, range(2)), 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_fits_process_exactly_these_rows(frame, name):
    rows, options, fits, expected, epoch = FITS[name]
    model, seq = built_watcher(), sequence(frame(rows), **options)
    for arguments in fits:
        repeats = name.startswith("repeat") and "steps_per_epoch" in arguments
        model.fit(seq.repeat() if repeats else seq, verbose=0, **arguments)
    assert model.seen() == expected
    assert seq.epoch == epoch


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_steps_beyond_the_pass_end_with_it(frame):
    model, seq = built_watcher(), sequence(frame(10))
    model.fit(seq, steps_per_epoch=7, epochs=2, verbose=0)
    assert (model.seen(), seq.epoch) == (epochs_rows(10, range(2)), 2)


@pytest.mark.parametrize("rows", [4, 12, 45, 48])
def test_several_steps_per_execution(frame, rows):
    model = watcher(built=rows > 4, steps_per_execution=4)
    if BACKEND == "torch" and KERAS < (3, 16):
        with pytest.raises(ValueError, match="must be 1"):
            model.fit(sequence(frame(48)), verbose=0)
        return
    seq = sequence(frame(rows))
    model.fit(seq, epochs=2, verbose=0)
    assert (model.seen(), seq.epoch) == (epochs_rows(rows, range(2)), 2)
    model.fit(seq.repeat(), steps_per_epoch=3, verbose=0)  # Keras ends no execution early
    assert model.seen() == epochs_rows(rows, range(6))[: 2 * rows + 16]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [*range(30, 40)] * 3),
        ({"validation_freq": 2}, [*range(30, 40)]),
        ({"validation_freq": [1, 3]}, [*range(30, 40)] * 2),
        ({"validation_steps": 2}, [*range(30, 38)] * 3),
    ],
)
def test_validation_sees_each_row_in_order(frame, arguments, expected):
    model, train = built_watcher(), sequence(frame(24))
    val = sequence(frame(40)[30:], shuffle=False)
    history = model.fit(train, validation_data=val, epochs=3, verbose=0, **arguments).history
    assert model.seen() == epochs_rows(24, range(3))
    assert model.seen("tested") == expected
    assert (train.epoch, val.epoch, len(history["val_loss"])) == (3, 0, -(-len(expected) // 10))


def logits(model, rows):
    kernel, bias = model.dense.get_weights()
    x = np.zeros((len(rows), 4, 4, 3), "float32")
    x[..., 0] = np.reshape(rows, (-1, 1, 1))
    return x.reshape(-1, 48) / 255 @ kernel + bias


def test_predict_returns_the_output_of_each_row(frame):
    model, rows = built_watcher(), [*range(7, 40, 3)]
    seq = sequence(frame(40).iloc[rows], shuffle=False)
    model.fit(seq, verbose=0)
    assert_close(model.predict(seq, verbose=0), logits(model, rows))
    assert model.predict(seq, steps=2, verbose=0).shape == (8, 2)
    assert (model.seen("tested"), seq.epoch) == (rows + rows[:8], 1)
    model.fit(seq, verbose=0)
    assert model.seen() == rows * 2


def test_evaluate_returns_the_mean_loss_of_all_rows(frame):
    model, rows = built_watcher(), np.arange(11)
    scores = logits(model, rows)
    losses = np.log(np.exp(scores).sum(1)) - scores[rows, rows % 2]
    for seq in (sequence(frame(11), shuffle=False), sequence(frame(11))):
        assert model.evaluate(seq, verbose=0) == pytest.approx(losses.mean(), rel=1e-4)
        assert seq.epoch == 0
    seq = sequence(frame(11), shuffle=False)
    assert model.evaluate(seq, steps=2, verbose=0) == pytest.approx(losses[:8].mean(), rel=1e-4)


def test_fit_equals_fit_on_the_same_arrays(frame):
    options = {"built": True, "run_eagerly": EAGER, "metrics": ["accuracy"]}
    metrics = [keras.metrics.SparseCategoricalCrossentropy(from_logits=True) for _ in range(2)]
    ours, theirs = (watcher(weighted_metrics=[metric], **options) for metric in metrics)
    theirs.set_weights(ours.get_weights())
    x, y = (np.concatenate(arrays) for arrays in zip(*sequence(frame(22)), strict=True))
    val = sequence(frame(40)[30:], shuffle=False)
    val_x, val_y = (np.concatenate(arrays) for arrays in zip(*val, strict=True))
    arguments = {"validation_data": (val_x, val_y), "validation_batch_size": 4, "shuffle": False}
    expected = theirs.fit(x, y, batch_size=4, verbose=0, **arguments).history
    actual = ours.fit(sequence(frame(22)), validation_data=val, verbose=0).history
    assert {*actual} == {*expected} and len(actual) == 6
    for name, values in expected.items():
        assert actual[name] == pytest.approx(values, rel=1e-4), name
    assert_close(weights_of(ours.dense), weights_of(theirs.dense))


@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_evaluate_leaves_the_epoch_alone(frame):
    """Within a batch of fit, between two fits, in a repeated pass, and as its own validation."""
    model, seq = built_watcher(), sequence(frame(24))
    evaluate = At(1, 2, lambda model: model.evaluate(seq, verbose=0))
    model.fit(seq, epochs=2, callbacks=[evaluate], verbose=0)
    model.evaluate(seq, verbose=0)
    assert seq.epoch == 2
    model.fit(seq.repeat(), steps_per_epoch=4, verbose=0)
    model.evaluate(seq, verbose=0)
    model.fit(seq.repeat(), steps_per_epoch=4, epochs=2, validation_data=seq, verbose=0)
    assert (model.seen(), seq.epoch) == (epochs_rows(24, range(4)), 4)
    assert (np.sort(np.reshape(model.seen("tested"), (5, 24))) == range(24)).all()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError, None])
def test_epoch_that_is_cut_short_is_repeated(frame, error):
    def act(model):
        if error:
            raise error
        model.stop_training = True

    model, seq = watcher(run_eagerly=EAGER), sequence(frame(30))
    arguments = {"epochs": 3, "verbose": 0, "callbacks": [At(1, 4, act)]}
    if error:
        with pytest.raises(error):
            model.fit(seq, **arguments)
    else:
        model.fit(seq, **arguments)
    before = epoch_rows(30, 0) + epoch_rows(30, 1)[:20]
    assert (model.seen(), seq.epoch) == (before, 1)
    model.fit(seq, epochs=2, verbose=0)
    assert (model.seen(), seq.epoch) == (before + epochs_rows(30, [1, 2]), 3)


def test_early_stopping_counts_its_last_epoch(frame):
    model, seq = built_watcher(), sequence(frame(12))
    early = keras.callbacks.EarlyStopping(monitor="loss", min_delta=1e9, patience=0)
    model.fit(seq, epochs=5, callbacks=[early], verbose=0)
    assert (model.seen(), seq.epoch) == (epochs_rows(12, range(2)), 2)


@pytest.mark.parametrize("bad", [1, 9])
@pytest.mark.parametrize("method", ["fit", "evaluate", "predict", "validation"])
def test_corrupt_file_raises_and_the_model_survives(frame, tmp_path, method, bad):
    model, df = watcher(built=True, run_eagerly=EAGER), frame(12)
    (tmp_path / "bad.png").write_bytes(b"no image")
    path = df.path.where(df.id != bad, f"{tmp_path}/bad.png")
    seq, before = sequence(df.assign(path=path), shuffle=False), weights_of(model.dense)
    train = sequence(frame(24)[12:])
    with pytest.raises(DecodeError, match=rf"id={bad}, path='{tmp_path}/bad\.png'"):
        if method == "validation":
            model.fit(train, validation_data=seq, epochs=2, verbose=0)
        else:
            getattr(model, method)(seq, verbose=0)
    assert (seq.epoch, train.epoch) == (0, method == "validation")
    has_trained = method == "validation" or (method == "fit" and bad > 4)
    assert has_trained == (before[0] != weights_of(model.dense)[0]).any()
    model.forget()
    model.fit(sequence(df), validation_data=sequence(frame(24)[12:], shuffle=False), verbose=0)
    assert (model.seen(), model.seen("tested")) == (epoch_rows(12, 0), [*range(12, 24)])
