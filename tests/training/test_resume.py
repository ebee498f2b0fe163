"""States in loops and in fit, beyond what tests/public covers."""

import keras
import numpy as np
import pytest
from hypothesis import strategies as st
from public.keras_helpers import sequence as images
from public.numbered import PROCESSES, flat, rows_of, sequence, state_after, table, take
from public.permutation import epoch_rows, epochs_rows
from public.test_resume import LENGTH, ROWS
from public.watching import built_watcher, watcher
from watching import SEVERAL_STEPS

import dfgen

OPTIONS = {
    "plain": {},
    "balance": {"balance": "label"},
    "a shard": {"shard": (1, 2)},
    "no remainder": {"drop_remainder": True},
    "a drawn seed": {"seed": None},
    "unshuffled": {"shuffle": False},
}


def noise(sample, rng):
    return {**sample, "number": sample["number"] + np.float32(rng.random() / 4)}


# -- loops of the user -----------------------------------------------------------------------------


@pytest.mark.parametrize("asks", [False, True])
def test_state_at_epoch_end_begins_the_next(asks):
    """Before and after the loop has asked for one more batch: meta-pytorch/data#1437."""
    first = sequence(ROWS)
    batches = iter(first)
    take(batches, LENGTH)
    assert not asks or next(batches, None) is None
    seq = sequence(ROWS)
    seq.load_state_dict(first.state_dict())
    assert (seq.epoch, seq.receipt) == (1, first.receipt)
    assert flat(seq) == epoch_rows(ROWS, 1)


@pytest.mark.parametrize("options", [{}, PROCESSES], ids=str)
@pytest.mark.parametrize("seed", [0, None])
def test_transforms_draw_the_same_after_a_resume(options, seed):
    first = sequence(ROWS, seed=seed, transform=noise)
    whole = [first[step][0].tolist() for step in range(LENGTH)]
    take(first, 3)
    with sequence(ROWS, seed=seed, transform=noise, **options) as seq:
        take(seq, 5)
        seq.load_state_dict(first.state_dict())
        assert [x.tolist() for x, _ in seq] == whole[3:]


@pytest.mark.parametrize("name", OPTIONS)
def test_epoch_resumes_in_any_row_order(name):
    first = sequence(ROWS, **OPTIONS[name])
    states, batches = [first.state_dict()], []
    for batch in (batch for _ in range(2) for batch in first):
        batches.append(rows_of(batch))
        states.append(first.state_dict())
    length = len(first)
    for steps in (1, 5, length):
        seq = sequence(ROWS, **OPTIONS[name])
        seq.load_state_dict(states[steps])
        rest = [rows_of(batch) for _ in range(2 - steps // length) for batch in seq]
        assert rest == batches[steps:]
        assert seq.receipt == first.receipt


def test_a_bad_row_shifts_nothing(frame, tmp_path):
    df, bad = frame(46), epoch_rows(46, 0)[2]
    df.loc[bad, "path"] = str(tmp_path / "gone.png")
    first, whole, seq = (images(df, on_error="skip") for _ in range(3))
    batches = [*whole]
    for _ in zip(range(5), first, strict=False):
        pass
    seq.load_state_dict(first.state_dict())
    for batch, expected in zip(seq, batches[5:], strict=True):
        np.testing.assert_array_equal(batch[0], expected[0])
    assert seq.receipt == whole.receipt
    assert seq.receipt.skipped == 1


def test_loading_a_state_moves_a_sequence_in_use():
    seq = sequence(ROWS, workers=2)
    take(seq, 7)
    seq.load_state_dict(state_after(ROWS, LENGTH + 2))
    assert take(seq, 3) == epoch_rows(ROWS, 1)[8:20]
    seq.load_state_dict(state_after(ROWS, 5))
    assert take(seq, 3) == epoch_rows(ROWS, 0)[20:32]
    assert flat(seq) == epoch_rows(ROWS, 0)[20:]  # a loop that was left early begins again
    assert take(seq.repeat(), LENGTH + 3) == epochs_rows(ROWS, (1, 2))[: ROWS + 12]


# -- errors ----------------------------------------------------------------------------------------


def test_changed_labels_warn_and_training_continues():
    df = table(ROWS)
    df.loc[3, "label"] = "c"
    seq = sequence(df)
    with pytest.warns(UserWarning, match="labels") as warned:
        seq.load_state_dict(state_after(ROWS, 5))
    assert warned[0].filename == __file__
    assert flat(seq) == epoch_rows(ROWS, 0)[20:]


@pytest.mark.parametrize("state", [None, [1, 2], {}, {"epoch": 1}, "text"], ids=str)
def test_a_value_that_is_no_state_is_rejected(state):
    with pytest.raises(dfgen.DfgenError, match="state"):
        sequence(ROWS).load_state_dict(state)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 50), st.integers(), st.floats(), st.just([]),
    st.just({}), st.text("0123456789abcdef", max_size=32),
)  # fmt: skip


