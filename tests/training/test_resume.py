"""The state of a Sequence: where training goes on, read from the pixels that come next."""

import json
from contextlib import suppress

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import SEVERAL_STEPS, order, orders, trained_watcher, watcher

import dfgen


def sequence(df, **options):
    return dfgen.Sequence(df, **{"batch_size": 4, "image_size": (4, 4), "workers": 2, **options})


def rows_of(batch):
    return batch[0][:, 0, 0, 0].tolist()


def take(batches, count):
    return [row for _, batch in zip(range(count), batches, strict=False) for row in rows_of(batch)]


def rest(seq):
    return [row for batch in seq for row in rows_of(batch)]


def through_json(state):
    return json.loads(json.dumps(state))


def state_after(df, steps, **options):
    """The state after some steps of a loop."""
    seq = sequence(df, **options)
    take(iter(seq), steps)
    return through_json(seq.state_dict())


def shift(sample, rng):
    return {**sample, "image": sample["image"] + rng.integers(100, dtype=np.uint8)}


class StopAt(keras.callbacks.Callback):
    def __init__(self, epoch, batch):
        super().__init__()
        self.at = (epoch, batch)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if (self.epoch, batch) == self.at:
            self.model.stop_training = True


# -- in a loop of the user's own ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("steps", range(12))
def test_the_rest_of_the_epoch_comes_and_then_whole_epochs(frame, steps, workers):
    """Epochs after a resume were once as long as the remainder: huggingface/datasets#7447."""
    seq = sequence(frame(46), workers=workers)
    seq.load_state_dict(state_after(frame(46), steps))
    assert rest(seq) == order(46, 0)[4 * steps :]
    assert rest(seq) + rest(seq) == orders(46, [1, 2])
    assert seq.epoch == 3


def test_a_state_at_the_end_of_an_epoch_does_not_lose_the_next(frame):
    """It did: meta-pytorch/data#1437. Both before and after the loop has asked for one more."""
    first = sequence(frame(46))
    batches = iter(first)
    take(batches, 12)
    handed_out = through_json(first.state_dict())
    assert next(batches, None) is None
    for state in (handed_out, through_json(first.state_dict())):
        seq = sequence(frame(46))
        seq.load_state_dict(state)
        assert seq.epoch == 1
        assert seq.receipt == first.receipt
        assert rest(seq) == order(46, 1)


def test_resumed_twice_within_one_epoch(frame):
    seq = sequence(frame(46))
    seq.load_state_dict(state_after(frame(46), 3))
    assert take(iter(seq), 4) == order(46, 0)[12:28]
    again = sequence(frame(46))
    again.load_state_dict(through_json(seq.state_dict()))
    assert rest(again) == order(46, 0)[28:]
    whole = sequence(frame(46))
    rest(whole)
    assert again.receipt == whole.receipt


def test_the_epoch_is_part_of_the_state(frame):
    """It was not, and the order that of epoch 0 again: accelerate#4195."""
    first = sequence(frame(46))
    rest(first)
    take(iter(first), 2)
    seq = sequence(frame(46))
    seq.load_state_dict(through_json(first.state_dict()))
    assert rest(seq) == order(46, 1)[8:]


def test_a_bad_row_shifts_nothing(frame, tmp_path):
    df = frame(46)
    df.loc[order(46, 0)[2], "path"] = str(tmp_path / "gone.png")
    whole = sequence(df, on_error="skip")
    rest(whole)
    seq = sequence(df, on_error="skip")
    seq.load_state_dict(state_after(df, 5, on_error="skip"))
    assert rest(seq) == order(46, 0)[20:]
    assert seq.receipt == whole.receipt
    assert seq.receipt.skipped == 1


def test_a_broken_off_loop_begins_where_the_state_said_again(frame):
    seq = sequence(frame(46))
    seq.load_state_dict(state_after(frame(46), 3))
    take(iter(seq), 2)
    assert rest(seq) == order(46, 0)[12:]
    assert rest(seq) == order(46, 1)


def test_repeat_goes_on_over_the_end_of_an_epoch(frame):
    first = sequence(frame(46))
    take(iter(first.repeat()), 15)
    seq = sequence(frame(46))
    seq.load_state_dict(through_json(first.state_dict()))
    assert take(iter(seq.repeat()), 10) == order(46, 1)[12:] + order(46, 2)[:4]


def test_without_shuffle(frame):
    seq = sequence(frame(46), shuffle=False)
    seq.load_state_dict(state_after(frame(46), 3, shuffle=False))
    assert rest(seq) == [*range(12, 46)]


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 1, "use_multiprocessing": True}])
def test_a_sample_draws_the_same_before_and_after_a_resume(frame, options):
    whole = [x.tobytes() for x, _ in sequence(frame(20), transform=shift)]
    with sequence(frame(20), transform=shift, **options) as seq:
        seq.load_state_dict(state_after(frame(20), 2, transform=shift))
        assert [x.tobytes() for x, _ in seq] == whole[2:]


