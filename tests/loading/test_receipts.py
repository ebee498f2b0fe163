"""Receipts: which rows of an epoch were taken, and what they say of a loader that is at fault."""

from dataclasses import replace

import keras
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from watching import trained_watcher

import dfgen
from dfgen.errors import ArgumentError
from dfgen.loading.order import epochs
from dfgen.loading.order.epochs import Epochs, InOrder, Shuffled
from dfgen.loading.order.plan import Plan
from dfgen.loading.order.shuffle import permutation
from dfgen.loading.receipts import Handed, Ledger, Receipt
from dfgen.loading.state import Place, receipt

ROWS, BATCH = 10, 3
ORDER = Epochs(Shuffled(ROWS, 5), Plan(rows=ROWS, batch_size=BATCH))
IDS = np.arange(100, 100 + ROWS)
PERFECT = f"{receipt(0, range(ROWS), 100 + permutation(range(ROWS), ROWS, seed=5, epoch=0)):032x}"


def handed(step, epoch=0, rows=None, skipped=()):
    rows = ORDER.batch(epoch, step).rows if rows is None else np.array(rows)
    return Handed(0.0, (epoch, step), rows, skipped)


def take(*batches, place=Place()):  # noqa: B008 - a tuple
    """The receipt of four batches."""
    ledger = Ledger(ORDER, IDS, place)
    *before, last = [ledger.take(batch) for batch in batches]
    assert before == [None] * len(before)
    return last


