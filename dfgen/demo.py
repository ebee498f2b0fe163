"""`dfgen demo`: scanned digits, from files and a table of labels to a trained model."""

import contextlib
import inspect
import os
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

import dfgen
from dfgen.errors import WriteError
from dfgen.files import refuse_others
from dfgen.training import keras

TARGET = 0.95  # validation accuracy
_DATA = Path(__file__).with_name("data")


def demo(*, keep: str | None = None, train: bool = True) -> bool:
    """Train a model with two outputs on scanned digits, and show each step.

    Args:
        keep: Folder to keep the files in. It also gets photographs with labels, boxes and masks.
        train: Train the model on the digits.

    Returns:
        Whether the model reached the expected accuracy.

    Raises:
        WriteError: the folder cannot be written, or has other files of these names.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(keep or stack.enter_context(tempfile.TemporaryDirectory(prefix="dfgen-")))
        try:
            write_digits(folder)
            if keep:
                unpack_photographs(folder / "photographs")
                print(f"Photographs to begin with: {keep}/photographs (see README.md there)")
        except OSError as error:
            raise WriteError(f"{error}: name another folder with --keep") from error
        print(f"1,797 digits are PNG files in {folder}/imgs, and labels.csv has their labels.\n")
        stack.enter_context(contextlib.chdir(folder))
        print(inspect.getsource(build_digits), ">>> df = build_digits()", sep="\n", flush=True)
        df = build_digits()
        print(df["split"].value_counts().to_string(), "\n")
        if not train:
            return True
        print(inspect.getsource(train_model), ">>> train_model(df)", sep="\n", flush=True)
        accuracy = train_model(df)
    print(f"{accuracy:.3f} of the digits in val are recognized")
    return accuracy >= TARGET


def write_digits(folder: Path) -> None:
    """Write the digits as PNG files, and `labels.csv`."""
    table = np.loadtxt(_DATA / "digits.csv.gz", delimiter=",", dtype=np.uint8)
    pixels = np.rint(table[:, :-1].reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    ids = 100_000 + np.arange(len(table)) * 271_829 % 900_000  # without a common factor: unique
    labels = pd.DataFrame({"object_id": ids, "parity": "even", "digit": table[:, -1]})
    labels.loc[labels["digit"] % 2 == 1, "parity"] = "odd"
    head, file = b"object_id,parity,digit\n", folder / "labels.csv"
    refuse_others(str(file), "table of the demo", lambda opened: opened.readline() == head)
    for id, image in zip(ids, pixels, strict=True):
        path = folder / f"imgs/{id % 1000:03}/{id // 1000 % 100:02}/digit_{id}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    labels.to_csv(file, index=False)


def unpack_photographs(folder: Path) -> None:
    """Write photographs and their tables into a folder, unless it has them."""
    with zipfile.ZipFile(_DATA / "photographs.zip") as photographs:
        readme, path = photographs.read("README.md"), folder / "README.md"
        if path.exists() and path.read_bytes() == readme:
            return
        if folder.exists() and os.listdir(folder):
            raise WriteError(f"{folder} has other files: name an empty or new folder with --keep")
        photographs.extractall(folder)
    for photo, thing, part in pd.read_csv(folder / "labels.csv").head(120).itertuples(index=False):
        split = "val" if part.endswith(("0", "4", "8")) else "train"
        copy = folder / f"folders/{split}/{thing}/{photo}.jpg"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / f"photos/{int(photo[1:]) % 10}/{photo}.jpg", copy)


# ruff: noqa: D103 - what follows is shown as a user would type it


def build_digits() -> pd.DataFrame:
    return dfgen.build_manifest(
        "imgs", pattern="{folder}/{subfolder}/digit_{id:int}.png",
        labels="labels.csv", on="id=object_id", label=["parity", "digit"], category="digit",
        split={"train": 0.8, "val": 0.2}, stratify="digit", out="digits.parquet",
    )  # fmt: skip


def train_model(df: pd.DataFrame) -> float:
    image = dfgen.Image("path", size=(8, 8), color_mode="grayscale", scale="0..1")
    y = {"parity": dfgen.Category("parity", label_mode="binary"), "digit": "digit"}
    train = dfgen.Sequence(df[df.split == "train"], image, y)
    val = dfgen.Sequence(df[df.split == "val"], image, y, shuffle=False)

    keras.utils.set_random_seed(0)
    layers = keras.layers
    inputs = keras.Input((8, 8, 1))
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(64, 3, padding="same", activation="relu")(layers.MaxPooling2D()(x))
    x = layers.Dense(64, activation="relu")(layers.Flatten()(x))
    parity = layers.Dense(1, activation="sigmoid", name="parity")(x)
    digit = layers.Dense(10, activation="softmax", name="digit")(x)
    model = keras.Model(inputs, {"parity": parity, "digit": digit})
    losses = {"parity": "binary_crossentropy", "digit": "sparse_categorical_crossentropy"}
    model.compile("adam", losses, metrics={"digit": "accuracy"})
    history = model.fit(train, validation_data=val, epochs=10, verbose=2).history
    return float(history["val_digit_accuracy"][-1])