def test_a_drawn_seed_is_taken_from_the_state(frame):
    for options in ({}, {"workers": 0}, {"workers": 1, "use_multiprocessing": True}):
        first = sequence(frame(46), seed=None)
        take(iter(first), 2)
        with sequence(frame(46), seed=None, **options) as seq:
            take(iter(seq), 1)
            seq.load_state_dict(through_json(first.state_dict()))
            assert rest(seq) == order(46, 0, seed=first.seed)[8:]
            assert f"seed {first.seed}" in repr(seq)


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 1, "use_multiprocessing": True}])
def test_a_sample_draws_by_a_seed_taken_from_the_state(frame, options):
    first = sequence(frame(20), seed=None, transform=shift)
    whole = [first[step][0].tobytes() for step in range(5)]
    take(iter(first), 2)
    with sequence(frame(20), seed=None, transform=shift, **options) as seq:
        seq.load_state_dict(through_json(first.state_dict()))
        assert [x.tobytes() for x, _ in seq] == whole[2:]


def test_what_was_made_ahead_by_another_seed_is_not_taken(frame):
    state = state_after(frame(20), 5, seed=4)
    with sequence(frame(20), seed=None) as seq:
        rest(seq)
        seq.load_state_dict(state)
        assert rest(seq) == order(20, 1, seed=4)


def test_rows_in_their_own_order_stay_so_with_a_seed_taken_from_the_state(frame):
    state = state_after(frame(20), 2, seed=None, shuffle=False)
    with sequence(frame(20), seed=None, shuffle=False) as seq:
        seq.load_state_dict(state)
        assert rest(seq) == list(range(8, 20))


def test_the_state_is_small_and_says_what_it_is_of(frame):
    state = state_after(frame(46), 3)
    assert len(json.dumps(state)) < 1000
    assert (state["epoch"], state["positions"], state["rows"], state["seed"]) == (0, 12, 46, 0)


def test_the_repr_says_how_far_it_is(frame):
    seq = sequence(frame(46))
    take(iter(seq), 3)
    assert repr(seq).endswith("seed 0, epoch 0 after 3 batches>")
    rest(seq)
    assert repr(seq).endswith("seed 0, epoch 1>")


def test_a_state_without_a_checksum_is_taken_where_rows_were_skipped(frame, tmp_path):
    """Its receipt is that of the rows that were taken, which nobody else knows."""
    df = frame(46)
    df.loc[order(46, 0)[2], "path"] = str(tmp_path / "gone.png")
    state = state_after(df, 5, on_error="skip") | {"checksum": None}
    seq = sequence(df, on_error="skip")
    seq.load_state_dict(state)
    assert rest(seq) == order(46, 0)[20:]
    assert seq.receipt.skipped == 1


