"""Ends of a program and of a pass: no worker stays, and the next pass has each row."""

import contextlib
import os
import signal
import subprocess
import sys

import psutil
import pytest

from dfgen.errors import ArgumentError
from public.leftovers import children, pictures, sequence, written
from public.leftovers import nothing_left as nothing_left

ROWS = 23
kinds = pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])


@pytest.fixture(scope="module")
def imgs(tmp_path_factory):
    return written(tmp_path_factory.mktemp("shutdown") / "imgs", pictures(ROWS)[1])


@kinds
@pytest.mark.parametrize("end", ["close", "delete", "collect", KeyError, KeyboardInterrupt])
def test_whatever_ends_a_sequence_ends_its_workers(imgs, processes, end):
    seq, before = sequence(imgs, use_multiprocessing=processes, max_queue_size=20), children()
    batches = iter(seq)
    next(batches)
    assert len(children()) - len(before) == (2 if processes else 0)
    cycle = [seq] if end == "collect" else []
    cycle.append(cycle)
    if end == "close":
        seq.close()
        assert children() == before
        for use in (next, list):
            with pytest.raises(ArgumentError, match="closed"):
                use(batches)
    elif not isinstance(end, str):
        with contextlib.suppress(end), seq:
            raise end
    seq = batches = cycle = None  # and `nothing_left` looks


PROGRAM = """
import os, signal, sys
import pandas as pd, keras
import dfgen
seq = dfgen.Sequence(
    pd.read_csv("frame.csv"), y="number", image_size=(9, 7), batch_size=4, workers=2,
    max_queue_size=50, use_multiprocessing=True, transform=lambda sample, rng: sample)
batches = iter(seq)
next(batches)
for end in (lambda: sys.exit(7), lambda: os.kill(os.getpid(), signal.SIGKILL)):
    if not (child := os.fork()):  # which has passes of its own, and leaves the workers alone
        assert len(list(seq)) == 6 and next(iter(seq))
        end()  # with full queues
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(len(list(batches)))

def told(batch, logs):
    print("step", flush=True)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background program ignores it
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=True)
tell = keras.callbacks.LambdaCallback(on_train_batch_end=told)
backup = [dfgen.BackupAndRestore("backup", seq)] if sys.argv[1] == "SIGTERM" else []
model.fit(seq, epochs=10**6, verbose=0, callbacks=[tell, *backup])
"""
# an error that Keras passes on ends Python with 1
CODES = {"SIGINT": (1, -2), "SIGTERM": (143,)}


@pytest.mark.backend
@pytest.mark.parametrize("end", CODES)
def test_whatever_ends_a_program_ends_its_workers(imgs, tmp_path, end):
    imgs.to_csv(tmp_path / "frame.csv", index=False)
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, end]
    options = {"stdout": -1, "stderr": -1, "text": True, "process_group": 0, "cwd": tmp_path}
    with subprocess.Popen(command, **options) as process:
        lines = [process.stdout.readline() for _ in range(4)]
        assert lines == ["7\n", "-9\n", "5\n", "step\n"], process.stderr.read()
        workers = psutil.Process(process.pid).children(recursive=True)
        kill = os.kill if end == "SIGTERM" else os.killpg
        kill(process.pid, signal.Signals[end])
        try:
            errors = process.communicate(timeout=45)[1]  # ends with the last of its workers
        except subprocess.TimeoutExpired:  # Python drops an interrupt that arrives in a destructor
            kill(process.pid, signal.Signals[end])
            errors = process.communicate(timeout=45)[1]
    assert len(workers) == 2 and psutil.wait_procs(workers, timeout=30)[1] == []
    assert ("KeyboardInterrupt" in errors) == ("Traceback" in errors) == (end == "SIGINT")
    assert process.returncode in CODES[end]
    assert end != "SIGTERM" or any(path.is_file() for path in (tmp_path / "backup").rglob("*"))
