"""A training that stopped goes on at the next step, as if nothing had happened."""

import json
import warnings

import keras
import numpy as np
import pytest

import dfgen
from public.numbered import batches_of, epoch_batches, flat, rows_of, sequence, state_after, take
from public.permutation import epoch_rows, epochs_rows
from public.training_script import EPOCHS, STEPS, Stopped, make_sequence, stop, train
from public.watching import built_watcher

ROWS, LENGTH = 45, 12


def load(state, **options):
    seq = sequence(ROWS, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the state was saved with", UserWarning)
        seq.load_state_dict(state)
    return seq


@pytest.mark.parametrize("options", [{}, {"workers": 2}, {"shuffle": False}], ids=str)
@pytest.mark.parametrize("steps", range(LENGTH + 3))
def test_rest_of_the_epoch_then_whole_epochs(steps, options):
    """Epochs after a resume were once as short as the rest: huggingface/datasets#7447."""
    state = state_after(ROWS, steps, **options)
    assert len(json.dumps(state)) < 1000
    orders = [[*range(ROWS)] if "shuffle" in options else epoch_rows(ROWS, n) for n in range(4)]
    epoch, done = divmod(steps, LENGTH)
    seq, batches = load(state, **options), batches_of(orders[epoch], 4)
    assert (seq.epoch, len(seq)) == (epoch, LENGTH)
    assert [seq.rows(step).tolist() for step in range(LENGTH)] == batches
    assert rows_of(seq[2]) == batches[2]
    assert [rows_of(batch) for batch in seq] == batches[done:]
    for later in (epoch + 1, epoch + 2):
        assert seq.epoch == later
        assert flat(seq) == orders[later]
    rest = [*orders[epoch][4 * done :], *orders[epoch + 1]]
    assert take(load(state, **options).repeat(), LENGTH) == rest[:ROWS]


@pytest.mark.parametrize("processes", [False, True])
def test_resuming_three_times_in_one_epoch(processes):
    state, expected = state_after(ROWS, LENGTH), epoch_rows(ROWS, 1)
    for start, end in ((0, 3), (3, 4), (4, 9)):
        with load(state, workers=2, use_multiprocessing=processes) as seq:
            assert take(seq, end - start) == expected[4 * start : 4 * end]
            state = seq.state_dict()
    seq, whole = load(state), sequence(ROWS)
    assert flat(seq) == expected[36:]
    flat(whole), flat(whole)
    assert seq.receipt == whole.receipt


def test_state_of_another_seed_resumes_after_a_first_pass():
    seq = sequence(ROWS, seed=None)
    flat(seq)
    seq.load_state_dict(state_after(ROWS, 3))
    assert flat(seq) == epoch_rows(ROWS, 0)[12:]


OTHERS = {
    "seed": {"seed": 7}, "rows": {"rows": 44}, "ids": {"rows": sequence(ROWS).manifest[::-1]},
    "shuffle|order": {"shuffle": False}, "balance|order": {"balance": "label"},
    "ids|rows": {"rows": sequence(ROWS + 1).manifest[1:]},
}  # fmt: skip


@pytest.mark.parametrize("word", OTHERS)
def test_a_state_of_another_order_is_rejected(word):
    seq, same = (sequence(**{"rows": ROWS, **OTHERS[word]}) for _ in range(2))
    with pytest.raises(dfgen.DfgenError, match=word):
        seq.load_state_dict(state_after(ROWS, 5))
    assert (seq.epoch, flat(seq)) == (0, flat(same))


def edited(value):
    if isinstance(value, bool) or value is None:
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1, value + 4, str(value)]
    return [value[:-1] + ("0" if value[-1:] != "0" else "1"), "", 3]