class TestLedger:
    def test_an_epoch_that_went_well(self):
        assert take(*map(handed, range(4))) == Receipt(0, ROWS, PERFECT)

    def test_a_place_in_the_middle_gives_the_same_receipt(self):
        for step in range(4):
            ledger = Ledger(ORDER, IDS, Place())
            for done in range(step):
                ledger.take(handed(done))
            rest = [handed(left) for left in range(step, 4)]
            assert take(*rest, place=ledger.place) == take(*map(handed, range(4)))

    def test_the_next_epoch_follows(self):
        ledger = Ledger(ORDER, IDS, Place())
        found = [ledger.take(handed(step, epoch)) for epoch in (0, 1) for step in range(4)]
        assert [found[3].epoch, found[7].epoch] == [0, 1]
        assert found[3].digest != found[7].digest
        assert (found[7].repeated, found[7].missing) == (0, 0)

    def test_a_batch_lost(self):
        found = take(handed(0), handed(1), handed(3), handed(0, epoch=1))
        surplus = set(ORDER.batch(1, 0)[1]) & set(ORDER.batch(0, 2)[1])
        assert (found.repeated, found.missing) == (3 - len(surplus), 3 - len(surplus))
        assert found.digest != PERFECT

    def test_an_epoch_that_ends_too_soon(self):
        ledger = Ledger(ORDER, IDS, Place())
        for step in (0, 1, 3):
            ledger.take(handed(step))
        found = ledger.close()
        assert (found.rows, found.repeated, found.missing) == (7, 0, 3)

    def test_a_batch_taken_twice(self):
        found = take(handed(0), handed(1), handed(1), handed(2))
        assert (found.rows, found.repeated, found.missing) == (12, 3, 1)  # the last has one row
        assert found.digest != PERFECT

    def test_a_batch_that_holds_the_rows_of_another(self):
        found = take(handed(0), handed(1), handed(2, rows=ORDER.batch(0, 1)[1]), handed(3))
        assert (found.rows, found.repeated, found.missing) == (10, 3, 3)

    def test_two_batches_in_each_others_place_take_each_row_once_but_elsewhere(self):
        found = take(
            handed(0, rows=ORDER.batch(0, 1)[1]), handed(1, rows=ORDER.batch(0, 0)[1]),
            handed(2), handed(3),
        )  # fmt: skip
        assert (found.rows, found.repeated, found.missing) == (10, 0, 0)
        assert found.digest != PERFECT

    def test_one_row_instead_of_another(self):
        rows = ORDER.batch(0, 1)[1].copy()
        rows[0] = rows[1]
        found = take(handed(0), handed(1, rows=rows), handed(2), handed(3))
        assert (found.rows, found.repeated, found.missing) == (10, 1, 1)

    def test_a_batch_without_some_of_its_rows(self):
        found = take(handed(0), handed(1, rows=ORDER.batch(0, 1)[1][:1]), handed(2), handed(3))
        assert (found.rows, found.repeated, found.missing) == (8, 0, 2)

    def test_a_batch_from_before_the_place_to_begin_at(self):
        ledger = Ledger(ORDER, IDS, Place(0, 2))
        assert ledger.take(handed(1)) is None
        found = ledger.take(handed(2))
        assert (found.repeated, found.missing) == (3, 1)

    def test_skipped_rows_are_neither_taken_nor_missing(self):
        found = take(handed(0), handed(1, skipped=(0, 2)), handed(2), handed(3))
        assert (found.rows, found.skipped, found.repeated, found.missing) == (8, 2, 0, 0)
        positions, rows = (np.delete(part, [3, 5]) for part in (range(10), whole_order()))
        assert found.digest == f"{receipt(0, positions, 100 + rows):032x}"

    def test_skipped_rows_are_remembered_by_the_place(self):
        ledger = Ledger(ORDER, IDS, Place())
        ledger.take(handed(0, skipped=(1,)))
        found = take(handed(1), handed(2), handed(3), place=ledger.place)
        assert (found.rows, found.skipped) == (9, 1)

    def test_text_ids_and_no_shuffling(self):
        order = Epochs(InOrder(2), Plan(rows=2, batch_size=1))
        ledger = Ledger(order, pa.array(["a", "b"], pa.large_string()), Place())
        ledger.take(Handed(0.0, (0, 0), np.array([0])))
        assert ledger.take(Handed(0.0, (0, 1), np.array([1]))) == Receipt(
            0, 2, f"{receipt(0, [0, 1], ['a', 'b']):032x}"
        )

    def test_rows_left_out_are_told(self):
        order = replace(ORDER, plan=Plan(rows=ROWS, batch_size=BATCH, tail="drop"))
        ledger = Ledger(order, IDS, Place())
        found = [ledger.take(handed(step)) for step in range(3)][-1]
        assert (found.rows, found.missing, found.left_out) == (9, 0, 1)

    @given(
        st.lists(
            st.tuples(
                st.integers(0, 3),
                st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=4) | st.none(),
                st.sets(st.integers(0, 0)),
            ),
            min_size=4,
            max_size=4,
        )
    )
    def test_whatever_was_taken_every_row_is_accounted_for(self, batches):
        found = take(*(handed(step, rows=rows, skipped=(*skip,)) for step, rows, skip in batches))
        assert found.rows + found.skipped + found.missing - found.repeated == ROWS
        carried = [row for step, rows, _ in batches for row in (handed(step, rows=rows).rows)]
        assert found.missing == ROWS - len(set(carried))

    def test_beginning_at_step_a_million_of_a_billion_rows_asks_for_one_block(self, monkeypatch):
        asked = []

        def spy(positions, n, **options):
            asked.append(len(positions))
            return permutation(positions, n, **options)

        monkeypatch.setattr(epochs, "permutation", spy)
        order = Epochs(Shuffled(10**9), Plan(rows=10**9, batch_size=32))
        ledger = Ledger(order, pa.nulls(1), Place(0, 10**6))
        ledger._epochs.batch(0, 10**6)
        assert sum(asked) <= 8192


def whole_order():
    return permutation(range(ROWS), ROWS, seed=5, epoch=0)


