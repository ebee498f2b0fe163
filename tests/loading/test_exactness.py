"""The rows that a model's own step really saw, read from the pixels, on the backend in use."""

import gc
import threading
import weakref

import keras
import numpy as np
import pytest
from keras.src.trainers.epoch_iterator import EpochIterator
from watching import EAGER, KERAS, SEVERAL_STEPS, order, orders, trained_watcher, watcher

import dfgen
from dfgen.system import usable_cpus
from dfgen.training.data_adapter import Passes

pytestmark = pytest.mark.backend


def sequence(frame, rows, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, **options}
    return dfgen.Sequence(frame(rows), y="label", **options)


class At(keras.callbacks.Callback):
    """Does something after one batch of one epoch."""

    def __init__(self, epoch, batch, act):
        super().__init__()
        self.at, self.act, self.epoch = (epoch, batch), act, None

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            self.act(self.model)


@pytest.mark.parametrize(
    ("rows", "built"), [*((rows, True) for rows in (3, 4, 8, 11, 48, 45)), (4, False), (11, False)]
)
def test_each_row_once_an_epoch_in_another_order_each_epoch(frame, rows, built):
    """Sets of 1, 2, 3 and 12 batches, with and without a short last one; fit's own shuffle."""
    model, seq = trained_watcher() if built else watcher(), sequence(frame, rows)
    model.fit(seq, epochs=3, verbose=0)
    assert model.seen() == orders(rows, range(3))
    assert seq.epoch == 3


@pytest.mark.parametrize("workers", [0, 1, 2, 7])
def test_the_order_is_the_same_for_any_number_of_workers(frame, workers):
    model = trained_watcher()
    model.fit(sequence(frame, 46, workers=workers, seed=5), epochs=2, verbose=0)
    assert model.seen() == orders(46, range(2), seed=5)


@pytest.mark.parametrize("max_queue_size", [1, 30])
def test_the_order_is_the_same_for_any_look_ahead(frame, max_queue_size):
    model = trained_watcher()
    model.fit(sequence(frame, 10, max_queue_size=max_queue_size), epochs=3, verbose=0)
    assert model.seen() == orders(10, range(3))


def test_drop_remainder_leaves_out_the_short_last_batch_only(frame):
    model, seq = trained_watcher(), sequence(frame, 46, drop_remainder=True)
    model.fit(seq, epochs=2, verbose=0)
    assert len(seq) == 11
    assert model.seen() == orders(46, range(2), batches=11)


def test_without_shuffle_rows_come_in_their_own_order(frame):
    model = trained_watcher()
    model.fit(sequence(frame, 10, shuffle=False), epochs=2, verbose=0)
    assert model.seen() == [*range(10), *range(10)]


def test_validation_sees_each_row_in_order_and_leaves_training_alone(frame):
    model, train = trained_watcher(), sequence(frame, 24)
    val = sequence(frame, 10, shuffle=False)
    model.fit(train, validation_data=val, epochs=3, verbose=0)
    assert model.seen() == orders(24, range(3))
    assert model.seen("tested") == [*range(10)] * 3
    assert (train.epoch, val.epoch) == (3, 0)


@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_validation_on_the_training_sequence_itself(frame):
    model, train = trained_watcher(), sequence(frame, 10)
    model.fit(train, validation_data=train, epochs=3, verbose=0)
    assert model.seen() == orders(10, range(3))
    assert [sorted(model.seen("tested")[i : i + 10]) for i in (0, 10, 20)] == [[*range(10)]] * 3


def test_repeat_goes_on_over_epochs_and_over_fits(frame):
    model, seq = trained_watcher(), sequence(frame, 46)  # 12 batches, the last of 2 rows
    model.fit(seq.repeat(), steps_per_epoch=5, epochs=3, verbose=0)
    assert model.seen() == orders(46, range(2))[: 46 + 3 * 4]
    assert seq.epoch == 1
    model.fit(seq.repeat(), steps_per_epoch=9, epochs=1, verbose=0)
    assert model.seen() == orders(46, range(2))
    assert seq.epoch == 2


def test_fit_after_one_on_repeat_begins_the_epoch_that_was_left_anew(frame):
    model, seq = trained_watcher(), sequence(frame, 46)
    model.fit(seq.repeat(), steps_per_epoch=5, epochs=1, verbose=0)
    assert seq.progress.place.step == 5
    model.fit(seq, epochs=2, verbose=0)
    assert model.seen() == order(46, 0)[: 5 * 4] + orders(46, range(2))
    assert seq.epoch == 2