@pytest.mark.parametrize("edit", [{"step": 7}, {"step": 4}, {"receipt": "0" * 32}], ids=str)
def test_the_receipt_of_an_edited_state_is_compared(edit):
    seq = sequence(ROWS)
    with pytest.raises(dfgen.DfgenError, match="receipt"):
        seq.load_state_dict({**state_after(ROWS, 5), **edit})
    assert flat(seq) == epoch_rows(ROWS, 0)


# -- fit -------------------------------------------------------------------------------------------


def stopping(steps):
    """Return a callback that stops `fit` after so many steps."""
    done = []

    def on_train_batch_end(batch, logs):
        done.append(batch)
        callback.model.stop_training |= len(done) == steps

    callback = keras.callbacks.LambdaCallback(on_train_batch_end=on_train_batch_end)
    return callback


@pytest.mark.backend
def test_unbuilt_models_train_the_rest(frame):
    first, seq, model = images(frame(22)), images(frame(22)), watcher()
    for _ in zip(range(2), first, strict=False):
        pass
    seq.load_state_dict(first.state_dict())
    model.fit(seq, epochs=2, verbose=0)
    assert (model.seen(), seq.epoch) == (epochs_rows(22, (0, 1))[8:], 2)


@pytest.mark.backend
def test_fit_on_repeat_continues_from_a_stopped_fit(frame):
    seq, again, model = images(frame(22)), images(frame(22)), built_watcher()
    callbacks = [dfgen.InputMonitor(), stopping(8)]
    model.fit(seq.repeat(), steps_per_epoch=3, epochs=4, verbose=0, callbacks=callbacks)
    again.load_state_dict(seq.state_dict())
    model.fit(again.repeat(), steps_per_epoch=4, verbose=0)
    assert model.seen() == epochs_rows(22, (0, 1))


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_validation_and_evaluate_after_a_resume_are_whole(frame):
    first, seq, model = images(frame(24)), images(frame(24)), built_watcher()
    for _ in zip(range(4), first, strict=False):
        pass
    seq.load_state_dict(first.state_dict())
    model.fit(seq, validation_data=seq, epochs=2, verbose=0)
    assert model.seen() == epochs_rows(24, (0, 1))[16:]
    assert len(model.seen("tested")) == 48
    seq.load_state_dict(first.state_dict())
    model.evaluate(seq, verbose=0)
    assert len(model.seen("tested")) == 72
    assert seq.state_dict() == first.state_dict()


@pytest.mark.backend
@SEVERAL_STEPS
@pytest.mark.parametrize("rows", [45, 48])
def test_several_steps_per_execution_count_all_their_batches(frame, rows):
    seq, again = images(frame(rows)), images(frame(rows))
    model = watcher(built=True, steps_per_execution=5)
    model.fit(seq, epochs=2, verbose=0, callbacks=[dfgen.InputMonitor(), stopping(4)])
    again.load_state_dict(seq.state_dict())
    model.fit(again, verbose=0, callbacks=[dfgen.InputMonitor()])
    assert model.seen() == epochs_rows(rows, (0, 1))
    assert (again.receipt.rows, again.receipt.missing, again.receipt.repeated) == (rows, 0, 0)


@pytest.mark.backend
def test_a_loop_in_a_callback_does_not_count(frame):
    seq, model, batches = images(frame(22)), built_watcher(), []

    def look(batch, logs):
        batches.append(next(iter(seq)))

    callback = keras.callbacks.LambdaCallback(on_train_batch_end=look)
    model.fit(seq, verbose=0, callbacks=[dfgen.InputMonitor(), callback])
    assert model.seen() == epoch_rows(22, 0)
    assert (len(batches), seq.epoch, seq.receipt.rows) == (6, 1, 22)
