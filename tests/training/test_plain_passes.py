"""Where Keras is not as dfgen knows it: each reach into it broken, one at a time."""

import functools
import inspect
import json
import re
import textwrap
from functools import partial

import keras
import numpy as np
import pytest
from keras.src.trainers.data_adapters import data_adapter
from keras_changes import EPOCHS, TRAINER, rename
from watching import order, orders, trained_watcher, watcher

import dfgen
from dfgen.training import keras_calls, keras_private
from dfgen.training.fit_pass import PlainPasses
from dfgen.training.keras_probe import missing

pytestmark = pytest.mark.backend
# What is fetched ahead and not trained on is not seen again: TensorFlow does so, and older JAX.
AHEAD = "tensorflow" in TRAINER.__module__ or "def _prefetch_numpy" in inspect.getsource(
    inspect.getmodule(TRAINER)
)


def frame_between(patch, name, hook):
    """Have a method of EpochIterator call the data from one function further in."""
    method = getattr(EPOCHS, name)
    source = textwrap.dedent(inspect.getsource(method))
    assert f"self.data_adapter.{hook}" in source
    source = source.replace(
        f"self.data_adapter.{hook}", f"(lambda data: data.{hook})(self.data_adapter)"
    )
    known = {**method.__globals__}
    exec(source, known)
    patch.setattr(EPOCHS, name, known[name])


def wrap_init(patch):
    init = EPOCHS.__init__
    patch.setattr(EPOCHS, "__init__", lambda self, *args, **kwargs: init(self, *args, **kwargs))


def take_no_adapter(patch):
    """Keras takes a Sequence for the PyDataset that it is."""
    patch.setattr(data_adapter, "DataAdapter", type("DataAdapter", (), {}))


def lose_iterators(patch):
    """The class of Keras's loops is not where it was."""
    patch.setattr(keras_private, "EpochIterator", None)
    patch.setattr(keras_calls, "EpochIterator", None)


def move_imports(patch):
    take_no_adapter(patch)
    lose_iterators(patch)


def wrap_fit(patch):
    """As libraries that log trainings do."""
    fit = keras.Model.fit

    @functools.wraps(fit)
    def logged(self, *args, **kwargs):
        return fit(self, *args, **kwargs)

    patch.setattr(keras.Model, "fit", logged)


BREAKS = {
    "imports moved": move_imports,
    "no adapter taken": take_no_adapter,
    "reset renamed": lambda p: rename(p, EPOCHS, "reset", "_go_back", ["reset"]),
    "fit renamed": lambda p: rename(p, TRAINER, "fit", "_fit", ["fit"]),
    "evaluate renamed": lambda p: rename(p, TRAINER, "evaluate", "_test", ["evaluate"]),
    "predict renamed": lambda p: rename(p, TRAINER, "predict", "_predict", ["predict"]),
    "the loop's class moved": lose_iterators,
}
HOLDS = {
    "epoch_iterator renamed": lambda p: rename(p, TRAINER, "epoch_iterator", "batches", ["fit"]),
    "__init__ wrapped": wrap_init,
    "a frame before num_batches": lambda p: frame_between(p, "__init__", "num_batches"),
    "a frame before on_epoch_begin": lambda p: frame_between(
        p, "_enumerate_iterator", "on_epoch_begin()"
    ),
    "a frame before on_epoch_end": lambda p: frame_between(p, "reset", "on_epoch_end()"),
    "fit wrapped by another library": wrap_fit,
}


QUICK = "imports moved", "the loop's class moved"
"""Breaks where Keras asks for single batches, and where a Sequence is its adapter."""


@pytest.fixture(params=[
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in BREAKS
])  # fmt: skip
def broken(request, monkeypatch):
    yield from breaking(BREAKS[request.param], monkeypatch)


@pytest.fixture(params=QUICK)
def plain(request, monkeypatch):
    yield from breaking(BREAKS[request.param], monkeypatch)


