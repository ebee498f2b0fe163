"""BackupAndRestore within one process: what it restores, refuses, says, and leaves behind."""

import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial

import keras
import numpy as np
import pytest
from killing import (
    EPOCHS,
    STEPS,
    Killer,
    built_model,
    light_model,
    make_model,
    make_sequence,
)
from watching import SEVERAL_STEPS

import dfgen
from dfgen.errors import ArgumentError
from dfgen.locks import LOCK_SUFFIX
from dfgen.training.callbacks.backup_files import Generations, restore, snapshot
from dfgen.training.callbacks.sigterm import Sigterm

pytestmark = pytest.mark.backend
SLOW = pytest.mark.slow


class Stopped(Exception):
    pass


class Stopper(Killer):
    """Raises where a Killer kills."""

    def __init__(self, sequence, place, act=None):
        super().__init__(sequence, place)
        self.act = act

    def on_train_batch_begin(self, batch, logs=None):
        self.pass_by("step begin", self.epoch, batch)

    def pass_by(self, when, epoch, step):
        if (when, epoch, step) == self.place:
            if self.act is None:
                raise Stopped
            self.act()


def fit(folder, place=None, act=None, *, sequence=None, model=None, backup=(), **options):
    """Train for three epochs, or until a place; return the model, the Sequence and the history."""
    sequence = make_sequence() if sequence is None else sequence
    model = built_model() if model is None else model
    settings = {"save_freq": 1, **dict(backup)}
    callbacks = [dfgen.BackupAndRestore(folder, sequence, **settings)]
    if place is not None:
        callbacks.append(Stopper(sequence, place, act))
    options = {"x": sequence, "epochs": EPOCHS, "verbose": 0, **options}
    history = model.fit(callbacks=callbacks, **options)
    return model, sequence, history.history


def interrupted(folder, place, **options):
    with pytest.raises(Stopped):
        fit(folder, place, **options)


