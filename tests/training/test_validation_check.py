"""Validation data next to training data: classes, scales, rows and metrics."""

import keras
import numpy as np
import pandas as pd
import pytest
from public.keras_helpers import EAGER, SPARSE

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend
layers = keras.layers


def model(*first, classes=2, **options):
    last = [layers.GlobalAveragePooling2D(), layers.Dense(classes, "softmax")]
    made = keras.Sequential([*first, *last])
    made.compile("sgd", SPARSE(), **{"run_eagerly": EAGER, **options})
    return made


def image(**options):
    return dfgen.Image("path", **{"size": (4, 4), **options})


def sequence(df, x=None, y="label", **options):
    options = {"batch_size": 4, "workers": 0, **options}
    return dfgen.Sequence(df, image() if x is None else x, y, **options)


def begin(train, validation=None, own=None, **options):
    """Begin a fit without an epoch; warnings are errors."""
    options = {"validation_data": validation, "epochs": 0, "verbose": 0, **options}
    assert (own or model()).fit(train, **options).epoch == []


def halved(sample, rng):
    return {**sample, "image": sample["image"] // 2}


def scaled(batch, rng):
    return {**batch, "image": batch["image"] / np.float32(255)}


RIGHT = {  # options of training, of validation
    "random crops and flips": (
        {"x": image(load_size=(6, 6), crop="random", flip="horizontal")},
        {"x": image(load_size=(6, 6), crop="center")},
    ),
    "another size": ({}, {"x": image(size=(8, 8))}),
    "padding": ({}, {"x": image(resize="pad")}),
    "the same scale in other words": (
        {"x": image(scale="-1..1")},
        {"x": image(scale=(1 / 127.5, -1))},
    ),
    "floats 0..255": ({}, {"x": image(dtype="float32")}),
    "a transform of training": ({"transform": halved}, {}),
    "transforms of floats": (
        {"transform": halved, "x": image(scale="tf", dtype="float32")},
        {"transform": halved, "x": image(scale="caffe", dtype="float32")},
    ),
    "a batch_transform that scales": ({"batch_transform": scaled}, {"x": image(scale="0..1")}),
    "weights of training": ({"class_weight": "balanced"}, {}),
    "balanced training": ({"balance": "label"}, {}),
    "batches of another size": ({"drop_remainder": True}, {"batch_size": 5}),
    "the same classes by hand": ({}, {"class_names": ["even", "odd"]}),
    "another path column": ({}, {"x": dfgen.Image("file", size=(4, 4))}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_validation_that_measures_the_same_passes(name, frame):
    df, (ours, theirs) = frame(24), RIGHT[name]
    df["file"] = df["path"]
    begin(sequence(df[:12], **ours), sequence(df[12:], shuffle=False, **theirs))


OTHER_ROWS = {
    "some rows in both": lambda df: (df, df[:20]),
    "as many, some in both": lambda df: (df[:16], df[8:]),
    "equal ids of other files": lambda df: (df[:12], df[12:].assign(id=range(12))),
    "text ids and number ids": lambda df: (df[:12], df[:12].assign(id=[*"abcdefghijkl"])),
    "text ids": lambda df: (
        df[:12].assign(id=[f"a{row}" for row in range(12)]),
        df[:12].assign(id=[f"b{row}" for row in range(12)]),
    ),
}


@pytest.mark.parametrize("name", OTHER_ROWS)
def test_validation_on_some_of_the_rows_passes(name, frame):
    begin(*map(sequence, OTHER_ROWS[name](frame(24))))


@pytest.mark.parametrize("order", [None, 1])
def test_validation_on_the_same_text_ids_warns(frame, order):
    df = frame(12).assign(id=[f"a{row}" for row in range(12)])
    val = df if order is None else df.sample(frac=1, random_state=order)
    with pytest.warns(UserWarning, match="12 rows"):
        begin(sequence(df), sequence(val, image(size=(8, 8))))


def test_validation_on_the_training_sequence_itself_warns(frame):
    seq = sequence(frame(12))
    with pytest.warns(UserWarning, match="12 rows"):
        begin(seq, seq)


def test_validation_on_rows_without_weight_in_training_passes(frame):
    df = frame(12).assign(mine=[1.0, 0.0] * 6, other=[0.0, 1.0] * 6)
    for names in (("mine", "other"), ("mine", None), (None, "other")):
        begin(*(sequence(df, sample_weight=name) for name in names))


def test_other_validation_data_are_for_keras(frame):
    df = frame(24)
    train, val = sequence(df[:12]), sequence(df[12:])
    for data in (val[0], [*val[0]], (val, None), None):
        begin(train, data)
    begin(train, val.repeat(), validation_steps=2)


def test_repeat_as_validation_needs_steps(frame):
    df = frame(24)
    with pytest.raises(ArgumentError, match="validation_steps"):
        begin(sequence(df[:12]), sequence(df[12:]).repeat())
    with pytest.raises(ArgumentError, match="batch_size"):
        begin(sequence(df[:12]), sequence(df[12:]), validation_batch_size=3)


def test_model_with_own_test_step_takes_any_scale(frame):
    class Own(keras.Sequential):
        def test_step(self, *arguments):
            raise AssertionError

    own = Own([layers.GlobalAveragePooling2D(), layers.Dense(2, "softmax")])
    own.compile("sgd", SPARSE())
    df = frame(24)
    begin(sequence(df[:12]), sequence(df[12:], image(color_mode="grayscale", scale="tf")), own)


def test_another_scale_after_a_transform_of_bytes_raises(frame):
    df = frame(24)
    train, val = (image(scale=scale) for scale in ("tf", "caffe"))
    with pytest.raises(ArgumentError, match="caffe"):
        begin(sequence(df[:12], train, transform=halved), sequence(df[12:], val, transform=halved))


def test_another_scale_of_one_input_raises(frame):
    df = frame(24).assign(other=lambda df: df["path"])
    one, other = (
        {"a": image(), "b": dfgen.Image("other", size=(4, 4), scale=scale)}
        for scale in ("tf", "caffe")
    )
    inputs = {name: keras.Input((4, 4, 3), name=name) for name in "ab"}
    both = layers.Add()([layers.Rescaling(1.0)(tensor) for tensor in inputs.values()])
    made = keras.Model(inputs, layers.Dense(2, "softmax")(layers.Flatten()(both)))
    made.compile("sgd", SPARSE())
    with pytest.raises(ArgumentError, match="caffe"):
        begin(sequence(df[:12], one), sequence(df[12:], dict(reversed(other.items()))), made)


# Metrics that ignore weights


def test_metrics_of_rows_that_count_pass(frame):
    df = frame(24).assign(weight=np.arange(24) % 2)
    for options in (
        {"class_weight": "balanced"}, {"sample_weight": "weight"}, {"on_error": "skip"},
    ):  # fmt: skip
        begin(sequence(df, **options), None, model(metrics=["accuracy"]))
    df["label"] = df["label"].where(df.index > 3)
    train = sequence(df, y=dfgen.Category("label", missing="ignore"))
    begin(train, None, model(weighted_metrics=["accuracy"]))


def test_metrics_of_bad_rows_warn(frame):
    seq = sequence(frame(8).assign(problem=[None] * 7 + ["broken"]), on_error="skip")
    with pytest.warns(UserWarning, match="weighted_metrics"):
        begin(seq, None, model(metrics=["accuracy"]))


# Scales


@pytest.mark.parametrize(
    "first",
    [
        layers.Rescaling(255.0),
        layers.Lambda(lambda pixels: pixels * 255),
        layers.Rescaling(2.0, -1),
    ],
)
def test_model_may_enlarge_pixels_before_dividing_them(frame, first):
    begin(sequence(frame(8), image(scale="0..1")), None, model(first, layers.Rescaling(1 / 255)))


def test_model_may_scale_one_of_two_images(frame):
    df = frame(8).assign(share=np.arange(8) / 8)
    inputs = {name: keras.Input((4, 4, 3), name=name) for name in ("one", "two")}
    both = layers.concatenate([inputs["one"], layers.Rescaling(1 / 255)(inputs["two"])])
    made = keras.Model(inputs, layers.Dense(1)(layers.Flatten()(both)))
    made.compile("sgd", "mse")
    begin(sequence(df, {"one": image(scale="0..1"), "two": image()}, "share"), None, made)


# Class indices


def test_classes_of_several_outputs_are_compared(frame):
    df = frame(16).assign(kind=pd.Categorical(["cat", "dog"] * 8, ["cat", "dog"]))
    val = df[8:].assign(kind=pd.Categorical(["cat", "dog"] * 4, ["dog", "cat"]))
    inputs = keras.Input((4, 4, 3))
    flat = layers.Flatten()(layers.Rescaling(1 / 255)(inputs))
    outputs = {name: layers.Dense(2, "softmax", name=name)(flat) for name in ("label", "kind")}
    for kind in (dict, list):
        made = keras.Model(inputs, outputs if kind is dict else [*outputs.values()])
        made.compile("sgd", SPARSE())
        y = {"kind": "kind", "label": "label"}
        with pytest.raises(ArgumentError, match="dog"):
            begin(sequence(df[:8], y=y), sequence(val, y=y), made)
