"""`dfgen demo`: scanned digits, from files and a table of labels to three trained models.

The command and the functions that it shows are the ones that it runs.
"""

import contextlib
import inspect
import shlex
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from PIL import Image

import dfgen
from dfgen.errors import WriteError
from dfgen.photographs import write_photographs
from dfgen.system import refuse_others
from dfgen.training import keras

Command = Callable[[list[str]], object]
Train = Callable[[pd.DataFrame, int], keras.callbacks.History]

TARGET = 0.97
EPOCHS = 20
DIGITS = Path(__file__).with_name("data") / "digits.csv.gz"
BUILD = """\
dfgen build-manifest imgs --pattern '{shard}/{part}/digit_{id:int}.png' \\
      --labels labels.csv --on id=object_id --label parity --label digit --category digit \\
      --split train=0.8 --split val=0.2 --stratify digit --out digits.parquet"""


def load_digits() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Return the pixels, (1797, 8, 8) with values 0..255, and the digits, (1797,)."""
    table = np.loadtxt(DIGITS, delimiter=",", dtype=np.uint8)
    pixels = np.rint(table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    return pixels, table[:, -1]


_HEAD = b"object_id,parity,digit\n"


def write_digits(folder: Path) -> pd.DataFrame:
    """Write the digits as PNG files, and their labels apart from them, as users have theirs.

    Digit 461756 is `imgs/756/61/digit_461756.png`, and a row of `labels.csv`. The folder is made if
    it is not there. Return what `labels.csv` holds, in the order of `load_digits`.
    """
    pixels, digits = load_digits()
    ids = 100_000 + np.arange(len(digits)) * 271_829 % 900_000  # without a common factor: unique
    parity = np.where(digits % 2, "odd", "even")
    labels = pd.DataFrame({"object_id": ids, "parity": parity, "digit": digits})
    table = folder / "labels.csv"
    refuse_others(str(table), "table of the demo", lambda file: file.readline() == _HEAD)
    try:
        for id, image in zip(ids, pixels, strict=True):
            path = folder / f"imgs/{id % 1000:03}/{id // 1000 % 100:02}/digit_{id}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(path)
        labels.to_csv(table, index=False)
    except OSError as error:
        raise _unwritten("digits", folder, error) from error
    return labels


# ruff: noqa: D103 - what follows is shown as a user would type it


def network() -> keras.Sequential:
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(64, activation="relu"),
        ]
    )


def train_on_parity(df: pd.DataFrame, epochs: int) -> keras.callbacks.History:
    image = dfgen.Image("path", size=(8, 8), color_mode="grayscale", scale="-1..1")
    parity = dfgen.Category("parity", label_mode="binary")
    train = dfgen.Sequence(df[df.split == "train"], image, parity)
    val = dfgen.Sequence(df[df.split == "val"], image, parity, shuffle=False)

    model = keras.Sequential([network(), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return model.fit(train, validation_data=val, epochs=epochs, verbose=0)


def train_on_digit(df: pd.DataFrame, epochs: int) -> keras.callbacks.History:
    image = dfgen.Image("path", size=(8, 8), color_mode="grayscale")  # uint8, 0..255
    train = dfgen.Sequence(df[df.split == "train"], image, "digit")
    val = dfgen.Sequence(df[df.split == "val"], image, "digit", shuffle=False)

    rescale = keras.layers.Rescaling(1 / 127.5, offset=-1)
    model = keras.Sequential([rescale, network(), keras.layers.Dense(10, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model.fit(train, validation_data=val, epochs=epochs, verbose=0)


def train_on_both(df: pd.DataFrame, epochs: int) -> keras.callbacks.History:
    image = dfgen.Image("path", size=(8, 8), color_mode="grayscale", scale="-1..1")
    y = {"parity": dfgen.Category("parity", label_mode="binary"), "digit": "digit"}
    train = dfgen.Sequence(df[df.split == "train"], image, y)
    val = dfgen.Sequence(df[df.split == "val"], image, y, shuffle=False)

    inputs = keras.Input((8, 8, 1))
    features = network()(inputs)
    heads = {
        "parity": keras.layers.Dense(1, activation="sigmoid", name="parity")(features),
        "digit": keras.layers.Dense(10, activation="softmax", name="digit")(features),
    }
    model = keras.Model(inputs, heads)
    losses = {"parity": "binary_crossentropy", "digit": "sparse_categorical_crossentropy"}
    model.compile("adam", losses, metrics={"parity": ["accuracy"], "digit": ["accuracy"]})
    return model.fit(train, validation_data=val, epochs=epochs, verbose=0)


def keep_photographs(keep: str) -> None:
    """Write the photographs that the tutorials start from, and print what they are."""
    folder = Path(keep) / "photographs"
    try:
        write_photographs(folder)
    except WriteError:
        raise
    except OSError as error:
        raise _unwritten("photographs", folder, error) from error
    print(f"Photographs, sounds and their tables to begin with: {folder} (see README.md there)")


def _unwritten(what: str, folder: Path, error: OSError) -> WriteError:
    return WriteError(
        f"the {what} cannot be written into {folder}: {error}. Name another folder: --keep DIR"
    )


def run(command: Command, keep: str | None = None) -> bool:
    """Write the digits, build their manifest, train three models, and print all of it.

    `command` runs `dfgen` with the words of a command line, and returns an exit code or None.
    Return whether every validation accuracy is at least `TARGET`.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="dfgen-")))
        labels = write_digits(folder)
        print(f"{len(labels):,} scanned digits are PNG files in folders that say nothing, such as")
        print(f"  {next(folder.glob('imgs/*/*/*.png'))}\nand labels.csv beside imgs says:")
        print(labels.head(3).to_csv(index=False))
        print(f"$ cd {folder}")
        stack.enter_context(contextlib.chdir(folder))
        accuracies = _build_and_train(command, EPOCHS)
    print(f"The files are in {keep}" if keep else "The files are gone; --keep DIR keeps them")
    missed = [accuracy for accuracy in accuracies if accuracy < TARGET]
    if missed:
        print(f"FAILED: a validation accuracy of {min(missed):.3f}, expected at least {TARGET}")
    return not missed


def _build_and_train(command: Command, epochs: int) -> list[float]:
    print(f"$ {BUILD}")
    if code := command(shlex.split(BUILD.replace("\\\n", ""))[1:]):
        raise SystemExit(code)  # the command has said why
    print("\n>>> import dfgen, keras, pandas as pd\n>>> keras.utils.set_random_seed(0)")
    keras.utils.set_random_seed(0)
    print('>>> df = dfgen.read_manifest("digits.parquet")\n')
    df = dfgen.read_manifest("digits.parquet")
    print(inspect.getsource(network))
    return [
        accuracy
        for train in (train_on_parity, train_on_digit, train_on_both)
        for accuracy in _show_and_train(train, df, epochs)
    ]


def _show_and_train(train: Train, df: pd.DataFrame, epochs: int) -> list[float]:
    print(inspect.getsource(train))
    print(f">>> {train.__name__}(df, epochs={epochs})", flush=True)
    begin = time.perf_counter()
    history = train(df, epochs).history
    speed = epochs * len(df) / (time.perf_counter() - begin)
    names = [name for name in history if name.startswith("val_") and name.endswith("accuracy")]
    accuracies = [history[name][-1] for name in names]
    shown = (f"{name} {value:.3f}" for name, value in zip(names, accuracies, strict=True))
    print(f"{', '.join(shown)}; {speed:,.0f} images/s, compiling included\n")
    return accuracies
