"""Balanced epochs: what each class and each row gets, the same for any workers and hosts."""

import keras
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from watching import watcher

import dfgen
from dfgen.errors import ArgumentError, ManifestError
from dfgen.loading.order import row_order
from dfgen.loading.order.draws import balance_of
from dfgen.loading.order.row_order import RowOrder
from dfgen.loading.order.shuffle import permutation
from dfgen.samples.transforms import sample_rng

CLASSES = st.lists(st.integers(0, 6), min_size=1, max_size=120)


def drawn(classes, epoch=0, seed=0):
    order = RowOrder(len(classes), seed, balance_of(classes))
    return order.at(epoch, np.arange(len(classes)))


class TestOrder:
    @given(CLASSES, st.integers(0, 3), st.integers(0, 3))
    def test_shares_of_classes_and_of_their_rows_differ_by_one_at_most(self, classes, seed, epoch):
        classes = np.array(classes)
        rows, _ = drawn(classes, epoch, seed)
        counts = np.bincount(rows, minlength=len(classes))
        present = np.unique(classes)
        shares = [counts[classes == number].sum() for number in present]
        assert sum(shares) == len(classes)
        assert {*shares} <= {len(classes) // len(present), -(-len(classes) // len(present))}
        for number in present:
            assert np.ptp(counts[classes == number]) <= 1

    @given(CLASSES)
    def test_repeats_are_numbered_from_0_on(self, classes):
        rows, earlier = drawn(classes)
        for row in np.unique(rows):
            assert sorted(earlier[rows == row]) == [*range((rows == row).sum())]

    @given(CLASSES, st.integers(0, 2**70), st.integers(0, 2**70))
    def test_is_made_of_the_permutations_written_down(self, classes, seed, epoch):
        names, rows = np.unique(classes), []
        for q in permutation(range(len(classes)), len(classes), seed=seed, epoch=epoch).tolist():
            number, draw = q % len(names), q // len(names)
            members = np.flatnonzero(np.array(classes) == names[number])
            lap, place = divmod(draw, len(members))
            key = {"seed": seed, "epoch": epoch, "tag": f"class/{number}/{lap}"}
            rows.append(members[permutation(place, len(members), **key)])
        assert drawn(classes, epoch, seed)[0].tolist() == rows

    @given(CLASSES, st.data())
    def test_any_positions_can_be_asked_for_alone(self, classes, data):
        positions = data.draw(st.lists(st.integers(0, len(classes) - 1)))
        order = RowOrder(len(classes), 0, balance_of(classes))
        found = order.at(0, np.array(positions, np.int64))
        assert (found == drawn(classes)[:, positions]).all()

    def test_each_epoch_leaves_out_other_rows_of_a_large_class(self):
        classes = np.repeat([0, 1], [90, 10])
        taken = [{*drawn(classes, epoch)[0]} for epoch in range(10)]
        assert len(set.union(*taken)) > 98
        assert all(len(rows) == 60 for rows in taken)

    @pytest.mark.parametrize("places", [1, 7, 30])
    def test_an_epoch_has_as_many_places_as_are_asked_for(self, places):
        order = RowOrder(12, 0, balance_of(np.repeat([0, 1], [9, 3]), places))
        assert order.places == places
        classes = order.at(0, np.arange(places))[0] // 9
        assert abs(2 * classes.sum() - places) <= 1

    @given(CLASSES)
    def test_times_tells_how_many_rows_come_how_often(self, classes):
        rows, _ = drawn(classes)
        counts = np.bincount(rows, minlength=len(classes))
        times = zip(*np.unique(counts, return_counts=True), strict=True)
        assert balance_of(classes).times == tuple(times)

    def test_counts(self, monkeypatch):
        monkeypatch.setattr(row_order, "_COUNTED", 5)  # in three parts
        classes = np.repeat([0, 1], [9, 3])
        order = RowOrder(12, 0, balance_of(classes))
        assert order.drawn_by(4) == ""  # which is what states of them hold
        rows, _ = order.at(4, np.arange(12))
        assert order.counts(4, 12).tolist() == np.bincount(rows, minlength=12).tolist()
        assert order.counts(4, 12)[9:].tolist() == [2, 2, 2]


@pytest.fixture
def skewed(frame):
    """Return a function: a manifest of n rows, a tenth of them of class "rare"."""

    def make(rows):
        names = ["rare" if row % 10 == 3 else "usual" for row in range(rows)]
        return frame(rows).assign(label=pd.Categorical(names))

    return make


def sequence(manifest, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, "balance": "label", **options}
    return dfgen.Sequence(manifest, y="label", **options)


def expected(manifest, epoch, **options):
    return drawn(manifest["label"].cat.codes, epoch, **options)[0].tolist()


def noise(sample, rng):
    sample["image"][0, 0, 2] = rng.integers(256)
    return sample


def pixels(seq, **options):
    return np.concatenate([seq[step][0] for step in range(len(seq))])


@pytest.mark.backend
class TestSequence:
    def test_the_model_sees_the_balanced_order(self, skewed):
        model, seq = watcher(), sequence(skewed(46))
        model.fit(seq, epochs=3, verbose=0)
        assert model.seen() == [row for epoch in range(3) for row in expected(skewed(46), epoch)]

    def test_a_small_model_learns_a_rare_class(self, skewed):
        seq = sequence(skewed(100), batch_size=20)
        model = keras.Sequential(
            [keras.layers.Rescaling(1 / 255), keras.layers.Flatten(), keras.layers.Dense(2)]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("adam", loss, weighted_metrics=["accuracy"])
        history = model.fit(seq, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"]).all()
        assert seq.row_counts(0)[3::10].tolist() == [5] * 10

    def test_a_fit_goes_on_in_mid_epoch(self, skewed):
        first = sequence(skewed(46))
        for _ in zip(range(5), first, strict=False):
            pass
        state = first.state_dict()
        model, seq = watcher(), sequence(skewed(46))
        seq.load_state_dict(state)
        model.fit(seq, epochs=2, verbose=0)
        assert model.seen() == expected(skewed(46), 0)[20:] + expected(skewed(46), 1)
        uninterrupted = sequence(skewed(46))
        watcher().fit(uninterrupted, epochs=2, verbose=0)
        assert seq.receipt == uninterrupted.receipt


@pytest.mark.parametrize(
    "options",
    [{"workers": 0}, {"workers": 1}, {"workers": 7}, {"workers": 1, "use_multiprocessing": True}],
    ids=str,
)
def test_batches_are_the_same_for_any_workers(skewed, options):
    with sequence(skewed(60), transform=noise, **options) as seq:
        assert (pixels(seq) == pixels(sequence(skewed(60), transform=noise))).all()


def test_a_row_that_comes_again_gets_other_random_numbers(skewed):
    rows, earlier = drawn(skewed(60)["label"].cat.codes)
    found = pixels(sequence(skewed(60), transform=noise))[:, 0, 0, 2]
    assert earlier.max() == 4
    assert found.tolist() == [
        sample_rng(0, 0, row, k).integers(256) for row, k in zip(rows, earlier, strict=True)
    ]


@pytest.mark.parametrize("count", [2, 4])
def test_hosts_divide_the_balanced_batches(skewed, count):
    hosts = [sequence(skewed(40), shard=(index, count)) for index in range(count)]
    for step in range(10):
        joined = np.concatenate([host[step][0][:, 0, 0, 0] for host in hosts])
        assert joined.tolist() == expected(skewed(40), 0)[4 * step : 4 * step + 4]


def test_weights_go_with_the_rows(skewed):
    manifest = skewed(40).assign(weight=np.arange(40.0))
    seq = sequence(manifest, sample_weight="weight", class_weight={"rare": 2.0, "usual": 1.0})
    found = np.concatenate([seq[step][2] for step in range(len(seq))])
    rows = np.array(expected(manifest, 0))
    assert found.tolist() == np.where(rows % 10 == 3, 2.0 * rows, rows).tolist()


def test_columns_of_text_numbers_and_truth_values_are_balanced_alike(skewed):
    manifest = skewed(40)
    rare = manifest["label"] == "rare"
    columns = {"text": manifest["label"].astype(str), "number": 7 - rare, "truth": ~rare}
    for values in columns.values():
        other = sequence(manifest.assign(other=values), balance="other")
        assert (pixels(other) == pixels(sequence(manifest))).all()


def test_an_epoch_has_as_many_rows_as_asked_for(skewed):
    manifest = skewed(40)
    seq = sequence(manifest, rows_per_epoch=80)
    assert len(seq) == 20
    assert repr(seq).startswith(
        "<dfgen.Sequence: 40 rows, 20 batches of 4; 80 rows drawn an epoch; image 4x4x3 uint8, "
    )
    assert np.bincount(seq.row_counts()).tolist() == [0, 32, 4, 0, 0, 0, 0, 0, 0, 0, 4]
    for _ in seq:
        pass
    assert seq.receipt.draws == ((1, 32), (2, 4), (10, 4))
    assert (seq.receipt.rows, seq.receipt.repeated, seq.receipt.missing) == (80, 0, 0)
    with pytest.raises(ArgumentError) as caught:
        sequence(manifest).load_state_dict(seq.state_dict())
    assert str(caught.value) == (
        "the state was saved with rows_per_epoch=80, this training has rows_per_epoch=None: rows "
        "would be repeated and missed. Go on with rows_per_epoch=80, or start anew without the "
        "state"
    )
    assert "rows_per_epoch" not in sequence(manifest, rows_per_epoch=40).state_dict()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"balance": None, "rows_per_epoch": 80},
         "rows_per_epoch=80 is for rows that are drawn: give balance=, a column of weights or "
         "classes. Without it every row comes once an epoch; for steps of another number "
         "fit(seq.repeat(), steps_per_epoch=...)"),
        ({"rows_per_epoch": 0}, "rows_per_epoch=0 is not a whole number from 1 to 1073741824"),
    ],
)  # fmt: skip
def test_a_length_of_epochs_that_cannot_be_is_refused(skewed, options, message):
    with pytest.raises(ArgumentError) as caught:
        sequence(skewed(40), **options)
    assert str(caught.value) == message


