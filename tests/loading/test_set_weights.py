"""A Sequence that draws rows by weights, and other weights between epochs."""

import json

import keras
import numpy as np
import pandas as pd
import pytest
import sized
from killing import EPOCHS, STEPS, Reweigh, light_model, make_sequence
from watching import trained_watcher

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.loading.order.draws import proportions_of
from dfgen.loading.order.row_order import RowOrder
from dfgen.samples.transforms import sample_rng

ROWS, BATCH = 46, 4
FIRST = np.r_[np.ones(40), np.full(6, 4.0)]
SECOND, THIRD = np.arange(46.0), np.arange(46.0)[::-1] ** 2


def expected(weights, epoch, places=ROWS):
    order = RowOrder(ROWS, 0, proportions_of(weights, places))
    return order.at(epoch, np.arange(places))[0].tolist()


@pytest.fixture
def sequence(frame):
    def make(weights=FIRST, **options):
        manifest = frame(ROWS).assign(weight=weights)
        options = {"batch_size": BATCH, "image_size": (4, 4), "workers": 2, **options}
        return dfgen.Sequence(manifest, y="label", **{"balance": "weight", **options})

    return make


class At(keras.callbacks.Callback):
    """Calls a function at a place of a fit."""

    def __init__(self, when, epoch, act):
        super().__init__()
        self.when, self.place, self.act = when, epoch, act

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        self.pass_by("begin")

    def on_train_batch_end(self, batch, logs=None):
        if batch == 4:
            self.pass_by("step")

    def on_epoch_end(self, epoch, logs=None):
        self.pass_by("end")

    def pass_by(self, when):
        if (when, self.epoch) == (self.when, self.place):
            self.act()