@pytest.mark.parametrize("name", ["skipped rows", "balance", "weights", "buckets", "a shard"])
def test_the_rest_of_the_epoch_comes_whatever_the_order_of_rows(frame, tmp_path, name):
    df, options = weighted(frame(46)), {"y": "label", **OPTIONS[name]}
    if "on_error" in options:
        (tmp_path / "another.png").touch()  # or the folder were that of a drive that is gone
        df.loc[[7, 30], "path"] = str(tmp_path / "gone.png")
    whole = sequence(df, **options)
    batches = [rows_of(batch) for _ in range(2) for batch in whole]
    for steps in (1, 5, len(whole)):
        seq = sequence(df, **options)
        seq.load_state_dict(state_after(df, steps, **options))
        rows = [rows_of(batch) for _ in range(2 - steps // len(whole)) for batch in seq]
        assert rows == batches[steps:]
        assert seq.receipt == whole.receipt


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name", "was", "now"),
    [
        ({"seed": 7}, "seed", 0, 7),
        ({"shuffle": False}, "shuffle", True, False),
        ({"rows": 45}, "rows", 46, 45),
    ],
)
def test_a_state_of_another_sequence_is_refused(frame, options, name, was, now):
    state = state_after(frame(46), 3)
    seq = sequence(frame(options.pop("rows", 46)), **options)
    with pytest.raises(ValueError, match=f"^the state was saved with {name}=") as refused:
        seq.load_state_dict(state)
    assert str(refused.value) == (
        f"the state was saved with {name}={was}, this training has {name}={now}: rows would be "
        f"repeated and missed. Go on with {name}={was}, or start anew without the state"
    )
    assert len(rest(seq)) == (now if name == "rows" else 46)


def test_a_state_of_other_rows_or_of_another_order_of_rows_is_refused(frame):
    state = state_after(frame(46), 3)
    other = frame(47).iloc[1:]
    for df in (other, frame(46).iloc[::-1]):
        with pytest.raises(
            ValueError, match=r"^the state was saved with other ids, or the same in"
        ):
            sequence(df).load_state_dict(state)


@pytest.mark.parametrize("key", ["version", "epoch", "ids", "receipt", "labels"])
def test_a_truncated_state_is_refused(frame, key):
    state = state_after(frame(46), 3)
    del state[key]
    with pytest.raises(ValueError, match=f"^the state lacks {key}: it was cut short"):
        sequence(frame(46)).load_state_dict(state)
    with pytest.raises(ValueError, match=r"^the state is None, expected the dict that state_dict"):
        sequence(frame(46)).load_state_dict(None)


EDITED = (
    "the state is not as it was saved: it was edited or damaged, and rows would be repeated or "
    "missed. Use the one saved before it, or start anew without a state; one that you edit on "
    'purpose says so by "checksum": None'
)
SLOW, QUICK = pytest.mark.slow, "a drawn seed"
OPTIONS = {
    "plain": {},
    "skipped rows": {"on_error": "skip"},
    "balance": {"balance": "label"},
    "weights": {"balance": "weight"},
    "buckets": {"image_size": None, "bucket_by": "shape"},
    "a shard": {"shard": (1, 2)},
    "no remainder": {"drop_remainder": True},
    "a drawn seed": {"seed": None},
    "unshuffled": {"shuffle": False},
}
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 50), st.integers(), st.floats(), st.just([]),
    st.just({}), st.text("0123456789abcdef", max_size=32),
)  # fmt: skip


def weighted(df):
    return df.assign(weight=np.linspace(1, 2, len(df)))


@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(n, marks=SLOW) for n in OPTIONS if n != QUICK)]
)
def test_any_edit_of_a_state_is_refused_or_changes_no_row(frame, tmp_path, name):
    """At the begin, in the middle and at the end of an epoch; resumed once before."""
    df, options = weighted(frame(46)), {"y": "label", **OPTIONS[name]}
    if "on_error" in options:
        df.loc[order(46, 1)[2], "path"] = str(tmp_path / "gone.png")
    first = sequence(df, **options)
    rest(first)
    states = [through_json(first.state_dict())]
    for batches in (5, len(first) - 5):
        again = sequence(df, **options)
        again.load_state_dict(states[-1])
        take(iter(again), batches)
        states.append(through_json(again.state_dict()))
    seq = sequence(df, **options)

    @given(st.sampled_from(states), st.data())
    @settings(max_examples=60)
    def try_an_edit(state, data):
        entry = data.draw(st.sampled_from([*state, "rows_per_epoch", "weights", "window", "other"]))
        edited = {**state, entry: data.draw(VALUES | st.sampled_from([*state.values()]))}
        if data.draw(st.booleans()):
            del edited[entry]
        seq.load_state_dict(state)
        before = seq.state_dict(), seq.receipt
        with suppress(dfgen.DfgenError):
            seq.load_state_dict(edited)
        assert (seq.state_dict(), seq.receipt) == before

    try_an_edit()


@pytest.mark.parametrize(
    "edit", [{"positions": 28}, {"positions": 16}, {"receipt": "0" * 32}], ids=str
)
@pytest.mark.parametrize("older", [False, True], ids=["with a checksum", "of an older dfgen"])
@pytest.mark.parametrize("name", ["plain", "weights", "buckets", "a drawn seed"])
def test_a_state_that_was_edited_is_refused_and_nothing_changes(frame, name, older, edit):
    """It trained on 80 rows of 96, or 104, and the receipt said `repeated=0, missing=0`."""
    options = {"y": "label", **OPTIONS[name]}
    state = state_after(weighted(frame(46)), 5, **options)
    if older:
        del state["checksum"]
    seq = sequence(weighted(frame(46)), **options)
    seed = seq.seed
    with pytest.raises(ValueError, match="edited") as refused:
        seq.load_state_dict(state | edit)
    taken = edit.get("positions", 20)
    receipt = (
        f"the state has another receipt than {taken} rows of epoch 0 give: it was edited or "
        "damaged, and rows would be repeated or missed. Use the one saved before it, or start anew "
        "without a state"
    )
    assert str(refused.value) == (receipt if older else EDITED)
    assert (seq.seed, seq.epoch, seq.state_dict()["positions"]) == (seed, 0, 0)
    seq.load_state_dict(state)
    rest(seq)
    assert (seq.receipt.missing, seq.receipt.repeated) == (0, 0)


