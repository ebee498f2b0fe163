"""Predictions that cannot be made, and those of regression and shards."""

import contextlib

import keras
import numpy as np
import pandas as pd
import pytest
from public.test_predictions import LOGITS, ROW, SIGMOID, read, reading, sequence

import dfgen
from dfgen.errors import ArgumentError, DfgenError, ManifestError

pytestmark = pytest.mark.backend


def largest_error(y_true, y_pred):
    return keras.ops.max(keras.ops.abs(keras.ops.cast(y_true, "float32") - y_pred))


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (keras.losses.MeanSquaredError(reduction="sum"), lambda row: (row - 2.5) ** 2),
        (largest_error, lambda row: abs(row - 2.5)),  # one number for a whole batch
    ],
)
def test_losses_of_regression_are_per_row(frame, loss, expected):
    df = frame(9).assign(label=2.5)
    predicted = dfgen.predict_frame(reading(loss, row=ROW), sequence(df))
    assert "prob" not in predicted
    np.testing.assert_allclose(predicted.y_true, 2.5)
    np.testing.assert_allclose(predicted.y_pred, df.id, atol=1e-5)
    np.testing.assert_allclose(predicted.loss, expected(df.id.to_numpy()), atol=1e-4)


def test_shards_predict_each_row_once_without_y(frame):
    df, x = frame(21), {"y": None, "label_mode": None}
    seqs = [sequence(df, **x, shard=(index, 2)) for index in range(2)]
    parts = [dfgen.predict_frame(reading(row=ROW), seq) for seq in seqs]
    assert list(parts[0]) == [*df, "y_pred", "problem"]
    whole = pd.concat(parts).sort_values("id")
    assert whole.id.tolist() == [*range(21)] and min(map(len, parts)) > 0
    np.testing.assert_allclose(whole.y_pred, whole.id, atol=1e-5)


@pytest.mark.parametrize(
    ("word", "output", "options"),
    [
        ("batch_transform", SIGMOID, {"batch_transform": lambda batch, rng: batch}),
        ("3 classes", SIGMOID, {"y": dfgen.Category("label", class_names=["even", "odd", "x"])}),
        ("from_logits", LOGITS, {}),
        ("label", SIGMOID, {"y": {"label": "label", "id": "id"}}),
        ("y_pred", SIGMOID, {"y": dfgen.Number("y_pred")}),
    ],
)
def test_impossible_predictions_are_refused(frame, word, output, options):
    seq = sequence(frame(6).assign(y_pred=range(6)), **options)
    with pytest.raises((ArgumentError, ManifestError), match=word):
        dfgen.predict_frame(reading(label=output), seq, from_logits=False)


def test_all_processes_write_into_one_folder(frame, tmp_path):
    def predict(model, index):
        seq = sequence(frame(21), y=None, label_mode=None, shard=(index, 2))
        dfgen.predict_frame(model, seq, out=tmp_path / "out")
        return read(tmp_path / "out")

    assert predict(reading(row=ROW), 1).id.is_unique
    np.testing.assert_allclose(predict(reading(row=ROW), 0).y_pred, range(21), atol=1e-5)
    with contextlib.suppress(DfgenError):  # never parts of two models in one folder
        both = predict(reading(row=(1, None, [2], [0])), 0)
        assert both.empty or len({round(share, 3) for share in (both.y_pred / both.id)[1:]}) == 1


def test_ignored_class_has_no_loss(frame):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=1)
    predicted = dfgen.predict_frame(reading(loss, label=LOGITS), sequence(frame(6)))
    assert predicted.loss.isna().tolist() == [False, True] * 3


def test_class_numbers_without_names_stay_numbers(frame):
    df = frame(6).assign(label=[0, 1] * 3)
    model = reading("sparse_categorical_crossentropy", label=(3, "softmax", [0, 1, 0], [0, 0, 0]))
    predicted = dfgen.predict_frame(model, sequence(df))
    assert predicted.y_pred.dtype.kind in "iu" and len(predicted.prob[0]) == 3
    with pytest.raises(ArgumentError, match="class number 5"):
        dfgen.predict_frame(model, sequence(df.assign(label=5)))


