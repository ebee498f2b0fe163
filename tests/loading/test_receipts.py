"""Receipts: the rows of an epoch that were taken, and what they tell about a faulty loader."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from watching import trained_watcher

import dfgen
from dfgen.errors import ArgumentError
from dfgen.loading.order import epochs
from dfgen.loading.order.draws import permutation
from dfgen.loading.order.epochs import Epochs, Plan, Shuffled
from dfgen.loading.receipts import Handed, Ledger, Place, Receipt, receipt

ROWS, BATCH = 10, 3
ORDER = Epochs(Shuffled(ROWS, 5), Plan(rows=ROWS, batch_size=BATCH))
IDS = np.arange(100, 100 + ROWS)
WHOLE = permutation(range(ROWS), ROWS, seed=5, epoch=0)


def handed(step, epoch=0, rows=None, skipped=()):
    rows = ORDER.batch(epoch, step).rows if rows is None else np.array(rows)
    return Handed(0.0, rows, skipped)


def take(*batches, place=Place()):  # noqa: B008 - a tuple
    """Return the receipt after the last of some batches."""
    ledger = Ledger(ORDER, IDS, place)
    return [ledger.take(batch) for batch in batches][-1]


def test_resumed_epoch_has_the_complete_receipt():
    digest = f"{receipt(0, range(ROWS), 100 + WHOLE):032x}"
    for step in range(4):
        ledger = Ledger(ORDER, IDS, Place())
        for done in range(step):
            ledger.take(handed(done))
        rest = [handed(later) for later in range(step, 4)]
        assert take(*rest, place=ledger.place) == Receipt(0, ROWS, digest)


FAULTS = {
    "lost": ([0, 1, 3, (0, 1)], None),
    "twice": ([0, 1, 1, 2], (12, 3, 1)),
    "exchanged": ([0, 1, (2, 0, 1), 3], (10, 3, 3)),
    "swapped": ([(0, 0, 1), (1, 0, 0), 2, 3], (10, 0, 0)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_change_the_digest_and_the_counts(fault):
    batches, counts = FAULTS[fault]
    found = []
    for batch in batches:
        step, epoch, other = (*batch, None)[:3] if isinstance(batch, tuple) else (batch, 0, None)
        rows = None if other is None else ORDER.batch(0, other).rows
        found.append(handed(step, epoch, rows))
    found = take(*found)
    assert found.digest != take(*map(handed, range(4))).digest
    if counts is None:
        both = {*ORDER.batch(1, 0).rows.tolist()} & {*ORDER.batch(0, 2).rows.tolist()}
        counts = 10, 3 - len(both), 3 - len(both)
        found = Receipt(0, 10, found.digest, found.repeated, found.missing)
    assert (found.rows, found.repeated, found.missing) == counts


def test_batches_before_the_start_are_repeated():
    ledger = Ledger(ORDER, IDS, Place(0, 2))
    assert ledger.take(handed(1)) is None
    found = ledger.take(handed(2))
    assert (found.repeated, found.missing) == (3, 1)


def test_skipped_rows_are_neither_taken_nor_missing():
    found = take(handed(0), handed(1, skipped=(0, 2)), handed(2), handed(3))
    assert (found.rows, found.skipped, found.repeated, found.missing) == (8, 2, 0, 0)
    positions, rows = (np.delete(part, [3, 5]) for part in (range(10), WHOLE))
    assert found.digest == f"{receipt(0, positions, 100 + rows):032x}"


BATCHES = st.tuples(
    st.integers(0, 3),
    st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=4) | st.none(),
    st.sets(st.integers(0, 0)),
)


@given(st.lists(BATCHES, min_size=4, max_size=4))
def test_all_rows_are_accounted_for(batches):
    found = take(*(handed(step, rows=rows, skipped=(*skip,)) for step, rows, skip in batches))
    assert found.rows + found.skipped + found.missing - found.repeated == ROWS
    taken = [row for step, rows, _ in batches for row in handed(step, rows=rows).rows]
    assert found.missing == ROWS - len(set(taken))


def test_a_late_start_computes_one_block(monkeypatch):
    counts = []

    def spy(positions, n, **options):
        counts.append(len(positions))
        return permutation(positions, n, **options)

    monkeypatch.setattr(epochs, "permutation", spy)
    order = Epochs(Shuffled(10**9), Plan(rows=10**9, batch_size=32))
    Ledger(order, pa.nulls(1), Place(0, 10**6))._epochs.batch(0, 10**6)
    assert sum(counts) <= 8192


def test_counts_of_parts_add_up():
    one = Receipt(0, 4, f"{2**128 - 1:032x}", repeated=1, missing=20, skipped=300, left_out=6)
    other = Receipt(0, 5, f"{3:032x}", repeated=4, missing=50, skipped=600, left_out=6)
    assert one + other == Receipt(0, 9, f"{2:032x}", 5, 70, 900, 6)
    with pytest.raises(ArgumentError, match="same epoch"):
        one + Receipt(1, 4, "0", left_out=6)
    with pytest.raises(TypeError, match="unsupported"):
        one + 3


def sequence(df, **options):
    return dfgen.Sequence(df, **{"batch_size": 4, "image_size": (4, 4), "workers": 2, **options})


def after_a_pass(seq):
    for _ in seq:
        pass
    return seq.receipt


@pytest.mark.parametrize(
    "options",
    [{}, {"balance": "label"}, {"sampling_weight": "weight"}, {"drop_remainder": True},
     {"bucket_by": "shape", "image_size": None}, {"shard": (1, 2)}, {"on_error": "skip"}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize(
    "change", [{5: 6}, {5: 6, 6: 5}, {5: 5 + 48}], ids=["twice", "exchanged", "of another epoch"]
)
def test_wrong_batches_show_in_any_order(frame, tmp_path, options, change):
    df = frame(46).assign(weight=np.linspace(1, 2, 46))
    if "on_error" in options:
        df.loc[3, "path"] = str(tmp_path / "gone.png")
    clean = after_a_pass(sequence(df, y="label", **options))
    with sequence(df, y="label", **options) as seq:
        start = seq._loader.start
        seq._loader.start = lambda epoch, step, *rest, **given: start(
            epoch + change.get(step, 0) // 48, change.get(step, step) % 48, *rest, **given
        )
        found = after_a_pass(seq)
    assert found.digest != clean.digest
    assert (found.missing == found.repeated == 0) == (5 in change.values())


@pytest.mark.backend
def test_a_lost_batch_of_fit_shows(frame):
    seq, model = sequence(frame(48)), trained_watcher()
    stream = seq._loader.stream

    def losing(*place):
        batches = stream(*place)

        class Losing(type(batches)):
            def __next__(self):
                if self.position[1] == 5:
                    super().__next__()
                return super().__next__()

        batches.__class__ = Losing
        return batches

    seq._loader.stream = losing
    model.fit(seq, epochs=1, verbose=0)
    lost, came = (
        {*permutation(rows, 48, seed=0, epoch=epoch).tolist()}
        for rows, epoch in ((range(20, 24), 0), (range(4), 1))
    )
    assert seq.receipt.missing == seq.receipt.repeated == len(lost - came)
