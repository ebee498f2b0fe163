"""Validation data beside training data: what is told before the first step, and what is not."""

import keras
import numpy as np
import pandas as pd
import pytest
from watching import EAGER

import dfgen
from dfgen.errors import ArgumentError

pytestmark = pytest.mark.backend
LAYERS = keras.layers
LOSS = "sparse_categorical_crossentropy"


def model(classes=2, **options):
    made = keras.Sequential([LAYERS.GlobalAveragePooling2D(), LAYERS.Dense(classes, "softmax")])
    made.compile("sgd", LOSS, **{"run_eagerly": EAGER, **options})
    return made


def sequence(frame, x=None, **options):
    x = image() if x is None else x
    return dfgen.Sequence(frame, x, "label", **{"batch_size": 4, "workers": 0, **options})


def image(**options):
    return dfgen.Image("path", **{"size": (4, 4), **options})


def begin(train, validation, fitted=None, **options):
    """Begin a fit that has no epoch: what is told of it is told, and all warnings are errors."""
    options = {"validation_data": validation, "epochs": 0, "verbose": 0, **options}
    assert (fitted or model()).fit(train, **options).epoch == []


def halved(sample, rng):
    return {**sample, "image": sample["image"] // 2}


def scaled(batch, rng):
    return {**batch, "image": batch["image"] / np.float32(255)}


LEGITIMATE = {
    "other rows": ({}, {}),
    "random crops and flips in training alone": (
        {"x": image(load_size=(6, 6), crop="random", flip="horizontal")},
        {"x": image(load_size=(6, 6), crop="center")},
    ),
    "random_resized crops against its still form": (
        {"x": image(crop="random_resized")},
        {"x": image(resize="crop")},
    ),
    "another size, for a model that takes any": ({}, {"x": image(size=(8, 8))}),
    "stretched in training, padded in validation": ({}, {"x": image(resize="pad")}),
    "one scale in two words": ({"x": image(scale="-1..1")}, {"x": image(scale=(1 / 127.5, -1))}),
    "floats 0..255 beside uint8": ({}, {"x": image(dtype="float32")}),
    "a transform in training alone": ({"transform": halved}, {}),
    "transforms of floats, which may scale them": (
        {"transform": halved, "x": image(scale="tf", dtype="float32")},
        {"transform": halved, "x": image(scale="caffe", dtype="float32")},
    ),
    "a batch_transform that scales": ({"batch_transform": scaled}, {"x": image(scale="0..1")}),
    "weights in training alone": ({"class_weight": "balanced"}, {}),
    "balanced training": ({"balance": "label"}, {}),
    "batches of another size": ({"drop_remainder": True}, {"batch_size": 5}),
    "the same classes by hand": ({}, {"class_names": ["even", "odd"]}),
    "another path column": ({}, {"x": dfgen.Image("file", size=(4, 4))}),
    "processes": ({}, {"max_queue_size": 2, "seed": 5}),
}


@pytest.mark.parametrize("name", LEGITIMATE)
def test_what_only_measures_something_else_is_left_alone(name, frame):
    rows, (of_training, of_validation) = (
        frame(24).assign(file=lambda df: df["path"]),
        LEGITIMATE[name],
    )
    validation = sequence(rows[12:], **{"shuffle": False, **of_validation})
    begin(sequence(rows[:12], **of_training), validation)


def test_validation_may_lack_the_last_classes(frame):
    names = pd.Series(["a", "b", "c", "b"] * 6)
    rows = frame(24).assign(label=pd.Categorical(names))
    few = rows[12:][lambda df: df["label"] != "c"]
    few = few.assign(label=few["label"].cat.remove_unused_categories())
    begin(sequence(rows[:12]), sequence(few), model(3))


SAME_ROWS = (
    "validation_data has the 12 rows that the model is trained on, so val_loss shows how well it "
    "remembers them, not how it does on others. Keep rows back: df = dfgen.split(df, "
    '{"train": 0.8, "val": 0.2}), then dfgen.sequences(df, ...)'
)


@pytest.mark.parametrize(
    "validation",
    [
        lambda train, rows: train,
        lambda train, rows: sequence(rows, shuffle=False),
        lambda train, rows: sequence(rows.sample(frac=1, random_state=1), image(size=(8, 8))),
    ],
    ids=["the same Sequence", "the same frame", "another order"],
)
def test_validation_on_the_rows_that_train_is_told_once_and_trains(validation, frame):
    rows = frame(12)
    train = sequence(rows)
    with pytest.warns(UserWarning, match="validation_data has") as told:
        model().fit(train, validation_data=validation(train, rows), epochs=2, verbose=0)
    assert [str(one.message) for one in told if "val_loss" in str(one.message)] == [SAME_ROWS]


OTHER_ROWS = {
    "some rows in both": lambda rows: (rows, rows[:20]),
    "as many, some in both": lambda rows: (rows[:16], rows[8:]),
    "ids that begin anew": lambda rows: (rows[:12], rows[12:].assign(id=range(12))),
    "texts beside numbers as ids": lambda rows: (rows[:12], rows[:12].assign(id=[*"abcdefghijkl"])),
    "texts as ids": lambda rows: (
        rows[:12].assign(id=[f"a{row}" for row in range(12)]),
        rows[:12].assign(id=[f"b{row}" for row in range(12)]),
    ),
}


@pytest.mark.parametrize("parts", OTHER_ROWS.values(), ids=OTHER_ROWS)
def test_validation_that_shares_some_rows_is_left_alone(parts, frame):
    begin(*map(sequence, parts(frame(24))))


def test_validation_told_from_training_by_weights_is_left_alone(frame):
    rows = frame(12).assign(mine=[1.0, 0.0] * 6, other=[0.0, 1.0] * 6)
    for names in (("mine", "other"), ("mine", None), (None, "other")):
        begin(*(sequence(rows, sample_weight=name) for name in names))


def test_validation_that_is_no_sequence_is_for_keras_to_judge(frame):
    rows = frame(24)
    train, validation = sequence(rows[:12]), sequence(rows[12:])
    begin(train, validation[0])
    begin(train, list(validation[0]))
    begin(train, (validation, None))
    begin(train, validation.repeat(), validation_steps=2)
    begin(train, pd.DataFrame({"a": [1.0, 2.0]}))
    begin(train, None)


def test_a_step_of_the_users_own_may_do_with_validation_what_it_likes(frame):
    class Own(keras.Sequential):
        def test_step(self, *given):
            raise AssertionError

    own = Own([LAYERS.GlobalAveragePooling2D(), LAYERS.Dense(2, "softmax")])
    own.compile("sgd", LOSS)
    rows, grey = frame(24), image(color_mode="grayscale")
    begin(sequence(rows[:12]), sequence(rows[12:], grey), own)


def test_another_scale_is_told_behind_a_transform_of_bytes(frame):
    rows, options = frame(24), {"transform": halved, "shuffle": False}
    one, other = (image(scale=scale) for scale in ("tf", "caffe"))
    with pytest.raises(ArgumentError, match="x of validation has scale='caffe'"):
        begin(sequence(rows[:12], one, **options), sequence(rows[12:], other, **options))


def test_a_second_input_that_is_scaled_otherwise_is_told(frame):
    rows = frame(24).assign(other=lambda df: df["path"])
    one = {"a": image(), "b": dfgen.Image("other", size=(4, 4), scale="tf")}
    other = {"b": dfgen.Image("other", size=(4, 4), scale="caffe"), "a": image()}
    inputs = {name: keras.Input((4, 4, 3), name=name) for name in "ab"}
    both = LAYERS.Add()([LAYERS.Rescaling(1.0)(tensor) for tensor in inputs.values()])
    made = keras.Model(inputs, LAYERS.Dense(2, "softmax")(LAYERS.Flatten()(both)))
    made.compile("sgd", LOSS)
    with pytest.raises(ArgumentError, match="x of validation has scale='caffe'"):
        begin(sequence(rows[:12], one), sequence(rows[12:], other), made)


def test_metrics_of_weights_that_only_stress_rows_are_left_alone(frame):
    rows = frame(24).assign(weight=np.arange(24) % 2)
    for options in (
        {"class_weight": "balanced"},
        {"sample_weight": "weight"},
        {"on_error": "skip"},
    ):
        begin(sequence(rows, **options), None, model(metrics=["accuracy"]))


def test_metrics_of_weighted_rows_alone_are_left_alone(frame):
    rows = frame(24)
    rows["label"] = rows["label"].where(rows.index > 3)
    train = dfgen.Sequence(rows, image(), dfgen.Category("label", missing="ignore"), workers=0)
    begin(train, None, model(weighted_metrics=["accuracy"]))


def test_evaluate_may_leave_out_a_remainder_that_it_was_asked_to(frame):
    rows = sequence(frame(10), shuffle=False, drop_remainder=True)
    assert rows.left_out == 2
    model().evaluate(rows, verbose=0)
    assert (
        len(model().predict(sequence(frame(8), shuffle=False, drop_remainder=True), verbose=0)) == 8
    )


@pytest.mark.parametrize(
    "first",
    [
        LAYERS.Rescaling(255.0),
        LAYERS.Lambda(lambda pixels: pixels * 255),
        LAYERS.Rescaling(2.0, -1),
    ],
    ids=["back to 255", "by a function", "to -1..1"],
)
def test_pixels_that_a_model_makes_larger_again_are_left_alone(frame, first):
    last = [
        LAYERS.Rescaling(1 / 255, name="down"),
        LAYERS.GlobalAveragePooling2D(),
        LAYERS.Dense(2, "softmax"),
    ]
    own = keras.Sequential([first, *last])
    own.compile("sgd", LOSS)
    begin(sequence(frame(8), image(scale="0..1")), None, own)


def test_numbers_in_place_of_classes_that_are_numbered_otherwise_are_refused(frame):
    rows = frame(24).assign(kind=[1, 2, 5] * 8)
    classes = dfgen.Category("kind", class_names=[1, 2, 5])
    train = dfgen.Sequence(rows[:12], image(), classes, batch_size=4, workers=0)
    validation = dfgen.Sequence(rows[12:], image(), dfgen.Number("kind"), batch_size=4, workers=0)
    with pytest.raises(ArgumentError, match="kind"):
        begin(train, validation, model(3))