@pytest.mark.backend
class TestFit:
    @pytest.mark.parametrize(
        ("when", "epoch", "workers"),
        [("end", 0, 3), ("begin", 1, 3), ("step", 0, 3), ("end", 0, 0)],
    )
    def test_weights_set_in_a_callback_hold_from_the_next_epoch_on(
        self, sequence, when, epoch, workers
    ):
        model, seq = trained_watcher(), sequence(workers=workers)
        callback = At(when, epoch, lambda: seq.set_weights(SECOND))
        model.fit(seq, epochs=3, verbose=0, callbacks=[callback])
        assert model.seen() == [
            row
            for epoch, weights in enumerate((FIRST, SECOND, SECOND))
            for row in expected(weights, epoch)
        ]
        assert (seq.receipt.repeated, seq.receipt.missing) == (0, 0)

    def test_receipts_are_of_the_rows_that_the_weights_of_each_epoch_draw(self, sequence, tmp_path):
        seq, path = sequence(), tmp_path / "receipts.parquet"
        callbacks = [
            At("end", 0, lambda: seq.set_weights(SECOND)),
            At("end", 1, lambda: seq.set_weights(THIRD)),
            dfgen.InputMonitor(receipts=path),
        ]
        trained_watcher().fit(seq, epochs=3, verbose=0, callbacks=callbacks)
        found = pd.read_parquet(path)
        assert found[["rows", "repeated", "missing"]].to_numpy().tolist() == [[ROWS, 0, 0]] * 3
        counts = np.bincount(expected(THIRD, 2), minlength=ROWS)
        assert seq.row_counts(2).tolist() == counts.tolist()

    def test_epochs_are_as_long_as_asked_for(self, sequence):
        model, seq = trained_watcher(), sequence(rows_per_epoch=20)
        model.fit(seq, epochs=2, verbose=0)
        assert len(seq) == 5
        assert model.seen() == expected(FIRST, 0, 20) + expected(FIRST, 1, 20)

    def test_between_two_fits_of_a_part_of_an_epoch_on_repeat(self, sequence):
        model, seq = trained_watcher(), sequence()
        endless = seq.repeat()
        model.fit(endless, steps_per_epoch=5, verbose=0)
        seq.set_weights(SECOND)
        model.fit(endless, steps_per_epoch=12, verbose=0)
        assert model.seen() == (expected(FIRST, 0) + expected(SECOND, 1))[: 16 * BATCH + 2]

    def test_while_fit_runs_on_repeat_it_is_refused(self, sequence):
        seq = sequence()
        callback = At("end", 0, lambda: seq.set_weights(SECOND))
        with pytest.raises(ArgumentError) as caught:
            trained_watcher().fit(seq.repeat(), steps_per_epoch=5, verbose=0, callbacks=[callback])
        assert str(caught.value) == (
            "set_weights cannot be called while fit runs on repeat(), which fetches batches of "
            "later epochs ahead: give fit the Sequence itself, or call it between two fits"
        )

    def test_evaluate_between_two_fits_sees_the_new_weights_and_takes_nothing(self, sequence):
        model, seq = trained_watcher(), sequence()
        model.fit(seq, verbose=0)
        seq.set_weights(SECOND)
        model.evaluate(seq, verbose=0)
        assert model.seen("tested") == expected(SECOND, 1)
        model.fit(seq, verbose=0)
        assert model.seen() == expected(FIRST, 0) + expected(SECOND, 1)

    def test_a_state_of_mid_epoch_goes_on_by_its_weights(self, sequence):
        first = sequence()
        first.set_weights(SECOND)
        for _ in zip(range(5), first, strict=False):
            pass
        first.set_weights(THIRD)
        state = json.loads(json.dumps(first.state_dict()))
        assert state["weights"] == proportions_of(SECOND, ROWS).digest
        model, seq = trained_watcher(), sequence()
        with pytest.raises(ArgumentError) as caught:
            seq.load_state_dict(state)
        assert str(caught.value) == (
            "the state was saved in an epoch that drew rows by other weights: rows would be "
            "repeated and missed. Call set_weights(...) with those weights first, then "
            "load_state_dict, or start anew without the state"
        )
        seq.set_weights(SECOND)
        seq.load_state_dict(state)
        seq.set_weights(THIRD)
        model.fit(seq, epochs=2, verbose=0)
        assert model.seen() == expected(SECOND, 0)[20:] + expected(THIRD, 1)

    def test_an_interrupted_training_goes_on_with_the_weights_that_were_set(self, tmp_path):
        """Weights are set anew after the fifth step of each epoch, for the next one."""

        class Stopped(Exception):
            pass

        def fit(folder, stop=None):
            seq = make_sequence(balance="weight")
            callbacks = [dfgen.BackupAndRestore(folder, seq, save_freq=1), Reweigh(seq)]
            if stop is not None:
                callbacks.append(stop)
            model = light_model()
            model.fit(seq, epochs=EPOCHS, verbose=0, callbacks=callbacks)
            return model, seq

        class Stop(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                # some are set, and wait for the next epoch
                if self.model.optimizer.iterations == STEPS + 8:
                    raise Stopped

        whole, whole_seq = fit(tmp_path / "a")
        with pytest.raises(Stopped):
            fit(tmp_path / "b", Stop())
        model, seq = fit(tmp_path / "b")
        for one, other in zip(whole.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
        assert seq.state_dict() == whole_seq.state_dict()
        assert seq.receipt == whole_seq.receipt


def test_loops_of_the_users_own_finish_their_epoch(sequence):
    seq, seen = sequence(), []
    for epoch in range(3):
        for step, batch in enumerate(seq):
            seen += batch[0][:, 0, 0, 0].tolist()
            if step == 7:
                seq.set_weights((SECOND, THIRD, FIRST)[epoch])
    assert seen == expected(FIRST, 0) + expected(SECOND, 1) + expected(THIRD, 2)


def test_an_endless_loop_makes_what_was_ahead_anew(sequence):
    seq, seen = sequence(), []
    for step, batch in zip(range(24), seq.repeat(), strict=False):
        seen += batch[0][:, 0, 0, 0].tolist()
        if step == 10:  # one batch is left of the epoch, and more are under way
            seq.set_weights(SECOND)
    assert seen == expected(FIRST, 0) + expected(SECOND, 1)


def test_a_series_gives_weights_by_id_in_any_order(sequence):
    seq = sequence()
    shuffled = np.random.default_rng(0).permutation(ROWS)
    seq.set_weights(pd.Series(SECOND, index=range(ROWS)).iloc[shuffled])
    assert seq.rows(0).tolist() == expected(SECOND, 0)[:BATCH]
    assert seq.state_dict()["weights"] == proportions_of(SECOND, ROWS).digest


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"workers": 1, "use_multiprocessing": True}], ids=str
)
def test_a_row_that_comes_again_gets_other_random_numbers(sequence, options):
    seq = sequence(transform=noise, **options)
    order = RowOrder(ROWS, 0, proportions_of(FIRST, ROWS))
    rows, earlier = order.at(0, np.arange(ROWS))
    found = np.concatenate([seq[step][0][:, 0, 0, 2] for step in range(len(seq))])
    assert earlier.max() == 3
    assert found.tolist() == [
        sample_rng(0, 0, row, k).integers(256) for row, k in zip(rows, earlier, strict=True)
    ]
    seq.close()


def noise(sample, rng):
    sample["image"][0, 0, 2] = rng.integers(256)
    return sample


def test_hosts_divide_the_batches(sequence):
    hosts = [sequence(shard=(index, 2)) for index in range(2)]
    for host in hosts:
        host.set_weights(SECOND)
    for step in range(11):
        joined = np.concatenate([host[step][0][:, 0, 0, 0] for host in hosts])
        assert joined.tolist() == expected(SECOND, 0)[BATCH * step :][:BATCH]


