"""Training goes on in mid-epoch with another batch size, and with another number of processes."""

import json
import warnings
from functools import reduce
from operator import add

import cv2
import keras
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from killing import light_model, make_sequence
from packed import packed

import dfgen
from dfgen.loading.receipts import DueRows, Receipt
from dfgen.loading.state import OF_RANK
from dfgen.training.callbacks.backup import state_of_rank

MOST = 48
KINDS = {
    "plain": {},
    "unshuffled": {"shuffle": False},
    "classes": {"balance": "kind", "rows_per_epoch": 41},
    "weights": {"balance": "weight"},
    "buckets": {"image_size": None, "bucket_by": "shape"},
    "pack": {"window": "3KB"},
}
OF_BATCH = ("buckets", "pack")  # the order depends on the batch size


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """Images of several sizes; the same in a pack of several shards; and numbers alone."""
    folder = tmp_path_factory.mktemp("images")
    paths = [f"{folder}/{row}.png" for row in range(MOST)]
    for row, path in enumerate(paths):
        cv2.imwrite(path, np.zeros((4 + row % 5, 4 + row % 3, 3), np.uint8))
    columns = {"id": range(MOST), "path": paths, "n": range(MOST)}
    kinds = pd.Categorical(["abc"[row**2 % 3] for row in range(MOST)])
    df = pd.DataFrame(columns).assign(kind=kinds, weight=np.linspace(1, 2, MOST))
    packed(df, folder / "pack", image_size=(6, 8), shard_size=1500)
    return {"buckets": df, "pack": dfgen.read_manifest(folder / "pack")} | dict.fromkeys(
        ("plain", "unshuffled", "classes", "weights"), df.drop(columns="path")
    )


def sequence(frames, kind, rows=MOST, **options):
    x = {"n": "n", "image": "path"} if kind in OF_BATCH else {"n": "n"}
    options = {"batch_size": 4, "workers": 0, **KINDS[kind], **options}
    return dfgen.Sequence(frames[kind][:rows], x, "kind", **options)


def rows_of(batch):
    return batch[0]["n"].astype(int).tolist()


def part_of(states, rank, count):
    """The state that one of so many processes goes on from, as of a backup."""
    of_ranks = [[state[name] for name in OF_RANK] for state in states]
    return state_of_rank({"input": states[0], "of_ranks": of_ranks}, rank, count)


def run(make, states, batch_size, count, steps):
    """Take steps in each of some processes; the rows of all in their order, states, receipts."""
    taken, after, receipts = [], [], []
    for rank in range(count):
        seq = make(batch_size=batch_size, shard=(rank, count))
        if states:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "the state was saved with")
                seq.load_state_dict(json.loads(json.dumps(part_of(states, rank, count))))
        receipts.append([seq.receipt] if seq.receipt else [])
        batches = iter(seq)
        taken.append([rows_of(next(batches)) for _ in range(steps)])
        after.append(seq.state_dict())
        if seq.receipt and [seq.receipt] != receipts[-1]:
            receipts[-1].append(seq.receipt)
    rows = [row for each in zip(*taken, strict=True) for part in each for row in part]
    return rows, after, [reduce(add, same) for same in zip(*receipts, strict=True)]


def batches_left(rows, size, drops):
    return rows // size if drops else -(-rows // size)


def ended_epoch(make, begun, epoch, taken, places, seen):
    """The receipt of an epoch that ends here, if its rows were those of the order it began with."""
    ids, digest = due(make, begun, epoch, taken)
    assert seen == ids
    return epoch, taken, digest, 0, 0, places - taken


def due(make, begun, epoch, taken):
    """The ids of the first positions of an epoch, and their receipt, if it was begun so."""
    loader = make(batch_size=begun)._loader
    rows = loader.row_order.at(epoch, np.arange(taken))[0]
    due_rows = DueRows(loader.plan, loader.row_order, loader.reader.ids)
    return due_rows.ids_at(rows), f"{due_rows.digest_before(epoch, taken):032x}"


PHASES = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from([1, 2, 3, 4]), st.integers(0, 8)),
    min_size=2, max_size=5,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@given(phases=PHASES, rows=st.integers(24, MOST), drop=st.booleans())