def test_categories_without_rows_take_no_share(skewed):
    manifest = skewed(40)
    manifest["label"] = manifest["label"].cat.add_categories("none")
    assert sequence(manifest).row_counts().sum() == 40


def test_receipts_tell_how_often_rows_came(skewed, tmp_path):
    seq = sequence(skewed(40))  # 4 rare rows and 36 usual ones share 40 draws
    for _ in seq:
        pass
    receipt = seq.receipt
    assert receipt.draws == ((0, 16), (1, 20), (5, 4))
    assert (receipt.rows, receipt.repeated, receipt.missing) == (40, 0, 0)
    assert np.bincount(seq.row_counts(0)).tolist() == [16, 20, 0, 0, 0, 4]
    with pytest.raises(ArgumentError, match=r"receipts with draws=\(\(0, 16\), "):
        receipt + dfgen.loading.receipts.Receipt(0, 0, "0" * 32)


def test_receipts_with_draws_are_kept_in_a_file(skewed, tmp_path):
    path = tmp_path / "receipts.parquet"
    watcher().fit(
        sequence(skewed(40)), verbose=0, callbacks=[dfgen.InputMonitor(receipts=path)], epochs=2
    )
    assert pq.read_table(path)["draws"].to_pylist() == [[(0, 16), (1, 20), (5, 4)]] * 2


