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
def test_a_fresh_process_predicts_the_same_from_what_was_saved(df, tmp_path):
    made, (train, val) = model(), sequences(df)
    saved = [
        dfgen.SavePreprocessing(tmp_path / "pets.keras.json", train),
        keras.callbacks.ModelCheckpoint(tmp_path / "pets.keras"),
    ]
    made.fit(train, validation_data=val, callbacks=saved, verbose=0)
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


def test_channels_follow_the_backend_that_it_was_made_for(df):
    keras.config.set_image_data_format("channels_first")
    try:
        val = dfgen.Sequence(df, y="kind", image_size=(8, 9), batch_size=8, shuffle=False)
        batch, preprocessing = val[0][0], val.preprocessing()
    finally:
        keras.config.set_image_data_format("channels_last")
    np.testing.assert_array_equal(preprocessing(df["path"].tolist()), batch)
    assert batch.shape == (8, 3, 8, 9)


@pytest.mark.slow
def test_the_file_is_written_whole_when_training_begins(df, tmp_path):
    made, (train, _) = model(), sequences(df)
    path = tmp_path / "p.json"
    old = sequences(df)[1].preprocessing().to_json()
    path.write_text(old)
    callback = dfgen.SavePreprocessing(path, train)
    assert path.read_text() == old
    made.fit(train, callbacks=[callback], verbose=0)
    assert path.read_text() == train.preprocessing().to_json()
    assert [*tmp_path.glob("*.tmp"), *tmp_path.glob(".*")] == []


def test_a_file_of_another_kind_such_as_the_model_is_not_replaced(df, tmp_path):
    train, path = sequences(df)[0], tmp_path / "pets.keras"
    early = dfgen.SavePreprocessing(path, train)
    for content in (b"PK\x03\x04 a model of Keras", b'{"format": 1}', b"[1]"):
        path.write_bytes(content)
        for write in (lambda: dfgen.SavePreprocessing(path, train), early.on_train_begin):
            with pytest.raises(dfgen.DfgenError) as refused:
                write()
            assert str(refused.value) == (
                f"{path} is there already, and is no preprocessing: it would be lost. Choose "
                "another place, or remove it first; commands replace it with --force"
            )
        assert path.read_bytes() == content


def one_head(df, x=None, names=("cat", "dog"), y="kind", **options):
    x = x or dfgen.Image(size=(16, 16), **options)
    return dfgen.Sequence(df, x, dfgen.Category(y, class_names=names), batch_size=4, workers=0)


def small():
    last = [keras.layers.Flatten(), keras.layers.Dense(2, "softmax")]
    made = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Rescaling(1.0), *last])
    made.compile("sgd", "sparse_categorical_crossentropy")
    return made


OTHERS = {
    "another range": (
        {"scale": "0..1"},
        "x of what would be saved has scale='0..1', image float32 (batch, 16, 16, 3), that of "
        "training scale=None, image uint8 (batch, 16, 16, 3): the model would see other numbers "
        "than it was trained on. Give both Sequences the same, scale=None",
    ),
    "other class numbers": (
        {"names": ("dog", "cat")},
        "number 0 is class 'cat' of 'kind' in training and 'dog' in what would be saved: training "
        "numbers 'cat', 'dog', what would be saved 'dog', 'cat'",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("way", ["itself", "repeat", "validation"])
def test_preprocessing_of_a_sequence_that_means_something_else_is_refused(df, tmp_path, name, way):
    options, fault = OTHERS[name]
    train, other, path = one_head(df), one_head(df, **options), tmp_path / "p.json"
    path.write_text(old := other.preprocessing().to_json() + " ")
    given = {"callbacks": [dfgen.SavePreprocessing(path, other)], "verbose": 0}
    if way == "repeat":
        given["steps_per_epoch"] = 2
    if way == "validation":
        given["validation_data"] = other
        fault = fault.replace("what would be saved", "validation")
    with pytest.raises(dfgen.DfgenError) as caught:
        small().fit(train.repeat() if way == "repeat" else train, **given)
    assert fault in str(caught.value)
    if way != "validation":
        assert str(caught.value) == (
            f"SavePreprocessing was made for another Sequence than the one that fit trains on: "
            f"{fault}. Give it that one, or a Sequence of validation made alike"
        )
    assert path.read_text() == old


@pytest.mark.parametrize(
    "other",
    [
        lambda df: one_head(df[:3]),
        lambda df: one_head(df, dfgen.Image(size=(16, 16), flip="horizontal")),
        lambda df: one_head(df, scale=(1.0, 0.0), dtype="float32"),
    ],
    ids=["other rows", "chance", "a scale in other words"],
)
@pytest.mark.filterwarnings("ignore:SavePreprocessing saves")
def test_preprocessing_of_a_sequence_that_means_the_same_is_saved(df, tmp_path, other):
    path = tmp_path / "p.json"
    small().fit(one_head(df), callbacks=[dfgen.SavePreprocessing(path, other(df))], verbose=0)
    assert dfgen.load_preprocessing(path).class_names == ["cat", "dog"]


def test_images_that_are_made_otherwise_are_saved_where_they_validate_else_with_a_warning(
    df, tmp_path
):
    train, padded = one_head(df[:5]), one_head(df[5:], resize="pad")
    beside = dfgen.SavePreprocessing(tmp_path / "p.json", padded)
    small().fit(train, validation_data=padded, callbacks=[beside], verbose=0)
    with pytest.warns(UserWarning, match=r"^SavePreprocessing saves") as told:
        small().fit(train, callbacks=[beside], verbose=0)
    assert [str(one.message) for one in told if "__array__" not in str(one.message)] == [
        "SavePreprocessing saves [Image(size=(16, 16), resize='pad')], but fit trains on "
        "[Image(size=(16, 16))] without chance: predictions of images made otherwise may be "
        "worse. Give it the Sequence that trains, or the one of validation_data="
    ]


def test_what_cannot_be_saved_is_refused_before_training(df, tmp_path):
    x = dfgen.Column("age", lambda age: age)
    with pytest.raises(dfgen.DfgenError, match="fn of Column"):
        dfgen.SavePreprocessing(tmp_path / "p.json", dfgen.Sequence(df, x, "kind"))
    for arguments, message in (
        ((tmp_path / "none" / "p.json", sequences(df)[0]), r"its folder .* does not exist"),
        ((tmp_path / "p.json", df), r"^sequence must be a dfgen.Sequence, got "),
    ):
        with pytest.raises(dfgen.DfgenError, match=message):
            dfgen.SavePreprocessing(*arguments)
    assert not (tmp_path / "p.json").exists()


def test_text_is_handed_to_a_model_that_takes_it(df):
    df = df.assign(text=["a", "b c"] * 4)
    found = dfgen.Sequence(df, dfgen.Text("text"), "kind").preprocessing()(df)
    assert found.tolist() == df["text"].tolist()
    if keras.backend.backend() == "tensorflow":
        layer = keras.layers.TextVectorization(output_sequence_length=2)
        layer.adapt(df["text"].tolist())
        words = keras.Input((), dtype="string")
        made = keras.Model(words, layer(words))
        assert made.predict(found, verbose=0).shape == (8, 2)