@example([(4, 2, 3), (9, 1, 1), (3, 3, 2)], 46, False)
@example([(12, 1, 1), (4, 2, 3), (2, 4, 2)], 46, False)
@example([(4, 2, 9), (5, 1, 9), (1, 3, 0)], 38, False)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_each_row_is_taken_once_whatever_the_sizes_and_processes(frames, kind, phases, rows, drop):
    """The order of what was begun goes on, the last rows by the rule of whoever ends the epoch."""

    def make(**options):
        return sequence(frames, kind, rows, drop_remainder=drop, **options)

    places = KINDS[kind].get("rows_per_epoch", rows)
    epoch = taken = 0
    begun, states, seen = 0, [], []
    for slots, count, steps in [*phases, (1, 1, MOST), (2, 2, MOST)]:
        size = slots * count
        assume(size <= places)
        ended, drops = [], drop or count > 1
        if taken and not batches_left(places - taken, size, drops):
            ended.append(ended_epoch(make, begun, epoch, taken, places, seen))
            epoch, taken, seen = epoch + 1, 0, []
        begun = begun if taken else size
        left = batches_left(places - taken, size, drops)
        steps = min(steps, left)
        completes = steps == left
        found, states, receipts = run(make, states, size, count, steps)
        seen += found
        taken = min(taken + steps * size, places)
        assert (states[0]["epoch"], states[0]["ended"]) == (epoch, completes) or not taken
        if completes:
            ended.append(ended_epoch(make, begun, epoch, taken, places, seen))
            epoch, taken, seen = epoch + 1, 0, []
        new = [one for one in receipts if one.epoch >= ended[0][0]] if ended else []
        shown = [(one.epoch, one.rows, one.digest, one.repeated, one.missing, one.left_out)
                 for one in new]  # fmt: skip
        assert shown == ended


# -- in fit ------------------------------------------------------------------------------------


class Cut(keras.callbacks.Callback):
    """Notes (epoch, batch) of each step, and of ends of epochs; stops the program at one."""

    def __init__(self, at=None):
        super().__init__()
        self.at, self.seen, self.tested = at, [], 0

    def get_state(self):
        return {}

    def set_state(self, state):
        pass

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append((self.epoch, batch))
        if self.at == (self.epoch, batch):
            raise InterruptedError

    def on_test_batch_end(self, batch, logs=None):
        self.tested += 1

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append((epoch, "end"))


class CutBetween(keras.callbacks.Callback):
    """Stops the program as an epoch begins."""

    def __init__(self, epoch):
        super().__init__()
        self.at = epoch

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.at:
            raise InterruptedError


def fit(folder, size, at=None, between=None, steps=None, endless=False, save_freq=1, **options):
    """Train three epochs of 46 rows, or until the program is cut off; what was seen, and all."""
    seq = make_sequence(46, batch_size=size, transform=None, **options)
    val = make_sequence(10, batch_size=4, transform=None, shuffle=False)
    cut, model = Cut(at), light_model()
    backup = dfgen.BackupAndRestore(folder / "backup", seq, save_freq=save_freq)
    callbacks = [cut, dfgen.InputMonitor(folder / "receipts.parquet"), backup]
    callbacks += [CutBetween(between)] if between is not None else []
    try:
        model.fit(
            seq.repeat() if endless else seq, epochs=3, steps_per_epoch=steps, verbose=0,
            validation_data=val, callbacks=callbacks,
        )  # fmt: skip
    except InterruptedError:
        assert at is not None or between is not None
    else:
        assert at is between is None
    return cut, seq


def receipts(folder):
    """(epoch, rows, left out) of each receipt that was written; each digest is as it should be."""
    order = make_sequence(46, batch_size=4, transform=None)._loader.order
    found = [Receipt(**row) for row in pq.read_table(folder / "receipts.parquet").to_pylist()]
    for one in found:
        assert one.digest == f"{order.digest_before(one.epoch, one.rows):032x}"
        assert (one.missing, one.repeated, one.counted) == (0, 0, "taken")
    return [(one.epoch, one.rows, one.left_out) for one in found]


def epoch(number, batches):
    return [*((number, batch) for batch in range(batches)), (number, "end")]