def test_a_loop_of_ones_own_may_be_called_fit(frame):
    first, seq, rows = sequence(frame, 46), sequence(frame, 46), []
    for _ in zip(range(3), first, strict=False):
        pass
    seq.load_state_dict(first.state_dict())

    def fit():
        for _ in range(2):
            seq.on_epoch_begin()
            for x, _ in seq:
                rows.extend(x[:, 0, 0, 0].tolist())
            seq.on_epoch_end()

    fit()
    assert rows == orders(46, range(2))[3 * 4 :]
    assert (seq.epoch, seq.receipt.rows, seq.receipt.missing) == (2, 46, 0)


def test_steps_per_epoch_short_of_the_length_goes_on_within_one_fit(frame):
    model, seq = trained_watcher(), sequence(frame, 48)
    model.fit(seq, steps_per_epoch=6, epochs=4, verbose=0)
    assert model.seen() == orders(48, range(2))
    assert seq.epoch == 2


@pytest.mark.parametrize("rows", [4, 12, 45, 48])
def test_several_steps_per_execution(frame, rows):
    if keras.backend.backend() == "torch" and KERAS < (3, 16):
        with pytest.raises(ValueError, match="must be 1 with the PyTorch backend"):
            watcher(steps_per_execution=4).fit(sequence(frame, 48), verbose=0)
        return
    model, seq = watcher(built=rows > 4, steps_per_execution=4), sequence(frame, rows)
    model.fit(seq, epochs=2, verbose=0)
    assert model.seen() == orders(rows, range(2))
    assert seq.epoch == 2


@SEVERAL_STEPS
@pytest.mark.parametrize("watched", [True, False])
def test_seven_steps_in_executions_of_five_are_ten_batches(frame, watched):
    model, seq = watcher(built=True, steps_per_execution=5), sequence(frame, 46)
    callbacks = [dfgen.InputMonitor()] if watched else []
    for _ in range(2):
        model.fit(seq.repeat(), steps_per_epoch=7, epochs=2, callbacks=callbacks, verbose=0)
    assert model.seen() == orders(46, range(4))[: 3 * 46 + 4 * 4]
    assert seq.epoch == 3
    if watched:  # else batches count that TensorFlow only fetched
        assert seq.state_dict()["positions"] == 16
        assert (seq.receipt.epoch, seq.receipt.rows, seq.receipt.missing) == (2, 46, 0)


def test_evaluate_within_a_batch_of_fit_leaves_the_epochs_alone(frame):
    model, seq = trained_watcher(), sequence(frame, 24)
    nested = At(0, 2, lambda model: model.evaluate(seq, verbose=0))
    model.fit(seq, epochs=3, callbacks=[nested], verbose=0)
    assert model.seen() == orders(24, range(3))
    assert seq.epoch == 3


@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_evaluate_leaves_repeat_where_it_was(frame):
    model, seq = trained_watcher(), sequence(frame, 40)
    model.fit(seq.repeat(), steps_per_epoch=4, epochs=1, verbose=0)
    model.evaluate(seq, verbose=0)
    model.fit(seq.repeat(), steps_per_epoch=4, epochs=2, validation_data=seq, verbose=0)
    assert model.seen() == orders(40, range(2))[: 12 * 4]
    assert seq.epoch == 1


def test_repeat_without_steps_raises_and_does_not_run_for_ever(frame):
    with pytest.raises(ValueError, match=r"fit on repeat\(\) would never end: give it steps_per"):
        watcher().fit(sequence(frame, 8).repeat(), verbose=0)
    with pytest.raises(ValueError, match=r"evaluate on repeat\(\) would never end: give it steps="):
        watcher().evaluate(sequence(frame, 8).repeat(), verbose=0)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
def test_more_steps_per_epoch_than_batches_counts_one_epoch_each(frame):
    model, seq = trained_watcher(), sequence(frame, 12)
    model.fit(seq, steps_per_epoch=7, epochs=2, verbose=0)
    assert model.seen() == orders(12, range(2))
    assert seq.epoch == 2