def test_batches_of_like_sizes_are_of_the_rows_drawn(sized_folder):
    manifest = sized.manifest_of(sized_folder).assign(weight=np.arange(1.0, sized.ROWS + 1))
    options = {"batch_size": 2, "image_size": None, "y": None, "label_mode": None}
    plain, gathered = (
        dfgen.Sequence(manifest, balance="weight", bucket_by=by, **options)
        for by in (None, "shape")
    )
    assert (plain.row_counts(3) == gathered.row_counts(3)).all()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (-1.0, "has the weight -1.0: expected finite numbers of 0 or more (1 of 46 are not)"),
        (np.nan, "has the weight nan: expected finite numbers of 0 or more (1 of 46 are not)"),
        (np.inf, "has the weight inf: expected finite numbers of 0 or more (1 of 46 are not)"),
    ],
)
def test_weights_that_cannot_be_are_refused_with_their_row(sequence, files, bad, message):
    weights = np.where(np.arange(ROWS) == 7, bad, FIRST)
    with pytest.raises(ManifestError) as caught:
        sequence(weights)
    assert str(caught.value) == f"balance=\"weight\": row id=7, path='{files[7]}' {message}"
    seq = sequence()
    with pytest.raises(ManifestError) as caught:
        seq.set_weights(weights)
    assert str(caught.value) == f"set_weights: row id=7, path='{files[7]}' {message}"
    assert seq.rows(0).tolist() == expected(FIRST, 0)[:BATCH]


def test_weights_that_are_all_0_are_refused(sequence, files):
    with pytest.raises(ManifestError) as caught:
        sequence(np.zeros(ROWS))
    assert str(caught.value) == (
        f"balance=\"weight\": the weights of all 46 rows are 0, from row id=0, path='{files[0]}' "
        "on: no row can be drawn. Give some a weight above 0"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3),
         "set_weights got the shape (3,): expected 46 numbers, one for each row in the order of "
         "seq.manifest, or a pandas Series with the ids of the rows as its index"),
        ({0: 1.0},
         "set_weights got dict: expected 46 numbers, one for each row in the order of "
         "seq.manifest, or a pandas Series with the ids of the rows as its index"),
        (np.full(ROWS, 1j),
         "set_weights got ndarray: expected 46 numbers, one for each row in the order of "
         "seq.manifest, or a pandas Series with the ids of the rows as its index"),
        (pd.Series(1.0, index=[0] * ROWS),
         "set_weights: the Series has several weights for the id 0: expected one for each row. "
         "For values in the order of seq.manifest give values.to_numpy()"),
        (pd.Series(1.0, index=range(ROWS + 1)),
         "set_weights: the index of the Series holds 46, which is the id of no row: expected "
         "those of the 46 rows alone. For values in the order of seq.manifest give "
         "values.to_numpy()"),
    ],
    ids=["few", "dict", "complex", "twice", "stranger"],
)  # fmt: skip
def test_values_that_are_no_weights_of_the_rows_are_refused(sequence, values, message):
    with pytest.raises(ArgumentError) as caught:
        sequence().set_weights(values)
    assert str(caught.value) == message


def test_a_series_without_some_row_is_refused(sequence, files):
    with pytest.raises(ArgumentError) as caught:
        sequence().set_weights(pd.Series(1.0, index=range(1, ROWS + 1)))
    assert str(caught.value) == (
        f"set_weights: the index of the Series lacks row id=0, path='{files[0]}': expected the ids "
        "of all rows. For values in the order of seq.manifest give values.to_numpy()"
    )


@pytest.mark.parametrize("balance", [None, "label"])
def test_a_sequence_without_weights_takes_none(sequence, balance):
    with pytest.raises(ArgumentError) as caught:
        sequence(balance=balance).set_weights(SECOND)
    assert str(caught.value) == (
        "set_weights needs a Sequence that draws rows by weights: give balance=, a column of "
        "floats, such as df.assign(weight=1.0) has"
    )


@pytest.mark.clients
def test_balanced_class_weights_are_those_of_scikit_learn(frame):
    sklearn = pytest.importorskip("sklearn.utils.class_weight")
    names = [["a", "b", "c"][min(row % 7, 2)] for row in range(40)]
    labels = pd.Categorical(names, categories=["c", "none", "b", "a"])
    seq = dfgen.Sequence(
        frame(40).assign(label=labels),
        y="label", class_weight="balanced", batch_size=40, image_size=(4, 4), shuffle=False,
    )  # fmt: skip
    weights = sklearn.compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=names)
    by_name = dict(zip("abc", weights.astype(np.float32), strict=True))
    assert seq[0][2].tolist() == [by_name[name] for name in names]


def test_rows_without_a_class_have_no_part_in_balanced_weights(frame):
    names = np.array(["a", "b", "b", None] * 10, object)
    seq = dfgen.Sequence(
        frame(40).assign(label=pd.Categorical(names)),
        y=dfgen.Category("label", missing="ignore"),
        class_weight="balanced", batch_size=40, image_size=(4, 4), shuffle=False,
    )  # fmt: skip
    assert np.unique(seq[0][2]).tolist() == [0.0, 0.75, 1.5]


def test_a_copy_of_a_sequence_keeps_the_weights_that_were_set(sequence):
    import cloudpickle

    seq = sequence()
    seq.set_weights(SECOND)
    copy = cloudpickle.loads(cloudpickle.dumps(seq))
    assert copy.rows(0).tolist() == expected(SECOND, 0)[:BATCH]
    copy.set_weights(THIRD)
    assert copy.rows(0).tolist() == expected(THIRD, 0)[:BATCH]