def breaking(do, monkeypatch):
    missing.cache_clear()
    with monkeypatch.context() as patch:
        do(patch)
        with pytest.warns(UserWarning) as warned:
            yield
    missing.cache_clear()
    others = ("infinite PyDataset", "__array__ implementation")  # Keras's own
    told = [str(each.message) for each in warned]
    (told,) = [each for each in told if not any(other in each for other in others)]
    assert told.startswith(f"Keras {keras.__version__} is not as dfgen knows it")
    assert re.search(r"without (DataAdapter|EpochIterator), a Sequence runs as a plain", told)
    assert told.endswith("and disturb one that is under way. Is there a newer dfgen?")


@pytest.mark.parametrize("change", HOLDS)
def test_changes_of_keras_that_take_nothing_away(frame, monkeypatch, change):
    missing.cache_clear()
    with monkeypatch.context() as patch:
        HOLDS[change](patch)
        model, seq = trained_watcher(), sequence(frame, 46)
        with pytest.raises(dfgen.DfgenError, match=r"class_weight=\.\.\.\) does not reach"):
            model.fit(seq, class_weight={0: 0.0, 1: 0.0}, verbose=0)
        model.fit(seq, validation_data=sequence(frame, 12), epochs=2, verbose=0)
        assert model.seen() == orders(46, range(2))
        assert missing() == frozenset()
    missing.cache_clear()


def sequence(frame, rows, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, **options}
    return dfgen.Sequence(frame(rows), y="label", **options)


def batches(rows):
    """Batches of four rows, in an order of their own: Keras shuffles them too."""
    return sorted(rows[i : i + 4] for i in range(0, len(rows), 4))


def assert_epochs(seen, rows, epochs):
    """Each epoch has the batches that it should, so each row once."""
    assert len(seen) == rows * len(epochs)
    for place, epoch in enumerate(epochs):
        assert batches(seen[rows * place : rows * (place + 1)]) == batches(order(rows, epoch))


def test_this_keras_is_as_dfgen_knows_it(frame):
    missing.cache_clear()
    watcher().fit(sequence(frame, 8), verbose=0)
    assert missing.cache_info().currsize == 1
    assert missing() == frozenset()


def test_the_probe_leaves_no_trace(frame):
    import random

    before = random.getstate(), np.random.get_state()[1].tolist()
    missing.cache_clear()
    assert missing() == frozenset()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_what_keras_is_told_for_debugging_does_not_disturb_the_probe():
    missing.cache_clear()
    keras.config.set_max_epochs(1)
    keras.config.set_max_steps_per_epoch(1)
    try:
        assert missing() == frozenset()
        assert (keras.config.max_epochs(), keras.config.max_steps_per_epoch()) == (1, 1)
    finally:
        keras.config.set_max_epochs(None)
        keras.config.set_max_steps_per_epoch(None)


@pytest.mark.parametrize("built", [True, False], ids=["built", "unbuilt"])
def test_each_row_once_an_epoch_whatever_has_changed(frame, broken, built):
    model, seq, val = watcher(built=built), sequence(frame, 48), sequence(frame, 12, shuffle=False)
    model.fit(seq, validation_data=val, epochs=2, verbose=0)
    assert_epochs(model.seen(), 48, range(2))
    assert model.seen("tested") == [*range(12)] * 2
    assert seq.epoch == 2
    model.fit(seq, epochs=1, verbose=0)
    assert_epochs(model.seen(), 48, range(3))


@pytest.mark.parametrize(("rows", "built"), [
    *((rows, True) for rows in (3, 8, 45)), (4, False), (45, False),
    *(pytest.param(rows, False, marks=pytest.mark.slow) for rows in (3, 8, 11)),
])  # fmt: skip
def test_sets_of_one_two_three_and_twelve_batches(frame, plain, rows, built):
    model, seq = trained_watcher() if built else watcher(), sequence(frame, rows)
    model.fit(seq, epochs=3, shuffle=False, verbose=0)
    assert model.seen() == orders(rows, range(3))
    assert seq.epoch == 3
    model.fit(seq, epochs=1, shuffle=False, verbose=0)
    assert model.seen() == orders(rows, range(4))


def test_keras_runs_no_pool_of_its_own(frame, plain):
    model, seq = trained_watcher(), sequence(frame, 48, workers=3, max_queue_size=4)
    read = []
    look = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: read.append((seq.workers, seq.use_multiprocessing))
    )
    model.fit(seq, shuffle=False, verbose=0, callbacks=[look])
    assert model.seen() == order(48, 0)
    assert set(read) == {(1, False)}
    assert (seq.workers, seq.max_queue_size) == (3, 4)


