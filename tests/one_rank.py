"""One of several processes that train together, as a guide has it; tells in lines what it does.

python one_rank.py INDEX COUNT PORT FOLDER OPTIONS, the last in JSON, maybe other ones of a rank.
"""

import json
import os
import signal
import sys
from dataclasses import asdict

import keras
import numpy as np
import pandas as pd

import dfgen

ROWS, BATCH_SIZE, STEPS, EPOCHS = 48, 12, 4, 3


def connect(index, count, port, distributes):
    if count == 1:
        return
    if keras.backend.backend() == "torch":
        import torch.distributed as distributed

        address = f"tcp://127.0.0.1:{port}"
        distributed.init_process_group("gloo", address, rank=index, world_size=count)
        return
    keras.distribution.initialize(f"127.0.0.1:{port}", count, index)
    if distributes:
        keras.distribution.set_distribution(keras.distribution.DataParallel())


def make_model(count):
    layers = keras.layers
    dense = [layers.Dense(4, activation="relu"), layers.Dropout(0.5), layers.Dense(2)]
    model = keras.Sequential([layers.Input(()), layers.Reshape((1,)), *dense])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    if keras.backend.backend() == "torch" and count > 1:
        import torch.distributed as distributed

        def average(gradient):
            distributed.all_reduce(gradient)
            return gradient / count

        for variable in model.trainable_variables:
            variable.value.register_hook(average)
    return model


class Tell(keras.callbacks.Callback):
    """Says which step of the run has ended, and ends the process or its input if it is to."""

    def __init__(self, options):
        super().__init__()
        self._done, self._options = 0, options

    def on_train_batch_end(self, batch, logs=None):
        self._done += 1
        print("step", self._done, flush=True)
        if self._done == self._options.get("signals_after"):
            os.kill(os.getpid(), signal.SIGTERM)
        if self._done == self._options.get("died_after"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._done == self._options.get("failed_after"):
            raise KeyError("of my own")


def main(index, count, port, folder, options):
    connect(index, count, port, options.get("distributes", True))
    if (seed := options.get("keras_seed", 1)) is not None:
        keras.utils.set_random_seed(seed)
    dfgen.__version__ = options.get("version", dfgen.__version__)
    tell = Tell(options)
    rows = options.get("rows", ROWS)
    columns = {"id": range(rows), "n": np.linspace(-1, 1, rows), "label": [*"ab"] * (rows // 2)}
    train = dfgen.Sequence(
        pd.DataFrame(columns).astype({"label": "category"}),
        x="n",
        y="label",
        batch_size=options.get("batch_size", BATCH_SIZE),
        seed=options.get("seed", 0),
        shard=options.get("shard", "auto"),
        workers=1,
        max_queue_size=1,
    )

    def keep(epoch, logs):
        with open(f"{folder}/receipts-{count}-{index}.jsonl", "a") as file:
            print(json.dumps(asdict(train.receipt)), file=file)

    callbacks = [
        tell,
        dfgen.InputMonitor(),
        keras.callbacks.LambdaCallback(on_epoch_end=keep),
        dfgen.BackupAndRestore(
            options.get("folder", f"{folder}/backup"), train, save_freq=options.get("save_freq", 3)
        ),
    ]
    model = make_model(count)
    model.fit(train, epochs=options.get("epochs", EPOCHS), verbose=0, callbacks=callbacks)
    found = {
        "weights": [weight.tolist() for weight in model.get_weights()],
        "digest": train.receipt.digest,
        "rows": train.receipt.rows,
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    sys.modules.setdefault("tensorflow", None)
    index, count, port, folder, options = sys.argv[1:]
    given = json.loads(options)
    main(int(index), int(count), port, folder, {**given, **given.get(index, {})})