def test_changed_labels_warn_and_training_goes_on(frame):
    state = state_after(frame(46), 3)
    df = frame(46)
    df.loc[3, "label"] = "even"
    seq = sequence(df)
    with pytest.warns(UserWarning) as warned:
        seq.load_state_dict(state)
    assert [str(warning.message) for warning in warned] == [
        "the state was saved with other labels: training goes on with those of now"
    ]
    assert warned[0].filename == __file__
    assert rest(seq) == order(46, 0)[12:]


# -- in fit ------------------------------------------------------------------------------------


@pytest.mark.backend
@pytest.mark.parametrize(("steps", "built"), [(1, True), (7, True), (7, False), (11, True)])
def test_fit_does_the_rest_of_the_epoch_and_then_whole_epochs(frame, steps, built):
    seq, model = sequence(frame(46)), trained_watcher() if built else watcher()
    seq.load_state_dict(state_after(frame(46), steps))
    history = model.fit(seq, epochs=3, verbose=0).history
    assert model.seen() == orders(46, range(3))[4 * steps :]
    assert (seq.epoch, len(history["loss"])) == (3, 3)


@pytest.mark.backend
def test_the_state_counts_what_the_model_took_not_what_was_fetched(frame):
    seq, model = sequence(frame(46)), trained_watcher()
    states = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: states.append(seq.state_dict())
    )
    callbacks = [dfgen.InputMonitor(), note, StopAt(1, 4)]
    model.fit(seq, epochs=2, verbose=0, callbacks=callbacks)
    found = [(state["epoch"], state["positions"]) for state in states]
    taken = [*range(4, 46, 4), 46]
    assert found == [(0, each) for each in taken] + [(1, each) for each in taken[:5]]
    assert repr(seq).endswith("epoch 1 after 5 batches>")
    again = sequence(frame(46))
    again.load_state_dict(through_json(seq.state_dict()))
    model.fit(again, epochs=1, verbose=0)
    assert model.seen() == orders(46, range(2))


@pytest.mark.backend
def test_a_state_within_a_fit_on_repeat(frame):
    seq, model = sequence(frame(46)), trained_watcher()
    callbacks = [dfgen.InputMonitor(), StopAt(2, 1)]
    model.fit(seq.repeat(), steps_per_epoch=7, epochs=3, verbose=0, callbacks=callbacks)
    again = sequence(frame(46))
    again.load_state_dict(through_json(seq.state_dict()))
    model.fit(again.repeat(), steps_per_epoch=8, epochs=1, verbose=0)
    assert model.seen() == orders(46, range(2))


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_validation_and_evaluate_after_a_resume_are_whole(frame):
    seq, model = sequence(frame(24)), trained_watcher()
    seq.load_state_dict(state_after(frame(24), 4))
    model.fit(seq, validation_data=seq, epochs=2, verbose=0)
    assert model.seen() == orders(24, range(2))[16:]
    assert len(model.seen("tested")) == 48
    seq.load_state_dict(state_after(frame(24), 4))
    model.evaluate(seq, verbose=0)
    assert len(model.seen("tested")) == 72
    assert seq.state_dict()["positions"] == 16


@pytest.mark.backend
@SEVERAL_STEPS
@pytest.mark.parametrize("rows", [45, 48])
def test_several_steps_per_execution_count_all_their_batches(frame, rows):
    seq, model = sequence(frame(rows)), watcher(built=True, steps_per_execution=5)
    model.fit(seq, epochs=2, verbose=0, callbacks=[dfgen.InputMonitor(), StopAt(1, 4)])
    assert seq.state_dict()["positions"] == 20
    again = sequence(frame(rows))
    again.load_state_dict(seq.state_dict())
    model.fit(again, epochs=1, verbose=0, callbacks=[dfgen.InputMonitor()])
    assert model.seen() == orders(rows, range(2))
    assert (again.receipt.rows, again.receipt.missing, again.receipt.repeated) == (rows, 0, 0)


@pytest.mark.backend
def test_a_loop_within_a_fit_leaves_what_the_model_took(frame):
    seq, model = sequence(frame(40)), trained_watcher()

    def look(batch, logs):
        if batch == 3:
            next(iter(seq))

    callbacks = [dfgen.InputMonitor(), keras.callbacks.LambdaCallback(on_train_batch_end=look)]
    model.fit(seq, epochs=1, verbose=0, callbacks=[*callbacks, StopAt(0, 9)])
    assert seq.state_dict()["positions"] == 40
    assert model.seen() == order(40, 0)
    assert seq.receipt.rows == 40