def test_stopping_in_mid_epoch_gives_the_epoch_back(frame):
    model, seq = trained_watcher(), sequence(frame, 40)
    stop = At(1, 3, lambda model: setattr(model, "stop_training", True))
    model.fit(seq, epochs=3, callbacks=[stop], verbose=0)
    assert model.seen() == order(40, 0) + order(40, 1, batches=4)
    assert seq.epoch == 1
    model.fit(seq, epochs=1, verbose=0)
    assert model.seen() == order(40, 0) + order(40, 1, batches=4) + order(40, 1)


def test_early_stopping_at_the_end_of_an_epoch_counts_it(frame):
    model, seq = trained_watcher(), sequence(frame, 12)
    early = keras.callbacks.EarlyStopping(monitor="loss", min_delta=1e9, patience=0)
    model.fit(seq, epochs=5, callbacks=[early], verbose=0)
    assert model.seen() == orders(12, range(2))
    assert seq.epoch == 2


def test_keyboard_interrupt_in_mid_epoch_then_fit_again(frame):
    def interrupt(model):
        raise KeyboardInterrupt

    model, seq = watcher(), sequence(frame, 48)
    with pytest.raises(KeyboardInterrupt):
        model.fit(seq, epochs=3, callbacks=[At(1, 4, interrupt)], verbose=0)
    before = model.seen()
    assert before == order(48, 0) + order(48, 1, batches=5)
    model.fit(seq, epochs=2, verbose=0)
    assert model.seen()[len(before) :] == orders(48, [1, 2])


def test_a_second_fit_goes_on_with_the_next_epoch(frame):
    model, seq = trained_watcher(), sequence(frame, 9)
    model.fit(seq, epochs=2, verbose=0)
    model.fit(seq, epochs=2, verbose=0)
    assert model.seen() == orders(9, range(4))


def test_evaluate_between_fits_leaves_the_epoch_alone(frame):
    model, seq = trained_watcher(), sequence(frame, 10)
    model.fit(seq, epochs=1, verbose=0)
    model.evaluate(seq, verbose=0)
    model.evaluate(seq, verbose=0)
    assert seq.epoch == 1
    assert sorted(model.seen("tested")) == sorted([*range(10)] * 2)
    model.fit(seq, epochs=2, verbose=0)
    assert model.seen() == orders(10, range(3))


def test_predict_follows_the_rows_and_leaves_the_epoch_alone(frame):
    model, seq = trained_watcher(), sequence(frame, 10, shuffle=False)
    model.fit(seq, epochs=1, verbose=0)
    predictions = model.predict(seq, verbose=0)
    assert (model.seen("tested"), seq.epoch, predictions.shape) == ([*range(10)], 1, (10, 2))
    model.fit(seq, epochs=1, verbose=0)
    assert model.seen() == [*range(10)] * 2