class TestSum:
    def test_receipts_of_parts_add_up(self):
        whole = take(*map(handed, range(4)))
        one = Receipt(0, 4, f"{3:032x}", skipped=1)
        other = Receipt(0, 5, f"{(int(whole.digest, 16) - 3) % 2**128:032x}")
        assert one + other == replace(whole, rows=9, skipped=1)

    def test_what_was_amiss_in_each_part_adds_up(self):
        one = Receipt(0, 4, "0", repeated=1, missing=20, skipped=300, left_out=6)
        other = Receipt(0, 5, "0", repeated=4, missing=50, skipped=600, left_out=6)
        assert one + other == Receipt(
            0, 9, f"{0:032x}", repeated=5, missing=70, skipped=900, left_out=6
        )

    def test_parts_of_different_epochs_do_not(self):
        with pytest.raises(ArgumentError) as refused:
            Receipt(0, 4, "0") + Receipt(1, 4, "0")
        assert str(refused.value) == (
            "receipts with epoch=0 and epoch=1 are not parts of the same epoch"
        )


def test_a_batch_that_came_300_times_is_as_one_that_came_255():
    ledger = Ledger(ORDER, IDS, Place())
    for _ in range(3):
        ledger.take(handed(0))
    assert ledger.take(handed(0)).repeated == 9
    order = replace(ORDER, plan=Plan(rows=ROWS, batch_size=1))
    ledger = Ledger(order, IDS, Place())
    ledger._counts[0] = 255
    ledger.take(Handed(0.0, (0, 0), order.batch(0, 0)[1]))
    assert ledger._counts[0] == 255


# -- of a Sequence -----------------------------------------------------------------------------


def sequence(df, **options):
    return dfgen.Sequence(df, **{"batch_size": 4, "image_size": (4, 4), "workers": 2, **options})


def loop(seq):
    for _ in seq:
        pass
    return seq.receipt


def test_there_is_none_before_an_epoch_has_ended(frame):
    seq = sequence(frame(10))
    assert seq.receipt is None
    next(iter(seq))
    assert seq.receipt is None


@pytest.mark.parametrize(
    "options", [{"workers": 0}, {"workers": 7}, {"workers": 1, "use_multiprocessing": True}]
)
def test_the_same_for_any_workers_threads_or_processes(frame, options):
    expected = receipt(0, range(46), permutation(range(46), 46, seed=0, epoch=0))
    with sequence(frame(46), **options) as seq:
        assert loop(seq) == Receipt(0, 46, f"{expected:032x}")


def test_rows_left_out_and_skipped_are_told(frame, tmp_path):
    df = frame(46)
    (tmp_path / "another.png").touch()  # or the folder were that of a drive that is gone
    df.loc[[7, 30], "path"] = str(tmp_path / "gone.png")
    found = loop(sequence(df, on_error="skip"))
    assert (found.rows, found.skipped, found.missing, found.left_out) == (44, 2, 0, 0)
    found = loop(sequence(frame(46), drop_remainder=True))
    assert (found.rows, found.skipped, found.missing, found.left_out) == (44, 0, 0, 2)


def plant(seq, change):
    """Have the loader make another batch than it is asked for."""
    start = seq._loader.start
    seq._loader.start = lambda epoch, step, *rest, **options: start(
        epoch, change(step), *rest, **options
    )


@pytest.mark.parametrize("change", [lambda step: 6 if step == 5 else step])
def test_a_loader_that_makes_a_batch_twice_instead_of_another_is_told_on(frame, change):
    seq = sequence(frame(48))
    plant(seq, change)
    found = loop(seq)
    assert (found.rows, found.repeated, found.missing) == (48, 4, 4)