@pytest.mark.backend
@pytest.mark.parametrize(
    "explicit",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["passes", "steps_per_epoch=len(seq)"],
)
def test_a_fit_goes_on_twice_in_one_epoch_with_other_batch_sizes(tmp_path, capfd, explicit):
    sizes, lengths = (4, 9, 2), (12, 6, 23)
    steps = lengths if explicit else (None,) * 3
    first, _ = fit(tmp_path, sizes[0], (1, 6), steps=steps[0])
    assert first.seen == [*epoch(0, 12), *epoch(1, 7)[:-1]]
    with pytest.warns(
        UserWarning, match="batch_size=4, this training has batch_size=9: its epoch "
    ):
        second, _ = fit(tmp_path, sizes[1], (1, 1), steps=steps[1])
    assert second.seen == [(1, 0), (1, 1)]
    assert "going on in epoch 2 after 2 of 5 steps" in capfd.readouterr().out
    with pytest.warns(UserWarning, match="goes on after the 33 rows that were taken"):
        third, seq = fit(tmp_path, sizes[2], steps=steps[2])
    assert "going on in epoch 2 after 16 of 23 steps" in capfd.readouterr().out
    assert third.seen == epoch(1, 7) + epoch(2, 23)
    assert (first.tested, second.tested, third.tested) == (3, 0, 6)
    assert receipts(tmp_path) == [(0, 46, 0), (1, 46, 0), (2, 46, 0)]
    assert (seq.epoch, len(seq)) == (3, 23)


@pytest.mark.backend
def test_of_steps_per_epoch_those_count_as_done_that_fill_the_rows_taken(tmp_path):
    fit(tmp_path, 4, (1, 3), steps=10, endless=True)
    with pytest.warns(UserWarning, match="this training has batch_size=3"):
        second, seq = fit(tmp_path, 3, steps=10, endless=True)
    assert second.seen == epoch(1, 6) + epoch(2, 10)
    assert receipts(tmp_path) == [(0, 46, 0), (1, 46, 0)]
    assert (seq.state_dict()["epoch"], seq.state_dict()["positions"]) == (2, 6)


@pytest.mark.backend
def test_rows_that_fill_no_batch_of_the_new_size_are_left_out_and_the_epoch_ends(tmp_path, capfd):
    fit(tmp_path, 4, (1, 6), drop_remainder=True)
    with pytest.warns(UserWarning, match="this training has batch_size=30"):
        second, _ = fit(tmp_path, 30, drop_remainder=True)
    assert "going on in epoch 2 after 6 of 6 steps" in capfd.readouterr().out
    assert second.seen == [(1, "end"), *epoch(2, 1)]
    assert second.tested == 6
    assert receipts(tmp_path) == [(0, 44, 2), (1, 24, 22), (2, 30, 16)]


@pytest.mark.backend
@pytest.mark.parametrize("size", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_an_epoch_that_left_rows_out_has_ended_for_whoever_would_take_them(tmp_path, size):
    """The two rows would have been an epoch of one step, and the last epoch been lost."""
    fit(tmp_path, 4, between=1, save_freq="epoch", drop_remainder=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the state was saved with batch_size=4")
        second, _ = fit(tmp_path, size)
    assert second.seen == epoch(1, -(-46 // size)) + epoch(2, -(-46 // size))
    assert receipts(tmp_path) == [(0, 44, 2), (1, 46, 0), (2, 46, 0)]


def test_batches_are_those_that_seq_tells_by_number(frames):
    with pytest.warns(UserWarning, match="this training has batch_size=5"):
        seq = sequence(frames, "plain", batch_size=5)
        first = sequence(frames, "plain")
        batches = iter(first)
        taken = [rows_of(next(batches)) for _ in range(3)]
        seq.load_state_dict(first.state_dict())
    rest = [(seq.rows(step).tolist(), rows_of(seq[step])) for step in range(2, 10)]
    assert all(one == other for one, other in rest)
    assert rest[0][0] == rows_of(next(iter(seq)))
    assert sorted(row for each in taken for row in each) == sorted(
        {*range(MOST)} - {row for one, _ in rest for row in one}
    )


def test_a_repeated_view_counts_on_over_the_end_of_the_epoch(frames):
    first, seq = sequence(frames, "pack"), sequence(frames, "pack", batch_size=7)
    batches = iter(first)
    taken = [row for _ in range(5) for row in rows_of(next(batches))]
    with pytest.warns(UserWarning, match="this training has batch_size=7"):
        seq.load_state_dict(first.state_dict())
    view = iter(seq.repeat())
    taken += [row for _ in range(4 + 7) for row in rows_of(next(view))]
    assert sorted(taken[:MOST]) == sorted(taken[MOST:]) == [*range(MOST)]
    assert (seq.epoch, seq.receipt.epoch, seq.receipt.repeated, seq.receipt.missing) == (2, 1, 0, 0)
