"""Training that stops and continues beside other callbacks ends as if it had never stopped."""

from importlib.util import find_spec

import keras
import pytest
from public.test_resume import Steps, assert_equal_ends, run
from public.training_script import Stopped, make_model, make_sequence, stop, train

pytestmark = [
    pytest.mark.backend,
    pytest.mark.filterwarnings(
        "ignore:validation_data has the 18 rows",
        "ignore:unclosed file",  # of a CSVLogger that was stopped
        "ignore:Exception ignored:pytest.PytestUnraisableExceptionWarning",
    ),
]
KERAS = keras.callbacks
FEW = {"monitor": "val_loss", "min_delta": 1.0}  # which only the first epoch reaches
EPOCHS, STEPS = 4, 5


class Halving(Steps):
    """Halves the learning rate after every seventh step, by its own count."""

    def on_train_batch_begin(self, batch, logs=None):
        if self.steps % 7 == 6:
            self.model.optimizer.learning_rate = float(self.model.optimizer.learning_rate) / 2


def saving(folder, **options):
    return KERAS.ModelCheckpoint(
        f"{folder}/{{epoch}}.weights.h5", save_weights_only=True, **options
    )


CASES = {
    "CSVLogger": lambda folder: [KERAS.CSVLogger(f"{folder}/log.csv", append=True)],
    "EarlyStopping":
        lambda folder: [KERAS.EarlyStopping(**FEW, patience=2, restore_best_weights=True)],
    "LearningRateScheduler":
        lambda folder: [KERAS.LearningRateScheduler(lambda epoch, rate: rate * 0.7)],
    "ModelCheckpoint, best":
        lambda folder: [saving(folder, monitor="loss", save_best_only=True)],
    "ModelCheckpoint, steps": lambda folder: [saving(folder, save_freq=3)],
    "ReduceLROnPlateau":
        lambda folder: [KERAS.ReduceLROnPlateau(**FEW, patience=1, cooldown=1, factor=0.5)],
    "SwapEMAWeights": lambda folder: [KERAS.SwapEMAWeights()],
    "SwapEMAWeights, epochs": lambda folder: [KERAS.SwapEMAWeights(swap_on_epoch=True)],
    "a user's": lambda folder: [Halving()],
    "several": lambda folder: [
        Halving(), KERAS.LearningRateScheduler(lambda epoch, rate: rate * 0.7),
        KERAS.ReduceLROnPlateau(**FEW, patience=1, factor=0.5),
        KERAS.EarlyStopping("loss", min_delta=1.0, patience=9),
        KERAS.EarlyStopping(**FEW, patience=2, restore_best_weights=True),
        KERAS.CSVLogger(f"{folder}/log.csv", append=True)],
}  # fmt: skip
if find_spec("tensorboard"):
    CASES["TensorBoard"] = lambda folder: [KERAS.TensorBoard(f"{folder}/tb", update_freq=2)]


def trained(folder, name, *stops):
    """Train, stopped at each place in turn; return the run, and what callbacks wrote by name."""
    folder.mkdir()

    def make():
        model = make_model()
        if "EMA" in name:
            optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
            model.compile(optimizer, model.loss, jit_compile=False)
            optimizer.build(model.trainable_variables)
        val = make_sequence(transform=None, shuffle=False)
        options = {"validation_data": val, "epochs": EPOCHS, "model": model}
        return {"callbacks": CASES[name](folder), **options}

    result = run(folder / "backup", *stops, make=make)
    written = {path.name: path.read_text() for path in folder.glob("*.csv")}
    for path in folder.glob("*.h5"):
        model = make()["model"]
        model.load_weights(path)
        written[path.name] = [weight.tolist() for weight in model.get_weights()]
    return result, written


def check(folder, name, *stops):
    result, written = trained(folder / "stopped", name, *stops)
    whole, expected = trained(folder / "whole", name)
    assert_equal_ends(result, whole)
    assert written == expected
    rates = (float(run[0].optimizer.learning_rate) for run in (result, whole))
    assert len({*rates}) == 1


def test_several_callbacks_keep_their_states(tmp_path):
    check(tmp_path, "several", 8, 4, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_each_callback_keeps_its_state_stopped_anywhere(tmp_path, name):
    """Each run repeats one step and trains two more."""
    check(tmp_path, name, 3, 3, 3, 3, 3, 3)


def test_states_go_to_callbacks_watching_the_same(tmp_path):
    def made(*monitors):
        return [KERAS.EarlyStopping(m, min_delta=100.0, patience=9) for m in monitors]

    with pytest.raises(Stopped):
        train(tmp_path, 13, stop, callbacks=[*made("loss", "accuracy", "loss"), Steps()])
    others = [Steps(), Steps(), *made("accuracy", "val_loss", "loss"), KERAS.TerminateOnNaN()]
    with pytest.raises(Stopped):
        train(tmp_path, ("begin", 2), stop, callbacks=others)
    assert [callback.steps for callback in others[:2]] == [12, 0]
    assert [callback.wait for callback in others[2:5]] == [1, 0, 1]
