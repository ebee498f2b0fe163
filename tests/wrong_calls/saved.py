"""What training saves and goes on from: backups, states, preprocessing, and what callbacks take."""

from pathlib import Path

import keras
import numpy as np

import dfgen
from dfgen.errors import ArgumentError, MissingFileError, WriteError
from wrong_calls import WrongCall


def model():
    made = keras.Sequential(
        [keras.Input((4, 4, 3)), keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(3)]
    )
    made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


def sequence(pets, rows=12, **options):
    frame = pets.frame.astype({"kind": "category"})[:rows]
    given = {"y": "kind", "image_size": (4, 4), "batch_size": 4, "workers": 0, **options}
    return dfgen.Sequence(frame, **given)


def backup(pets, sequence_of_backup, folder="backup", **options):
    return dfgen.BackupAndRestore(folder, sequence_of_backup, on_sigterm=False, **options)


def fit_with(pets, make):
    data = sequence(pets)
    model().fit(data, verbose=0, callbacks=[make(data)])


def edited_state(pets):
    data = sequence(pets)
    data.load_state_dict({**data.state_dict(), "positions": 2})


def saved_model(pets):
    model().save("pets.keras")
    dfgen.load_preprocessing("pets.keras")


def of_json(text):
    def call(pets):
        Path("p.json").write_text(text)
        dfgen.load_preprocessing("p.json")

    return call


CALLS = [
    WrongCall(
        "SavePreprocessing with its arguments swapped",
        lambda pets: dfgen.SavePreprocessing(sequence(pets), "p.json"), ArgumentError,
        "got 'p.json'", "sequence must be a dfgen.Sequence", 'SavePreprocessing("model.keras.json"',
    ),
    WrongCall(
        "SavePreprocessing of the model", lambda pets: dfgen.SavePreprocessing("p.json", model()),
        ArgumentError, "<Sequential", "must be a dfgen.Sequence", "train)",
    ),
    WrongCall(
        "SavePreprocessing into a folder that is not there",
        lambda pets: fit_with(pets, lambda data: dfgen.SavePreprocessing("runs/p.json", data)),
        WriteError, "runs/p.json", "its folder", "Create the folder first",
    ),
    WrongCall(
        "BackupAndRestore with its arguments swapped",
        lambda pets: backup(pets, "backup", sequence(pets)), ArgumentError, "got str",
        "the dfgen.Sequence itself", 'dfgen.BackupAndRestore("backup", train)',
    ),
    WrongCall(
        "BackupAndRestore of the frame", lambda pets: backup(pets, pets.frame), ArgumentError,
        "got DataFrame", "the dfgen.Sequence itself", 'dfgen.BackupAndRestore("backup", train)',
    ),
    WrongCall(
        "save_freq=0", lambda pets: backup(pets, sequence(pets), save_freq=0), ArgumentError,
        "save_freq=0", "number of steps", "1 or more",
    ),
    WrongCall(
        "save_freq of another word", lambda pets: backup(pets, sequence(pets), save_freq="batch"),
        ArgumentError, "save_freq='batch'", '"epoch"', "a number of steps",
    ),
    WrongCall(
        "BackupAndRestore of another Sequence than fit has",
        lambda pets: fit_with(pets, lambda data: backup(pets, sequence(pets))), ArgumentError,
        "another Sequence", "12 rows, 3 batches of 4", "the one that fit was given",
    ),
    WrongCall(
        "backups into a file of labels",
        lambda pets: fit_with(pets, lambda data: backup(pets, data, "labels.csv")), WriteError,
        "labels.csv", "a folder of backups", "Name a folder",
    ),
    WrongCall(
        "weights of a model as a state",
        lambda pets: sequence(pets).load_state_dict(model().get_weights()), ArgumentError,
        "the state is a list of 2", "the dict that state_dict() gave", "json.loads",
    ),
    WrongCall(
        "the path of a state", lambda pets: sequence(pets).load_state_dict("state.json"),
        ArgumentError, "'state.json'", "the dict that state_dict() gave",
        "json.loads(Path(path).read_text())",
    ),
    WrongCall(
        "a state of nothing", lambda pets: sequence(pets).load_state_dict({}), ArgumentError,
        "lacks version, order, seed", "no state of dfgen", "Use the one saved before it",
    ),
    WrongCall(
        "a state of more rows",
        lambda pets: sequence(pets, 8).load_state_dict(sequence(pets).state_dict()), ArgumentError,
        "rows=12", "this training has rows=8", "Go on with rows=12",
    ),
    WrongCall(
        "a state of another seed",
        lambda pets: sequence(pets, seed=1).load_state_dict(sequence(pets).state_dict()),
        ArgumentError, "seed=0", "this training has seed=1", "Go on with seed=0",
    ),
    WrongCall(
        "a state whose positions were edited", edited_state, ArgumentError, "not as it was saved",
        "rows would be repeated or missed", '"checksum": None',
    ),
    WrongCall(
        "a saved model as a preprocessing", saved_model, ArgumentError, "pets.keras",
        "no JSON of a preprocessing", "dfgen.SavePreprocessing",
    ),
    WrongCall(
        "a CSV file as a preprocessing", lambda pets: dfgen.load_preprocessing("labels.csv"),
        ArgumentError, "labels.csv", "no JSON of a preprocessing", "dfgen.SavePreprocessing",
    ),
    WrongCall(
        "another JSON file as a preprocessing", of_json('{"lr": 0.1}'), ArgumentError,
        "this is JSON", "no preprocessing that dfgen has saved", "to_json()",
    ),
    WrongCall(
        "a preprocessing that is not there", lambda pets: dfgen.load_preprocessing("no.json"),
        MissingFileError, "no.json", "the file", "does not exist",
    ),
    WrongCall(
        "preprocessing called with a picture's path",
        lambda pets: sequence(pets).preprocessing("imgs/cat/100.jpg"), ArgumentError,
        "'imgs/cat/100.jpg'", "expected nothing", "seq.preprocessing()(picture)",
    ),
    WrongCall(
        "preprocessing called with pixels",
        lambda pets: sequence(pets).preprocessing(np.zeros((8, 8, 3), np.uint8)), ArgumentError,
        "numpy.ndarray of shape (8, 8, 3)", "expected nothing", "seq.preprocessing()(picture)",
    ),
    WrongCall(
        "preprocessing of a file that is not there",
        lambda pets: sequence(pets).preprocessing()("no.jpg"), MissingFileError, "no.jpg",
        "the file", "does not exist",
    ),
    WrongCall(
        "predictions of more classes decoded",
        lambda pets: sequence(pets).preprocessing().decode(np.zeros((2, 5))), ArgumentError,
        "the shape (2, 5)", "expected rows and 3 columns", "'kind'",
    ),
]  # fmt: skip
