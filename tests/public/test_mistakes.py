"""The mistakes of a first hour: each is an error or a warning that names what is wrong."""

import os

import cv2
import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dfgen
from dfgen.errors import (
    ArgumentError,
    DecodeError,
    DfgenError,
    ManifestError,
    MissingFileError,
    TransformError,
    UnknownArgumentError,
    WriteError,
)

KINDS = ("cat", "dog", "owl")
EAGER = keras.backend.backend() == "tensorflow"


@pytest.fixture
def df(tmp_path, monkeypatch):
    """Twelve images `imgs/{kind}/{id}.jpg` in the working folder, with kind, word, age and legs."""
    monkeypatch.chdir(tmp_path)
    words = [*KINDS] * 4
    paths = [f"imgs/{word}/{100 + row}.jpg" for row, word in enumerate(words)]
    for row, path in enumerate(paths):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        cv2.imwrite(path, np.full((24, 32, 3), 20 * row, np.uint8))
    pd.DataFrame({"key": range(100, 112), "n": 1}).to_csv("labels.csv", index=False)
    frame = pd.DataFrame({"id": range(100, 112), "path": paths, "word": words})
    legs = [row % 5 for row in range(12)]
    return frame.assign(kind=pd.Categorical(words), age=np.arange(12) / 2, legs=legs)


def case(name, error, word, call):
    return pytest.param(call, error, word, id=name)


def opened(frame, **options):
    size = {} if "x" in options else {"image_size": (8, 8)}
    return dfgen.Sequence(frame, **{"y": "kind", "workers": 0, **size, **options})


def of(**options):
    """Return a call that makes a Sequence with these arguments."""
    return lambda df: opened(df, **options)


def labels(values, y="y"):
    """Return a call that makes a Sequence with a column of repeated labels."""
    return lambda df: opened(df[["id", "path"]].assign(y=(values * 12)[:12]), y=y)


def paths(change, **options):
    """Return a call that makes a Sequence after a change of the paths."""
    return lambda df: opened(df.assign(path=df.path.map(change)), x=dfgen.Image("path"), **options)


def build(*source, **options):
    return lambda df: dfgen.build_manifest(*source, **options)


def join(keys):
    """Return a call that builds a manifest with a table of labels that has these keys."""
    table = pd.DataFrame({"key": keys, "n": 1})
    return build("imgs", pattern="{kind}/{id}.jpg", labels=table, on="id=key")


def first_batch(**options):
    return lambda df: opened(df, shuffle=False, batch_size=4, **options)[0]


def model(units=3):
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(units, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=EAGER)
    return model


def fit(units=3, **arguments):
    """Return a call that trains six rows; functions of the frame are validation data."""

    def call(df):
        data = {name: value(df[6:]) for name, value in arguments.items() if callable(value)}
        model(units).fit(opened(df[:6]), **{**arguments, **data}, verbose=0)

    return call


