"""Two real processes train together, stop, and one goes on: each row is trained on once."""

import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from public.numbered import epoch_batches, joined
from public.training_script import Stopped, stop, train
from public.watching import BACKEND, KERAS, watcher

pytestmark = pytest.mark.backend
__test__ = BACKEND != "tensorflow"  # where fit of Keras itself fails with several processes

ROWS, BATCH_SIZE, STOP = 46, 6, 10
FULL, LEFT_OUT = divmod(ROWS, BATCH_SIZE)
TESTS = Path(__file__).parents[1]
SCRIPT = """
import sys
sys.modules["tensorflow"] = None  # Keras imports it on any backend
from public.test_processes_together import child
child(*sys.argv[1:])
"""


def connect(index, count, port):
    """Connect the processes; return a function that makes a model which averages gradients."""
    address = f"127.0.0.1:{port}"
    if BACKEND == "jax":
        keras.distribution.initialize(address, count, index)
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        return seeded_model
    from torch import distributed

    distributed.init_process_group("gloo", f"tcp://{address}", rank=index, world_size=count)

    def average(gradient):
        distributed.all_reduce(gradient)
        return gradient / count

    def averaging_model():
        model = seeded_model()
        for variable in model.trainable_variables if KERAS < (3, 16) else ():  # then by itself
            variable.value.register_hook(average)
        return model

    return averaging_model


def sequence(images, **options):
    paths = [f"{images}/{row}.png" for row in range(ROWS)]
    labels = pd.Categorical([("even", "odd")[row % 2] for row in range(ROWS)])
    frame = pd.DataFrame({"id": range(ROWS), "path": paths, "label": labels})
    options = {"batch_size": BATCH_SIZE, "image_size": (4, 4), "workers": 1, **options}
    return dfgen.Sequence(frame, y="label", **options)


def seeded_model():
    keras.utils.set_random_seed(1)
    return watcher(built=True)


def child(index, count, port, images, folder):
    """Train as one of several processes and write what it saw; several stop in epoch 2."""
    index, count = int(index), int(count)
    model = connect(index, count, port)() if count > 1 else seeded_model()
    seq = sequence(images, shard="auto")
    result = {"shard": seq.shard, "left_out": seq.left_out, "steps": len(seq), "rejected": []}
    for options in ({"seed": 7 + index}, {"shard": (0, 2)}) if count > 1 else ():
        try:
            model.fit(sequence(images, **{"shard": "auto", **options}), verbose=0)
        except dfgen.DfgenError as error:
            result["rejected"].append(str(error))
    with suppress(Stopped):
        options = {"model": model, "sequence": seq, "epochs": 2}
        train(f"{folder}/backup", STOP if count > 1 else None, stop, **options)
    receipt, result["rows"] = seq.receipt, model.seen()
    result["receipt"] = receipt.epoch, receipt.rows, receipt.missing, receipt.repeated
    result["digest"] = receipt.digest
    result["weights"] = [np.asarray(weight).tolist() for weight in model.dense.get_weights()]
    Path(folder, f"{count}-{index}.json").write_text(json.dumps(result))


def run(count, images, folder):
    """Return what each of several processes wrote."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    variables = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    options = {"cwd": TESTS, "env": variables, "text": True, "stdout": subprocess.PIPE}
    processes = []
    for index in range(count):
        command = [sys.executable, "-c", SCRIPT, str(index), str(count), str(port), images, folder]
        processes.append(subprocess.Popen(command, stderr=subprocess.STDOUT, **options))
    try:
        logs = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, "\n".join(logs)
    return [json.loads(Path(folder, f"{count}-{index}.json").read_text()) for index in range(count)]


def test_two_processes_stop_and_one_goes_on(files, tmp_path):
    images, folder = str(Path(files[0]).parent), str(tmp_path)
    parts = run(2, images, folder)
    batches = epoch_batches(ROWS, BATCH_SIZE, 0)[:FULL] + epoch_batches(ROWS, BATCH_SIZE, 1)
    half = BATCH_SIZE // 2
    for index, part in enumerate(parts):
        assert part["shard"] == [index, 2]
        assert (part["left_out"], part["steps"]) == (LEFT_OUT, FULL)
        slices = [batch[index * half :][:half] for batch in batches[:STOP]]
        trained = batches[:STOP] if BACKEND == "jax" else slices  # on JAX a model sees all rows
        assert part["rows"] == joined(trained)
        assert part["receipt"] == [0, FULL * half, 0, 0]
        assert len(part["rejected"]) == 2
        assert "seed" in part["rejected"][0] and "shard" in part["rejected"][1]
    assert parts[0]["weights"] == parts[1]["weights"]
    (rest,) = run(1, images, folder)
    saved = parts[0]["rows"][: -half if BACKEND == "torch" else -BATCH_SIZE]  # before the last step
    assert rest["rows"] == saved + joined(batches[STOP - 1 :])  # the log is restored with weights
    assert rest["receipt"] == [1, ROWS, 0, 0]
    whole = sequence(images)
    assert len([*whole, *whole]) == 2 * (FULL + 1)
    assert rest["digest"] == whole.receipt.digest
