"""Worker processes of programs of any kind: scripts, notebooks, with threads and frameworks."""

import os
import subprocess
import sys
import threading

import keras
import numpy as np
import pytest

import dfgen


def sequence(df, **options):
    image = dfgen.Image(size=(4, 4))
    options = {"x": image, "y": "label", "batch_size": 8, "workers": 2, **options}
    return dfgen.Sequence(df, use_multiprocessing=True, **options)


@pytest.mark.backend
def test_processes_start_beside_threads_and_a_framework(frame):
    """They are started, not forked: none of the locks that a thread holds is theirs."""
    assert keras.backend.backend() in sys.modules
    float(keras.ops.sum(keras.ops.ones((64, 64)) @ keras.ops.ones((64, 64))))  # starts its threads
    stop = threading.Event()
    threads = [threading.Thread(target=stop.wait) for _ in range(5)]
    for thread in threads:
        thread.start()

    def without(sample, rng):
        heavy = {"keras", "tensorflow", "jax", "torch", "pandas"} & {*sys.modules}
        return {**sample, "label": sample["label"] + np.int32(100 * len(heavy))}

    with sequence(frame(40), transform=without, shuffle=False) as seq:
        batches = list(seq)
    assert [int(row) for x, _ in batches for row in x[:, 0, 0, 0]] == [*range(40)]
    assert [int(label) for _, y in batches for label in y] == [0, 1] * 20
    stop.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("what", ["transform", "decode"])
def test_unpicklable_function_is_named(frame, what):
    lock = threading.Lock()

    def locked(*arguments):
        with lock:
            return arguments[0]

    options, named = {"transform": locked}, "transform"
    if what == "decode":
        options = {"x": dfgen.Array("path", (4,), decode=locked)}
        named = "decode of Array('path')"
    with pytest.raises(ValueError) as caught:
        sequence(frame(8), **options)
    assert str(caught.value) == (
        f"{named}={locked!r} cannot be sent to a worker process: TypeError: cannot pickle "
        "'_thread.lock' object. Create its content inside of it, or use threads"
    )


SCRIPT = """
import pandas as pd
import dfgen

print("the script runs", flush=True)

def double(sample, rng):
    print("printed by a transform")
    return {**sample, "label": (sample["label"] * 2).astype("int32")}

df = pd.read_pickle("frame.pkl")
with dfgen.Sequence(df, batch_size=8, image_size=(4, 4), workers=2, use_multiprocessing=True,
                    transform=double) as seq:
    print(sorted(int(v) for _, y in seq for v in y), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [["train.py"], pytest.param(["-"], marks=pytest.mark.slow)], ids=["script", "cell"]
)
def test_program_without_main_guard_runs_once(frame, tmp_path, arguments):
    """A cell of a notebook has no file either."""
    frame(16).to_pickle(tmp_path / "frame.pkl")
    (tmp_path / "train.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, *arguments],
        input=SCRIPT,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == f"the script runs\n{[0] * 8 + [2] * 8}\n", done.stderr
    assert "printed by a transform" in done.stderr