def test_images_of_different_sizes_are_predicted_by_batch(frame):
    df = frame(7)
    image = dfgen.Image("path", size=None)
    model = keras.Sequential(
        [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1, use_bias=False)]
    )
    model.build((None, None, None, 3))
    model.layers[-1].set_weights([np.array([[1.0], [0], [0]])])
    seq = dfgen.Sequence(df, image, label_mode=None, batch_size=2)
    np.testing.assert_allclose(dfgen.predict_frame(model, seq).y_pred, df.id, atol=1e-4)


def test_random_crops_and_flips_warn(frame):
    image = dfgen.Image("path", size=(4, 4), flip="horizontal")
    seq = dfgen.Sequence(frame(4), image, label_mode=None)
    with pytest.warns(UserWarning, match="random"):
        dfgen.predict_frame(reading(row=ROW), seq)


def test_worker_processes(frame):
    seq = sequence(frame(61), batch_size=2, workers=2, use_multiprocessing=True)
    with seq:
        predicted = dfgen.predict_frame(reading(label=SIGMOID), seq)
    assert predicted.y_true.tolist() == frame(61).label.tolist()
    assert predicted.y_pred.tolist() == ["even"] * 31 + ["odd"] * 30


def test_outputs_with_more_axes_have_a_loss_alone(frame):
    image = keras.Input((4, 4, 3))
    model = keras.Model(image, keras.layers.Conv2D(2, 1, activation="softmax")(image))
    model.compile("sgd", "sparse_categorical_crossentropy")
    zeros = dfgen.Column("id", lambda id: np.zeros((4, 4), int), shape=(4, 4), dtype="int32")
    seq = dfgen.Sequence(frame(5), dfgen.Image("path", size=(4, 4)), zeros, batch_size=2)
    predicted = dfgen.predict_frame(model, seq)
    assert "y_pred" not in predicted and predicted.loss.notna().all()
    assert predicted.loss.mean() == pytest.approx(model.evaluate(seq, verbose=0), rel=1e-5)


@pytest.mark.parametrize("other", ["labels", "scale", "model", "from_logits", "rows"])
def test_a_folder_with_other_predictions_is_refused(frame, tmp_path, other):
    df, model, options = frame(9), reading(label=LOGITS), {}
    dfgen.predict_frame(model, sequence(df), out=tmp_path / "out")
    dfgen.predict_frame(reading(label=LOGITS), sequence(df), out=tmp_path / "out")  # the same
    if other == "labels":
        df = df.assign(label=df.label.cat.rename_categories({"even": "odd", "odd": "even"}))
    elif other == "model":
        model = reading(label=(2, "softmax", [0, 0.1], [0, -3]))
    elif other == "from_logits":
        options = {"from_logits": True}
    elif other == "rows":
        df = df[:5]
    seq = sequence(df, scale="0..1" if other == "scale" else None)
    with pytest.raises(ArgumentError, match="out="):
        dfgen.predict_frame(model, seq, out=tmp_path / "out", **options)


@pytest.mark.parametrize("out", ["s3://bucket/out", "", "other"])
def test_a_folder_that_cannot_be_used_is_refused(frame, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").touch()
    with pytest.raises(ArgumentError, match="out="):
        dfgen.predict_frame(reading(label=LOGITS), sequence(frame(3)), out=out)


def test_missing_labels_weigh_nothing(frame):
    df = frame(8)
    df["label"] = df.label.where(df.id % 4 > 0)
    seq = sequence(df, y=dfgen.Category("label", missing="ignore"))
    model = reading("binary_crossentropy", label=SIGMOID)
    predicted = dfgen.predict_frame(model, seq)
    assert predicted.row_weight.tolist() == [0, 1, 1, 1] * 2
    loss = (predicted.loss * predicted.row_weight).sum() / len(predicted)
    assert loss == pytest.approx(model.evaluate(seq, verbose=0), rel=1e-4)
