"""BackupAndRestore: what it continues, what it refuses, SIGTERM, and damaged files."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import keras
import numpy as np
import pytest
from public.test_resume import assert_equal_ends as assert_equal_ends
from public.test_resume import run as run
from public.test_resume import whole as whole
from public.training_script import EPOCHS, STEPS, Stopped, make_model, make_sequence, stop, train
from public.watching import BACKEND
from watching import SEVERAL_STEPS

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend


def stopped(folder, after=7, **options):
    with pytest.raises(Stopped):
        train(folder, after, stop, **options)


def backups(folder):
    return sorted(folder.glob("*.npz"))


# -- what is continued -----------------------------------------------------------------------------


SAME_ROWS = pytest.mark.filterwarnings("ignore:validation_data has the 18 rows")


@SAME_ROWS
def test_resumed_epoch_logs_like_a_whole_one(tmp_path, capsys):
    def make():
        return {"validation_data": make_sequence(transform=None, shuffle=False)}

    whole = run(tmp_path / "whole", make=make)
    stopped(tmp_path / "b", 8, **make())
    newest = backups(tmp_path / "b")[-1]
    result = run(tmp_path / "b", make=make)
    assert f"resuming in epoch 2 after 2 steps, from {newest}\n" in capsys.readouterr().out
    assert_equal_ends(result, whole)
    assert len(result[2]["val_loss"]) == 2
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("stops", [[2, 3], [("end", 1)]], ids=str)
def test_repeat_with_steps_per_epoch_continues(tmp_path, stops):
    def make():
        seq = make_sequence()
        return {"x": seq.repeat(), "steps_per_epoch": 3, "epochs": 4, "sequence": seq}

    result, whole = run(tmp_path / "a", *stops, make=make), run(tmp_path / "b", make=make)
    assert_equal_ends(result, whole)
    assert result[1].state_dict() == whole[1].state_dict()


@pytest.mark.parametrize("after", [2, 5])
def test_epochs_of_keras_shorter_than_the_sequence_continue(tmp_path, after):
    def make():
        return {"steps_per_epoch": 4, "epochs": 2}

    with pytest.warns(UserWarning, match="ran out of data"):
        whole = run(tmp_path / "whole", make=make)
        result = run(tmp_path / "stopped", after, make=make)
    assert_equal_ends(result, whole)


@pytest.mark.slow
@SEVERAL_STEPS
@pytest.mark.parametrize("endless", [False, True])
def test_several_steps_per_execution(tmp_path, endless):
    def make():
        seq, model = make_sequence(), make_model()
        model.compile("adam", model.loss, steps_per_execution=3)
        options = {"x": seq.repeat(), "steps_per_epoch": 6} if endless else {}
        return {"sequence": seq, "model": model, "epochs": 4, **options}

    result = run(tmp_path / "a", 3, make=make)  # after the first execution of the second epoch
    assert_equal_ends(result, run(tmp_path / "b", make=make))


def test_unbuilt_models_continue_and_ended_runs_restart(tmp_path, whole):
    stopped(tmp_path, model=make_model(built=False))
    for _ in range(2):
        result = train(tmp_path, model=make_model(built=False))
        assert_equal_ends(result, whole)
    assert len(result[2]["loss"]) == EPOCHS


def test_a_drawn_seed_is_continued(tmp_path):
    sequences = [make_sequence(seed=None) for _ in range(2)]
    stopped(tmp_path, sequence=sequences[0])
    result = train(tmp_path, sequence=sequences[1])
    assert sequences[0].seed == sequences[1].seed
    whole = train(tmp_path, sequence=make_sequence(seed=sequences[0].seed))
    assert_equal_ends(result, whole)


def test_rows_filling_no_batch_end_their_epoch(tmp_path):
    """12 of 18 rows were taken: one batch of 12, and the last one is left out."""
    stopped(tmp_path, 4, sequence=make_sequence(drop_remainder=True))
    seq = make_sequence(drop_remainder=True, batch_size=12)
    with pytest.warns(UserWarning, match="batch_size=4"):
        _, _, history = train(tmp_path, sequence=seq)
    assert (len(history["loss"]), seq.epoch) == (EPOCHS - 1, EPOCHS)


class Halve(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) / 2


def test_callback_changes_at_epoch_end_are_kept(tmp_path):
    stopped(tmp_path, 6, backup={"save_freq": "epoch"}, callbacks=[Halve()])
    model, _, _ = train(tmp_path, epochs=1)
    assert float(model.optimizer.learning_rate) == pytest.approx(0.0005)


def test_a_training_that_a_callback_stops_has_ended(tmp_path):
    model = make_model()
    train(tmp_path / "b", 7, lambda: setattr(model, "stop_training", True), model=model)
    assert not (tmp_path / "b").exists()


def test_later_fits_begin_at_their_first_epoch(tmp_path):
    stopped(tmp_path)
    model, seq, _ = train(tmp_path)
    assert len(model.fit(seq, epochs=2, verbose=0).history["loss"]) == 2
    assert seq.epoch == EPOCHS + 2


def test_weights_of_non_numpy_types_are_restored(tmp_path):
    def make():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Reshape((1,)), keras.layers.Dense(2)])
        for layer in model.layers:
            layer.dtype_policy = "bfloat16"
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, jit_compile=False, run_eagerly=True)
        return {"model": model, "epochs": 2}

    result, whole = run(tmp_path, 6, make=make), run(tmp_path, make=make)
    assert str(result[0].weights[0].dtype) == "bfloat16"
    for one, other in zip(result[0].weights, whole[0].weights, strict=True):
        assert keras.ops.all(one.value == other.value)


def test_a_list_of_callbacks_may_be_used_again(tmp_path):
    model, seq = make_model(), make_sequence()
    backup = dfgen.BackupAndRestore(tmp_path / "backup", seq)
    given = keras.callbacks.CallbackList([backup], add_history=True, model=model, epochs=2)
    given.set_params({"epochs": 2, "steps": STEPS})
    for epochs in (2, 4):
        model.fit(seq, epochs=2, verbose=0, callbacks=given)
        assert (seq.epoch, given.callbacks.count(backup)) == (epochs, 1)


def test_two_callbacks_in_two_folders_both_save(tmp_path, whole):
    for after in (3, 5, None):
        seq = make_sequence()
        second = dfgen.BackupAndRestore(tmp_path / "b", seq, save_freq=1)
        options = {"sequence": seq, "callbacks": [second]}
        if after is not None:
            stopped(tmp_path / "a", after, **options)
            assert backups(tmp_path / "a") and backups(tmp_path / "b")
    assert_equal_ends(train(tmp_path / "a", **options), whole)


# -- models with several optimizers ----------------------------------------------------------------


class Two(keras.Model):
    """Two parts with an optimizer each; that of `compile` is not used."""

    def __init__(self, second="Adam", build=True):
        super().__init__()
        keras.utils.set_random_seed(3)
        self.parts = [keras.Sequential([keras.Input((1,)), keras.layers.Dense(n)]) for n in (2, 3)]
        self.first = keras.optimizers.Adam(0.1)
        self.others = {"second": getattr(keras.optimizers, second)(0.1)}
        self.compile("sgd", run_eagerly=True, jit_compile=False)
        for optimizer, part in self.pairs() if build else ():
            optimizer.build(part.trainable_variables)

    def pairs(self):
        return zip((self.first, self.others["second"]), self.parts, strict=True)

    def call(self, x):
        return self.parts[0](keras.ops.reshape(x, (-1, 1)))

    def train_step(self, *given):
        x = keras.ops.mean(keras.ops.cast(given[-1][0], "float32"))
        if len(given) == 1:
            for optimizer, part in self.pairs():
                optimizer.apply([keras.ops.ones(v.shape) * x for v in part.weights], part.weights)
            return {"x": x}
        weights = dict(zip(map(id, self.trainable_variables), given[0][0], strict=True))
        for optimizer, part in self.pairs():  # JAX
            values, state = optimizer.stateless_apply(
                [v.value for v in optimizer.variables],
                [keras.ops.ones(v.shape) * x for v in part.weights],
                [weights[id(v)] for v in part.weights],
            )
            weights |= zip(map(id, part.weights), values, strict=True)
            for variable, value in zip(optimizer.variables, state, strict=True):
                variable.assign(value)
        return {"x": x}, (list(weights.values()), *given[0][1:])


def test_optimizers_beside_that_of_compile_continue(tmp_path):
    whole = train(tmp_path, model=Two())
    stopped(tmp_path, model=Two())
    assert_equal_ends(train(tmp_path, model=Two()), whole)


@pytest.mark.parametrize(
    ("options", "word"), [({"build": False}, "first"), ({"second": "Adamax"}, "second")]
)
def test_optimizers_that_cannot_be_restored_are_rejected(tmp_path, options, word):
    if "build" not in options:
        stopped(tmp_path, model=Two())
    with pytest.raises(ArgumentError, match=word):
        train(tmp_path, model=Two(**options))


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["model", "optimizer", "seed", "Sequence", "arrays"])
def test_a_backup_of_another_training_is_rejected(tmp_path, word):
    stopped(tmp_path, 3)
    seq, model = make_sequence(), make_model()
    if word == "model":
        model = keras.Sequential([keras.layers.Reshape((1,)), keras.layers.Dense(2)])
    if word in ("model", "optimizer"):
        model.compile("sgd", make_model().loss, run_eagerly=True)
    x = {"Sequence": make_sequence(), "arrays": np.zeros(8)}.get(word, seq)
    options = {"y": np.zeros(8)} if word == "arrays" else {}
    if word == "seed":
        seq = x = make_sequence(seed=4)
    match = {"arrays": "Sequence"}.get(word, word)
    with pytest.raises(ValueError, match=match):
        train(tmp_path, model=model, sequence=seq, x=x, **options)


@pytest.mark.parametrize(
    ("options", "word"),
    [({"save_freq": 0}, "save_freq"), ({"save_freq": "batch"}, "save_freq"),
     ({"sequence": [1]}, "sequence")],
)  # fmt: skip
def test_wrong_arguments_are_rejected(tmp_path, options, word):
    with pytest.raises(ValueError, match=word):
        dfgen.BackupAndRestore(**{"backup_dir": tmp_path, "sequence": make_sequence(), **options})


def test_unwritable_folder_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        train(tmp_path / "file")


# -- files -----------------------------------------------------------------------------------------


def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == "one bit":
        data[data.index(b"NUMPY", len(data) // 3)] ^= 1
    path.write_bytes(data[: len(data) // 2 if how == "cut" else None])


@pytest.mark.parametrize("how", ["cut", "one bit"])
def test_damaged_backup_is_replaced_by_previous_one(tmp_path, whole, how, capsys):
    stopped(tmp_path)
    older, newest = backups(tmp_path)
    damage(newest, how)
    with pytest.warns(UserWarning, match=f"{newest.name} is damaged"):
        result = run(tmp_path)
    assert str(older) in capsys.readouterr().out
    assert_equal_ends(result, whole)


def test_training_does_not_restart_with_only_damaged_backups(tmp_path):
    stopped(tmp_path)
    for path in backups(tmp_path):
        damage(path, "cut")
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(ArgumentError, match="can be read"),
    ):
        train(tmp_path)


def test_two_backups_are_kept_and_other_files_stay(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / ".backup-00000009.npz.1a2b3c4d.tmp").write_bytes(b"of a killed process")
    stopped(tmp_path)
    assert len(backups(tmp_path)) == 2
    train(tmp_path)
    assert os.listdir(tmp_path) == ["mine.txt"]


# -- SIGTERM ---------------------------------------------------------------------------------------


@contextmanager
def handling(handler):
    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
        assert signal.getsignal(signal.SIGTERM) == handler
    finally:
        signal.signal(signal.SIGTERM, before)


def terminate():
    signal.raise_signal(signal.SIGTERM)


EPOCH = {"save_freq": "epoch"}
PLACES = [(7, 7), (5, 5), (15, 15), (("begin", 1), 6), (("end", 1), 10)]


@pytest.mark.parametrize(("place", "steps"), PLACES)
def test_sigterm_saves_at_the_next_step_and_exits(tmp_path, whole, place, steps, capsys):
    done = []
    with handling(signal.SIG_DFL), pytest.raises(SystemExit) as ended:
        train(tmp_path, place, terminate, backup=EPOCH, steps=done)
    assert (ended.value.code, len(done)) == (143, steps)
    assert f"SIGTERM; saved to {tmp_path}" in capsys.readouterr().out
    result = train(tmp_path, steps=done)
    assert_equal_ends(result, whole)
    assert len(done) == EPOCHS * STEPS


@SAME_ROWS
def test_sigterm_in_a_validation_saves_at_its_end(tmp_path):
    tests = []

    def terminate_once(batch, logs):
        tests.append(batch)
        if len(tests) == 2:
            terminate()

    def make():
        callback = keras.callbacks.LambdaCallback(on_test_batch_end=terminate_once)
        val = make_sequence(transform=None, shuffle=False)
        return {"validation_data": val, "callbacks": [callback]}

    with handling(signal.SIG_DFL), pytest.raises(SystemExit):
        train(tmp_path, backup=EPOCH, **make())
    result = train(tmp_path, **make())
    assert len(result[2]["val_loss"]) == 2
    assert_equal_ends(result, run(tmp_path, make=make))


def test_program_handler_is_called_and_stays(tmp_path):
    called = []
    with handling(lambda number, frame: called.append(number)):
        with pytest.raises(SystemExit):
            train(tmp_path, 3, terminate, epochs=1)
        assert called == [signal.SIGTERM]


def test_second_sigterm_reaches_the_program_handler(tmp_path):
    def handler(number, frame):
        raise Stopped

    with handling(handler), pytest.raises(Stopped):
        train(tmp_path, 3, lambda: (terminate(), terminate()), epochs=1)


def test_failed_fit_restores_the_sigterm_handler(tmp_path):
    called = []
    with handling(lambda number, frame: called.append(number)):
        for count in (1, 2):
            for name in "ab":
                stopped(tmp_path / f"{name}{count}", 1)
            terminate()
            assert len(called) == count
        stopped(tmp_path / "a3", 1)
        with pytest.raises(SystemExit):
            train(tmp_path / "b3", 2, terminate, epochs=1)
        assert len(called) == 3


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_forked_process_ends_by_sigterm(tmp_path):
    codes = []

    def fork():
        if not (child := os.fork()):
            terminate()
            os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with handling(signal.SIG_DFL):
        train(tmp_path, 3, fork, epochs=1)
    assert codes == [-signal.SIGTERM]


def test_without_on_sigterm_the_handler_is_left_alone(tmp_path):
    handlers = []

    def note():
        handlers.append(signal.getsignal(signal.SIGTERM))

    with handling(signal.SIG_IGN):
        train(tmp_path, 3, note, backup={"on_sigterm": False}, epochs=1)
    assert handlers == [signal.SIG_IGN]


def test_fit_in_another_thread_saves(tmp_path):
    thread = threading.Thread(target=stopped, args=(tmp_path,))
    thread.start()
    thread.join()
    assert backups(tmp_path)


# -- kills -----------------------------------------------------------------------------------------

KILLED = """
import random, signal, sys
sys.path.insert(0, sys.argv[3])
if sys.argv[4] != "tensorflow":
    sys.modules["tensorflow"] = None
import numpy as np
from public.training_script import train

folder, draw = sys.argv[1], random.Random(int(sys.argv[2]))


def arm():
    signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-4, 0.02))  # SIGALRM ends the process


model, sequence, _ = train(folder + "/backup", draw.randrange(1, 4), arm, epochs=12)
signal.setitimer(signal.ITIMER_REAL, 0)
np.savez(folder + "/weights.npz", *model.get_weights())
"""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_randomly_killed_training_ends_with_same_weights(tmp_path):
    model, _, _ = train(tmp_path / "whole", epochs=12)
    tests, kills = Path(__file__).parents[1], 0
    while not (tmp_path / "weights.npz").exists():
        command = [sys.executable, "-c", KILLED, tmp_path, str(kills), tests, BACKEND]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=tests)
        assert ended.returncode in (0, -signal.SIGALRM), ended.stderr
        kills += 1
    assert kills > 20
    with np.load(tmp_path / "weights.npz") as weights:
        for expected, actual in zip(model.get_weights(), weights.values(), strict=True):
            np.testing.assert_array_equal(actual, expected)
