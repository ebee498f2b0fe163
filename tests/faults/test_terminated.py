"""SIGTERM while a read never returns: what there is to save is saved, and the process ends."""

import os
import signal
import subprocess
import sys
import threading

import pytest

TRAINING = """
import os, sys
import keras, numpy as np, pandas as pd, cv2
import dfgen

folder, mode, stuck = sys.argv[1:4]
rows, batch = 24, 4
paths = [f"{folder}/{row}.png" for row in range(rows)]
for row, path in enumerate(paths):
    cv2.imwrite(path, np.full((4, 4, 3), row, np.uint8)) if not os.path.exists(path) else None
df = pd.DataFrame({"id": range(rows), "path": paths, "label": np.arange(rows) % 2.0})
pipe = f"{folder}/pipe.png"

def sequence(df, **options):
    return dfgen.Sequence(df, y="label", image_size=(4, 4), batch_size=batch, workers=2, **options)

train, val = sequence(df, seed=1), sequence(df[:8], shuffle=False)
hung = train.rows(3)[1] if stuck == "train" else 5
if mode == "stuck":
    df.loc[hung, "path"] = pipe
    if stuck == "train":
        train = sequence(df, seed=1)
    else:
        val = sequence(df[:8], shuffle=False)

class Tell(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("step", batch, flush=True)

    def on_test_batch_end(self, batch, logs=None):
        print("validation", batch, flush=True)

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("adam", "mse")
backup = dfgen.BackupAndRestore(f"{folder}/backup-{mode != 'whole'}", train, save_freq=1000)
model.fit(train, validation_data=val, epochs=1, verbose=0, callbacks=[backup, Tell()])
print([each.tolist() for each in model.get_weights()], int(model.optimizer.iterations))
"""


def begin(folder, mode, stuck):
    return subprocess.Popen(
        [sys.executable, "-c", TRAINING, str(folder), mode, stuck],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def hang(folder, stuck, steps):
    """Begin a training, and return it when it waits for a read that never returns."""
    os.mkfifo(folder / "pipe.png")
    process = begin(folder, "stuck", stuck)
    while process.poll() is None:
        try:
            writer = os.open(folder / "pipe.png", os.O_WRONLY | os.O_NONBLOCK)
            break
        except OSError:  # no worker has opened it yet
            threading.Event().wait(0.05)
    lines = [f"step {step}\n" for step in range(steps)]
    if stuck == "validation":
        lines.append("validation 0\n")
    assert [process.stdout.readline() for _ in lines] == lines
    return process, writer


@pytest.mark.backend
@pytest.mark.slow  # three trainings; tests/test_backup.py has the signal without a hung read
@pytest.mark.alarm(170)
@pytest.mark.parametrize(("stuck", "steps"), [("train", 3), ("validation", 6)])
def test_fault_11_sigterm_while_a_read_hangs_saves_and_leaves_and_training_goes_on_exactly(
    tmp_path, stuck, steps
):
    process, writer = hang(tmp_path, stuck, steps)
    process.send_signal(signal.SIGTERM)
    out = process.communicate(timeout=60)[0]
    os.close(writer)
    assert (out, process.returncode) == (
        f"\ndfgen: SIGTERM; saved to {tmp_path}/backup-True, to go on from there\n",
        143,
    )
    both = [begin(tmp_path, mode, stuck) for mode in ("resumed", "whole")]
    resumed, whole = [process.communicate(timeout=90)[0].splitlines() for process in both]
    assert resumed[-1] == whole[-1] and whole[-1].endswith("] 6")
    assert [line for line in resumed if line.startswith("step")] == [
        f"step {step}" for step in range(6 - steps)
    ]


@pytest.mark.backend
@pytest.mark.slow
@pytest.mark.alarm(170)
def test_fault_11_a_second_sigterm_ends_the_process_whatever_it_does(tmp_path):
    process, writer = hang(tmp_path, "validation", 6)
    for _ in range(2):  # some of many count as one for the system
        process.send_signal(signal.SIGTERM)
    while process.poll() is None:
        process.send_signal(signal.SIGTERM)
        threading.Event().wait(0.2)
    os.close(writer)
    out = process.communicate()[0]
    assert process.returncode in (143, -signal.SIGTERM) and "saved" not in out