def test_evaluate_and_predict_in_between_never_bring_the_same_batches_again(frame, plain):
    model, seq = trained_watcher(), sequence(frame, 12)
    model.fit(seq, epochs=1, verbose=0)
    model.evaluate(seq, verbose=0)
    model.predict(seq, verbose=0)
    model.fit(seq, epochs=2, verbose=0)
    assert_epochs(model.seen("tested"), 12, [1, 2])
    assert_epochs(model.seen(), 12, [0, 3, 4])
    assert seq.epoch == 5


def test_validation_on_the_training_sequence_itself(frame, plain):
    model, seq = trained_watcher(), sequence(frame, 12)
    model.fit(seq, validation_data=seq, epochs=2, verbose=0)
    assert_epochs(model.seen(), 12, [0, 2])
    assert_epochs(model.seen("tested"), 12, [1, 3])


def test_evaluate_within_a_batch_of_fit(frame, plain, request):
    if keras.backend.backend() == "tensorflow" and "imports" in request.node.name:
        assert missing()  # it fetches ahead: evaluate disturbs an epoch, as the warning says
        return
    model, seq = trained_watcher(), sequence(frame, 24)
    nested = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: batch == 2 and nested.model.evaluate(seq, verbose=0)
    )
    model.fit(seq, epochs=3, callbacks=[nested], verbose=0)
    assert_epochs(model.seen(), 24, range(3))
    assert seq.epoch == 3


def test_a_batch_asked_for_from_outside_does_not_disturb_fit(frame, plain):
    model, seq = trained_watcher(), sequence(frame, 40)
    look = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seq[1])
    model.fit(seq, epochs=2, callbacks=[look], verbose=0)
    assert_epochs(model.seen(), 40, range(2))
    assert (seq.receipt.rows, seq.receipt.repeated, seq.receipt.missing) == (40, 0, 0)


def test_an_epoch_that_was_left_is_given_back_or_was_handed_out(frame, plain):
    def stop(batch, logs):
        if batch == 3:
            raise KeyboardInterrupt

    model, seq = trained_watcher(), sequence(frame, 48)
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=stop)
    with pytest.raises(KeyboardInterrupt):
        model.fit(seq, callbacks=[callback], verbose=0)
    before = len(model.seen())
    model.fit(seq, epochs=2, verbose=0)
    first = seq.epoch - 2
    assert first in (0, 1)  # TensorFlow may have fetched all of it
    assert_epochs(model.seen()[before:], 48, [first, first + 1])


def test_what_does_not_reach_a_sequence_is_refused_here_too(frame, plain):
    """Keras itself refuses y and sample_weight of a PyDataset."""
    model, seq, given = watcher(), sequence(frame, 8), {}
    given = {"class_weight": {0: 0.0, 1: 0.0}, "y": np.zeros(8), "sample_weight": np.zeros(8)}
    for name, value in {**given, "batch_size": 2, "validation_split": 0.5}.items():
        with pytest.raises(ValueError, match=f"{name}|is only supported for|NumPy"):
            model.fit(seq, **{name: value}, verbose=0)
    with pytest.raises(dfgen.DfgenError) as refused:
        model.fit(seq, steps_per_epoch=1, verbose=0)
    assert str(refused.value) == (
        f"with Keras {keras.__version__}, which is not as dfgen knows it, an epoch has all batches "
        "of a Sequence: leave steps_per_epoch= or steps= out, or give fit sequence.repeat()"
    )
    assert model.seen() == []


def test_repeat_goes_on_over_epochs(frame, plain):
    model, seq = trained_watcher(), sequence(frame, 46)
    model.fit(seq.repeat(), steps_per_epoch=8, epochs=3, shuffle=False, verbose=0)
    assert model.seen() == orders(46, range(2))
    model.fit(seq.repeat(), steps_per_epoch=4, epochs=3, shuffle=False, verbose=0)
    again, rest = model.seen()[92:], orders(46, range(2, 5))
    start = rest.index(again[0]) if AHEAD else 0
    assert again == rest[start : start + 46]


