"""How fit, evaluate and predict of each Keras read a Sequence: rows by the steps of the model."""

import copy
import gc
import threading
import weakref

import keras
import numpy as np
import pytest
from watching import EAGER, KERAS, SEVERAL_STEPS, order, orders, trained_watcher, watcher

import dfgen
from dfgen.errors import UnknownKerasError

pytestmark = [pytest.mark.backend, pytest.mark.keras]
BACKEND = keras.backend.backend()
STEPS = 5  # batches of 4 in the 18 rows of `rows`


@pytest.fixture
def rows(frame):
    return frame(18)


def sequence(df, **options):
    options = {"batch_size": 4, "image_size": (4, 4), "workers": 2, "y": "label", **options}
    return dfgen.Sequence(df, **options)


def rest(epoch, first, last=STEPS):
    """Return the rows of some batches of an epoch."""
    return order(18, epoch)[4 * first : 4 * last]


class At(keras.callbacks.Callback):
    """Calls a function when so many steps were taken."""

    def __init__(self, steps, act):
        super().__init__()
        self.steps, self.act, self.count = steps, act, 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count == self.steps:
            self.act(self.model)


class States(keras.callbacks.Callback):
    """Notes each state that differs from the steps taken, wherever Keras calls."""

    def __init__(self, seq):
        super().__init__()
        self.seq, self.count, self.reads, self.faults = seq, 0, 0, []

    def look(self, *_, logs=None):
        state = self.seq.state_dict()
        found = state["epoch"], state["step"]
        self.reads += 1
        if found not in (divmod(self.count, STEPS), (self.count // STEPS - 1, STEPS)):
            self.faults.append((self.count, found))

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        self.look()

    on_train_begin = on_epoch_begin = on_train_batch_begin = look
    on_test_begin = on_epoch_end = on_train_end = look


def state_at(df, epoch, steps):
    """Return the state after so many steps of an epoch."""
    with sequence(df, workers=0) as seq:
        for _ in range(epoch):
            list(seq)
        batches = iter(seq)
        for _ in range(steps):
            next(batches)
        return seq.state_dict()


def load_when(place, seq, state):
    """Return a callback that loads a state, once."""
    states = [state]

    def load(*_):
        if states:
            seq.load_state_dict(states.pop())

    if place == "batch":
        return At(3, load)
    return keras.callbacks.LambdaCallback(**{f"on_{place}": load})


@pytest.mark.parametrize(
    ("place", "arguments", "expected"),
    [
        ("train_begin", {"epochs": 2}, rest(1, 2) + order(18, 2)),
        ("epoch_end", {"epochs": 3}, order(18, 0) + rest(1, 2) + order(18, 2)),
        ("batch", {"epochs": 3}, order(18, 0) + rest(1, 2) + order(18, 2)),
        (
            "epoch_end", {"epochs": 3, "steps_per_epoch": 3},
            rest(0, 0, 3) + rest(1, 2) + rest(2, 0, 3),
        ),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("endless", [False, True])
def test_state_loaded_by_callback_holds_from_next_epoch(rows, place, arguments, expected, endless):
    if endless and "steps_per_epoch" not in arguments:
        arguments = {**arguments, "steps_per_epoch": STEPS}
        expected = {
            "train_begin": rest(1, 2) + order(18, 2) + rest(3, 0, 2),
            "epoch_end": order(18, 0) + rest(1, 2) + order(18, 2) + rest(3, 0, 2),
            "batch": order(18, 0) + rest(1, 2) + order(18, 2) + rest(3, 0, 2),
        }[place]
    seq, model = sequence(rows), trained_watcher()
    load = load_when(place, seq, state_at(rows, 1, 2))
    data = seq.repeat() if endless else seq
    model.fit(data, callbacks=[load], verbose=0, **arguments)
    assert model.seen() == expected


@pytest.mark.parametrize(("length", "steps"), [(3, 4), (7, 6), (3, 3)])
def test_repeat_goes_on_where_a_state_was_saved(rows, length, steps):
    seq, model, states = sequence(rows), trained_watcher(), []
    note = At(steps, lambda model: states.append(seq.state_dict()))
    options = {"steps_per_epoch": length, "epochs": 4, "verbose": 0}
    model.fit(seq.repeat(), callbacks=[note], **options)
    whole = model.seen()
    model.forget()
    again = sequence(rows)
    again.load_state_dict(states[0])
    model.fit(again.repeat(), initial_epoch=-(-steps // length), **options)
    taken = 4 * steps if steps < STEPS else 18 + 4 * (steps - STEPS)
    seen = model.seen()
    assert seen == whole[taken:][: len(seen)] and len(seen) > 18


class Failing(keras.Model):
    """Raises an error in one of its steps."""

    def __init__(self, step, error):
        super().__init__()
        self.failing, self.error, self.count = step, error, 0
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        return self.dense(keras.ops.cast(keras.ops.reshape(x, (-1, 48)), "float32"))

    def train_step(self, *data):
        self.count += 1
        if self.count == self.failing:
            raise self.error
        return super().train_step(*data)


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_step_error_counts_only_previous_steps(rows, error):
    seq, model = sequence(rows), Failing(3, error("mine"))
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=True, jit_compile=False)
    with pytest.raises(error, match="mine"):
        model.fit(seq, epochs=2, verbose=0)
    assert (seq.state_dict()["epoch"], seq.state_dict()["step"]) == (0, 2)
    model.fit(seq, verbose=0)
    assert (seq.receipt.epoch, seq.receipt.rows, seq.receipt.repeated) == (0, 18, 0)


@pytest.mark.parametrize("verbose", [0, 2])
def test_states_are_right_in_every_hook_of_callbacks(rows, verbose):
    seq, val, model = sequence(rows), sequence(rows[:5], shuffle=False), trained_watcher()
    first, last = States(seq), States(seq)
    others = [keras.callbacks.EarlyStopping("loss", patience=9), keras.callbacks.LambdaCallback()]
    model.fit(
        seq, validation_data=val, epochs=3, callbacks=[first, *others, last], verbose=verbose
    )  # fmt: skip
    assert (first.faults, last.faults) == ([], []) and first.reads == last.reads > 30


def test_states_are_right_with_callbacks_in_threads(rows):
    """Keras does so on JAX and torch where all callbacks that end batches are `async_safe`."""
    seq, model, threads, faults = sequence(rows), trained_watcher(), set(), []

    class Thread(keras.callbacks.Callback):
        async_safe = True

        def on_train_batch_end(self, batch, logs=None):
            threads.add(threading.current_thread())

    class Begins(keras.callbacks.Callback):
        epoch = 0

        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

        def on_train_batch_begin(self, batch, logs=None):
            state = seq.state_dict()
            if (state["epoch"], state["step"]) != (self.epoch, batch) and batch:
                faults.append((self.epoch, batch, state))

    model.fit(seq, epochs=3, callbacks=[Thread(), Begins()], verbose=0)
    assert faults == []
    assert (threading.main_thread() in threads) == (BACKEND == "tensorflow")


def test_a_callback_list_serves_several_fits(rows):
    seq, model = sequence(rows), trained_watcher()
    states = States(seq)
    callbacks = keras.callbacks.CallbackList([states], add_history=True, model=model, epochs=2)
    for epochs in (2, 1):
        model.fit(seq, epochs=epochs, callbacks=callbacks, verbose=0)
    assert (states.faults, model.seen()) == ([], orders(18, range(3)))
    before = seq.state_dict()
    arrays = np.zeros((4, 4, 4, 3), "uint8"), np.zeros(4, "int32")
    states.look = lambda *_, logs=None: None
    model.fit(*arrays, callbacks=callbacks, verbose=0)
    assert seq.state_dict() == before


@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_nested_evaluate_predict_and_fit_count_nothing(rows):
    outer, inner, seq, other = trained_watcher(), watcher(run_eagerly=EAGER), sequence(rows), None
    other, val = sequence(rows), sequence(rows, shuffle=False)

    def run(model):
        inner.fit(other, validation_data=seq, verbose=0)
        inner.evaluate(seq, verbose=0)
        assert len(inner.predict(val, verbose=0)) == 18

    outer.fit(seq, epochs=2, validation_data=seq, callbacks=[At(3, run)], verbose=0)
    assert (outer.seen(), inner.seen()) == (orders(18, range(2)), order(18, 0))
    assert (seq.epoch, other.epoch, val.epoch) == (2, 1, 0)


@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_inner_pass_during_fit_counts_nothing(rows):
    seq, model, found = sequence(rows), trained_watcher(), []
    look = At(3, lambda model: found.append((len(list(seq)), seq[0][0].shape[0], seq.rows(1)[0])))
    model.fit(seq, epochs=2, callbacks=[look], verbose=0)
    assert found == [(STEPS, 4, order(18, 0)[4])]
    assert model.seen() == orders(18, range(2))


def test_models_take_turns(rows):
    first, second, seq = trained_watcher(), watcher(run_eagerly=EAGER), sequence(rows)
    for model, epochs in ((first, 1), (second, 2), (first, 1)):
        model.fit(seq, epochs=epochs, verbose=0)
    assert first.seen() == order(18, 0) + order(18, 3)
    assert second.seen() == orders(18, [1, 2])


def overriding():
    base = type(watcher())

    class Overriding(base):
        def fit(self, *arguments, **options):
            return super().fit(*arguments, **options)

        def evaluate(self, *arguments, **options):
            return super().evaluate(*arguments, **options)

        def train_step(self, *data):
            return super().train_step(*data)

    return Overriding()


@pytest.mark.filterwarnings("ignore:validation_data has the")
@pytest.mark.parametrize("epochs_before", [0, 1])
def test_model_may_override_fit_evaluate_and_train_step(rows, epochs_before):
    model, seq = overriding(), sequence(rows)
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=EAGER, jit_compile=False)
    seq.load_state_dict(state_at(rows, epochs_before, 2))
    model.fit(seq, validation_data=seq, epochs=2, verbose=0)  # an unbuilt model
    assert model.seen() == rest(epochs_before, 2) + order(18, epochs_before + 1)
    assert sorted(model.seen("tested")) == sorted(2 * [*range(18)])


@pytest.mark.parametrize(
    "way",
    [
        {"jit_compile": False},
        {"run_eagerly": True, "jit_compile": False},
        *([{"jit_compile": True}] if BACKEND != "torch" else []),
    ],
)
def test_compiled_and_eager_steps_take_the_same_rows(rows, way):
    model, seq = watcher(**way), sequence(rows)
    model.fit(seq, epochs=2, verbose=0)
    assert model.seen() == orders(18, range(2))


@SEVERAL_STEPS
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize(("steps", "size"), [(0, 4), (4, 4), (2, 4), (1, 3)])
def test_executions_of_several_steps_resume_at_any_step(rows, steps, size):
    seq, model = sequence(rows), watcher(built=True, steps_per_execution=size)
    seq.load_state_dict(state_at(rows, 0, steps))
    states = []
    note = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: states.append(seq.state_dict()["step"])
    )
    model.fit(seq, epochs=2, callbacks=[note], verbose=0)
    assert model.seen() == rest(0, steps) + order(18, 1)
    ends = [*range(steps + size, STEPS, size), STEPS, *range(size, STEPS, size), STEPS]
    assert states == ends


def test_batches_that_keras_prefetches_are_not_counted(rows, monkeypatch):
    if BACKEND == "jax":  # Keras prefetches a batch if there is a GPU
        import jax

        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    model, seq = watcher(), sequence(rows)
    states = States(seq)
    model.fit(seq, epochs=2, callbacks=[states, At(7, stop)], verbose=0)
    assert states.faults == [] and model.seen() == order(18, 0) + rest(1, 0, 2)


def stop(model):
    model.stop_training = True


def test_a_copied_sequence_and_its_callbacks_train_alone(rows):
    seq, model = sequence(rows), trained_watcher()
    model.fit(seq, callbacks=copy.deepcopy([At(99, stop)]), verbose=0)
    twin = copy.deepcopy(seq)
    model.fit(twin, verbose=0)
    assert model.seen() == orders(18, range(2))
    assert (seq.epoch, twin.epoch) == (1, 2)


def test_user_loop_may_be_named_fit(rows):
    seq, model = sequence(rows), trained_watcher()

    def fit():
        for epoch in range(2):
            for x, y in seq:
                model.train_on_batch(x, y)
            assert seq.epoch == epoch + 1

    fit()
    assert model.seen() == orders(18, range(2))


@pytest.mark.parametrize(
    "method",
    ["get_numpy_iterator", "get_jax_iterator", "get_torch_dataloader", "get_tf_dataset"],
)
def test_unknown_keras_reading_style_is_an_error(rows, method):
    seq = sequence(rows)  # which this code calls as an unknown Keras would
    with pytest.raises(UnknownKerasError, match=r"supports Keras 3\.12"):
        exec(f"seq.num_batches\nseq.{method}()", {"seq": seq, "__name__": "keras.src.trainers"})


def test_get_numpy_iterator_gives_a_user_the_batches(rows):
    seq = sequence(rows, shuffle=False)
    pairs = zip(seq.get_numpy_iterator(), sequence(rows, shuffle=False), strict=True)
    assert all(np.array_equal(x, other) for (x, *_), (other, *_) in pairs)


def test_sequence_and_batches_are_freed_after_fit(rows):
    seq, model = sequence(rows), watcher(run_eagerly=EAGER)
    model.fit(seq, verbose=0)
    model.evaluate(seq, verbose=0)
    dead = weakref.ref(seq)
    del seq
    gc.collect()
    assert dead() is None, KERAS