def test_receipts_name_rows_of_a_lost_batch(skewed):
    seq = sequence(skewed(40))
    ledger = seq.progress.ledger
    order = seq._loader.order
    for step in [0, 1, 1, 3, 4, 5, 6, 7, 8, 9]:
        rows = order.batch(0, step)[1]
        receipt = ledger.take(dfgen.loading.receipts.Handed(0.0, (0, step), rows))
    lost, twice = (order.batch(0, step)[1].tolist() for step in (2, 1))
    both = sum(min(lost.count(row), twice.count(row)) for row in {*lost})
    assert (receipt.repeated, receipt.missing) == (4 - both, 4 - both)
    assert both < 4


def test_the_state_of_another_balance_is_refused(skewed):
    manifest = skewed(40).assign(other=["a", "b"] * 20)
    state = sequence(manifest).state_dict()
    assert state["balance"].startswith("label ")
    for other in (None, "other"):
        with pytest.raises(ArgumentError, match="the state was saved with balance='label "):
            sequence(manifest, balance=other).load_state_dict(state)
    changed = manifest.assign(label=manifest["label"].to_numpy()[::-1])
    with pytest.raises(ArgumentError, match="the state was saved with balance='label "):
        sequence(changed.astype({"label": "category"})).load_state_dict(state)


def test_what_cannot_be_balanced_is_refused(skewed):
    with pytest.raises(ArgumentError) as caught:
        sequence(skewed(40), shuffle=False)
    assert str(caught.value) == (
        "balance takes rows by chance, which shuffle=False does not allow: leave out one of them"
    )
    with pytest.raises(
        ManifestError, match=r'balance="lable" is not a column.*Did you mean "label"'
    ):
        sequence(skewed(40), balance="lable")
    born = np.array(["2024-01-01"] * 40, "datetime64[ms]")
    with pytest.raises(ManifestError) as caught:
        sequence(skewed(40).assign(born=born), balance="born")
    assert str(caught.value) == (
        'balance="born": the column holds timestamp[ms], expected one class in each row, as text, '
        "whole numbers or booleans, or its weight, as floats"
    )
    with pytest.raises(ManifestError) as caught:
        sequence(skewed(40).assign(kind=["a", None] * 20), balance="kind")
    assert str(caught.value) == (
        "balance=\"kind\": 20 rows have no class; drop them: df = df[df['kind'].notna()]"
    )