CASES = [
    # the manifest
    case("no manifest", ManifestError, "None", lambda df: dfgen.Sequence()),
    case("list of paths", ManifestError, "list", lambda df: opened([*df.path])),
    case("CSV file", ManifestError, "labels.csv", lambda df: opened("labels.csv")),
    case("missing file", MissingFileError, "pet.parquet", lambda df: opened("pet.parquet")),
    case("no rows", ManifestError, "no rows", lambda df: opened(df[:0])),
    case("CSV to read", ManifestError, "labels.csv", lambda df: dfgen.read_manifest("labels.csv")),
    # columns
    case("no path", ManifestError, "file", lambda df: opened(df.rename(columns={"path": "file"}))),
    case("no column y", ManifestError, "knd", of(y="knd")),
    case("no column of weights", ManifestError, "wght", of(sample_weight="wght")),
    case("weights below 0", ManifestError, "-0.5", lambda df: opened(
        df.assign(age=-df.age), sample_weight="age")),
    case("no column of balance", ManifestError, "knd", of(balance="knd")),
    case("no column id", ManifestError, "key", of(id="key")),
    case("text as image", ArgumentError, "word", lambda df: dfgen.Sequence(df, "word", "kind")),
    case("duplicate ids", ManifestError, "102", lambda df: opened(pd.concat([df, df[2:3]]))),
    case("missing id", ManifestError, "id", lambda df: opened(
        df.assign(id=[None, *"abcdefghijk"]))),
    # arguments
    case("batch_size float", ArgumentError, "batch_size", of(batch_size=32.0)),
    case("batch_size 0", ArgumentError, "batch_size", of(batch_size=0)),
    case("image_size of three", ArgumentError, "image_size", of(image_size=(224, 224, 3))),
    case("image_size 0", ArgumentError, "image_size", of(image_size=(0, 224))),
    case("color_mode", ArgumentError, "color_mode", of(color_mode="RGB")),
    case("label_mode", ArgumentError, "label_mode", of(label_mode="sparse")),
    case("scale name", ArgumentError, "scale", of(scale="imagenet")),
    case("seed -1", ArgumentError, "seed", of(seed=-1)),
    case("workers -1", ArgumentError, "workers", of(workers=-1)),
    case("max_queue_size 0", ArgumentError, "max_queue_size", of(max_queue_size=0)),
    case("on_error", ArgumentError, "on_error", of(on_error="ignore")),
    case("shard outside", ArgumentError, "shard", of(shard=(4, 4))),
    case("class_weight unknown", ArgumentError, "fish", of(class_weight={"fish": 2.0})),
    case("class_weight lacks one", UserWarning, "owl", of(class_weight={"cat": 1.0, "dog": 2.0})),
    case("class_names twice", ArgumentError, "cat", of(class_names=["cat", "cat", "dog", "owl"])),
    case("class_names lacks one", ManifestError, "owl", of(class_names=["cat", "dog"])),
    case("unknown argument", UnknownArgumentError, "batch_size", of(batchsize=4)),
    case("resize", ArgumentError, "resize", lambda df: dfgen.Image(resize="squash")),
    case("interpolation", ArgumentError, "no", lambda df: dfgen.Image(interpolation="no")),
    case("batch past the end", IndexError, "3", lambda df: opened(df, batch_size=4)[3]),
    # arguments of Keras and torch
    case("flow_from_dataframe", UnknownArgumentError, "image_size", lambda df: dfgen.Sequence(
        df, directory="imgs", x_col="path", y_col="kind", target_size=(8, 8))),
    case("class_mode", UnknownArgumentError, "label_mode", of(class_mode="sparse")),
    case("validation_split", UnknownArgumentError, "dfgen.split", of(validation_split=0.2)),
    # labels
    case("y missing", ManifestError, "101", labels(["cat", None, "dog"])),
    case("y NaN", ManifestError, "102", lambda df: opened(pa.table(
        {**df[["id", "path"]], "age": df.age.where(df.age != 1).to_numpy()}), y="age")),
    case("y text of nan", UserWarning, "nan", labels(["cat", "nan", "dog"])),
    case("y case", UserWarning, "Cat", labels(["cat", "Cat", "dog"])),
    case("y text of lists", ManifestError, "literal_eval", labels(["['cat', 'dog']", "['cat']"])),
    case("y commas", UserWarning, "cat,dog", labels(["cat,dog", "cat", "dog,owl"])),
    case("y lists for Category", ManifestError, "MultiLabel", labels(
        [["a"], ["a", "b"]], dfgen.Category("y"))),
    case("binary of three", ArgumentError, "owl", of(label_mode="binary")),
    case("binary with an unused category", ArgumentError, "owl", lambda df: opened(
        df[df.kind != "owl"], label_mode="binary")),
    case("categorical of numbers", ArgumentError, "legs", of(y="legs", label_mode="categorical")),
    # paths
    case("other folder", MissingFileError, "root=", paths(lambda path: path[5:])),
    case("root twice", MissingFileError, "root=", paths(str, root="imgs")),
    case("root missing", MissingFileError, "imgz", paths(os.path.abspath, root="imgz")),
    case("backslashes", MissingFileError, "replace", paths(lambda path: path.replace("/", "\\"))),
    case("other extension", MissingFileError, "100.jpg", paths(lambda path: path[:-3] + "png")),
    case("unknown scheme", DfgenError, "gopher", paths(lambda path: f"gopher://bucket/{path}")),
    # builds, splits and joins
    case("build nothing", ArgumentError, "folder", build()),
    case("build no folder", MissingFileError, "imgz", build("imgz")),
    case("build glob", MissingFileError, "pattern", build("imgs/*/*.jpg")),
    case("pattern depth", ManifestError, "cat/100.jpg", build("imgs", pattern="{label}.jpg")),
    case("out CSV", WriteError, "m.csv", build("imgs", out="m.csv")),
    case("empty image", UserWarning, "empty", lambda df: [
        os.truncate("imgs/cat/100.jpg", 0), dfgen.build_manifest("imgs")]),
    case("shares", ArgumentError, "0.9", build("imgs", split={"train": 0.8, "val": 0.1})),
    case("keys missing", ManifestError, "109", join(range(100, 109))),
    case("keys of floats", ManifestError, "100.0", join([f"{n}.0" for n in range(100, 112)])),
    # transforms
    case("transform of one", ArgumentError, "rng", of(transform=lambda sample: sample)),
    case("transform None", TransformError, "None", first_batch(transform=lambda s, rng: None)),
    case("transform shape", TransformError, "(6, 6, 3)", first_batch(
        transform=lambda s, rng: s | {"image": s["image"][2:, 2:]})),
    case("transform dtype", TransformError, "float64", first_batch(
        transform=lambda s, rng: s | {"image": s["image"] / 255})),
    case("transform error", TransformError, "100", first_batch(transform=lambda s, rng: s["img"])),
    case("decode error", DecodeError, "100", first_batch(
        x=dfgen.Array("path", (2,), decode=lambda data: 1 / 0))),
    case("function error", DecodeError, "100", first_batch(
        x=dfgen.Column("age", lambda age: age["x"]))),
]  # fmt: skip