def test_predict_makes_ahead_what_the_next_one_asks_for(frame):
    seq = sequence(frame, 12, shuffle=False, max_queue_size=2)
    started, start = [], seq._loader.start
    seq._loader.start = lambda *position, **asked: (
        started.append(position[:2]) or start(*position, **asked)
    )
    layers = [keras.Input((4, 4, 3)), keras.layers.Flatten(), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    for _ in range(2):
        model.predict(seq, verbose=0)
    assert started == [(0, i % 3) for i in range(6 + 2)]


def test_a_batch_asked_for_from_outside_does_not_disturb_fit(frame):
    model, seq = trained_watcher(), sequence(frame, 40)
    model.fit(seq, epochs=2, callbacks=[At(0, 4, lambda model: seq[1])], verbose=0)
    assert model.seen() == orders(40, range(2))


def test_class_weight_weighs_the_rows_and_loses_none(frame):
    model, seq = trained_watcher(), sequence(frame, 10, class_weight={"even": 1, "odd": 3})
    model.fit(seq, epochs=2, verbose=0)
    assert model.seen() == orders(10, range(2))
    _, y, weights = seq[0]
    assert weights.tolist() == [3.0 if label else 1.0 for label in y.tolist()]


def test_the_label_and_the_weight_belong_to_the_pixels(frame):
    df = frame(30).assign(number=range(30), weight=np.arange(30) / 2)
    seq = dfgen.Sequence(
        df, y={"a": "number", "b": "label"}, sample_weight="weight", batch_size=7, image_size=(4, 4)
    )
    for x, y, weights in seq:
        rows = x[:, 0, 0, 0]
        assert y["a"].tolist() == rows.tolist()
        assert y["b"].tolist() == (rows % 2).tolist()
        assert weights.tolist() == (rows / 2).tolist()


def test_batches_that_are_kept_stay_as_they_were(frame):
    """Whole batches, slices, and tensors of the backend, kept over an epoch while others come."""
    kept = []
    for epoch in range(2):
        for step, (x, y) in enumerate(
            dfgen.Sequence(frame(120), batch_size=8, image_size=(64, 64), workers=2, seed=epoch)
        ):
            held = (x, x[2:5, 1], keras.ops.convert_to_tensor(x))[step % 3]
            kept.append((held, np.array(held)))
            del x, y, held
    for held, copy in kept:
        assert (np.asarray(held) == copy).all()


def test_a_bad_file_raises_the_error_itself_naming_the_row(frame, tmp_path):
    df = frame(40)
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    df.loc[17, "path"] = str(bad)
    seq = dfgen.Sequence(df, batch_size=4, image_size=(4, 4))
    model = watcher()
    with pytest.raises(dfgen.DfgenError) as caught:
        model.fit(seq, epochs=1, verbose=0)
    assert str(caught.value) == (
        f"row id=17, path={str(bad)!r}: not an image, array or sound that dfgen opens: "
        "the file begins with b'no image'. Formats: aiff, avif, bmp, cur, dds, flac, gif, heif, "
        "icns, ico, jpeg, jpeg2000, mp3, npy, ogg, pcx, png, pnm, psd, qoi, sgi, sun, tga, tiff, "
        "wav, webp"
    )
    assert seq.epoch == 0


def test_a_bad_file_is_skipped_with_weight_zero_and_listed(frame, tmp_path):
    df = frame(8)
    df.loc[5, "path"] = str(tmp_path / "gone.png")
    seq = dfgen.Sequence(df, batch_size=4, image_size=(4, 4), shuffle=False, on_error="skip")
    model = watcher(metrics=[])
    model.fit(seq, epochs=2, verbose=0)
    assert model.seen() == [0, 1, 2, 3, 4, 0, 6, 7] * 2
    assert seq[1][2].tolist() == pytest.approx([4 / 3, 0, 4 / 3, 4 / 3])
    assert seq.problems.to_dict("records") == [
        {
            "id": 5, "path": f"{tmp_path}/gone.png", "stage": "read",
            "reason": "the file does not exist", "epoch": 0,
        }
    ]  # fmt: skip


def test_several_inputs_and_outputs_by_name_and_by_place(frame):
    df = frame(12).assign(size=np.linspace(0, 1, 12))
    x = {"pixels": dfgen.Image("path", size=(4, 4), scale="0..1"), "size": "size"}
    pixels = keras.Input((4, 4, 3), name="pixels")
    size = keras.Input((), name="size")
    both = keras.ops.concatenate(
        [keras.layers.Flatten()(pixels), keras.ops.expand_dims(size, 1)], axis=1
    )
    kind = keras.layers.Dense(2, activation="softmax", name="kind")(both)
    number = keras.layers.Dense(1, name="number")(both)
    losses = {"kind": "sparse_categorical_crossentropy", "number": "mse"}
    named = keras.Model({"pixels": pixels, "size": size}, {"kind": kind, "number": number})
    named.compile("sgd", losses, run_eagerly=EAGER)
    y = {"kind": dfgen.Category("label"), "number": dfgen.Number("size")}
    named.fit(dfgen.Sequence(df, x=x, y=y, batch_size=5), epochs=1, verbose=0)
    placed = keras.Model([pixels, size], [kind, number])
    placed.compile("sgd", [*losses.values()], run_eagerly=EAGER)
    seq = dfgen.Sequence(df, x=list(x.values()), y=list(y.values()), batch_size=5)
    history = placed.fit(seq, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"][0])


def test_channels_first_is_honoured(frame):
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        seq = sequence(frame, 8, shuffle=False, image_size=(4, 6))
        assert seq[0][0].shape == (4, 3, 4, 6)
        assert seq.element_spec[0].shape == (None, 3, 4, 6)
        assert seq[0][0][:, 0, 0, 0].tolist() == [0, 1, 2, 3]
        model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(seq, epochs=1, verbose=0)
    finally:
        keras.config.set_image_data_format(before)


def test_a_bad_file_raises_from_evaluate_and_predict_too(frame):
    df = frame(12)
    df.loc[7, "path"] = "gone.png"
    seq = dfgen.Sequence(df, batch_size=4, image_size=(4, 4), shuffle=False)
    for run in ("evaluate", "predict"):
        with pytest.raises(FileNotFoundError, match=r"row id=7, path='gone\.png'"):
            getattr(watcher(built=True), run)(seq, verbose=0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [1]}, "Give the Sequence its own y=, a column of the manifest"),
        ({"sample_weight": [1.0]}, "Give the Sequence its own sample_weight=, a column"),
        ({"class_weight": {0: 1.0}}, "Give the Sequence its own class_weight="),
        ({"batch_size": 8}, "Give the Sequence its own batch_size="),
        ({"shuffle": False}, "Give the Sequence its own shuffle=False"),
    ],
)
def test_arguments_of_fit_that_keras_would_drop_raise(frame, given, message):
    (name,) = given
    with pytest.raises(ValueError, match=f"fit\\({name}=.*{message}"):
        watcher().fit(sequence(frame, 8), verbose=0, **given)