def assert_same_weights(one, other):
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The model and the Sequence of a training that nothing interrupted."""
    model, sequence, _ = fit(tmp_path_factory.mktemp("whole") / "backup")
    return model, sequence


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    interrupted(folder, ("step", 1, 6))
    return folder


@pytest.fixture
def stopped(kept, tmp_path):
    """A folder of the backups of a training that was stopped after 5 steps of its second epoch."""
    return shutil.copytree(kept, tmp_path / "stopped")


NEWEST = "backup-00000016.dfgen"


@contextmanager
def handler_of_sigterm(handler):
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# -- going on ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_resumed_epoch_has_the_logs_weights_and_receipt_of_an_uninterrupted_one(tmp_path, capsys):
    val = make_sequence(10, transform=None, shuffle=False)
    fresh = partial(fit, validation_data=val)
    whole, whole_sequence, history = fresh(tmp_path / "a")
    with pytest.raises(Stopped):
        fresh(tmp_path / "b", ("step", 1, 6))
    capsys.readouterr()
    model, sequence, rest = fresh(tmp_path / "b", model=make_model())  # which is not built
    assert capsys.readouterr().out == (
        f"dfgen: going on in epoch 2 after 5 of 12 steps, from {tmp_path}/b/backup-00000016.dfgen\n"
    )
    assert rest == {name: values[1:] for name, values in history.items()}
    assert_same_weights(model, whole)
    assert sequence.receipt == whole_sequence.receipt
    assert sequence.receipt.counted == "taken"
    assert (sequence.epoch, sequence.receipt.rows) == (EPOCHS, 45)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "save_freq", [5, *(pytest.param(n, marks=SLOW) for n in ("epoch", 12, 100))]
)
def test_steps_since_the_last_save_are_made_again(whole, tmp_path, save_freq):
    interrupted(tmp_path, ("step", 1, 7), backup={"save_freq": save_freq})
    model, *_ = fit(tmp_path, backup={"save_freq": save_freq})
    assert_same_weights(model, whole[0])


def test_a_save_is_due_so_many_steps_after_the_one_before(tmp_path):
    backup = {"save_freq": 5, "delete_checkpoint": False}
    fit(tmp_path, backup=backup, epochs=1, model=light_model())
    assert max(os.listdir(tmp_path)) == f"backup-{(STEPS - 1) // 5:08}.dfgen"


@SEVERAL_STEPS
def test_steps_of_several_in_one_execution_count_no_further_than_their_epoch(tmp_path):
    backup = {"save_freq": 15, "delete_checkpoint": False}
    fit(tmp_path, backup=backup, epochs=2, model=built_model(steps_per_execution=5))
    with open(tmp_path / "backup-00000000.dfgen", "rb") as file:
        facts = json.loads(file.readline())
    assert (facts["epoch"], facts["step"]) == (1, 5)  # 17 steps after the beginning


@pytest.mark.slow
def test_repeat_with_steps_per_epoch_goes_on_over_the_end_of_an_epoch(tmp_path):
    def run(folder, place=None):
        sequence = make_sequence()
        return fit(
            folder, place, sequence=sequence, x=sequence.repeat(), steps_per_epoch=7, epochs=4
        )

    whole, whole_sequence, history = run(tmp_path / "a")
    for place in [("step", 0, 3), ("step", 1, 2), ("epoch end", 2, STEPS)]:
        with pytest.raises(Stopped):
            run(tmp_path / "b", place)
    model, sequence, rest = run(tmp_path / "b")
    assert rest["loss"] == history["loss"][2:]
    assert_same_weights(model, whole)
    assert sequence.state_dict() == whole_sequence.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("places", [[("step", 0, 2)], [("step", 0, 2), ("step", 1, 8)]], ids=len)
def test_steps_per_epoch_short_of_the_length_goes_on(tmp_path, places):
    def run(folder, place=None):
        return fit(folder, place, steps_per_epoch=6, epochs=4)

    whole, *_ = run(tmp_path / "a")
    for place in places:
        with pytest.raises(Stopped):
            run(tmp_path / "b", place)
    model, sequence, _ = run(tmp_path / "b")
    assert_same_weights(model, whole)
    assert sequence.epoch == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("steps", [STEPS + 2, 7])
def test_an_epoch_that_its_pass_has_ended_is_not_gone_on_with(tmp_path, steps):
    def run(folder, place=None):
        return fit(folder, place, steps_per_epoch=steps, epochs=4, model=light_model())

    whole, whole_sequence, history = run(tmp_path / "a")
    done = len(range(0, STEPS, steps))  # epochs of fit in the first pass
    with pytest.raises(Stopped):
        run(tmp_path / "b", ("step", done, 1))
    model, sequence, rest = run(tmp_path / "b")
    assert_same_weights(model, whole)
    assert rest["loss"] == history["loss"][done - 1 :]
    assert sequence.state_dict() == whole_sequence.state_dict()


@pytest.mark.slow
@SEVERAL_STEPS
@pytest.mark.parametrize("endless", [pytest.param(False, marks=SLOW), True])
def test_several_steps_per_execution(tmp_path, endless):
    def run(folder, place=None):
        sequence = make_sequence()
        options = {"x": sequence.repeat(), "steps_per_epoch": 7} if endless else {}
        model = built_model(steps_per_execution=5)
        return fit(folder, place, sequence=sequence, model=model, **options)

    whole, _, history = run(tmp_path / "a")
    with pytest.raises(Stopped):
        run(tmp_path / "b", ("step", 1, 3 if endless else 5))  # 15 batches of 12 an epoch
    model, sequence, rest = run(tmp_path / "b")
    assert rest["loss"] == history["loss"][1:]
    assert_same_weights(model, whole)
    assert (sequence.receipt.repeated, sequence.receipt.missing) == (0, 0)


@pytest.mark.slow
def test_an_end_between_two_epochs_of_keras_begins_the_next_one(whole, tmp_path, capsys):
    interrupted(tmp_path, ("epoch begin", 2, 0))
    capsys.readouterr()
    model, *_ = fit(tmp_path)
    assert "dfgen: going on in epoch 3, from " in capsys.readouterr().out
    assert_same_weights(model, whole[0])


@pytest.mark.slow
def test_a_sequence_that_drew_its_seed_goes_on_with_it(tmp_path):
    first = make_sequence(seed=None)
    interrupted(tmp_path, ("step", 1, 2), sequence=first)
    second = make_sequence(seed=None)
    assert second.seed != first.seed
    model, *_ = fit(tmp_path, sequence=second)
    assert second.seed == first.seed
    assert_same_weights(model, fit(tmp_path, sequence=make_sequence(seed=first.seed))[0])


@pytest.mark.slow
def test_numbers_drawn_without_a_seed_go_on_where_they_were(tmp_path):
    class Shake(keras.callbacks.Callback):
        """Draws from Keras's own generator, and on torch from torch's."""

        def on_train_batch_begin(self, batch, logs=None):
            rate = keras.random.uniform((), 0.001, 0.002)
            if keras.backend.backend() == "torch":
                import torch

                rate = rate + torch.rand(()) / 1000
            self.model.optimizer.learning_rate = rate

    def run(folder, place=None):
        sequence, model = make_sequence(), make_model()
        stopper = [Stopper(sequence, place)] if place else []
        callbacks = [Shake(), dfgen.BackupAndRestore(folder, sequence, save_freq=1), *stopper]
        model.fit(sequence, epochs=2, verbose=0, callbacks=callbacks)
        return model

    keras.utils.clear_session()  # which forgets Keras's generator
    whole = run(tmp_path / "a")
    keras.utils.clear_session()
    with pytest.raises(Stopped):
        run(tmp_path / "b", ("step", 1, 5))
    keras.random.uniform(())  # in another process it would not be where it was either
    assert_same_weights(run(tmp_path / "b"), whole)


def test_keras_draws_on_from_where_a_snapshot_was():
    def drawn():
        return [float(keras.random.uniform(())) for _ in range(2)]

    model = light_model()
    keras.random.uniform(())  # there is a generator from the first number on
    arrays, numbers = snapshot(model), drawn()
    restore(model, arrays)
    assert drawn() == numbers


def test_a_learning_rate_set_at_the_end_of_an_epoch_is_kept(tmp_path):
    class Halve(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) / 2

    sequence, model = make_sequence(), light_model()
    backup = dfgen.BackupAndRestore(tmp_path, sequence)
    callbacks = [backup, Halve(), Stopper(sequence, ("step", 1, 1))]
    with pytest.raises(Stopped):
        model.fit(sequence, epochs=3, verbose=0, callbacks=callbacks)
    model, *_ = fit(tmp_path, epochs=1, model=light_model())
    assert float(model.optimizer.learning_rate) == pytest.approx(0.0005)


def test_weights_of_a_type_that_numpy_does_not_know_come_back(tmp_path):
    def made(bias):
        layer = keras.layers.Dense(2, dtype="bfloat16", bias_initializer=bias)
        model = keras.Sequential([keras.Input((1,)), layer])
        model.compile("sgd")
        return model

    backups, one, other = Generations(tmp_path), made("ones"), made("zeros")
    backups.save({}, snapshot(one))
    restore(other, backups.load()[2])
    assert [str(keras.ops.dtype(v)) for v in other.layers[0].weights] == ["bfloat16"] * 2
    for a, b in zip(one.layers[0].weights, other.layers[0].weights, strict=True):
        assert keras.ops.all(a == b)


# -- ends --------------------------------------------------------------------------------------


class Two(keras.Model):
    """Two parts, which train by optimizers of their own; that of compile may stay unused."""

    def __init__(self):
        super().__init__()
        self.parts = [keras.Sequential([keras.Input((1,)), keras.layers.Dense(n)]) for n in (2, 3)]

    def call(self, x):
        return self.parts[0](keras.ops.reshape(x, (-1, 1)))

    def compile(self, optimizer=None, second="Adam"):
        needed = "sgd" if keras.backend.backend() == "jax" else None  # by Keras
        super().compile(optimizer or needed, run_eagerly=True)
        self.first = keras.optimizers.Adam(0.1)
        self.others = {"second": getattr(keras.optimizers, second)(0.1)}

    def train_step(self, *given):
        x = keras.ops.mean(keras.ops.cast(given[-1][0], "float32"))
        parts = zip((self.first, self.others["second"]), reversed(self.parts), strict=True)
        if len(given) == 1:
            for optimizer, part in parts:
                optimizer.apply([keras.ops.ones(v.shape) * x for v in part.weights], part.weights)
            return {"x": x}
        weights = dict(zip(map(id, self.trainable_variables), given[0][0], strict=True))
        for optimizer, part in parts:  # JAX
            if not optimizer.built:
                optimizer.build(part.trainable_variables)
            found, state = optimizer.stateless_apply(
                [v.value for v in optimizer.variables],
                [keras.ops.ones(v.shape) * x for v in part.weights],
                [weights[id(v)] for v in part.weights],
            )
            weights |= zip(map(id, part.weights), found, strict=True)
            for variable, value in zip(optimizer.variables, state, strict=True):
                variable.assign(value)
        return {"x": x}, (list(weights.values()), *given[0][1:])


def two(*arguments):
    keras.utils.set_random_seed(3)
    model = Two()
    model.compile(*arguments)
    return model


def test_a_snapshot_holds_optimizers_wherever_a_model_keeps_them():
    made, model = keras.optimizers.SGD, light_model()
    model.one, model.pair, model.named = made(), (made(), 1), {"a": made()}
    model.listed = [1, made()]
    groups = {name.rpartition("/")[0] for name in snapshot(model)}
    assert groups >= {f"{place} (SGD)" for place in ("one", "pair.0", "named.a", "listed.1")}


@pytest.mark.slow
@pytest.mark.parametrize("compiled", ["rmsprop", pytest.param(None, marks=SLOW)])
def test_optimizers_beside_that_of_compile_go_on(tmp_path, compiled):
    whole, _, _ = fit(tmp_path / "a", model=two(compiled))
    interrupted(tmp_path / "b", ("step", 1, 6), model=two(compiled))
    assert_same_weights(fit(tmp_path / "b", model=two(compiled))[0], whole)


def test_another_optimizer_beside_that_of_compile_is_refused(tmp_path):
    interrupted(tmp_path, ("step", 0, 3), model=two())
    with pytest.raises(
        ArgumentError, match=r"6 of first \(Adam\), 6 of others\.second \(Adam\), this"
    ):
        fit(tmp_path, model=two(None, "Adamax"))


def test_a_run_that_has_ended_is_not_resumed(tmp_path, capsys):
    for _ in range(2):
        backup = {"delete_checkpoint": False}
        *_, history = fit(tmp_path, backup=backup, epochs=1, model=light_model())
    assert len(history["loss"]) == 1
    assert re.search(
        r"dfgen: .*/backup-\d{8}\.dfgen is of a run that has ended: this one begins anew\n",
        capsys.readouterr().out,
    )


def test_a_run_stopped_by_another_callback_has_ended(tmp_path):
    model = light_model()
    fit(tmp_path / "b", ("step", 1, 3), lambda: setattr(model, "stop_training", True), model=model)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_later_fits_of_the_same_model_begin_where_they_are_told(stopped):
    model, sequence, _ = fit(stopped)
    assert len(model.fit(sequence, epochs=2, verbose=0).history["loss"]) == 2
    assert sequence.epoch == EPOCHS + 2


def test_other_files_in_the_folder_stay_and_the_handler_of_sigterm_comes_back(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with handler_of_sigterm(signal.SIG_IGN):
        fit(tmp_path, epochs=1, model=light_model())
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    assert os.listdir(tmp_path) == ["mine.txt"]


# -- SIGTERM -----------------------------------------------------------------------------------


def terminate():
    signal.raise_signal(signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("when", "epoch", "step", "saved"),
    [
        ("step", 0, 1, 1),
        pytest.param("step", 1, 7, 7, marks=SLOW),
        pytest.param("step", 1, 11, 11, marks=SLOW),
        ("step begin", 0, 1, 2),
        pytest.param("step begin", 1, 11, 12, marks=SLOW),
    ],
)
def test_sigterm_saves_after_the_step_that_runs_and_leaves_the_program(
    whole, tmp_path, when, epoch, step, saved, capsys
):
    with handler_of_sigterm(signal.SIG_DFL):
        with pytest.raises(SystemExit) as left:
            fit(tmp_path, (when, epoch, step), terminate, backup={"save_freq": "epoch"})
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert left.value.code == 128 + signal.SIGTERM
    _, facts, _ = Generations(tmp_path).load()
    assert (facts["epoch"], facts["step"]) == (epoch, saved)
    assert f"dfgen: SIGTERM; saved to {tmp_path}, to go on from there\n" in (
        capsys.readouterr().out
    )
    assert_same_weights(fit(tmp_path)[0], whole[0])


@pytest.mark.slow
def test_sigterm_in_a_validation_does_not_wait_for_its_end(tmp_path, capsys):
    """When training goes on, the validation and the end of that epoch come first."""
    val = make_sequence(40, transform=None, shuffle=False)
    whole, whole_sequence, logs = fit(tmp_path / "a", validation_data=val)
    with handler_of_sigterm(signal.SIG_DFL), pytest.raises(SystemExit):
        fit(tmp_path / "b", ("validation", 1, 2), terminate, validation_data=val)
    model, sequence, history = fit(tmp_path / "b", validation_data=val)
    assert "dfgen: going on in epoch 2 after 12 of 12 steps, from " in capsys.readouterr().out
    assert history == {name: values[1:] for name, values in logs.items()}
    assert_same_weights(model, whole)
    assert sequence.receipt == whole_sequence.receipt


@pytest.mark.filterwarnings("ignore:the state was saved with batch_size=4")
@pytest.mark.parametrize("freq", [2, [2]])
def test_an_epoch_whose_steps_are_done_lacks_its_validation_alone_with_any_batch_size(
    tmp_path, freq
):
    def run(*stop, size=4):
        sequence = make_sequence(batch_size=size)
        given = {"x": sequence.repeat(), "steps_per_epoch": 4, "model": light_model()}
        val = make_sequence(8, transform=None, shuffle=False)
        validation = {"validation_data": val, "validation_freq": freq}
        return fit(tmp_path, *stop, sequence=sequence, **given, **validation)

    with handler_of_sigterm(signal.SIG_DFL), pytest.raises(SystemExit):
        run(("validation", 1, 0), terminate)
    model, _, history = run(size=8)
    assert int(model.optimizer.iterations) == EPOCHS * 4
    assert (len(history["loss"]), len(history["val_loss"])) == (2, 1)


def test_a_training_that_is_to_stop_when_sigterm_comes_ends_where_it_goes_on(tmp_path):
    model = light_model()

    def stop():
        model.stop_training = True
        terminate()

    with handler_of_sigterm(signal.SIG_DFL), pytest.raises(SystemExit):
        fit(tmp_path, ("step", 1, 3), stop, model=model)
    model, sequence, history = fit(tmp_path, model=light_model())
    assert len(history["loss"]) == 1  # of the epoch that was under way, and no step more
    assert (int(model.optimizer.iterations), sequence.state_dict()["positions"]) == (15, 12)
    assert not tmp_path.exists()


ALWAYS, NEVER = (lambda frame: True), (lambda frame: False)


@pytest.mark.parametrize("before", ["handler", signal.SIG_IGN, signal.SIG_DFL])
@pytest.mark.parametrize("runs", [1, 2])
def test_sigterm_outside_of_fit_does_what_the_program_has_set(before, runs):
    called, ends = [], before == signal.SIG_DFL
    if before == "handler":
        before = lambda number, frame: called.append(number)  # noqa: E731
    watching = [Sigterm(NEVER) for _ in range(runs)]  # of fits that failed
    with handler_of_sigterm(before):
        for each in watching:
            each.watch()
        if ends:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(signal, "raise_signal", called.append)
                signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
        else:
            terminate()
            for each in reversed(watching):
                each.unwatch()
        assert signal.getsignal(signal.SIGTERM) == before
    assert called == [signal.SIGTERM] * (before != signal.SIG_IGN)
    assert not any(each.noticed for each in watching)


@pytest.mark.parametrize("inner_ends", [True, False])
def test_sigterm_is_noted_by_the_fit_that_runs_around_another(inner_ends):
    with handler_of_sigterm(signal.SIG_DFL):
        outer, inner = Sigterm(ALWAYS), Sigterm(NEVER)
        outer.watch()
        inner.watch()
        if inner_ends:
            inner.unwatch()
        terminate()
        assert outer.noticed and not inner.noticed
        with pytest.raises(SystemExit):
            outer.end()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_sigterm_ends_the_process(monkeypatch):
    ended, watching = [], Sigterm(ALWAYS)
    monkeypatch.setattr(signal, "raise_signal", ended.append)
    with handler_of_sigterm(signal.SIG_DFL):
        watching.watch()
        os.kill(os.getpid(), signal.SIGTERM)
        assert watching.noticed and not ended
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended == [signal.SIGTERM]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_forked_process_ends_by_sigterm():
    reader, writer = os.pipe()
    with handler_of_sigterm(signal.SIG_DFL):
        watching = Sigterm(ALWAYS)
        watching.watch()
        if not (child := os.fork()):
            os.write(writer, b"1")
            threading.Event().wait(30)
            os._exit(1)
        os.read(reader, 1)
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert not watching.noticed
        watching.unwatch()
    os.close(reader)
    os.close(writer)


def test_a_handler_of_the_program_is_called_and_stays(tmp_path):
    called = []

    def handler(number, frame):
        called.append(number)

    with handler_of_sigterm(handler):
        with pytest.raises(SystemExit):
            fit(tmp_path, ("step", 0, 3), terminate, model=light_model())
        assert signal.getsignal(signal.SIGTERM) == handler
    assert called == [signal.SIGTERM]


@pytest.mark.slow
def test_after_a_fit_that_failed_sigterm_does_what_it_did_before(tmp_path):
    called = []

    def handler(number, frame):
        called.append(number)

    with handler_of_sigterm(handler):
        interrupted(tmp_path, ("step", 0, 3))
        terminate()
        assert called == [signal.SIGTERM]
        with pytest.raises(SystemExit):
            fit(tmp_path, ("step", 0, 7), terminate)
        assert called == [signal.SIGTERM] * 2
        assert signal.getsignal(signal.SIGTERM) == handler


@pytest.mark.slow
def test_without_on_sigterm_the_handler_is_left_alone(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    found = []
    fit(
        tmp_path,
        ("step", 0, 3),
        lambda: found.append(signal.getsignal(signal.SIGTERM)),
        backup={"on_sigterm": False},
    )
    assert found == [before]


def test_fit_in_another_thread_saves_without_watching_sigterm(tmp_path):
    ended = []
    model = light_model()
    thread = threading.Thread(target=lambda: ended.append(fit(tmp_path, epochs=1, model=model)))
    thread.start()
    thread.join(timeout=120)
    assert len(ended) == 1


# -- damage ------------------------------------------------------------------------------------


def damage(path, how):
    data = path.read_bytes()
    if how == "cut short":
        data = data[: len(data) // 2]
    elif how == "empty":
        data = b""
    else:
        data = data[:500] + bytes([data[500] ^ 1]) + data[501:]
    path.write_bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["cut short", *(pytest.param(how, marks=SLOW) for how in ("empty", "one bit"))]
)
def test_the_backup_before_is_used_where_the_newest_is_damaged(whole, stopped, how, capsys):
    older, newest = sorted(stopped.glob("*.dfgen"))
    damage(newest, how)
    model, *_ = fit(stopped)
    assert (
        f"dfgen: {newest} is damaged (its checksum is wrong): trying the one before\n"
        f"dfgen: going on in epoch 2 after 4 of 12 steps, from {older}\n"
    ) in capsys.readouterr().out
    assert_same_weights(model, whole[0])


@pytest.mark.slow
@pytest.mark.parametrize("file", ["lock", "older", "newest", "another"])
@pytest.mark.parametrize(
    "how", ["cut short", *(pytest.param(how, marks=SLOW) for how in ("empty", "gone"))]
)
def test_whichever_file_of_the_folder_is_damaged_training_goes_on_exactly(
    whole, stopped, file, how
):
    names = {"lock": ".dfgen-lock", "another": "backup-99999999.dfgen"}
    older, newest = sorted(stopped.glob("*.dfgen"))
    path = {"older": older, "newest": newest}.get(file) or stopped / names[file]
    path.touch()
    if how == "gone":
        path.unlink()
    else:
        damage(path, how)
    assert_same_weights(fit(stopped)[0], whole[0])


def test_where_all_backups_are_damaged_nothing_begins_anew_in_silence(stopped):
    for path in stopped.iterdir():
        damage(path, "cut short")
    with pytest.raises(ValueError, match="can be read") as refused:
        fit(stopped)
    assert str(refused.value) == (
        f"no backup in {stopped} can be read. To start anew, delete the folder {stopped}; "
        "to keep them, give another backup_dir"
    )


def test_two_generations_are_kept_and_what_a_killed_save_left_is_removed(tmp_path):
    stray = tmp_path / ".backup-00000009.dfgen.1a2b3c4d.tmp"
    stray.write_bytes(b"half")
    interrupted(tmp_path, ("step", 0, 6), model=light_model())
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".dfgen-lock", "backup-00000003.dfgen", "backup-00000004.dfgen"]


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_backup_is_checked_to_its_last_byte(tmp_path, more):
    backups, digest = Generations(tmp_path), 32
    empty = os.path.getsize(backups.save({"blank": ""}, {})) - digest
    backups.save({"blank": " " * (2**20 + more - empty)}, {})  # it is read 2**20 bytes at a time
    path, facts, _ = backups.load()
    assert os.path.getsize(path) == 2**20 + more + digest
    assert facts["blank"].isspace()


HOLDER = """
import sys
from dfgen.locks import FileLock