FITS = [
    case("two units for three classes", ArgumentError, "3 classes", fit(units=2)),
    case("frame as validation", ArgumentError, "DataFrame", fit(validation_data=lambda df: df)),
    case("validation without y", ArgumentError, "y=", fit(
        validation_data=lambda df: opened(df, y=None, label_mode=None))),
    case("gray validation", ArgumentError, "(batch, 8, 8, 1)", fit(
        validation_data=lambda df: opened(df, color_mode="grayscale"))),
    case("predict fewer rows", ArgumentError, "drop_remainder", lambda df: model().predict(
        opened(df, batch_size=5, shuffle=False, drop_remainder=True), verbose=0)),
]  # fmt: skip


def raises(call, error, word, df):
    if error is UserWarning:
        with pytest.warns(UserWarning) as caught:
            call(df)
        assert any(word in str(warning.message) for warning in caught)
        return
    with pytest.raises(error) as caught:
        call(df)
    assert word in "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


@pytest.mark.parametrize(("call", "error", "word"), CASES)
def test_first_mistakes_are_named(call, error, word, df):
    raises(call, error, word, df)


@pytest.mark.backend
@pytest.mark.parametrize(("call", "error", "word"), FITS)
def test_first_mistakes_of_fit_are_named(call, error, word, df):
    raises(call, error, word, df)


def test_first_bad_row_of_a_batch_is_named_with_advice(df):
    for row in (1, 10):  # which different workers read
        with open(df["path"][row], "wb") as file:
            file.write(b"damaged")
    with (
        opened(df, workers=2, shuffle=False, batch_size=12) as seq,
        pytest.raises(DecodeError, match="id=101") as caught,
    ):
        next(iter(seq))
    assert "on_error" in caught.value.__notes__[-1]
