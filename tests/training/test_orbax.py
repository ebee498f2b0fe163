"""Keras's OrbaxCheckpoint with the state of a Sequence beside it, killed and run again."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

PROGRAM = """
import json, os, signal, sys
from pathlib import Path

import keras
import numpy as np
import pandas as pd

import dfgen

kill_at = int(sys.argv[1])
frame = pd.DataFrame({"id": range(40), "x": np.linspace(0, 1, 40), "y": np.linspace(3, 2, 40)})
train = dfgen.Sequence(frame, x="x", y="y", batch_size=4)
folder = Path("checkpoints").absolute()


class KeepState(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        steps = int(self.model.optimizer.iterations)
        if steps % 3 == 0:
            Path(f"states/{steps}.json").write_text(json.dumps(train.state_dict()))


class KeepReceipt(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        with open("receipts.txt", "a") as file:
            print(train.receipt, file=file)


class Kill(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == kill_at:
            orbax.wait_until_finished()
            os.kill(os.getpid(), signal.SIGKILL)


Path("states").mkdir(exist_ok=True)
if any(path.name.isdigit() for path in folder.glob("*")):
    model = keras.saving.load_model(folder)
    steps = int(model.optimizer.iterations)
    train.load_state_dict(json.loads(Path(f"states/{steps}.json").read_text()))
    print("resumed", steps)
else:
    keras.utils.set_random_seed(1)
    x = keras.Input(())
    model = keras.Model(x, keras.layers.Dense(1)(keras.layers.Reshape((1,))(x)))
    model.compile("adam", "mse")
orbax = keras.callbacks.OrbaxCheckpoint(folder, save_freq=3)
model.fit(
    train, epochs=2, initial_epoch=train.epoch, verbose=0,
    callbacks=[dfgen.InputMonitor(), KeepReceipt(), KeepState(), orbax, Kill()],
)
np.savez("weights.npz", *model.get_weights())
"""


def run(folder, kill_at):
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", PROGRAM, str(kill_at)]
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    options = {"capture_output": True, "text": True, "timeout": 150, "env": environment}
    return subprocess.run(command, cwd=folder, **options)


@pytest.mark.clients
@pytest.mark.timeout(600)
def test_run_killed_mid_epoch_takes_each_row_once(tmp_path):
    """Killed twice, at step 8 of the first epoch and 5 of the second: 6 and 15 were saved."""
    pytest.importorskip("orbax.checkpoint")
    whole = run(tmp_path / "whole", 99)
    assert whole.returncode == 0, whole.stderr
    resumed = []
    for kill_at in (8, 15):
        killed = run(tmp_path / "killed", kill_at)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        resumed += killed.stdout.splitlines()
    ended = run(tmp_path / "killed", 99)
    assert ended.returncode == 0, ended.stderr
    assert resumed + ended.stdout.splitlines() == ["resumed 6", "resumed 15"]
    folders = tmp_path / "whole", tmp_path / "killed"
    whole, killed = [(folder / "receipts.txt").read_text().splitlines() for folder in folders]
    assert whole == killed and "rows=40" in whole[0]
    weights = [np.load(folder / "weights.npz").values() for folder in folders]
    for expected, found in zip(*weights, strict=True):
        np.testing.assert_array_equal(found, expected)
