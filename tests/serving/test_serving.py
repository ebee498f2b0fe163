"""A saved model and the preprocessing beside it predict in another process what training would."""

import os
import subprocess
import sys

import keras
import numpy as np
import pandas as pd
import pytest
from PIL import Image as Pillow

import dfgen

pytestmark = pytest.mark.backend
ROWS = 8

SERVE = """
import sys
import keras, numpy as np, dfgen
folder = sys.argv[1]
model = keras.models.load_model(f"{folder}/pets.keras")
preprocessing = dfgen.load_preprocessing(f"{folder}/pets.keras.json")
rows = [{"path": f"{folder}/{row}.jpg", "age": row / 2} for row in range(8)]
rows[3]["path"] = open(rows[3]["path"], "rb").read()
found = model.predict(preprocessing(rows), batch_size=4, verbose=0)
np.savez(f"{folder}/found.npz", **found)
print(*preprocessing.decode(found)["kind"], sorted(preprocessing.class_names))
"""


@pytest.fixture
def df(tmp_path):
    rows = []
    for row in range(ROWS):
        pixels = np.random.default_rng(row).integers(0, 256, (20 + row, 30), np.uint8)
        Pillow.fromarray(pixels).convert("RGB").save(tmp_path / f"{row}.jpg")
        rows.append({"id": row, "path": f"{tmp_path}/{row}.jpg", "age": row / 2})
    kinds = pd.Categorical([("cat", "dog")[row % 2] for row in range(ROWS)])
    return pd.DataFrame(rows).assign(kind=kinds, tame=[row % 3 > 0 for row in range(ROWS)])


def sequences(df):
    y = {"kind": "kind", "tame": dfgen.Category("tame", "binary")}
    image = {"scale": "torch", "resize": "crop", "size": (16, 16)}
    options = {"y": y, "batch_size": 4, "workers": 1}
    age = dfgen.Number("age")
    random = dfgen.Image(crop="random", flip="horizontal", **image)
    train = dfgen.Sequence(df, {"image": random, "age": age}, **options)
    val = dfgen.Sequence(df, {"image": dfgen.Image(**image), "age": age}, shuffle=False, **options)
    return train, val


def model():
    keras.utils.set_random_seed(0)
    image, age = keras.Input((16, 16, 3), name="image"), keras.Input((), name="age")
    both = keras.layers.Concatenate()(
        [keras.layers.Conv2D(4, 3)(image)[:, 0, 0], keras.layers.Reshape((1,))(age)]
    )
    kind = keras.layers.Dense(2, activation="softmax", name="kind")(both)
    tame = keras.layers.Dense(1, activation="sigmoid", name="tame")(both)
    made = keras.Model({"image": image, "age": age}, {"kind": kind, "tame": tame})
    losses = {"kind": "sparse_categorical_crossentropy", "tame": "binary_crossentropy"}
    made.compile("sgd", losses)
    return made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:validation_data has the")
def test_fresh_process_predicts_the_same_from_saved_files(df, tmp_path):
    made, (train, val) = model(), sequences(df)
    saved = [
        keras.callbacks.ModelCheckpoint(tmp_path / "pets.keras"),
    ]
    made.fit(train, validation_data=val, callbacks=saved, verbose=0)
    train.preprocessing().save(tmp_path / "pets.keras.json")
    expected = made.predict(val, verbose=0)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    run = subprocess.run(
        [sys.executable, "-c", SERVE, str(tmp_path)], env=environment, text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found = np.load(tmp_path / "found.npz")
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], name)
    names = [("cat", "dog")[number] for number in expected["kind"].argmax(axis=1)]
    assert run.stdout.splitlines()[-1] == f"{' '.join(names)} ['kind', 'tame']"


def test_preprocessing_of_a_sequence_is_what_it_feeds(df):
    _, val = sequences(df)
    preprocessing = val.preprocessing()
    for batch, rows in ((val[0][0], df[:4]), (val[1][0], df[4:])):
        found = preprocessing(rows)
        for name in batch:
            np.testing.assert_array_equal(found[name], batch[name])
    assert preprocessing.class_names == val.class_names


def test_channels_follow_image_data_format_at_creation(df):
    keras.config.set_image_data_format("channels_first")
    try:
        val = dfgen.Sequence(df, y="kind", image_size=(8, 9), batch_size=8, shuffle=False)
        batch, preprocessing = val[0][0], val.preprocessing()
    finally:
        keras.config.set_image_data_format("channels_last")
    np.testing.assert_array_equal(preprocessing(df["path"].tolist()), batch)
    assert batch.shape == (8, 3, 8, 9)


def test_text_is_passed_to_the_model_unchanged(df):
    df = df.assign(text=["a", "b c"] * 4)
    found = dfgen.Sequence(df, dfgen.Text("text"), "kind").preprocessing()(df)
    assert found.tolist() == df["text"].tolist()
    if keras.backend.backend() == "tensorflow":
        layer = keras.layers.TextVectorization(output_sequence_length=2)
        layer.adapt(df["text"].tolist())
        words = keras.Input((), dtype="string")
        made = keras.Model(words, layer(words))
        assert made.predict(found, verbose=0).shape == (8, 2)
