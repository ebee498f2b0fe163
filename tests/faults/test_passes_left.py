"""Passes that are left in the middle, by a break or by an error, and many opened and closed."""

import keras
import psutil
import pytest
from processes_of import children
from watching import trained_watcher

import dfgen

KINDS = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])


def sequence(df, processes=False, **options):
    workers = 1 if processes else 2
    options = {"y": "label", "batch_size": 8, "image_size": (4, 4), "workers": workers, **options}
    return dfgen.Sequence(df, use_multiprocessing=processes, **options)


def rows_of(batch):
    return batch[0][:, 0, 0, 0].tolist()


@KINDS
@pytest.mark.parametrize("held", [False, True])
def test_fault_12_a_pass_that_is_left_gives_its_epoch_back_whether_or_not_it_is_held(
    frame, processes, held
):
    with sequence(frame(40), processes, shuffle=False) as seq:
        passes = []
        for _ in range(3):
            batches = iter(seq)
            for batch in batches:
                assert rows_of(batch) == [*range(8)]
                break
            if held:
                passes.append(batches)
            assert seq.epoch == 0
        found = [row for batch in seq for row in rows_of(batch)]
        assert found == [*range(40)]
        assert seq.epoch == 1


@KINDS
def test_fault_12_a_held_pass_does_not_keep_a_closed_sequence_alive(frame, processes):
    seq = sequence(frame(40), processes)
    batches = iter(seq)
    next(batches)
    seq.close()
    assert not children()
    with pytest.raises(ValueError, match="closed: make a new"):
        list(batches)


class Breaking(keras.Model):
    """A model whose training step fails in its third batch."""

    def __init__(self):
        super().__init__()
        self.dense, self.steps = keras.layers.Dense(1), 0

    def call(self, x):
        return self.dense(keras.ops.cast(x[:, 0, 0, :], "float32"))

    def train_step(self, *data):
        self.steps += 1
        if self.steps == 3:
            raise KeyError("the step failed")
        return super().train_step(*data)


@pytest.mark.backend
@KINDS
def test_fault_13_after_an_error_in_a_training_step_each_row_comes_once(frame, processes):
    """Its traceback holds the frames of `fit`, and these the pass that was left."""
    seq = sequence(frame(40), processes)
    model = Breaking()
    model.compile("sgd", "mse", run_eagerly=True)
    with pytest.raises(KeyError, match="the step failed") as caught:
        model.fit(seq, epochs=2, verbose=0)
    assert caught.value.__traceback__ is not None
    assert seq.epoch == 0
    again = trained_watcher()
    again.fit(seq, epochs=2, verbose=0)
    assert sorted(row for batch in seq for row in rows_of(batch)) == [*range(40)]
    assert seq.epoch == 3
    seq.close()
    assert not children()


@pytest.mark.slow
@pytest.mark.alarm(300)
@pytest.mark.parametrize(("processes", "cycles"), [(False, 100), (True, 8)])
def test_fault_15_opening_and_closing_holds_nothing_in_the_end(frame, processes, cycles):
    """Training and validation are alive at once, one of them in the middle of a pass."""
    train, val, first = frame(24), frame(9), None
    for _ in range(cycles):
        with sequence(train, processes) as one, sequence(val, processes, shuffle=False) as other:
            next(iter(one))
            assert [row for batch in other for row in rows_of(batch)] == [*range(9)]
            assert sorted(row for batch in one for row in rows_of(batch)) == [*range(24)]
        first = first or counts()
    while any(now > before for now, before in zip(counts(), first, strict=True)):
        pass  # a thread may be on its way out; of one that stays the alarm tells


def counts():
    """Descriptors, threads and children of this process."""
    me = psutil.Process()
    return me.num_fds(), me.num_threads(), len(children())
