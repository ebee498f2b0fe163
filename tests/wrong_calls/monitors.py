"""InputMonitor where it has nothing to watch, and arguments of `dfgen bench`."""

import functools

import keras
import numpy as np
from typer.testing import CliRunner

import dfgen
from dfgen.cli import app
from dfgen.errors import ArgumentError, WriteError
from wrong_calls import WrongCall


def model():
    made = keras.Sequential(
        [keras.Input((4, 4, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)]
    )
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


def sequence(pets):
    frame = pets.frame.astype({"kind": "category"})
    return dfgen.Sequence(frame, y="kind", image_size=(4, 4), batch_size=4, shuffle=False)


def fit(receipts, pets):
    monitor = dfgen.InputMonitor(receipts=receipts)
    model().fit(sequence(pets), verbose=0, callbacks=[monitor])


def fit_on_arrays(pets):
    x, y = np.zeros((4, 4, 4, 3), "float32"), np.zeros(4)
    model().fit(x, y, verbose=0, callbacks=[dfgen.InputMonitor()])


def fit_on_a_tensorflow_dataset(pets):
    dataset = sequence(pets).get_tf_dataset()
    model().fit(dataset, shuffle=False, verbose=0, callbacks=[dfgen.InputMonitor()])


def bench(*arguments):
    """Call `dfgen bench` on a manifest, and raise its message as the error that it is."""

    def call(pets):
        dfgen.write_manifest(pets.frame[["id", "path"]], "pets.parquet")
        result = CliRunner().invoke(app, ["bench", "pets.parquet", *arguments])
        if result.exit_code:
            raise ArgumentError(result.output)

    return call


CALLS = [
    WrongCall(
        "InputMonitor on arrays", fit_on_arrays, ArgumentError, "fit was given ndarray",
        "dfgen.Sequence", "give fit the Sequence",
    ),
    WrongCall(
        "InputMonitor on a tf.data.Dataset of a Sequence", fit_on_a_tensorflow_dataset,
        ArgumentError, "fit was given _PrefetchDataset", "dfgen.Sequence", "give fit the Sequence",
    ),
    WrongCall(
        "InputMonitor of a Sequence, as BackupAndRestore takes one",
        lambda pets: dfgen.InputMonitor(sequence(pets)), ArgumentError, "receipts=<dfgen.Sequence",
        "path of a file", "give it to fit alone",
    ),
    WrongCall(
        "receipts=True", lambda pets: dfgen.InputMonitor(receipts=True), ArgumentError,
        "receipts=True", "path of a file", 'receipts="receipts.parquet"',
    ),
    WrongCall(
        "receipts into a file of something else", functools.partial(fit, "labels.csv"),
        ArgumentError, "labels.csv", "Parquet file of receipts", "name a new file",
    ),
    WrongCall(
        "receipts into a folder that is not there", functools.partial(fit, "runs/receipts.parquet"),
        WriteError, "runs/receipts.parquet", "does not exist", "Create the folder first",
    ),
    WrongCall(
        "bench of an image size that is one number", bench("--image-size", "32"), ArgumentError,
        "--image-size 32", "expected H,W", "224,224",
    ),
    WrongCall(
        "bench of a batch of nothing", bench("--batch-size", "0"), ArgumentError, "batch_size=0",
        "whole number", "1 or more",
    ),
    WrongCall(
        "bench of a model in small letters", bench("--model", "resnet50"), ArgumentError,
        '"resnet50"', "keras.applications", 'Did you mean "ResNet50"?',
    ),
]  # fmt: skip