def test_what_is_fetched_between_two_epochs_of_repeat_goes_on_too(frame):
    seq = sequence(frame, 46)
    passes, rows = PlainPasses(seq._loader, seq.progress, endless=True), []
    passes.end()
    for steps in (range(16), range(17, 20), range(21, 24)):
        passes.begin()
        rows.extend(passes.batch(step).rows for step in steps)
        passes.end()
        if len(rows) < 24:
            rows.append(passes.batch(len(rows)).rows)
    assert np.concatenate(rows).tolist() == orders(46, range(2))
    assert (seq.receipt.rows, seq.receipt.missing) == (46, 0)


def test_batches_of_repeat_asked_for_from_outside_do_not_count(frame):
    seq = sequence(frame, 46)
    passes = PlainPasses(seq._loader, seq.progress, endless=True)
    passes.end()
    passes.begin()
    for step in range(4):
        passes.batch(step)
    passes.end()
    before = seq.state_dict()
    for step in (7, 8):
        passes.batch(step)
    assert before["positions"] == 16
    assert seq.state_dict() == before


def test_receipts_count_what_was_handed_out(frame, plain):
    model, seq = trained_watcher(), sequence(frame, 46)
    exact = sequence(frame, 46)
    model.fit(seq, epochs=2, verbose=0)
    for _ in range(2):
        assert len(list(exact)) == 12
    assert seq.receipt == exact.receipt
    assert (seq.receipt.rows, seq.receipt.missing, seq.receipt.counted) == (46, 0, "handed out")


def test_a_state_is_of_whole_epochs(frame, plain):
    model, seq = trained_watcher(), sequence(frame, 46)
    states = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: states.append(seq.state_dict())
    )
    model.fit(seq, epochs=2, verbose=0, callbacks=[note])
    assert {state["positions"] for state in states} == {0}
    state = json.loads(json.dumps(seq.state_dict()))
    again, other = sequence(frame, 46), trained_watcher()
    again.load_state_dict(state)
    other.fit(again, epochs=1, shuffle=False, verbose=0)
    assert other.seen() == order(46, 2)


def test_a_state_within_an_epoch_is_refused_by_fit(frame, plain):
    first, seq = sequence(frame, 46), sequence(frame, 46)
    next(iter(first))
    seq.load_state_dict(first.state_dict())
    with pytest.raises(dfgen.DfgenError) as refused:
        trained_watcher().fit(seq, verbose=0)
    assert str(refused.value) == (
        f"with Keras {keras.__version__}, which is not as dfgen knows it, training cannot go on "
        "after 1 batches of an epoch: load a state from between two epochs, or go on in a loop of "
        "your own"
    )


def test_processes_cannot_share_batches(frame, plain):
    with pytest.raises(dfgen.DfgenError) as refused:
        watcher(built=True).fit(sequence(frame, 16, shard=(0, 2)), verbose=0)
    assert str(refused.value) == (
        f"with Keras {keras.__version__}, which is not as dfgen knows it, processes cannot share "
        "batches: train in one process, or in a loop of your own"
    )


def test_callbacks_that_cannot_count_say_so(frame, plain, tmp_path):
    seq = sequence(frame, 8)
    fault = next(reach.name for reach in keras_private.REACHES if reach.name in missing())
    callbacks = {
        "InputMonitor": dfgen.InputMonitor,
        "BackupAndRestore": partial(dfgen.BackupAndRestore, tmp_path / "backup", seq),
    }
    for name, make in callbacks.items():
        with pytest.raises(dfgen.DfgenError) as refused:
            trained_watcher().fit(seq, verbose=0, callbacks=[make()])
        assert str(refused.value) == (
            f"{name} cannot tell what fit takes, for Keras {keras.__version__} is not as dfgen "
            f"knows it ({fault}): train without it, or with a newer dfgen"
        )


def test_a_loop_of_ones_own_is_as_ever(frame, plain):
    seq = sequence(frame, 46)
    trained_watcher().fit(sequence(frame, 4), verbose=0)
    rows = [row for _ in range(2) for x, _ in seq for row in x[:, 0, 0, 0].tolist()]
    assert rows == orders(46, range(2))