@pytest.mark.parametrize(
    "options",
    [
        {"balance": "label"}, {"sampling_weight": "weight"},
        {"bucket_by": "shape", "image_size": None},
        {"drop_remainder": True}, {"shard": (1, 2)}, {"on_error": "skip"},
        pytest.param({"workers": 1, "use_multiprocessing": True}, marks=pytest.mark.slow),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "change", [{5: 6}, {5: 6, 6: 5}, {5: 5 + 48}], ids=["twice", "exchanged", "of another epoch"]
)
def test_a_wrong_batch_is_told_whatever_the_order_of_rows(frame, tmp_path, options, change):
    df = frame(46).assign(weight=np.linspace(1, 2, 46))
    if "on_error" in options:
        df.loc[3, "path"] = str(tmp_path / "gone.png")
    clean = loop(sequence(df, y="label", **options))
    with sequence(df, y="label", **options) as seq:
        start = seq._loader.start
        seq._loader.start = lambda epoch, step, *rest, **given: start(
            epoch + change.get(step, 0) // 48, change.get(step, step) % 48, *rest, **given
        )
        found = loop(seq)
    assert found.digest != clean.digest
    assert (found.missing == found.repeated == 0) == (5 in change.values())


def lose_a_batch(stream):
    """Have a stream of batches pass over the fifth."""
    advance = type(stream).__next__

    class Losing(type(stream)):
        def __next__(self):
            if self.position[1] == 5:
                advance(self)
            return advance(self)

    stream.__class__ = Losing
    return stream


@pytest.mark.backend
@pytest.mark.parametrize("callbacks", [(), (dfgen.InputMonitor,)], ids=["alone", "monitored"])
class TestInFit:
    def test_every_row_once_in_every_epoch(self, frame, callbacks):
        seq = sequence(frame(46))
        found = []
        keep = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: found.append(seq.receipt)
        )
        trained_watcher().fit(
            seq, epochs=3, verbose=0, callbacks=[*(make() for make in callbacks), keep]
        )
        for epoch in range(3):
            rows = permutation(range(46), 46, seed=0, epoch=epoch)
            digest = f"{receipt(epoch, range(46), rows):032x}"
            assert found[epoch] == Receipt(epoch, 46, digest)

    def test_an_epoch_that_was_given_back_is_counted_anew(self, frame, callbacks):
        seq, model = sequence(frame(40)), trained_watcher()
        stop = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: setattr(model, "stop_training", batch == 3)
        )
        made = [make() for make in callbacks]
        model.fit(seq, epochs=1, verbose=0, callbacks=[*made, stop])
        assert seq.receipt is None
        model.fit(seq, epochs=1, verbose=0, callbacks=made)
        assert (seq.receipt.rows, seq.receipt.repeated, seq.receipt.missing) == (40, 0, 0)

    @pytest.mark.filterwarnings("ignore:validation_data has the")
    def test_evaluate_and_validation_do_not_count(self, frame, callbacks):
        seq, model = sequence(frame(24)), trained_watcher()
        made = [make() for make in callbacks]
        model.fit(seq, validation_data=seq, epochs=2, verbose=0, callbacks=made)
        model.evaluate(seq, verbose=0)
        assert (seq.receipt.epoch, seq.receipt.rows, seq.receipt.repeated) == (1, 24, 0)

    def test_repeat_gives_a_receipt_of_every_epoch_of_the_sequence(self, frame, callbacks):
        seq, model = sequence(frame(46)), trained_watcher()
        made = [make() for make in callbacks]
        for _ in range(2):
            model.fit(seq.repeat(), steps_per_epoch=9, epochs=1, verbose=0, callbacks=made)
        rows = permutation(range(46), 46, seed=0, epoch=0)
        assert seq.receipt == Receipt(0, 46, f"{receipt(0, range(46), rows):032x}")

    def test_a_loader_that_loses_a_batch_is_told_on(self, frame, callbacks):
        seq, model = sequence(frame(48)), trained_watcher()
        stream = seq._loader.stream
        seq._loader.stream = lambda *place: lose_a_batch(stream(*place))
        made = [make() for make in callbacks]
        model.fit(seq, epochs=1, verbose=0, callbacks=made)
        lost = permutation(range(20, 24), 48, seed=0, epoch=0)
        came = permutation(range(4), 48, seed=0, epoch=1)
        count = len(set(lost) - set(came))
        assert (seq.receipt.missing, seq.receipt.repeated) == (count, count)