@pytest.mark.parametrize("steps", [5, LENGTH + 3])
def test_no_edit_of_a_state_changes_the_rows(steps):
    state, rejected = state_after(ROWS, steps), set()
    rest = epoch_rows(ROWS, steps // LENGTH)[steps % LENGTH * 4 :]
    for name, value in state.items():
        versions = [{**state, name: other} for other in edited(value)]
        for version in [*versions, {key: state[key] for key in state if key != name}]:
            seq, expected = sequence(ROWS), (steps // LENGTH, rest)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    seq.load_state_dict(version)
                except dfgen.DfgenError:
                    expected = 0, epoch_rows(ROWS, 0)
                    rejected.add(name)
            assert (seq.epoch, flat(seq)) == expected
    assert {"seed", "rows", "ids", "epoch", "receipt"} <= rejected


@pytest.mark.parametrize("steps", [5, LENGTH + 3])
def test_state_holds_epoch_and_step(steps):
    state = state_after(ROWS, steps)
    assert (state["epoch"], state["step"]) == divmod(steps, LENGTH)
    for step in (state["step"] + 1, state["step"] - 1, LENGTH + 1, -1):
        with pytest.raises(dfgen.DfgenError, match="step"):
            sequence(ROWS).load_state_dict({**state, "step": step})


SIZES = [(4, 6, 8), (4, 6, 3), (9, 2, 6), (4, LENGTH + 5, 10), (2, 21, 7), (4, LENGTH, 7)]


@pytest.mark.parametrize(("old", "steps", "new"), SIZES)
def test_another_batch_size_takes_each_row_once(old, steps, new):
    epoch, done = divmod(steps, -(-ROWS // old))
    state = state_after(ROWS, steps, batch_size=old)
    seq, whole = (load(state, batch_size=size) for size in (new, old))
    for later in (epoch, epoch + 1):
        expected = epoch_batches(ROWS, new, later)
        expected = expected[done * old // new :] if later == epoch else expected
        assert [rows_of(batch) for batch in seq] == expected
        flat(whole)
        assert seq.receipt == whole.receipt
        assert (seq.receipt.rows, seq.receipt.missing, seq.receipt.repeated) == (ROWS, 0, 0)


@pytest.mark.parametrize("new", [5, 7, 16, 45])
def test_incompatible_batch_size_is_rejected(new):
    """24 rows were taken."""
    with pytest.raises(dfgen.DfgenError, match=r"\b4\b.*\b12\b.*\b24\b"):
        sequence(ROWS, batch_size=new).load_state_dict(state_after(ROWS, 6))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1), (2, 2), (3, 4), (2, 3)])
def test_another_number_of_processes_takes_each_row_once(before, after):
    parts, state = [], state_after(ROWS, 2, batch_size=12, shard=(before - 1, before))
    for index in range(after):
        seq = load(state, batch_size=12, shard=(index, after))
        parts.append([[rows_of(batch) for batch in seq] for _ in range(2)])
    for epoch in range(2):
        expected = epoch_batches(ROWS, 12, epoch, drop=after > 1)[2 * (epoch == 0) :]
        batches = zip(*(part[epoch] for part in parts), strict=True)
        assert [np.concatenate(batch).tolist() for batch in batches] == expected


@pytest.mark.backend
@pytest.mark.parametrize("steps", [1, 7, LENGTH - 1, LENGTH, LENGTH + 3])
def test_fit_trains_the_rest_then_whole_epochs(frame, steps):
    options = {"y": "label", "batch_size": 4, "image_size": (4, 4), "workers": 1}
    first, seq = (dfgen.Sequence(frame(ROWS), **options) for _ in range(2))
    for _ in zip(range(steps), first.repeat(), strict=False):
        pass
    seq.load_state_dict(first.state_dict())
    model, epochs = built_watcher(), 3 + steps // LENGTH
    history = model.fit(seq, epochs=3, verbose=0).history
    assert model.seen() == epochs_rows(ROWS, range(epochs))[4 * steps - 3 * (steps >= LENGTH) :]
    assert (len(history["loss"]), seq.epoch, seq.receipt.epoch) == (3, epochs, epochs - 1)
    assert (seq.receipt.rows, seq.receipt.missing, seq.receipt.repeated) == (ROWS, 0, 0)


def run(folder, *stops, make=dict, **options):
    """Train, stopped at each place in turn; return the last run, and the steps of all runs."""
    steps = []
    for after in stops:
        with pytest.raises(Stopped):
            train(folder, after, stop, steps=steps, **options, **make())
    return *train(folder, steps=steps, **options, **make()), len(steps)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole"))


def assert_equal_ends(result, whole):
    for one, other in zip(result[0].get_weights(), whole[0].get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert result[1].receipt == whole[1].receipt
    assert result[1].epoch == whole[1].epoch
    for name, values in result[2].items():
        assert values == whole[2][name][-len(values) :]


PLACES = [[1], [4], [6], [7], [8], [9], [10], [15], [6, 1, 2], [("end", 0)], [("begin", 2)]]
CASES = [(stops, {"save_freq": 1}, range(len(stops) + 1)) for stops in PLACES]
CASES += [([8], {"on_sigterm": False}, range(3, 4)), ([8], {"save_freq": 2}, range(1, 3))]


@pytest.mark.backend
@pytest.mark.parametrize(("stops", "backup", "again"), CASES)
def test_stopped_training_ends_with_the_same_weights(tmp_path, whole, stops, backup, again):
    """Only steps since the last backup are trained again."""
    result = run(tmp_path, *stops, backup=backup)
    assert_equal_ends(result, whole)
    assert whole[-1] == EPOCHS * STEPS
    assert result[-1] - whole[-1] in again


@pytest.mark.backend
def test_damaged_backup_is_replaced_by_previous_one(tmp_path, whole):
    with pytest.raises(Stopped):
        train(tmp_path, 8, stop)
    backups = [path for path in tmp_path.rglob("*") if path.stat().st_size > 1000]
    newest = max(backups, key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(newest.read_bytes()[:-200])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = run(tmp_path)
    assert_equal_ends(result, whole)
    assert 8 < result[-1] < 15


class Steps(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1

    def get_state(self):
        return {"steps": self.steps}

    def set_state(self, state):
        self.steps = state["steps"]


@pytest.mark.backend
def test_callbacks_keep_their_state(tmp_path):
    never, own = {"monitor": "loss", "min_delta": 100.0}, []

    def make():
        plateau = keras.callbacks.ReduceLROnPlateau(**never, patience=2, factor=0.5)
        early = keras.callbacks.EarlyStopping(**never, patience=3, restore_best_weights=True)
        own.append(Steps())
        return {"callbacks": [plateau, early, own[-1]], "epochs": 9}

    whole = run(tmp_path / "whole", make=make)
    result = run(tmp_path / "stopped", 7, ("end", 1), 3, make=make)
    for trained in (whole, result):
        assert float(trained[0].optimizer.learning_rate) == pytest.approx(0.0005)
    assert len(whole[2]["loss"]) == 4
    assert 4 * STEPS == own[0].steps <= own[-1].steps <= 4 * STEPS + 1
    assert_equal_ends(result, whole)


@pytest.mark.backend
def test_backups_go_on_with_another_batch_size(tmp_path):
    with pytest.raises(Stopped):
        train(tmp_path, 8, stop)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the state was saved with", UserWarning)
        _, seq, history, steps = run(tmp_path, sequence=make_sequence(batch_size=2), epochs=2)
    assert (len(history["loss"]), steps) == (1, 5)  # 8 of 18 rows of the second epoch were done
    assert seq.receipt == run(tmp_path / "whole", epochs=2)[1].receipt