@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_batch_size_given_to_evaluate_raises_and_shuffle_of_validation_data_does_not(frame):
    model, seq = watcher(), sequence(frame, 8)
    with pytest.raises(ValueError, match=r"evaluate\(batch_size=...\) does not reach"):
        model.evaluate(seq, batch_size=2, verbose=0)
    model.fit(seq, validation_data=sequence(frame, 8), verbose=0)


def test_validation_split_is_refused(frame):
    with pytest.raises(ValueError, match="`validation_split` is only supported"):
        watcher().fit(sequence(frame, 8), validation_split=0.5, verbose=0)


def test_predict_on_a_sequence_that_shuffles_raises(frame):
    with pytest.raises(ValueError, match="the predictions could not be matched with the rows"):
        watcher().predict(sequence(frame, 8), verbose=0)


def test_a_sequence_tells_the_workers_and_the_queue_that_were_asked_for(frame):
    seq = sequence(frame, 8, workers=3, max_queue_size=4)
    assert (seq.workers, seq.use_multiprocessing, seq.max_queue_size) == (3, False, 4)
    assert sequence(frame, 8, workers=None).workers == usable_cpus()
    model, read = trained_watcher(), []
    look = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: read.append((seq.workers, seq.max_queue_size))
    )
    model.fit(seq, verbose=0, callbacks=[look])
    assert read == [(3, 4)] * 2
    with sequence(frame, 8, workers=1, use_multiprocessing=True) as processes:
        assert processes.use_multiprocessing


def test_reading_a_property_changes_nothing(frame):
    seq = sequence(frame, 46)
    own = {**vars(Passes), **vars(dfgen.Sequence)}
    names = [name for name, value in own.items() if isinstance(value, property)]
    assert {"num_batches", "epoch", "left_out", "workers", "receipt"} <= set(names)

    def state():
        return seq._loader.plan, len(seq._runs), vars(seq.progress).copy(), seq.state_dict()

    before = state()
    assert seq.num_batches == 12
    EpochIterator(seq)
    assert state() == before
    for name in names:
        getattr(seq, name)
    assert state() == before


@pytest.mark.slow
def test_a_sequence_that_nobody_holds_is_freed_and_its_threads_end(frame):
    model = watcher()

    def run():
        before = set(threading.enumerate())
        seq = sequence(frame, 40)
        model.fit(seq, epochs=2, verbose=0)
        new = set(threading.enumerate()) - before
        threads = [thread for thread in new if thread.name.startswith("dfgen-")]
        assert len(threads) == 2
        return weakref.ref(seq), threads

    reference, threads = run()
    for _ in range(3):
        gc.collect()
    assert reference() is None
    for thread in threads:
        thread.join(timeout=30)
        assert not thread.is_alive()


class Rows(keras.utils.PyDataset):
    """Twelve batches for Keras's own pool."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        x = np.zeros((4, 4, 4, 3), np.uint8)
        x[..., 0] = np.arange(4 * index, 4 * index + 4)[:, None, None]
        return x, np.zeros(4, np.int32)


@pytest.mark.xfail(
    keras.backend.backend() in ("jax", "torch"),
    reason="Keras serves the batches it took to build the model, then starts again at 0",
    strict=False,
)
def test_keras_own_pool_of_three_workers_gives_each_row_once():
    model = watcher()
    model.fit(Rows(workers=3, max_queue_size=4), epochs=1, shuffle=False, verbose=0)
    assert sorted(model.seen()) == [*range(48)]