held = FileLock(sys.argv[1], "held", "", of_process=True)  # as Generations, without Keras
held.acquire()
print("locked", flush=True)
sys.stdin.readline()
"""


def test_a_folder_in_which_another_run_saves_is_refused_until_that_has_ended(tmp_path):
    command = [sys.executable, "-c", HOLDER, str(tmp_path / LOCK_SUFFIX)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(OSError, match="is in use by process") as refused:
            fit(tmp_path)
        other.kill()
    assert str(refused.value) == (
        f"{tmp_path} is in use by process {other.pid} on {platform.node()}: two trainings in one "
        "folder delete each other's backups. Wait until that one has ended, or give another "
        "backup_dir"
    )
    fit(tmp_path, model=light_model(), epochs=1)
    assert not tmp_path.exists()


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_backup_of_another_model_is_refused(stopped):
    wider = keras.Sequential([keras.layers.Reshape((1,)), keras.layers.Dense(2)])
    wider.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(ValueError, match="of another model") as refused:
        fit(stopped, model=wider)
    assert str(refused.value).startswith(
        "the backup is of another model, optimizer or metrics: it holds 9 of model, "
    )
    assert str(refused.value).endswith(
        f"That is {stopped}/{NEWEST}. To start anew, delete the folder {stopped}; "
        "to keep them, give another backup_dir"
    )


def test_a_backup_of_another_optimizer_with_the_same_variables_is_refused(stopped):
    backups, data = Generations(stopped), make_sequence()
    _, facts, arrays = backups.load()
    optimizer = type(make_model().optimizer).__name__
    assert facts["optimizer"] == optimizer
    backups.save({**facts, "optimizer": "Lion"}, arrays)
    with pytest.raises(ValueError, match="of the optimizer") as refused:
        fit(stopped, sequence=data)
    assert str(refused.value) == (
        f"the backup is of the optimizer Lion, this model is compiled with {optimizer}. That is "
        f"{stopped}/backup-00000017.dfgen. To start anew, delete the folder {stopped}; to keep "
        "them, give another backup_dir"
    )


@pytest.mark.slow
def test_a_backup_that_does_not_tell_its_optimizer_nor_what_that_trains_is_gone_on_from(tmp_path):
    interrupted(tmp_path, ("step", 0, 3), model=light_model())
    backups = Generations(tmp_path)
    _, facts, arrays = backups.load()
    told = {name: fact for name, fact in facts.items() if name not in ("optimizer", "trained")}
    backups.save(told, arrays)
    models = [fit(tmp_path / folder, model=light_model(), epochs=1)[0] for folder in (".", "whole")]
    assert_same_weights(*models)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 4}, "the state was saved with seed=3, this training has seed=4"),
        ({"rows": 44}, "the state was saved with rows=45, this training has rows=44"),
    ],
)
def test_a_backup_of_another_sequence_is_refused(stopped, options, message):
    with pytest.raises(ValueError, match=message):
        fit(stopped, sequence=make_sequence(**options))


def test_a_backup_of_a_newer_dfgen_is_refused(stopped, monkeypatch):
    monkeypatch.setattr("dfgen.training.callbacks.backup_files.BACKUP_FORMAT", 2)
    Generations(stopped).save({}, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="has format 2") as refused:
        fit(stopped)
    assert str(refused.value) == (
        f"{stopped}/backup-00000017.dfgen has format 2; this dfgen reads 1. If it was saved by a "
        "newer dfgen: pip install --upgrade keras-dfgen"
    )


def test_fit_on_something_else_is_refused(tmp_path):
    sequence, other = make_sequence(), make_sequence()
    with pytest.raises(ValueError, match="made for another Sequence than the one that fit was"):
        make_model().fit(other, verbose=0, callbacks=[dfgen.BackupAndRestore(tmp_path, sequence)])
    with pytest.raises(ValueError, match="made for another Sequence than the one that fit was"):
        x, y = sequence[0]
        make_model().fit(x, y, verbose=0, callbacks=[dfgen.BackupAndRestore(tmp_path, sequence)])


def two_backups(folder):
    return (
        f"two BackupAndRestore of callbacks=[...] save in {folder}: they would delete and restore "
        "each other's backups. Leave one out, or give each its own backup_dir"
    )


@pytest.mark.parametrize("other", ["the same again", "by a link", "of Keras", "itself"])
def test_two_callbacks_that_save_in_one_folder_are_refused(tmp_path, other):
    folder, link = tmp_path / "backup", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    sequence = make_sequence()
    backup = dfgen.BackupAndRestore(folder, sequence)
    second = {
        "the same again": lambda: dfgen.BackupAndRestore(folder, sequence),
        "by a link": lambda: dfgen.BackupAndRestore(link, sequence),
        "of Keras": lambda: keras.callbacks.BackupAndRestore(str(folder)),
        "itself": lambda: backup,
    }[other]()
    with pytest.raises(ArgumentError) as refused:
        make_model().fit(sequence, verbose=0, callbacks=[backup, second])
    assert str(refused.value) == two_backups(folder)
    assert os.listdir(folder) == []


def test_two_callbacks_in_folders_of_their_own_both_save(tmp_path):
    sequence = make_sequence()
    both = [
        dfgen.BackupAndRestore(tmp_path / name, sequence, delete_checkpoint=False)
        for name in ("one", "other")
    ]
    light_model().fit(sequence, verbose=0, callbacks=both)
    assert [len(list((tmp_path / name).glob("*.dfgen"))) for name in ("one", "other")] == [1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"save_freq": 0}, 'save_freq=0 must be "epoch" or a number of steps, 1 or more'),
        ({"save_freq": "batch"}, "save_freq='batch' must be \"epoch\" or a number of steps, 1 or"),
        ({"backup_dir": ""}, "backup_dir is empty: name a folder"),
        ({"sequence": [1]}, "sequence must be the dfgen.Sequence itself, got list"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        dfgen.BackupAndRestore(**{"backup_dir": tmp_path, "sequence": make_sequence(), **options})


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot be made a folder of backups"):
        fit(tmp_path / "file")
